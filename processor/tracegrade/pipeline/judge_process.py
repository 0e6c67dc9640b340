"""The judge as the receive role sees it: started by exec, watched by its heartbeat, started again when it ends.

Never fork: gRPC's threads do not survive one. The child ends by itself when our end of its pipe is gone, however we
ended.
"""

import asyncio
import logging
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from tracegrade.config import JudgeSettings
from tracegrade.deliver.route import wait
from tracegrade.pipeline.data_folder import DataFolder
from tracegrade.pipeline.heartbeat import Beat, clear_heartbeat, read_heartbeat
from tracegrade.telemetry import Telemetry

LOOK_EVERY_S = 0.25
SHORT_LIFE_S = 10.0
SHORTEST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 30.0
STOP_WITHIN_S = 20.0
STARTS_WITHIN_S = 60.0
EXIT_USAGE = 2  # wrong rules or settings
# What a later start may find mended: the store, an earlier judge that holds its journal; EX_TEMPFAIL of sysexits.h.
EXIT_NOT_YET = 75
# What becomes of the pairs on which judges end, and the reasons by which restarts are counted.
HUNG = "hung"
CRASHED = "crashed"
# One crash may be anybody's fault; a third one on the same trace and rule is not.
CRASHES_PER_PAIR = 3

logger = logging.getLogger(__name__)


class JudgeProcess:
    """Keeps one judge running."""

    def __init__(
        self, command: Sequence[str], folder: DataFolder, settings: JudgeSettings, telemetry: Telemetry
    ) -> None:
        self._command = list(command)
        self._folder = folder
        self._settings = settings
        self._telemetry = telemetry
        self._crashes: Counter[tuple[str, str]] = Counter()
        self._get_past = 0  # what earlier judges have read
        self.pid: int | None = None
        self.refused_to_start = False  # the first one ended with a usage error: `run` returned

    async def run(self, stop: asyncio.Event) -> None:
        """Run the judge until `stop` is set, or the first one says that it cannot start as it is configured.

        One that says so later is tried again: rules may be in the middle of an edit, and receiving and forwarding must
        not end with it. They do not wait for the store either: it is tried until it can be opened.
        """
        await asyncio.to_thread(note_what_ended_the_last, self._folder)
        first = True
        pause_s = SHORTEST_PAUSE_S
        furthest = 0
        while not stop.is_set():
            self._get_past = furthest
            started_ns = time.monotonic_ns()
            # Not asyncio's: uvloop forks for it, and gRPC minds; this one uses vfork and exec.
            process = subprocess.Popen(self._command, stdin=subprocess.PIPE)
            self.pid = process.pid
            reason = await self._watch(process, stop)
            assert process.stdin is not None
            process.stdin.close()
            if stop.is_set():
                return
            if process.returncode == EXIT_USAGE and first:
                self.refused_to_start = True
                return
            first = False
            if process.returncode == EXIT_NOT_YET:
                reason = "not_yet"
            elif process.returncode == EXIT_USAGE:
                reason = "refused"
            self._telemetry.add("tracegrade.judge.restarts", reason=reason)
            lived_s = (time.monotonic_ns() - started_ns) / 1e9
            last = self._last_beat(started_ns)
            reached = last.position if last is not None else 0
            await self._note_what_ended(last, reason, process.returncode)
            # One that was killed while it got on is no loop: what waits to be judged would only grow.
            if lived_s > SHORT_LIFE_S or reached > furthest:
                pause_s = SHORTEST_PAUSE_S
            else:
                pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
            furthest = max(furthest, reached)
            logger.warning(
                "the judge ended (%s, exit code %s); next start in %.1f s; receiving and forwarding go on",
                reason,
                process.returncode,
                pause_s,
            )
            self._telemetry.conditions.begin("judge_down", _told(reason, process.returncode, reached))
            await wait(stop, pause_s)

    async def _watch(self, process: subprocess.Popen[bytes], stop: asyncio.Event) -> str:
        """Wait until the process ends, or end it: because of `stop`, or because it hangs. Why, for counting."""
        started_ns = time.monotonic_ns()
        while (exit_code := process.poll()) is None:
            if await wait(stop, LOOK_EVERY_S):
                await self._end(process)
                return "stopped"
            try:
                beat = read_heartbeat(self._folder.heartbeat)
            except OSError:
                continue  # no file descriptor left: nothing is known of the judge, which is no reason to end it
            if beat is not None and self._is_well(beat, started_ns):
                self._telemetry.conditions.end("judge_down")
            if self._settings.watchdog and self._hangs(beat, started_ns):
                self._set_pair_aside(beat, HUNG)
                process.kill()
                process.wait()
                return HUNG
        self._count_crash(exit_code, self._last_beat(started_ns))
        return CRASHED

    def _last_beat(self, started_ns: int) -> Beat | None:
        """Of the judge that began then; None if it gave none, or no file descriptor is left to read it by."""
        with suppress(OSError):
            beat = read_heartbeat(self._folder.heartbeat)
            if beat is not None and beat.changed_ns >= started_ns:
                return beat
        return None

    def _is_well(self, beat: Beat, started_ns: int) -> bool:
        """Whether this judge has got as far as those before it, and works."""
        is_between = beat.record is None and beat.trace_id is None
        has_begun = beat.position > 0 or beat.changed_ns - started_ns > SHORT_LIFE_S * 1e9
        return beat.changed_ns > started_ns and has_begun and beat.position >= self._get_past and is_between

    async def _note_what_ended(self, beat: Beat | None, reason: str, exit_code: int) -> None:
        """Suspect the record or the trace that this judge was at, unless it ended in an orderly way."""
        if beat is None or beat.rule_id is not None or exit_code in (EXIT_USAGE, EXIT_NOT_YET):
            return
        try:
            await asyncio.to_thread(clear_heartbeat, self._folder.heartbeat)
            why = HUNG if reason == HUNG else _ended_by(exit_code)
            await asyncio.to_thread(self._folder.set_aside.note_death, beat, why)
        except OSError as error:
            logger.warning("what ended the judge cannot be noted: %s", error)

    async def _end(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        process.stdin.close()  # end of file: the judge commits and leaves
        try:
            await asyncio.to_thread(process.wait, STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _hangs(self, beat: Beat | None, started_ns: int) -> bool:
        if beat is None or beat.changed_ns < started_ns:
            # It is starting: importing, opening the store, loading rules. On a busy machine that takes a while.
            return time.monotonic_ns() - started_ns > max(self._settings.hang_timeout, STARTS_WITHIN_S) * 1e9
        return time.monotonic_ns() - beat.changed_ns > self._settings.hang_timeout * 1e9

    def _count_crash(self, exit_code: int, beat: Beat | None) -> None:
        """Set aside what this judge was working on when it ended, if it has ended others before."""
        if beat is None or beat.trace_id is None or beat.rule_id is None:
            return
        ended_by = _ended_by(exit_code)
        logger.warning("the judge was ended by %s on trace %s, rule %s", ended_by, beat.trace_id, beat.rule_id)
        pair = (beat.trace_id, beat.rule_id)
        self._crashes[pair] += 1
        if self._crashes[pair] >= CRASHES_PER_PAIR:
            self._set_pair_aside(beat, f"{CRASHED}: {ended_by}")

    def _set_pair_aside(self, beat: Beat | None, reason: str) -> None:
        if beat is not None and beat.trace_id is not None and beat.rule_id is not None:
            logger.warning(
                "trace %s is not judged by rule %s again; it becomes error: %s", beat.trace_id, beat.rule_id, reason
            )
            self._folder.set_aside.add_pair(beat.trace_id, beat.rule_id, reason)


def note_what_ended_the_last(folder: DataFolder) -> None:
    """Suspect what the last judge was at that nobody saw end: it was killed together with its keeper, or has none.

    Call it before a judge starts. One that is still there is counted too, and is innocent as soon as it gets further.
    """
    try:
        beat = read_heartbeat(folder.heartbeat)
        if beat is not None and (beat.record is not None or beat.trace_id is not None) and beat.rule_id is None:
            clear_heartbeat(folder.heartbeat)
            folder.set_aside.note_death(beat, "ended with its keeper")
    except OSError as error:
        logger.warning("what ended the last judge cannot be noted: %s", error)


def _ended_by(exit_code: int) -> str:
    return signal.Signals(-exit_code).name if exit_code < 0 else f"exit code {exit_code}"


def _told(reason: str, exit_code: int, position: int) -> str:
    if exit_code == EXIT_USAGE:
        return "it cannot start as it is configured; its log says why"
    if exit_code == EXIT_NOT_YET:
        return "it cannot start yet; its log says why"
    how = "it hung and was ended" if reason == HUNG else f"it was ended by {_ended_by(exit_code)}"
    return f"{how}, having read the journal up to {position}"
