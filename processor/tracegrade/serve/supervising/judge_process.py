"""The judge as the receive role sees it: it is watched by its heartbeat; what ends judges is set aside."""

import asyncio
import logging
import signal
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tracegrade.config import JudgeSettings
from tracegrade.pipeline.data_folder import JUDGE, DataFolder
from tracegrade.pipeline.heartbeat import Beat, clear_heartbeat, read_heartbeat
from tracegrade.serve.supervising.supervisor import CRASHED, Ended, Launch, Restart
from tracegrade.telemetry.metrics import Telemetry

_PROC = Path("/proc")


class Silence:
    """The silence of one process after another, looked at several times a second.

    The time in which the system had a process wait for a processor does not count: on a machine with more work than
    processors, a judge that was at nothing wrong would be ended, and its start would make the machine busier still. A
    process that sleeps, waits for a lock or is stopped does not wait for a processor, so its time counts; so does the
    time that it computes.
    """

    def __init__(self) -> None:
        self._since: tuple[int, int] | None = None  # the process, and its last sign of life (monotonic)
        self._waited_before_ns = 0

    def lasts_ns(self, pid: int, last_sign_ns: int, now_ns: int) -> int:
        """How long `pid` has been silent at `now_ns`, both times monotonic, after a sign of life at `last_sign_ns`."""
        waited_ns = waited_for_processor_ns(pid)
        if self._since != (pid, last_sign_ns):
            self._since = pid, last_sign_ns
            self._waited_before_ns = waited_ns
        return now_ns - last_sign_ns - (waited_ns - self._waited_before_ns)


def waited_for_processor_ns(pid: int) -> int:
    """How long the main thread of a process could run and had no processor; 0 where the system does not tell."""
    try:
        # On a processor (ns), waiting for one (ns), how many times it got one.
        return int((_PROC / str(pid) / "schedstat").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0


STOP_WITHIN_S = 20.0
STARTS_WITHIN_S = 60.0
# A judge that has read nothing works when it lives so long: each address of a store may take 10 s to open.
BEGUN_WITHIN_S = 30.0
EXIT_USAGE = 2  # wrong rules or settings
# EX_TEMPFAIL of sysexits.h: a later start may succeed (the store is away, an earlier judge still holds the journal).
EXIT_NOT_YET = 75
HUNG = "hung"  # the reason of pairs on which judges hang, and of restarts
# One crash may have any cause; a third one on the same trace and rule is caused by them.
CRASHES_PER_PAIR = 3

logger = logging.getLogger(__name__)


class JudgeProcess:
    """One judge after another, for the supervisor.

    If the first one says that it cannot start with these settings, ``refused_to_start`` is set, and it is not started
    again. If a later one says so, it is started again: somebody may be editing the rules, and receiving and forwarding
    must go on. They do not wait for the store either: it is tried until it can be opened.
    """

    def __init__(
        self,
        command: Sequence[str],
        folder: DataFolder,
        settings: JudgeSettings,
        telemetry: Telemetry,
        name: str = JUDGE,
    ) -> None:
        """`name` is that of the judge, or of delivery where that is a process of its own."""
        self.refused_to_start = False
        self._launch = Launch("the judge" if name == JUDGE else name, command, STOP_WITHIN_S)
        self._name = name
        self._where = "" if name == JUDGE else name
        self._heartbeat = folder.heartbeat(name)
        self._folder = folder
        self._settings = settings
        self._telemetry = telemetry
        self._silence = Silence()
        self._crashes: Counter[tuple[str, str]] = Counter()
        self._is_first = True
        self._furthest = 0  # the furthest position that earlier judges have read

    async def next_launch(self, stop: asyncio.Event) -> Launch | None:
        """The judge, at once."""
        if self._is_first:
            await asyncio.to_thread(note_what_ended_the_last, self._folder, self._name)
        return None if stop.is_set() else self._launch

    def why_end(self, started_ns: int, pid: int) -> str | None:
        """`HUNG` when the watchdog finds no sign of life of the judge; the rule on which it hangs is set aside."""
        try:
            beat = read_heartbeat(self._heartbeat)
        except OSError:
            return None  # no file descriptor left: nothing is known of the judge, so it is not ended
        if beat is not None and self._is_well(beat, started_ns):
            self._telemetry.conditions.end("judge_down", self._where)
        if self._settings.watchdog and self._hangs(beat, started_ns, pid):
            self._set_pair_aside(beat, HUNG)
            return HUNG
        return None

    async def after(self, ended: Ended) -> Restart | None:
        """Count the end, and suspect what the judge was working on. A judge that made progress is not in a loop."""
        beat = self._last_beat(ended.started_ns)
        if ended.reason == CRASHED:
            self._count_crash(ended.exit_code, beat)
        if ended.exit_code == EXIT_USAGE and self._is_first:
            self.refused_to_start = True
            return None
        self._is_first = False
        reason = {EXIT_NOT_YET: "not_yet", EXIT_USAGE: "refused"}.get(ended.exit_code, ended.reason)
        self._telemetry.add("tracegrade.judge.restarts", reason=reason)
        await self._note_what_ended(beat, reason, ended.exit_code)
        reached = beat.position if beat is not None else 0
        self._telemetry.conditions.begin("judge_down", _end_text(reason, ended.exit_code), self._where)
        got_further = reached > self._furthest
        self._furthest = max(self._furthest, reached)
        return Restart(reason, got_further)

    def _last_beat(self, started_ns: int) -> Beat | None:
        """The last heartbeat of the judge that began then; None if there is none, or it cannot be read."""
        with suppress(OSError):
            beat = read_heartbeat(self._heartbeat)
            if beat is not None and beat.changed_ns >= started_ns:
                return beat
        return None

    def _is_well(self, beat: Beat, started_ns: int) -> bool:
        """Whether this judge works, and is at least as far as those before it."""
        is_between = beat.record is None and beat.trace_id is None
        has_begun = beat.position > 0 or beat.changed_ns - started_ns > BEGUN_WITHIN_S * 1e9
        return beat.changed_ns > started_ns and has_begun and beat.position >= self._furthest and is_between

    async def _note_what_ended(self, beat: Beat | None, reason: str, exit_code: int) -> None:
        """Suspect the record or trace that this judge was working on, unless it ended in an orderly way."""
        if beat is None or beat.rule_id is not None or exit_code in (EXIT_USAGE, EXIT_NOT_YET):
            return
        try:
            await asyncio.to_thread(clear_heartbeat, self._heartbeat)
            why = HUNG if reason == HUNG else _ended_by(exit_code)
            await asyncio.to_thread(self._folder.set_aside.note_death, beat, why, self._name)
        except OSError as error:
            logger.warning("the reason why %s ended cannot be stored: %s", self._launch.name, error)

    def _hangs(self, beat: Beat | None, started_ns: int, pid: int) -> bool:
        last_sign_ns, allowed_s = started_ns, max(self._settings.hang_timeout, STARTS_WITHIN_S)
        if beat is not None and beat.changed_ns >= started_ns:  # else it is starting: importing, opening the store
            last_sign_ns, allowed_s = beat.changed_ns, self._settings.hang_timeout
        return self._silence.lasts_ns(pid, last_sign_ns, time.monotonic_ns()) > allowed_s * 1e9

    def _count_crash(self, exit_code: int, beat: Beat | None) -> None:
        """Set aside what this judge was working on when it ended, if the same ended judges before."""
        if beat is None or beat.trace_id is None or beat.rule_id is None:
            return
        ended_by = _ended_by(exit_code)
        logger.warning(
            "%s was ended by %s on trace %s, rule %s", self._launch.name, ended_by, beat.trace_id, beat.rule_id
        )
        pair = (beat.trace_id, beat.rule_id)
        self._crashes[pair] += 1
        if self._crashes[pair] >= CRASHES_PER_PAIR:
            self._set_pair_aside(beat, f"{CRASHED}: {ended_by}")

    def _set_pair_aside(self, beat: Beat | None, reason: str) -> None:
        if beat is not None and beat.trace_id is not None and beat.rule_id is not None:
            logger.warning(
                "trace %s is not judged by rule %s again; the outcome is error: %s", beat.trace_id, beat.rule_id, reason
            )
            self._folder.set_aside.add_pair(beat.trace_id, beat.rule_id, reason)


def note_what_ended_the_last(folder: DataFolder, name: str = JUDGE) -> None:
    """Suspect what the last judge was working on if nothing saw its end: killed with its supervisor, or without one.

    Call this before a judge starts. A judge that still runs is counted too; the suspicion ends when it gets further.
    """
    try:
        beat = read_heartbeat(folder.heartbeat(name))
        if beat is not None and (beat.record is not None or beat.trace_id is not None) and beat.rule_id is None:
            clear_heartbeat(folder.heartbeat(name))
            folder.set_aside.note_death(beat, "ended with its keeper", name)
    except OSError as error:
        logger.warning("the reason why the last judge ended cannot be stored: %s", error)


def _ended_by(exit_code: int) -> str:
    return signal.Signals(-exit_code).name if exit_code < 0 else f"exit code {exit_code}"


def _end_text(reason: str, exit_code: int) -> str:
    if exit_code == EXIT_USAGE:
        return "it cannot start as it is configured; its log says why"
    if exit_code == EXIT_NOT_YET:
        return "it cannot start yet; its log says why"
    return "it hung and was ended" if reason == HUNG else f"it was ended by {_ended_by(exit_code)}"
