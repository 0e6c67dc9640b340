"""Keeps a child process running: starts it by exec, watches it, ends it through its pipe, starts it again when it ends.

It never forks, since gRPC's threads do not survive a fork. The standard input of a child is a pipe; the child ends when
our end of it is closed, in whatever way we end (`tracegrade.serve.process`).
"""

import asyncio
import logging
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tracegrade.deliver.consumer import wait

LOOK_EVERY_S = 0.25
SHORT_LIFE_S = 10.0
SHORTEST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 30.0
CRASHED = "crashed"  # the reason when a child ended by itself

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Launch:
    """A process to start: ``name`` in logs; ``pass_fds`` stay open in it; it must end within ``stop_within_s``."""

    name: str
    command: Sequence[str]
    stop_within_s: float
    pass_fds: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended: ``reason`` says why we ended it, or `CRASHED`; ``started_ns`` is monotonic."""

    exit_code: int
    reason: str
    started_ns: int


@dataclass(frozen=True, slots=True)
class Restart:
    """Start the child again: after the shortest pause if it ``got_further`` than those before it.

    ``is_done``: it ended because it had nothing left to do, of which nobody has to be told.
    """

    reason: str
    got_further: bool = False
    is_done: bool = False


class Child(Protocol):
    """The parts that differ between supervised children."""

    async def next_launch(self, stop: asyncio.Event) -> Launch | None:
        """Wait until it is time to start, and return what to start; None when `stop` was set before."""
        ...

    def why_end(self, started_ns: int, pid: int) -> str | None:
        """Why the process `pid`, started at that time, must be ended; None while it may go on. Called repeatedly."""
        ...

    async def after(self, ended: Ended) -> Restart | None:
        """How to start again after the process has ended; None when it must not be started."""
        ...


async def supervise(child: Child, stop: asyncio.Event, runs: Callable[[int | None], object] = bool) -> None:
    """Keep `child` running until `stop` is set or it must not be started again.

    The pause before a start doubles while children live only for seconds and get no further. `runs` is called with the
    id of each process once it runs, and with None when it has ended.
    """
    pause_s = SHORTEST_PAUSE_S
    while (launch := await child.next_launch(stop)) is not None:
        started_ns = time.monotonic_ns()
        # Not asyncio's: uvloop would fork, which breaks gRPC; this one uses vfork and exec.
        process = subprocess.Popen(launch.command, stdin=subprocess.PIPE, pass_fds=launch.pass_fds)
        runs(process.pid)
        reason = await _watch(child, process, started_ns, stop)
        runs(None)
        assert process.stdin is not None
        process.stdin.close()  # end of file: the child finishes its work and ends
        if stop.is_set():
            await _leave(process, launch.stop_within_s)
            return
        restart = await child.after(Ended(process.returncode, reason, started_ns))
        if restart is None:
            return
        if restart.is_done:
            pause_s = SHORTEST_PAUSE_S
            continue
        lived_s = (time.monotonic_ns() - started_ns) / 1e9
        is_well = lived_s > SHORT_LIFE_S or restart.got_further
        pause_s = SHORTEST_PAUSE_S if is_well else min(pause_s * 2, LONGEST_PAUSE_S)
        logger.warning(
            "%s ended (%s, exit code %s); next start in %.1f s; receiving and forwarding go on",
            launch.name,
            restart.reason,
            process.returncode,
            pause_s,
        )
        await wait(stop, pause_s)


async def _watch(child: Child, process: subprocess.Popen[bytes], started_ns: int, stop: asyncio.Event) -> str:
    """Wait until `stop` is set or the process ends, by itself or by us. Returns why it ended."""
    while process.poll() is None and not await wait(stop, LOOK_EVERY_S):
        if (reason := child.why_end(started_ns, process.pid)) is not None:
            process.kill()
            process.wait()
            return reason
    return CRASHED


async def _leave(process: subprocess.Popen[bytes], within_s: float) -> None:
    try:
        await asyncio.to_thread(process.wait, within_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
