import itertools
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine, text

from build import store_with
from build.judged_traces import START_NS, evaluation, judged, tool_call, trace_id
from build.records import tool_call_of
from build.stored_runs import begin
from tracegrade.model.trace_result import TraceResult
from tracegrade.store.open import open_store, reading
from tracegrade.store.read import stored_traces
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.results import full_evaluations, results
from tracegrade.store.tallies import ALL_SUMS, RATED_BY, tallies
from tracegrade.store.write import StoreWriter

COUNTED = ("traces", "tool_calls", "evaluations", "decisions")


def row_counts(engine: Engine) -> list[int]:
    with reading(engine) as connection:
        return [connection.execute(text(f"SELECT count(*) FROM {name}")).scalar_one() for name in COUNTED]


def content(engine: Engine) -> tuple[object, ...]:
    """Everything that may be asked of the store, without the numbers that depend on the order of writing."""
    with reading(engine) as connection:
        found = results(connection, ResultFilter(), 1000)
        evaluations = sorted(full_evaluations(connection, found), key=lambda item: (item.subject.trace_id, item.id))
        return (
            evaluations,
            tallies(connection, ResultFilter(), RATED_BY, of="both", summed=ALL_SUMS),
            row_counts(engine),
        )


def test_everything_delivered_comes_back(engine: Engine) -> None:
    record = judged(1, "fail")
    StoreWriter(engine).write([record])
    with reading(engine) as connection:
        (stored,) = stored_traces(connection, bytes.fromhex(trace_id(1)))
    assert (stored.trace, stored.tool_calls, stored.decisions, stored.spans) == (
        record.trace,
        record.tool_calls,
        record.decisions,
        record.spans,
    )


def test_writing_twice_stores_once(engine: Engine) -> None:
    writer = StoreWriter(engine)
    writer.write([judged(1), judged(2, "fail")])
    once = content(engine)
    writer.write([judged(2, "fail"), judged(1)])
    assert content(engine) == once
    assert row_counts(engine) == [2, 2, 2, 2]


def test_a_record_twice_in_one_batch_stores_once(engine: Engine) -> None:
    StoreWriter(engine).write([judged(1), judged(1)])
    assert row_counts(engine) == [1, 1, 1, 1]


def test_a_higher_revision_replaces_all_rows_of_the_lower(engine: Engine) -> None:
    """The late root changed the subject: evaluations of the first closing have no counterpart, and go all the same."""
    writer = StoreWriter(engine)
    orphans = [evaluation(1, subject={"kind": "agent", "id": f"{span:016x}"}) for span in (1, 2, 3)]
    writer.write([judged(1, evaluations=orphans, tool_calls=[tool_call(), tool_call()])])
    writer.write([judged(1, "fail", revision=3, supersedes=2)])
    assert row_counts(engine) == [1, 1, 1, 1]
    with reading(engine) as connection:
        assert [result.outcome for result in results(connection, ResultFilter(), 10)] == ["fail"]
        (rate,) = tallies(connection, ResultFilter()).values()
    assert (rate.passed, rate.failed) == (0, 1)


def test_a_lower_revision_that_comes_late_changes_nothing(engine: Engine) -> None:
    writer = StoreWriter(engine)
    writer.write([judged(1, "fail", revision=3, supersedes=2)])
    after = content(engine)
    writer.write([judged(1, revision=2)])
    assert content(engine) == after


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), max_size=8).flatmap(
        lambda items: st.tuples(st.permutations(items), st.lists(st.integers(1, 4), max_size=8))
    )
)
def test_what_is_stored_depends_on_the_highest_revisions_only(
    tmp_path_factory: pytest.TempPathFactory, drawn: tuple[list[tuple[int, int]], list[int]]
) -> None:
    deliveries, sizes = drawn

    def record(number: int, revision: int) -> TraceResult:
        outcome = ("pass", "fail", "not_evaluable", "error")[revision % 4]
        return judged(number, outcome, revision=revision, complete=revision % 2 == 0)

    def stored(records: list[TraceResult], sizes: list[int]) -> tuple[object, ...]:
        engine = open_store(store_with(tmp_path_factory.mktemp("store")))
        writer, rest = StoreWriter(engine), iter(records)
        for size in itertools.chain(sizes, itertools.repeat(3)):
            if not (batch := list(itertools.islice(rest, size))):
                break
            writer.write(batch)
        found = content(engine)
        engine.dispose()
        return found

    highest: dict[int, int] = {}
    for number, revision in deliveries:
        highest[number] = max(revision, highest.get(number, 0))
    expected = stored([record(*item) for item in sorted(highest.items())], [])
    assert stored([record(*item) for item in deliveries], sizes) == expected


def test_tenants_and_runs_are_kept_apart(engine: Engine) -> None:
    begin(engine, "tuning")
    StoreWriter(engine).write([judged(1), judged(1, "fail", tenant="other"), judged(1, "fail", run="tuning")])
    assert row_counts(engine)[0] == 3
    with reading(engine) as connection:
        assert [item.outcome for item in results(connection, ResultFilter(tenant="default"), 10)] == ["pass"]
        assert [item.outcome for item in results(connection, ResultFilter(run="tuning"), 10)] == ["fail"]


def test_a_batch_that_fails_stores_nothing(engine: Engine) -> None:
    writer = StoreWriter(engine)
    broken = judged(2)
    broken.evaluations[0].outcome = "no such outcome"  # type: ignore[assignment]
    with pytest.raises(KeyError):
        writer.write([judged(1), broken])
    assert row_counts(engine) == [0, 0, 0, 0]
    writer.write([judged(1)])
    with reading(engine) as connection:
        assert len(results(connection, ResultFilter(), 10)) == 1, "series numbers given out in vain were forgotten"


def test_values_beyond_what_a_column_holds_are_stored(engine: Engine) -> None:
    """Integers beyond 64 bits, lone surrogates, NUL, and times that only an unsigned integer holds."""
    strange = tool_call(
        name="na\0me \ud800", arguments={"big": 2**70, "text": "\ud800"}, start_ns=2**64 - 1, end_ns=2**64 - 1
    )
    record = judged(1, tool_calls=[strange], service="shop\0", end_ns=2**64 - 1)
    StoreWriter(engine).write([record])
    with reading(engine) as connection:
        (stored,) = stored_traces(connection, bytes.fromhex(trace_id(1)))
        name, start_ns = connection.execute(text("SELECT name, start_ns FROM tool_calls")).one()
    assert stored.tool_calls == [tool_call_of(strange)]
    assert (name, start_ns) == ("na\N{REPLACEMENT CHARACTER}me ?", 2**63 - 1)


def test_numbers_of_deleted_traces_that_are_given_out_again_are_found_by_time(engine: Engine) -> None:
    writer = StoreWriter(engine)
    writer.write([judged(1), judged(2), judged(3)])
    writer.write([judged(number, revision=3) for number in (3, 2)])  # numbers 2 and 3 go, and come back exchanged
    for number in (2, 3):
        since_ns = START_NS + number * 60_000_000_000
        with reading(engine) as connection:
            found = results(connection, ResultFilter(since_ns=since_ns, until_ns=since_ns + 1), 10)
        assert [item.trace_id for item in found] == [trace_id(number)]


def test_the_view_for_people_reads_plainly(engine: Engine) -> None:
    StoreWriter(engine).write([judged(1, "fail")])
    with reading(engine) as connection:
        row = connection.execute(
            text("SELECT rule_id, evaluation, outcome, score, threshold, agent, service, trace_id, id FROM results")
        ).one()
    expected = evaluation(1, "fail")
    assert row == (
        "checkout-order",
        "tool-call-order",
        "fail",
        0.25,
        0.9,
        "support",
        "shop",
        trace_id(1),
        expected["id"],
    )


def test_two_writers_of_one_store_lose_nothing(engine: Engine, tmp_path: Path) -> None:
    other = open_store(engine.url.render_as_string(hide_password=False))
    first, second = StoreWriter(engine), StoreWriter(other)
    for number in range(6):
        (first if number % 2 else second).write([judged(number), judged(100 + number)])
    other.dispose()
    assert row_counts(engine) == [12, 12, 12, 12]


def test_a_judged_trace_is_not_changed_by_writing_it(engine: Engine) -> None:
    record = judged(1)
    before = replace(record)
    StoreWriter(engine).write([record])
    assert record == before == judged(1)


def test_the_views_show_each_evaluation_decision_and_call(engine: Engine) -> None:
    items = [evaluation(1), evaluation(1, "error", evaluation="args", case="c1")]
    record = judged(1, evaluations=items, tool_calls=[tool_call(), tool_call(error={"type": "E", "message": "no"})])
    StoreWriter(engine).write([record])
    with reading(engine) as connection:
        columns = "place, id, case_id, subject_id, outcome, score, time"
        evaluations = connection.execute(text(f"SELECT {columns} FROM evaluations ORDER BY place")).all()
        decisions = connection.execute(text("SELECT place, kind, outcome FROM decisions ORDER BY place")).all()
        calls = connection.execute(text("SELECT place, name, span_id, error_type FROM tool_calls ORDER BY place")).all()
    subject = items[0]["subject"]["id"]
    assert evaluations == [
        (0, items[0]["id"], None, subject, 0, 1.0, items[0]["time"]),
        (1, items[1]["id"], "c1", subject, 3, None, items[1]["time"]),
    ]
    assert decisions == [(0, 4, 3)]
    assert calls == [(0, "create_order", "00f067aa0ba902b8", None), (1, "create_order", "00f067aa0ba902b8", "E")]
