from sqlalchemy import Engine

from build.judged_traces import START_NS, judged, spans, trace_id
from tracegrade.codec.kept_spans import decode_spans
from tracegrade.codec.packed_trace import PackedTrace
from tracegrade.store import rejudging as module
from tracegrade.store.open import reading
from tracegrade.store.rejudging import kept_traces
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.write import StoreWriter


def kept(engine: Engine, **asked: object) -> list[PackedTrace]:
    with reading(engine) as connection:
        return list(kept_traces(connection, ResultFilter(**asked)))  # type: ignore[arg-type]


def test_all_traces_come_newest_first_a_few_at_a_time(engine: Engine, monkeypatch) -> None:
    monkeypatch.setattr(module, "_TOGETHER", 2)
    StoreWriter(engine).write([judged(number) for number in range(1, 8)])
    assert [found.trace.trace_id.hex() for found in kept(engine)] == [trace_id(number) for number in range(7, 0, -1)]


def test_a_trace_has_what_judging_it_again_needs(engine: Engine) -> None:
    StoreWriter(engine).write([judged(1), judged(2, complete=False, missing=["root"], close_reason="idle")])
    incomplete, complete = kept(engine)
    assert (incomplete.trace.missing, incomplete.trace.close_reason) == (["root"], "idle")
    assert (complete.trace.complete, complete.trace.revision, complete.trace.tenant) == (True, 2, "default")
    assert complete.trace.first_received_ns == START_NS + 60_000_000_000
    assert decode_spans(complete.spans).spans == spans(1)


def test_sessions_other_runs_and_other_times_are_left_out(engine: Engine) -> None:
    session = judged(3, session="talk", members={bytes.fromhex(trace_id(1)): 2})
    StoreWriter(engine).write([judged(1), judged(2), session, judged(4, service="bank")])
    until = START_NS + 2 * 60_000_000_000
    assert [found.trace.trace_id.hex() for found in kept(engine, service="shop")] == [trace_id(2), trace_id(1)]
    assert [found.trace.trace_id.hex() for found in kept(engine, until_ns=until)] == [trace_id(1)]
    assert kept(engine, run="tuning/1") == []
