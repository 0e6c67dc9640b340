"""Journal records in, judged traces out: assemble -> extract -> match -> evaluate, live and in replay alike."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from tracegrade.assemble.closed_traces import ClosedTrace, ClosedTraces
from tracegrade.assemble.decode import Decoder, Wanted
from tracegrade.assemble.live_traces import Content, Fates, LiveTraces
from tracegrade.assemble.settings import TracesSettings
from tracegrade.extract.registry import MARKS, READ_ATTRIBUTES, READ_EVENTS, READ_PREFIXES
from tracegrade.journal.record import Record
from tracegrade.judge import Judgement, judge
from tracegrade.match.rule import Rule
from tracegrade.match.rule_set import RuleSet
from tracegrade.match.tool_aliases import ToolAliases
from tracegrade.model.signal import Signal
from tracegrade.model.trace import Trace
from tracegrade.pipeline.heartbeat import Heartbeat


@dataclass(slots=True)
class Judged:
    """One closed trace and what came of it; ``sequence`` counts from 1."""

    sequence: int
    trace: Trace
    judgement: Judgement


def wanted_by(rule_set: RuleSet, traces: TracesSettings) -> Wanted:
    """What dialects, rules and end attributes read of a span."""
    ends = {end for end in (traces.end_attribute, *(o.end_attribute for o in traces.overrides)) if end is not None}
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
        hung: Collection[tuple[str, str]] = (),
        heartbeat: Heartbeat | None = None,
    ) -> None:
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
        self._run = run
        self._hung = frozenset(hung)
        self._heartbeat = heartbeat
        self._sequence = 0

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
        """Take in one record; gives the traces that were due before it came."""
        self.clock_ns = record.received_ns
        yield from self._judge(self.live.close_due(record.received_ns))
        self.read_position = record.end
        if record.signal == Signal.TRACES:
            self.read_spans += record.items
            spans = self._unignored(self._decoder.spans(record.payload), self.live.fates)
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

    def _unignored(self, contents: list[Content], fates: Fates) -> list[Content]:
        if not self._ignored_scopes:
            return contents
        kept = [content for content in contents if content.scope not in self._ignored_scopes]
        fates["dropped", "ignored_scope"] += len(contents) - len(kept)
        return kept

    def tick(self, clock_ns: int) -> Iterator[Judged]:
        """The traces due by `clock_ns`, before which no later record will be stamped."""
        self.clock_ns = clock_ns
        return self._judge(self.live.close_due(clock_ns))

    def end(self) -> Iterator[Judged]:
        """The input has ended: all traces still open."""
        return self._judge(self.live.close_all())

    def _judge(self, traces: list[Trace]) -> Iterator[Judged]:
        for trace in traces:
            if trace.supersedes == trace.revision:
                continue  # opened again by spans that turned out to be known
            self._sequence += 1
            self._closed.add((trace.tenant, trace.trace_id), ClosedTrace.of(trace), self._sequence)
            yield Judged(self._sequence, trace, self._judge_one(trace))

    def _judge_one(self, trace: Trace) -> Judgement:
        # A stored trace may name a rule set that this process never had: a start counts as a new reading.
        rule_set = self._rule_sets.get(trace.rule_set, self._rule_set)
        trace.rule_set = rule_set.hash
        heartbeat = self._heartbeat
        if heartbeat is None:
            return judge(trace, rule_set, run=self._run, hung=self._hung, tool_name=self._tool_name)

        def working_on(rule: Rule) -> None:
            heartbeat.working(trace.trace_id, rule.id)

        return judge(trace, rule_set, run=self._run, hung=self._hung, working_on=working_on, tool_name=self._tool_name)
