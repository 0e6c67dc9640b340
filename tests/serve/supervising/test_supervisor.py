"""What a supervisor does whatever its child is; what it does for a judge is in `test_judge_process`."""

import asyncio
import re
import sys
from collections.abc import Sequence

import pytest

from build import each
from tracegrade.serve.supervising.supervisor import CRASHED, Ended, Launch, Restart, supervise


class Scripted:
    """A child that runs one script after another, and is stopped with the last one running or ended."""

    def __init__(self, *scripts: str, got_further: bool = False, stop_within_s: float = 20.0) -> None:
        self.ends: list[Ended] = []
        self.kill_for: str | None = None
        self._scripts = list(scripts)
        self._restart = Restart(CRASHED, got_further)
        self._stop_within_s = stop_within_s

    async def next_launch(self, stop: asyncio.Event) -> Launch | None:
        if not self._scripts or stop.is_set():
            return None
        return Launch("the child", [sys.executable, "-c", self._scripts.pop(0)], self._stop_within_s)

    def why_end(self, started_ns: int, pid: int) -> str | None:
        return self.kill_for

    async def after(self, ended: Ended) -> Restart | None:
        self.ends.append(ended)
        return self._restart


def run(child: Scripted) -> Sequence[int]:
    """Supervise until there is nothing more to launch; the exit codes."""
    asyncio.run(asyncio.wait_for(supervise(child, asyncio.Event()), 600))
    return [ended.exit_code for ended in child.ends]


@pytest.mark.parametrize(
    ("got_further", "pauses"), [(False, ["0.4", "0.8"]), (True, ["0.2", "0.2"])], ids=["no further", "further"]
)
def test_pauses_double_unless_a_child_got_further(
    caplog: pytest.LogCaptureFixture, got_further: bool, pauses: list[str]
) -> None:
    assert run(Scripted("raise SystemExit(3)", "raise SystemExit(4)", got_further=got_further)) == [3, 4]
    assert re.findall(r"the child ended \(crashed, exit code \d\); next start in (\S+) s", caplog.text) == pauses


def test_a_child_is_ended_when_there_is_a_reason_to(caplog: pytest.LogCaptureFixture) -> None:
    child = Scripted("import sys; sys.stdin.read()")
    child.kill_for = "hung"
    assert run(child) == [-9]
    assert [ended.reason for ended in child.ends] == ["hung"]


@each(
    ("script", "stop_within_s"),
    [("import sys; sys.stdin.read()", 20.0), ("import time; time.sleep(60)", 0.1)],
    ids=["leaves with its pipe", "does not leave"],
)
def test_stopping_ends_the_child_and_starts_none(script: str, stop_within_s: float) -> None:
    child = Scripted(script, script, stop_within_s=stop_within_s)

    async def stopped() -> None:
        stop = asyncio.Event()
        keeping = asyncio.create_task(supervise(child, stop))
        await asyncio.sleep(0)
        stop.set()
        await keeping

    asyncio.run(asyncio.wait_for(stopped(), 600))
    assert child.ends == []  # nobody asks what to do next
