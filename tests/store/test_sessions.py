"""A session is a row of its own: its results replace each other, and it is no trace beside its traces."""

from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import Engine, select

from build.judged_traces import START_NS, evaluation, judged, trace_id
from tracegrade.model.session import session_trace_id
from tracegrade.model.trace_result import RunSummary, TraceResult
from tracegrade.store.heads import trace_heads
from tracegrade.store.open import reading
from tracegrade.store.read import (
    earlier_turns,
    newest_traces,
    sessions_going_on,
    sessions_of,
    stored_session,
    stored_traces,
    traces_of,
)
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.results import results
from tracegrade.store.schema import EVERY_TRACE, counts, series
from tracegrade.store.tallies import tallies
from tracegrade.store.write import StoreWriter

RUNS = [RunSummary("00", "support", session="chat-1")]


def session(number: int, outcome: str, revision: int, members: Sequence[int], **changes: Any) -> TraceResult:
    """The session chat-1 as it was after trace `number`."""
    reason = changes.setdefault("close_reason", "turn")
    shared = {"revision": revision, "complete": reason != "turn", "missing": [] if reason != "turn" else ["end"]}
    item = evaluation(number, outcome, subject={"kind": "session", "id": "chat-1"}, session="chat-1", **shared)
    trace_ids = {bytes.fromhex(trace_id(member)): 2 for member in members}
    return judged(number, session="chat-1", members=trace_ids, evaluations=[item], **shared, **changes)


@pytest.fixture
def writer(engine: Engine) -> StoreWriter:
    writer = StoreWriter(engine)
    writer.write([session(1, "fail", 4, [1]), judged(1, "pass", session="chat-1", runs=RUNS)])
    writer.write([session(2, "pass", 8, [1, 2]), judged(2, "pass", session="chat-1", runs=RUNS)])
    return writer


def test_the_latest_revision_replaces_the_earlier_ones_wherever_the_trace_was(
    engine: Engine, writer: StoreWriter
) -> None:
    writer.write([session(1, "fail", 4, [1])])
    with reading(engine) as connection:
        found = [(found.subject_kind, found.outcome) for found in results(connection, ResultFilter(), 10)]
        assert sorted(found) == [("agent", "pass"), ("agent", "pass"), ("session", "pass")]
        (rate,) = tallies(
            connection,
            ResultFilter(rule="checkout-order", evaluation="tool-call-order"),
            of="evaluations",
            incomplete="count",
        ).values()
        assert (rate.passed, rate.failed) == (3, 0)


def test_a_session_that_goes_on_counts_as_incomplete_until_it_ends(engine: Engine, writer: StoreWriter) -> None:
    def counted() -> tuple[int, int]:
        with reading(engine) as connection:
            (rate,) = tallies(connection, ResultFilter(evaluation="tool-call-order"), of="evaluations").values()
            return rate.passed, rate.incomplete

    assert counted() == (2, 1)
    writer.write([session(2, "pass", 9, [1, 2], close_reason="quiet")])
    assert counted() == (3, 0)


def test_a_session_is_no_trace_and_no_traffic(engine: Engine, writer: StoreWriter) -> None:
    with reading(engine) as connection:
        assert [int(head.trace_id, 16) for head in trace_heads(connection, ResultFilter(), 10)] == [2, 1]
        assert [int(stored.trace.trace_id, 16) for stored in newest_traces(connection, 10)] == [2, 1]
        traffic = select(counts.c.passed).join(series, series.c.number == counts.c.series)
        of_minutes = traffic.where(series.c.rule_id == EVERY_TRACE, counts.c.minutes == 1)
        assert sum(connection.execute(of_minutes).scalars()) == 2


def test_a_session_is_found_by_its_id_and_by_its_traces(engine: Engine, writer: StoreWriter) -> None:
    def ids(found: list[TraceResult]) -> list[str]:
        return [stored.trace.trace_id for stored in found]

    with reading(engine) as connection:
        known = stored_session(connection, "default", "chat-1")
        assert known is not None
        assert (known.revision, known.members) == (8, {bytes.fromhex(trace_id(number)): 2 for number in (1, 2)})
        assert stored_session(connection, "default", "chat-2") is None
        assert stored_session(connection, "other", "chat-1") is None
        (own,) = stored_traces(connection, session_trace_id("default", "chat-1"))
        (trace,) = stored_traces(connection, bytes.fromhex(trace_id(1)))
        assert sessions_of(connection, trace) == [own]
        assert ids(traces_of(connection, own)) == [trace_id(1), trace_id(2)]
        assert ids(traces_of(connection, trace)) == [trace_id(1)]


def test_sessions_go_on_until_they_end(engine: Engine, writer: StoreWriter) -> None:
    with reading(engine) as connection:
        assert [(known.session, known.revision) for known in sessions_going_on(connection)] == [("chat-1", 8)]
    writer.write([session(2, "pass", 9, [1, 2], close_reason="quiet")])
    with reading(engine) as connection:
        assert sessions_going_on(connection) == []


@pytest.mark.parametrize("is_judged", [True, False])
def test_of_a_session_of_very_many_traces_the_nearest_earlier_ones_are_found(engine: Engine, is_judged: bool) -> None:
    turns = [judged(number, session="chat-1", runs=RUNS, start_ns=START_NS + number) for number in range(1, 603)]
    StoreWriter(engine).write([*turns, *([session(602, "pass", 4, range(1, 603))] if is_judged else [])])
    with reading(engine) as connection:
        found = earlier_turns(connection, turns[600], 3)
    assert [turn.trace.trace_id for turn in found] == [trace_id(number) for number in (600, 599, 598)]


@pytest.mark.long
def test_of_a_trace_of_more_sessions_than_a_query_takes_earlier_turns_are_found(engine: Engine) -> None:
    runs = [*RUNS, *(RunSummary("00", "a", session=f"s-{number}") for number in range(2**18))]
    many = judged(2, session="chat-1", runs=runs, start_ns=START_NS + 1)
    StoreWriter(engine).write([judged(1, session="chat-1", runs=RUNS), many])
    with reading(engine) as connection:
        assert [turn.trace.trace_id for turn in earlier_turns(connection, many, 3)] == [trace_id(1)]
