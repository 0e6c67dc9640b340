"""A judge without disk or clock: records in a list, results in a dictionary, kills wherever a test wants them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any

from hypothesis import strategies as st

from build.canonical import canonical_line
from build.otlp import Content, log_payload, log_records_of, payload, spans_of
from tracegrade.assemble.closed_traces import ClosedTrace, ClosedTraces
from tracegrade.assemble.sessions import MAX_TRACES, KnownSession, SessionKey
from tracegrade.assemble.settings import TracesSettings
from tracegrade.codec.kept_spans import decode_spans, trace_of
from tracegrade.codec.results import decode_result, encode_result
from tracegrade.journal.record import Encoding, Record
from tracegrade.model.session import TURN, session_trace_id
from tracegrade.model.signal import Signal
from tracegrade.model.trace import Trace, TraceKey
from tracegrade.model.trace_result import TraceResult, TraceSummary
from tracegrade.pipeline.judged import Judged
from tracegrade.pipeline.record_judge import Mode, RecordJudge
from tracegrade.pipeline.trace_result import result_of
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.write import trace_key

NS_PER_S = 1_000_000_000


def records(batches: Iterable[tuple[float, Sequence[Content]]]) -> list[Record]:
    """Journal records of (receive time in s, spans and log records); positions are byte offsets, as in a journal."""
    made: list[Record] = []
    position = 0
    for received_s, contents in batches:
        spans, logs = spans_of(contents), log_records_of(contents)
        requests = [(Signal.TRACES, len(spans), payload(spans)), (Signal.LOGS, len(logs), log_payload(logs))]
        for signal, items, data in requests:
            if items:
                end = position + len(data)
                received_ns = round(received_s * NS_PER_S)
                made.append(Record(position, end, received_ns, "default", signal, Encoding.PROTOBUF, items, data))
                position = end
    return made


def packing(traces: TracesSettings, data: st.DataObject) -> TracesSettings:
    """`traces`, under which what is held is packed at once, now and then or never: it must not matter."""
    spans = data.draw(st.sampled_from([0, 4, 100_000]), label="spans held unpacked")
    return traces.model_copy(update={"max_unpacked_spans": spans})


def parts(data: st.DataObject) -> int | None:
    """How many decisions of a trace are made before others are judged; None for all: it must not matter."""
    return data.draw(st.sampled_from([None, 1, 3]), label="decided at once")


def batches_of(arrivals: list[Content], data: st.DataObject) -> list[tuple[float, list[Content]]]:
    """`arrivals` in requests, with pauses between them that close traces or not."""
    batches: list[tuple[float, list[Content]]] = []
    now_s, rest = 0.0, list(arrivals)
    while rest:
        size = data.draw(st.integers(1, 5), label="batch size")
        now_s += data.draw(st.sampled_from([0.0, 0.2, 1.5, 5.0, 30.0]), label="pause")
        batches.append((now_s, rest[:size]))
        del rest[:size]
    return batches


@dataclass
class Store:
    """What survives a kill: results by trace, as the SQL store keeps them, and every delivered id with its bytes."""

    traces: dict[TraceKey, TraceResult] = field(default_factory=dict)
    delivered: dict[str, bytes] = field(default_factory=dict)
    heads: list[TraceSummary] = field(default_factory=list)
    written: list[bytes] = field(default_factory=list)  # every record, in the order in which they came

    def write(self, payload: bytes) -> None:
        self.written.append(payload)
        judged = decode_result(payload)
        self.heads.append(judged.trace)
        trace_id, tenant, _ = trace_key(judged.trace)
        key = (tenant, trace_id)
        held = self.traces.get(key)
        if held is None or held.trace.revision < judged.trace.revision:
            self.traces[key] = judged
        for evaluation in judged.evaluations:
            # Promise 4: the same id never stands for two contents.
            first = self.delivered.setdefault(evaluation.id, payload)
            assert first == payload, (decode_result(first).trace, judged.trace)

    def lookup(self, keys: Iterable[TraceKey]) -> Mapping[TraceKey, ClosedTrace]:
        held = {key: self.traces[key] for key in keys if key in self.traces}
        return {key: ClosedTrace.of(_as_it_came(judged)) for key, judged in held.items()}

    def session(self, key: SessionKey) -> KnownSession | None:
        judged = self.traces.get((key[0], session_trace_id(*key)))
        return _known(judged.trace) if judged is not None else None

    def sessions_going_on(self) -> list[KnownSession]:
        heads = [judged.trace for judged in self.traces.values() if judged.trace.close_reason == TURN]
        return [_known(head) for head in heads]

    def canonical(self) -> list[str]:
        """The canonical results, sorted."""
        return sorted(canonical_line(e.to_json()) for judged in self.traces.values() for e in judged.evaluations)


def _as_it_came(judged: TraceResult) -> Trace:
    """The trace as the store gives it to assembly: its spans as they came, where they are kept so."""
    return replace(trace_of(judged), spans=decode_spans(judged.spans, as_they_came=True).spans)


def _known(session: TraceSummary) -> KnownSession:
    assert session.session is not None
    assert session.members is not None
    cut, ended = session.cut_by == MAX_TRACES, session.close_reason != TURN
    return KnownSession(
        session.tenant, session.session, dict(session.members), session.closed_ns, cut, session.revision, ended
    )


class Run:
    """One judge process after another over the same records, as `judge_role` does it."""

    def __init__(
        self,
        rule_set: RuleSet,
        settings: TracesSettings,
        **mode: Any,
    ) -> None:
        self.store = Store()
        self._mode = Mode(**mode)
        self.position = 0  # committed
        self._rule_set = rule_set
        self._settings = settings
        self.judge = self._start()

    def _start(self) -> RecordJudge:
        closed = ClosedTraces(
            self.store.lookup,
            max_unpacked_spans=self._settings.max_unpacked_spans,
            lookup_session=self.store.session,
        )
        judge = RecordJudge(self._settings, self._rule_set, closed, self._mode)
        judge.resume(self.store.sessions_going_on())
        return judge

    def read(self, journal: Sequence[Record], *, kill_before_commit: bool = False) -> None:
        """Read `journal` (all that is durable now) from where this process stands."""
        for record in journal:
            if record.position >= self.judge.read_position:
                self._deliver(self.judge.read(record))
        self._deliver(self.judge.go_on())
        if not kill_before_commit:
            oldest = self.judge.oldest_position
            self.position = self.judge.read_position if oldest is None else min(oldest, self.judge.read_position)

    def tick(self, clock_s: float, kept: int | None = None) -> None:
        """Move the clock; with `kept` only so many results become durable, and the process must be killed."""
        judged = self.judge.tick(max(self.judge.clock_ns, round(clock_s * NS_PER_S)))
        self._deliver(islice(chain(judged, self.judge.go_on()), kept))

    @property
    def session_heads(self) -> list[TraceSummary]:
        """The records of sessions in the order in which they were delivered."""
        return [head for head in self.store.heads if head.members is not None]

    def kill(self) -> None:
        """The process is gone; another one starts at the committed position."""
        self.judge = self._start()
        self.judge.read_position = self.position

    def end(self) -> None:
        self._deliver(self.judge.end())

    def _deliver(self, judged: Iterable[Judged]) -> None:
        for item in judged:
            self.store.write(encode_result(result_of(item, "live", "hash")))
