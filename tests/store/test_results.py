import pytest
from sqlalchemy import Engine

from build import each
from build.judged_traces import evaluation, judged, trace_id
from build.ten_traces import minute
from tracegrade.store import index
from tracegrade.store.heads import trace_heads
from tracegrade.store.open import reading
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.results import full_evaluations, results
from tracegrade.store.write import StoreWriter


@each(
    ("result_filter", "expected"),
    [
        (ResultFilter(), [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]),
        (ResultFilter(rule="checkout-order"), [9, 8, 7, 6, 5, 3, 2, 1, 0]),
        (ResultFilter(rule="refund-without-lookup"), [4]),
        (ResultFilter(rule="unknown"), []),
        (ResultFilter(outcome="fail"), [9, 7, 5, 3, 1]),
        (ResultFilter(outcome="pass"), [6, 4, 2, 0]),
        (ResultFilter(outcome="not_evaluable"), [8]),
        (ResultFilter(outcome="error"), []),
        (ResultFilter(rule="checkout-order", outcome="pass"), [6, 2, 0]),
        (ResultFilter(service="bank"), [4]),
        (ResultFilter(agent="support", outcome="fail", since_ns=minute(5)), [9, 7, 5]),
        (ResultFilter(since_ns=minute(8)), [9, 8]),
        (ResultFilter(until_ns=minute(2)), [1, 0]),
        (ResultFilter(since_ns=minute(3) + 1, until_ns=minute(5) + 1), [5, 4]),
        (ResultFilter(since_ns=minute(10)), []),
        (ResultFilter(trace_id=bytes.fromhex(trace_id(3))), [3]),
        (ResultFilter(trace_id=bytes.fromhex(trace_id(77))), []),
        (ResultFilter(tenant="other"), []),
        (ResultFilter(run="tuning"), []),
    ],
)
@each("searched_series", [1000, 0], ids=["by series", "by outcome alone"])
def test_filters_let_through_what_they_say_newest_first(
    filled: Engine,
    monkeypatch: pytest.MonkeyPatch,
    result_filter: ResultFilter,
    expected: list[int],
    searched_series: int,
) -> None:
    monkeypatch.setattr(index, "_MAX_SEARCHED_SERIES", searched_series)
    with reading(filled) as connection:
        found = results(connection, result_filter, 100)
    assert [int(result.trace_id, 16) for result in found] == expected


def test_pages_follow_one_another(filled: Engine) -> None:
    result_filter = ResultFilter(outcome="fail")
    with reading(filled) as connection:
        first = results(connection, result_filter, 2)
        second = results(connection, result_filter, 9, before=(first[-1].number, first[-1].place))
    assert [int(result.trace_id, 16) for result in (*first, *second)] == [9, 7, 5, 3, 1]


def test_the_full_evaluation_is_the_one_that_was_delivered(filled: Engine) -> None:
    with reading(filled) as connection:
        found = results(connection, ResultFilter(outcome="fail"), 3)
        full = [item.to_json() for item in full_evaluations(connection, found)]
        assert full == [evaluation(number, "fail") for number in (9, 7, 5)]


def test_a_result_without_values_agrees_with_the_full_one(filled: Engine) -> None:
    with reading(filled) as connection:
        found = results(connection, ResultFilter(), 100)
        for result, item in zip(found, full_evaluations(connection, found), strict=True):
            assert (result.outcome, result.score, result.threshold, result.level, result.time, result.complete) == (
                item.outcome,
                item.score,
                item.threshold,
                item.pair.level,
                item.subject.time,
                item.subject.complete,
            )
            assert (result.subject_kind, result.subject_id) == (item.subject.kind, item.subject.id)


@each(
    ("result_filter", "expected"),
    [
        (ResultFilter(), [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]),
        (ResultFilter(service="bank"), [4]),
        (ResultFilter(agent="billing"), [4]),
        (ResultFilter(rule="checkout-order", outcome="fail"), [9, 7, 5, 3, 1]),
        (ResultFilter(rule="refund-without-lookup", outcome="fail"), []),
        (ResultFilter(since_ns=minute(8)), [9, 8]),
        (ResultFilter(until_ns=minute(1)), [0]),
        (ResultFilter(since_ns=minute(99)), []),
        (ResultFilter(trace_id=bytes.fromhex(trace_id(3))), [3]),
    ],
)
def test_traces_are_filtered_likewise(filled: Engine, result_filter: ResultFilter, expected: list[int]) -> None:
    with reading(filled) as connection:
        assert [int(head.trace_id, 16) for head in trace_heads(connection, result_filter, 100)] == expected


def test_a_trace_head_counts_its_outcomes(engine: Engine) -> None:
    items = [evaluation(1, "pass"), evaluation(1, "fail", evaluation="args"), evaluation(1, "pass", evaluation="count")]
    StoreWriter(engine).write([judged(1, evaluations=items)])
    with reading(engine) as connection:
        (head,) = trace_heads(connection, ResultFilter(), 10)
    assert head.outcomes == {"pass": 2, "fail": 1}


def test_few_among_many_are_found_wherever_they_are(engine: Engine) -> None:
    """Further back than the first windows of blocks reach, on both sides of a block's border."""
    rare = {0, 63, 64, 700, 2500}
    writer = StoreWriter(engine)
    for start in range(0, 3000, 500):
        writer.write([judged(n, "error" if n in rare else "pass") for n in range(start, start + 500)])
    with reading(engine) as connection:
        found = results(connection, ResultFilter(outcome="error"), 10)
        heads = trace_heads(connection, ResultFilter(outcome="error"), 3)
        rest = trace_heads(connection, ResultFilter(outcome="error"), 3, before=heads[-1].number)
    assert [int(result.trace_id, 16) for result in found] == sorted(rare, reverse=True)
    assert [int(head.trace_id, 16) for head in (*heads, *rest)] == sorted(rare, reverse=True)


def test_more_traces_than_one_query_takes_are_all_listed(engine: Engine) -> None:
    StoreWriter(engine).write([judged(number) for number in range(1201)])
    with reading(engine) as connection:
        heads = trace_heads(connection, ResultFilter(outcome="pass"), 1101)
    assert [int(head.trace_id, 16) for head in heads] == list(range(1200, 99, -1))
