"""Traces and sessions as they are read to be judged again."""

from dataclasses import replace

from sqlalchemy import Engine

from build.judged_traces import MINUTE_NS, START_NS, judged, spans, trace_id
from build.stored_runs import begin
from tracegrade.codec.kept_spans import decode_spans
from tracegrade.codec.packed_trace import PackedTrace
from tracegrade.compare.store import rejudging as module
from tracegrade.compare.store.rejudging import (
    KeptSession,
    judged_sessions,
    kept_heads,
    kept_traces,
    kept_traces_of,
    sessions_not_judged,
)
from tracegrade.model.trace_result import TraceResult
from tracegrade.store.open import reading
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


DAY_MINUTES = 24 * 60


def id_of(number: int) -> bytes:
    return bytes.fromhex(trace_id(number))


def session(number: int, name: str, *members: int, **changes: object) -> TraceResult:
    found = judged(number, session=name, members={id_of(member): 2 for member in members}, **changes)  # type: ignore[arg-type]
    return replace(found, trace=replace(found.trace, service=str(changes.get("service", "shop"))))


def with_row(engine: Engine, **asked: object) -> list[KeptSession]:
    with reading(engine) as connection:
        return list(judged_sessions(connection, ResultFilter(**asked)))  # type: ignore[arg-type]


def without_row(engine: Engine, **asked: object) -> dict[tuple[str, str], list[bytes]]:
    with reading(engine) as connection:
        found = sessions_not_judged(connection, ResultFilter(**asked))  # type: ignore[arg-type]
    assert [one.number for one in found] == sorted((one.number for one in found), reverse=True)
    return {(one.tenant, one.id): [*one.members] for one in found}


def test_judged_sessions_come_newest_first_a_few_at_a_time(engine: Engine, monkeypatch) -> None:
    monkeypatch.setattr(module, "_TOGETHER", 2)
    StoreWriter(engine).write([judged(1), *(session(number, f"chat-{number}", 1, 2) for number in range(2, 7))])
    found = with_row(engine)
    assert [one.id for one in found] == [f"chat-{number}" for number in range(6, 1, -1)]
    assert all(one.members == {id_of(1): 2, id_of(2): 2} for one in found)
    assert [one.id for one in with_row(engine, until_ns=START_NS + 4 * MINUTE_NS)] == ["chat-3", "chat-2"]
    assert with_row(engine, tenant="other") == []


def test_sessions_that_no_rule_judged_have_the_traces_that_name_them(engine: Engine) -> None:
    begin(engine, "tuning/1")
    StoreWriter(engine).write(
        [
            *(judged(number, session="chat") for number in (1, 2)),
            judged(3, session="chat", tenant="other"),
            judged(4, session="judged"),
            session(5, "judged", 4),
            judged(6),
            judged(7, session="run", run="tuning/1"),
        ]
    )
    assert without_row(engine) == {("default", "chat"): [id_of(1), id_of(2)], ("other", "chat"): [id_of(3)]}
    assert without_row(engine, tenant="other") == {("other", "chat"): [id_of(3)]}
    assert without_row(engine, run="tuning/1") == {("default", "run"): [id_of(7)]}


def test_a_session_is_of_the_time_of_its_last_trace_and_begins_before_it(engine: Engine) -> None:
    days = {1: "long-ago", 9: "long-ago", 10: "one", 11: "one", 12: "later"}
    StoreWriter(engine).write([judged(day * DAY_MINUTES, session=name) for day, name in days.items()])
    since_ns, until_ns = (START_NS + day * DAY_MINUTES * MINUTE_NS for day in (9, 12))
    found = without_row(engine, since_ns=since_ns, until_ns=until_ns)
    # Of what came more than seven days before, nobody looks.
    assert found == {
        ("default", "one"): [id_of(10 * DAY_MINUTES), id_of(11 * DAY_MINUTES)],
        ("default", "long-ago"): [id_of(9 * DAY_MINUTES)],
    }


def test_traces_are_found_by_key_and_by_number(engine: Engine) -> None:
    one_id = [judged(1), judged(1, tenant="other", last_position=77), session(2, "chat", 1)]
    StoreWriter(engine).write(one_id)
    keys = [("other", id_of(1)), ("other", id_of(9))]
    with reading(engine) as connection:
        found = kept_traces_of(connection, "live", keys)
        assert [*found] == [("other", id_of(1))]
        (head,) = kept_heads(connection, [kept.number for kept in found.values()])
    assert (head.trace.tenant, head.trace.last_position, head.spans) == ("other", 77, b"")
