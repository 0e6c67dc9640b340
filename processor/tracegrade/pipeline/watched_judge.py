"""Judging with a watchdog: notes what is worked on, and does not try again what hung before."""

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field

from tracegrade.judge import decide, judge_session
from tracegrade.model.evaluation import Decision
from tracegrade.model.extraction import Extraction
from tracegrade.model.session import Session, session_trace_id
from tracegrade.model.usage import CostOf, no_prices
from tracegrade.pipeline.heartbeat import Heartbeat
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet


@dataclass(frozen=True, slots=True)
class Watchdog:
    """What a watchdog sees of a judge, and what it has found.

    ``pairs`` are those of traces and rules that hung, as of `decide`; a session's own trace id with no rule sets the
    whole session aside. Records at ``positions`` are counted and not read. ``heartbeat`` is read by the watchdog.
    """

    pairs: Mapping[tuple[str, str], str] = field(default_factory=dict)
    positions: Container[int] = ()
    heartbeat: Heartbeat | None = None


class WatchedJudge:
    """Judges traces and sessions for one run."""

    def __init__(self, run: str, watchdog: Watchdog | None = None, cost_of: CostOf = no_prices) -> None:
        """Prepare.

        Args:
            run: ``live`` or an experiment's name.
            watchdog: none by default.
            cost_of: as of `decide`.
        """
        watchdog = watchdog or Watchdog()
        self._run = run
        self._set_aside = dict(watchdog.pairs)
        self._heartbeat = watchdog.heartbeat
        self.cost_of = cost_of

    def reading(self, position: int) -> None:
        """Note that the journal's record at this position is taken in from now on."""
        if self._heartbeat is not None:
            self._heartbeat.reading(position)

    def working(self, trace_id: bytes) -> None:
        """Note that this trace is worked on from now on."""
        if self._heartbeat is not None:
            self._heartbeat.working(trace_id)

    def decide(self, extraction: Extraction, rule_set: RuleSet) -> Iterator[Decision]:
        """As `decide`."""
        return decide(
            extraction,
            rule_set,
            run=self._run,
            set_aside=self._set_aside,
            working_on=self._working_on(extraction.trace.trace_id),
            cost_of=self.cost_of,
        )

    def takes_session(self, trace_id: bytes) -> bool:
        """Whether the session with this own trace id is judged; if so, note that it is worked on from now on."""
        if (trace_id.hex(), "") in self._set_aside:
            return False
        self.working(trace_id)
        return True

    def judge_session(self, session: Session, rule_set: RuleSet) -> list[Decision]:
        """As `judge_session`."""
        working_on = self._working_on(session_trace_id(session.tenant, session.id))
        return judge_session(
            session,
            rule_set,
            run=self._run,
            set_aside=self._set_aside,
            working_on=working_on,
            cost_of=self.cost_of,
        )

    def _working_on(self, trace_id: bytes) -> Callable[[Rule], None] | None:
        heartbeat = self._heartbeat
        if heartbeat is None:
            return None
        return lambda rule: heartbeat.working(trace_id, rule.id)
