"""Journal records in, judged traces out: assemble -> extract -> match -> evaluate, both live and in replay."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from tracegrade.assemble.closed_traces import ClosedTrace, ClosedTraces
from tracegrade.assemble.decode import DemandOf
from tracegrade.assemble.live_traces import LiveTraces
from tracegrade.assemble.sessions import KnownSession, SessionKey
from tracegrade.assemble.settings import TracesSettings
from tracegrade.assemble.share import Shares
from tracegrade.codec.raw_session import SessionUnclear, session_in
from tracegrade.codec.raw_spans import all_raw, plain
from tracegrade.codec.span_reader import AttributeFilter
from tracegrade.extract.extract import extract, release_of
from tracegrade.extract.registry import in_force
from tracegrade.journal.record import Record
from tracegrade.judge import Judgement
from tracegrade.model.evaluation import Decision
from tracegrade.model.extraction import Extraction
from tracegrade.model.trace import Trace, TraceKey
from tracegrade.model.trace_result import NotDecoded
from tracegrade.pipeline.extracted_traces import ExtractedTraces
from tracegrade.pipeline.judged import Judged, JudgedSession, JudgedTrace, ResultNumbers
from tracegrade.pipeline.leaving_out import LeavingOut
from tracegrade.pipeline.record_intake import RecordIntake
from tracegrade.pipeline.rule_sets import RuleSets
from tracegrade.pipeline.session_judge import SessionJudge, Turn
from tracegrade.pipeline.watched_judge import Watchdog, WatchedJudge
from tracegrade.rule.prices import cost_by
from tracegrade.rule.rule_set import RuleSet
from tracegrade.rule.tool_aliases import ToolAliases


def attribute_filter_for(rule_set: RuleSet, traces: TracesSettings) -> AttributeFilter:
    """The filter that keeps what dialects, rules and settings read of a span."""
    named = (traces.end_attribute, traces.session_end_attribute, *(o.end_attribute for o in traces.overrides))
    ends = {end for end in named if end is not None}
    further = frozenset(ends.union(rule_set.attributes_read, traces.kept_attributes))
    return AttributeFilter.of(in_force(), further, by_shape=traces.read_by_shape)


@dataclass(slots=True)
class _LargeTrace:
    """A trace that closed, its judgement so far, and the decisions that are still to be made."""

    trace: Trace
    judgement: Judgement
    rest: Iterator[Decision]

    def decide(self, most: int | None) -> bool:
        """Make at most so many decisions, or all with None. Returns whether none are left."""
        made = list(islice(self.rest, most))
        self.judgement.decisions += made
        return most is None or len(made) < most


@dataclass(frozen=True, slots=True)
class Mode:
    """How a run judges.

    ``run`` is ``live`` or an experiment's name. Without ``judges_traces``, traces that close are given without
    decisions, to be judged elsewhere; sessions, which have several traces, are judged here in any case. With
    ``decodes_all``, spans are read also of traces that no rule judges.

    Of a trace with more decisions than ``decided_at_once``, so many are made when it closes, and as many each time that
    `RecordJudge.go_on` is called; its results come with the last. With None every trace is judged when it closes.
    """

    run: str = "live"
    judges_traces: bool = True
    decodes_all: bool = False
    decided_at_once: int | None = None


LIVE = Mode()


class RecordJudge:
    """Everything between the journal and delivery, with the records' time as its only clock."""

    def __init__(
        self,
        settings: TracesSettings,
        rule_set: RuleSet,
        closed: ClosedTraces,
        mode: Mode = LIVE,
        *,
        watchdog: Watchdog | None = None,
        shares: Shares | None = None,
    ) -> None:
        """A judge that has read nothing.

        Args:
            settings: how traces and sessions are assembled.
            rule_set: in force for traces that begin from now on, until `use`.
            closed: where closed traces are found again.
            mode: how this run judges.
            watchdog: what a watchdog has found, and where it looks.
            shares: what this judge judges; everything by default. Sessions of a share are judged by `turn` and
                `end_sessions`.
        """
        watchdog, shares = watchdog or Watchdog(), shares or Shares()
        attribute_filter = attribute_filter_for(rule_set, settings)
        self.live = LiveTraces(settings, closed, rule_set.hash, attribute_filter.hash)
        self.read_position = 0
        self.clock_ns = 0
        self._settings = settings
        self._rule_sets = RuleSets(settings, rule_set)
        self._leaving_out = LeavingOut(self._rule_sets, has_aliases=bool(settings.tool_aliases))
        self._mode = mode
        self._large: dict[TraceKey, _LargeTrace] = {}  # in the order in which they closed
        self.intake = RecordIntake(
            self.live, attribute_filter, settings.ignore_scopes, watchdog.positions, shares.traces, self._demand_of()
        )
        self._tool_name = ToolAliases(settings.tool_aliases) if settings.tool_aliases else None
        self._closed = closed
        self._session_share = shares.sessions
        self._judges_sessions_by_turns = shares.judges_sessions_by_turns
        self._judge = WatchedJudge(mode.run, watchdog, cost_by(settings.prices))
        self.live.about_to_close = self._judge.working
        self._numbers = ResultNumbers()
        self._extracted = ExtractedTraces(
            closed, self._tool_name, settings.session_end_attribute, settings.max_unpacked_spans
        )
        self._sessions = SessionJudge(settings, closed, self._extracted, self._rule_sets, self._judge, self._numbers)

    @property
    def oldest_position(self) -> int | None:
        """The first journal position that a trace still needs whose results were not given yet; None for none."""
        open_from = self.live.oldest_position
        needed = [large.trace.first_position for large in self._large.values()]
        return min(needed if open_from is None else [open_from, *needed], default=None)

    @property
    def judged_to_ns(self) -> int:
        """The results of everything that closed up to this time, ns since 1970 UTC, were given."""
        return min([self.clock_ns, *(large.trace.closed_ns - 1 for large in self._large.values())])

    @property
    def is_judging(self) -> bool:
        """Whether `go_on` has anything to do."""
        return bool(self._large)

    def resume(self, going_on: Iterable[KnownSession]) -> None:
        """Go on with sessions that were open when an earlier process stopped; called before anything is read."""
        self._sessions.resume(going_on)

    def release(self, up_to_sequence: int) -> None:
        """A store holds all results up to this one, so they are looked up there when needed again."""
        self._closed.release(up_to_sequence)
        self._sessions.release(up_to_sequence)

    def expect(self, keys: Iterable[TraceKey]) -> None:
        """These traces are read next, or told by `turn`: what the store has of them is looked up at once."""
        self._closed.ask(key for key in keys if not self.live.is_open(key))

    def use(self, rule_set: RuleSet) -> None:
        """Judge by `rule_set` every trace whose first span is read from now on.

        Open traces keep theirs, and so do traces reopened within `max_age` and `reopen_for`: for that time, a replaced
        rule set stays known, and the attributes that its rules read are kept.
        """
        if rule_set.hash == self._rule_sets.in_force.hash:
            return
        self._rule_sets.use(rule_set, self.clock_ns)
        filters = [attribute_filter_for(known, self._settings) for known in self._rule_sets.known()]
        attributes = filters[0].attributes.union(*(found.attributes for found in filters))
        attribute_filter = replace(filters[0], attributes=attributes)
        self._leaving_out.changed()
        self.intake.use(attribute_filter, self._demand_of())
        self.live.use(rule_set.hash, attribute_filter.hash)

    def _demand_of(self) -> DemandOf | None:
        if self._mode.decodes_all or not self._mode.judges_traces or self._leaving_out.asks_for_everything:
            return None
        return self._leaving_out.demand_of

    def read(self, record: Record) -> Iterator[Judged]:
        """Take in one record; gives the traces and sessions that were due before the record came."""
        self.clock_ns = record.received_ns
        yield from self._judged(self.live.close_due(record.received_ns))
        if not self._judges_sessions_by_turns:
            yield from self._sessions.due(record.received_ns)
        self.read_position = record.end
        if not self.intake.passes_over(record):
            self._judge.reading(record.known_as)
            self.intake.take(record)

    def tick(self, clock_ns: int) -> Iterator[Judged]:
        """The traces and sessions due by `clock_ns`, before which no later record will be stamped."""
        self.clock_ns = clock_ns
        yield from self._judged(self.live.close_due(clock_ns))
        if not self._judges_sessions_by_turns:
            yield from self._sessions.due(clock_ns)

    def go_on(self) -> Iterator[JudgedTrace]:
        """Make further decisions about the trace that closed first of those of which some are left to be made."""
        if self._large:
            yield from self._decide(next(iter(self._large)), self._mode.decided_at_once)

    def turn(self, turn: Turn) -> Iterator[JudgedSession]:
        """Judge the sessions of our share that a stored trace is part of: any judge has closed it."""
        yield from self._sessions.trace_stored(turn, self._session_share)

    def turns_of(self, session: SessionKey, turns: Sequence[Turn]) -> Iterator[JudgedSession]:
        """Judge one session of our share once, after stored traces of it, any judge's: its turns in their order."""
        yield from self._sessions.turns_stored(session, turns)

    def end_sessions(self, clock_ns: int) -> Iterator[JudgedSession]:
        """The sessions that ended by `clock_ns`; every trace that closed before, at any judge, was told by `turn`."""
        yield from self._sessions.due(clock_ns)

    def end(self) -> Iterator[Judged]:
        """The input has ended: all traces and sessions still open."""
        yield from self._judged(self.live.close_all())
        for key in list(self._large):
            yield from self._decide(key, None)
        yield from self._sessions.end()

    def _judged(self, traces: Iterable[Trace]) -> Iterator[Judged]:
        for trace in traces:
            if trace.supersedes == trace.revision:
                continue  # reopened by spans that were already known
            key = (trace.tenant, trace.trace_id)
            if key in self._large:  # in a lower revision
                yield from self._decide(key, None)
            rule_set = self._rule_sets.of(trace.rule_set)
            trace.rule_set = rule_set.hash
            judgement = self._not_decoded(trace, rule_set)
            rest: Iterator[Decision] = iter(())
            if judgement is None:
                judgement, rest = self._judgement(trace, rule_set)
            large = _LargeTrace(trace, judgement, rest)
            is_decided = large.decide(self._mode.decided_at_once)
            if "session" in rule_set.scopes and not self._judges_sessions_by_turns:
                yield from self._sessions.trace_closed(trace, judgement.extraction)
            else:
                self._closed.add(key, ClosedTrace.of(trace), self._numbers.last + 1)
                self._extracted.forget(key)  # in a lower revision, under rules for sessions
            if is_decided:
                yield JudgedTrace(self._numbers.next(), trace, judgement)
            else:
                self._closed.hold(key)
                self._large[key] = large

    def _decide(self, key: TraceKey, most: int | None) -> Iterator[JudgedTrace]:
        """Make so many decisions of a large trace, and give it after the last."""
        large = self._large[key]
        self._judge.working(large.trace.trace_id)
        if large.decide(most):
            del self._large[key]
            self._closed.hold(key, self._numbers.next())
            yield JudgedTrace(self._numbers.last, large.trace, large.judgement)

    def _not_decoded(self, trace: Trace, rule_set: RuleSet) -> Judgement | None:
        """The judgement of a trace that no rule judges, without its spans being read; None when one may judge it."""
        raw = all_raw(trace.spans)  # a span that was read was read because a rule may judge its trace
        reason = self._leaving_out.reason(trace, raw, rule_set) if raw is not None else None
        if raw is not None and reason is not None:
            try:
                session = session_in(raw, has_log_records=bool(trace.log_records))
                extraction = Extraction(trace, [], [], session, release_of(raw))
            except SessionUnclear:
                pass
            else:
                return Judgement(extraction, not_decoded=NotDecoded(reason, self._settings.tool_aliases))
        trace.spans = [plain(span) for span in trace.spans]
        return None

    def _judgement(self, trace: Trace, rule_set: RuleSet) -> tuple[Judgement, Iterator[Decision]]:
        """The judgement of a trace without decisions, and these."""
        self._judge.working(trace.trace_id)
        if self._mode.judges_traces:
            extraction = extract(trace, self._tool_name)
            return Judgement(extraction, cost_of=self._judge.cost_of), self._judge.decide(extraction, rule_set)
        # Needed to know its sessions, and for nothing else.
        extraction = extract(trace, self._tool_name) if "session" in rule_set.scopes else Extraction(trace, [], [])
        return Judgement(extraction), iter(())
