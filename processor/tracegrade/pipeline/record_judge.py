"""Journal records in, judged traces out: assemble -> extract -> match -> evaluate, live and in replay alike."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from tracegrade.assemble.closed_traces import DELETED, SET_ASIDE, ClosedTrace, ClosedTraces, TraceKey
from tracegrade.assemble.decode import Decoder, Wanted
from tracegrade.assemble.live_traces import Content, Fates, LiveTraces
from tracegrade.assemble.sessions import MAX_CALLS, MAX_TRACES, KnownSession, LookupSession, Sessions, none_stored
from tracegrade.assemble.settings import TracesSettings
from tracegrade.extract.registry import MARKS, READ_ATTRIBUTES, READ_EVENTS, READ_PREFIXES, extract
from tracegrade.extract.session import joined, part_of, session_ids
from tracegrade.journal.record import Record
from tracegrade.judge import NOTHING_SET_ASIDE, Judgement, judge, judge_session
from tracegrade.match.rule import Rule
from tracegrade.match.rule_set import RuleSet
from tracegrade.match.tool_aliases import ToolAliases
from tracegrade.model.evaluation import Decision, Evaluation
from tracegrade.model.extraction import Extraction
from tracegrade.model.session import TURN, Session, session_revision, session_trace_id
from tracegrade.model.signal import Signal
from tracegrade.model.trace import Trace
from tracegrade.pipeline.heartbeat import Heartbeat


@dataclass(slots=True)
class JudgedClosing:
    """One closed trace and what came of it; ``sequence`` counts results from 1."""

    sequence: int
    trace: Trace
    judgement: Judgement

    @property
    def key(self) -> TraceKey:
        """What results of a higher revision replace these by."""
        return self.trace.tenant, self.trace.trace_id

    @property
    def decisions(self) -> list[Decision]:
        """One for every (subject, rule) pair that matched."""
        return self.judgement.decisions


@dataclass(slots=True)
class JudgedSession:
    """One session, as it stood, and what came of it."""

    sequence: int
    session: Session
    decisions: list[Decision]

    @property
    def key(self) -> TraceKey:
        """What results of a higher revision replace these by: a trace id of its own."""
        return self.session.tenant, session_trace_id(self.session.tenant, self.session.id)


Judged: TypeAlias = JudgedClosing | JudgedSession


def evaluations_of(judged: Judged) -> list[Evaluation]:
    """The evaluations of all decisions, in their order."""
    return [evaluation for decision in judged.decisions for evaluation in decision.evaluations]


def wanted_by(rule_set: RuleSet, traces: TracesSettings) -> Wanted:
    """What dialects, rules and end attributes read of a span."""
    named = (traces.end_attribute, traces.session_end_attribute, *(o.end_attribute for o in traces.overrides))
    ends = {end for end in named if end is not None}
    return Wanted(READ_ATTRIBUTES.union(rule_set.attributes_read, ends), READ_PREFIXES, READ_EVENTS, MARKS)


class RecordJudge:
    """Everything between the journal and delivery, with the records' time as its only clock."""

    def __init__(
        self,
        settings: TracesSettings,
        rule_set: RuleSet,
        closed: ClosedTraces,
        *,
        run: str = "live",
        set_aside: Mapping[tuple[str, str], str] = NOTHING_SET_ASIDE,
        passed_over: Container[int] = (),
        heartbeat: Heartbeat | None = None,
        session: LookupSession = none_stored,
        judges_traces: bool = True,
    ) -> None:
        """A judge that has read nothing.

        Without `judges_traces`, traces that close are given without decisions, for somebody else to judge; sessions,
        which are made of several, are judged all the same. Of the records at positions that are `passed_over` nothing
        is read, but that they are there.
        """
        wanted = wanted_by(rule_set, settings)
        self.live = LiveTraces(settings, closed, rule_set.hash, wanted.hash)
        self.read_spans = 0  # spans of all records read so far, whatever became of them
        self.read_log_records = 0
        self.read_position = 0
        self.clock_ns = 0
        self._settings = settings
        self._rule_sets = {rule_set.hash: rule_set}
        self._replaced: list[tuple[int, str]] = []  # (when, hash) of rule sets no longer in force
        self._rule_set = rule_set
        self._decoder = Decoder(wanted)
        self._tool_name = ToolAliases(settings.tool_aliases) if settings.tool_aliases else None
        self._ignored_scopes = frozenset(settings.ignore_scopes)
        self._closed = closed
        self._sessions = Sessions(settings, session)
        self._run = run
        self._set_aside = dict(set_aside)
        self._passed_over = passed_over
        self._heartbeat = heartbeat
        if heartbeat is not None:
            self.live.about_to_close = heartbeat.working
        self._judges_traces = judges_traces
        self._sequence = 0

    def resume(self, going_on: Iterable[KnownSession]) -> None:
        """Take up sessions that went on when an earlier process stopped; before anything is read."""
        self._sessions.resume(going_on)

    def release(self, up_to_sequence: int) -> None:
        """A store holds all results up to this one: what is needed of them again is looked up there."""
        self._closed.release(up_to_sequence)
        self._sessions.release(up_to_sequence)

    def use(self, rule_set: RuleSet) -> None:
        """Judge by `rule_set` every trace whose first span is read from now on.

        Traces that are open keep theirs, and so do those that are opened again within `max_age` and `reopen_for`: so
        long a rule set that was replaced is known, and what its rules read of a span is kept.
        """
        if rule_set.hash == self._rule_set.hash:
            return
        self._replaced.append((self.clock_ns, self._rule_set.hash))
        self._rule_set = self._rule_sets[rule_set.hash] = rule_set
        needed_ns = self.clock_ns - round((self._settings.max_age + self._settings.reopen_for) * 1e9)
        self._replaced = [(when_ns, name) for when_ns, name in self._replaced if when_ns >= needed_ns]
        known = {rule_set.hash, *(name for _, name in self._replaced)}
        self._rule_sets = {name: found for name, found in self._rule_sets.items() if name in known}
        wanted = [wanted_by(found, self._settings) for found in self._rule_sets.values()]
        attributes = wanted[0].attributes.union(*(found.attributes for found in wanted))
        wanted_now = replace(wanted[0], attributes=attributes)
        self._decoder.want(wanted_now)
        self.live.use(rule_set.hash, wanted_now.hash)

    @property
    def fates(self) -> dict[tuple[str, str], int]:
        """(fate, reason) -> spans, since the start; with the open ones they add up to `read_spans` (promise 5)."""
        return {**self.live.fates, ("own", ""): self._decoder.own_spans}

    @property
    def log_record_fates(self) -> dict[tuple[str, str], int]:
        """(fate, reason) -> log records, since the start; with the open ones they add up to `read_log_records`."""
        return {**self.live.log_record_fates, ("own", ""): self._decoder.own_log_records}

    def read(self, record: Record) -> Iterator[Judged]:
        """Take in one record; gives the traces and sessions that were due before it came."""
        self.clock_ns = record.received_ns
        yield from self._judge(self.live.close_due(record.received_ns))
        yield from self._end_sessions(self._sessions.due(record.received_ns))
        self.read_position = record.end
        if record.position in self._passed_over:
            self._pass_over(record)
            return
        if self._heartbeat is not None:
            self._heartbeat.reading(record.position)
        if record.signal == Signal.TRACES:
            self.read_spans += record.items
            own = self._decoder.own_spans
            spans = self._decoder.spans(record.payload)
            if erased := record.items - len(spans) - self._decoder.own_spans + own:
                self.live.fates["dropped", DELETED] += erased
            spans = self._unignored(spans, self.live.fates)
            self.live.add(spans, record.tenant, record.received_ns, record.position, record.end, len(record.payload))
        elif record.signal == Signal.LOGS:
            self.read_log_records += record.items
            own = self._decoder.own_log_records
            decoded = self._decoder.log_records(record.payload)
            own = self._decoder.own_log_records - own
            self.live.log_record_fates["unwanted", ""] += record.items - len(decoded) - own
            if decoded:
                log_records = self._unignored(decoded, self.live.log_record_fates)
                byte_count = len(record.payload) * len(log_records) // record.items
                self.live.add_log_records(
                    log_records, record.tenant, record.received_ns, record.position, record.end, byte_count
                )

    def _pass_over(self, record: Record) -> None:
        if record.signal == Signal.TRACES:
            self.read_spans += record.items
            self.live.fates["dropped", SET_ASIDE] += record.items
        elif record.signal == Signal.LOGS:
            self.read_log_records += record.items
            self.live.log_record_fates["dropped", SET_ASIDE] += record.items

    def _unignored(self, contents: list[Content], fates: Fates) -> list[Content]:
        if not self._ignored_scopes:
            return contents
        kept = [content for content in contents if content.scope not in self._ignored_scopes]
        fates["dropped", "ignored_scope"] += len(contents) - len(kept)
        return kept

    def tick(self, clock_ns: int) -> Iterator[Judged]:
        """The traces and sessions due by `clock_ns`, before which no later record will be stamped."""
        self.clock_ns = clock_ns
        yield from self._judge(self.live.close_due(clock_ns))
        yield from self._end_sessions(self._sessions.due(clock_ns))

    def end(self) -> Iterator[Judged]:
        """The input has ended: all traces and sessions still open."""
        yield from self._judge(self.live.close_all())
        yield from self._end_sessions(self._sessions.end())

    def _judge(self, traces: Iterable[Trace]) -> Iterator[Judged]:
        for trace in traces:
            if trace.supersedes == trace.revision:
                continue  # opened again by spans that turned out to be known
            # A stored trace may name a rule set that this process never had: a start counts as a new reading.
            rule_set = self._rule_sets.get(trace.rule_set, self._rule_set)
            trace.rule_set = rule_set.hash
            judgement = self._judgement(trace, rule_set)
            if "session" in rule_set.indexes:
                yield from self._judge_sessions_of(trace, judgement.extraction)
            else:
                self._closed.add((trace.tenant, trace.trace_id), ClosedTrace.of(trace), self._sequence + 1)
            self._sequence += 1
            yield JudgedClosing(self._sequence, trace, judgement)

    def _judgement(self, trace: Trace, rule_set: RuleSet) -> Judgement:
        if self._heartbeat is not None:
            self._heartbeat.working(trace.trace_id)
        if self._judges_traces:
            return judge(
                trace,
                rule_set,
                run=self._run,
                set_aside=self._set_aside,
                working_on=self._working_on(trace.trace_id),
                tool_name=self._tool_name,
            )
        # Which sessions it is of is read out of it; nobody else asks.
        return Judgement(
            extract(trace, self._tool_name) if "session" in rule_set.indexes else Extraction(trace, [], [])
        )

    def _judge_sessions_of(self, trace: Trace, extraction: Extraction) -> Iterator[JudgedSession]:
        """What becomes of the sessions of a trace that just closed.

        They come before the trace: after a kill between the two it is read again, and closes again.
        """
        key = (trace.tenant, trace.trace_id)
        names = session_ids(extraction)
        closed = ClosedTrace.of(trace)
        if trace.supersedes is not None and (before := self._closed.find([key]).get(key)) is not None:
            names += [name for name in session_ids(self._extract(key, before)) if name not in names]
            closed.in_session = before.in_session
        closed.in_session |= bool(names)
        self._closed.add(key, closed, self._sequence + len(names) + 1)
        for name in names:
            session = self._sessions.add((trace.tenant, name), trace)
            yield from self._judge_session(session, TURN, {key: extraction})

    def _end_sessions(self, ended: list[tuple[KnownSession, str]]) -> Iterator[JudgedSession]:
        for session, reason in ended:
            yield from self._judge_session(session, reason, {})

    def _judge_session(
        self, known: KnownSession, reason: str, extracted: Mapping[TraceKey, Extraction]
    ) -> Iterator[JudgedSession]:
        traces = self._closed.find(known.traces)
        known.found(traces)
        end_attribute = self._settings.session_end_attribute
        if reason == TURN and end_attribute is not None and _ended(traces.values(), end_attribute):
            reason = "end_attribute"
        ended = reason != TURN
        trace_id = session_trace_id(known.tenant, known.id)
        if (trace_id.hex(), "") in self._set_aside:
            return
        if self._heartbeat is not None:
            self._heartbeat.working(trace_id)
        revision = session_revision(known.members, ended=ended)
        if known.revision is not None and revision <= known.revision:
            return  # judged before a restart, or as ended
        extractions = [extracted.get(key) or self._extract(key, closed) for key, closed in traces.items()]
        first = min(traces.values(), key=lambda closed: (closed.first_received_ns, closed.first_position), default=None)
        rule_set = self._rule_sets.get(first.rule_set if first is not None else "", self._rule_set)
        parts = [part for extraction in extractions if (part := part_of(extraction, known.id)) is not None]
        session = self._session(known, reason, parts, rule_set.hash)
        session.first_received_ns = max((closed.first_received_ns for closed in traces.values()), default=0)
        decisions = judge_session(
            session,
            rule_set,
            run=self._run,
            set_aside=self._set_aside,
            working_on=self._working_on(trace_id),
        )
        self._sequence += 1
        self._sessions.judged(known, ended=ended, token=self._sequence)
        yield JudgedSession(self._sequence, session, decisions)

    def _session(self, known: KnownSession, reason: str, parts: list[Extraction], rule_set: str) -> Session:
        parts, calls = joined(parts)
        missing = ["end"] if reason == TURN else []
        lacking = {part.trace.trace_id for part in parts if not part.trace.complete}
        lacking.update(trace_id for _, trace_id in known.traces if not known.members[trace_id])
        missing += [f"trace:{trace_id.hex()}" for trace_id in sorted(lacking)]
        cut_by = MAX_TRACES if known.cut else None
        if len(calls) > self._settings.max_calls_per_session:
            calls, cut_by = calls[: self._settings.max_calls_per_session], cut_by or MAX_CALLS
        return Session(
            id=known.id,
            tenant=known.tenant,
            parts=parts,
            calls=calls,
            members=dict(known.members),
            close_reason=reason,
            missing=missing if cut_by is None else [*missing, cut_by],
            cut_by=cut_by,
            supersedes=known.revision,
            rule_set=rule_set,
            closed_ns=known.closed_ns,
        )

    def _extract(self, key: TraceKey, closed: ClosedTrace) -> Extraction:
        return extract(closed.trace(key), self._tool_name)

    def _working_on(self, trace_id: bytes) -> Callable[[Rule], None] | None:
        heartbeat = self._heartbeat
        if heartbeat is None:
            return None
        return lambda rule: heartbeat.working(trace_id, rule.id)


def _ended(traces: Iterable[ClosedTrace], end_attribute: str) -> bool:
    return any(span.attributes.get(end_attribute) is True for closed in traces for span in closed.spans)
