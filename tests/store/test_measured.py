"""Tokens, costs and durations in the store: counted by rule and place, corrected by revisions, and no evaluations."""

from typing import Any

import pytest
from sqlalchemy import Engine, select

from build.judged_traces import START_NS, judged
from tracegrade.codec.results import decode_result, encode_result, new_result
from tracegrade.model.evaluation import Measure
from tracegrade.model.tally import Tally, total
from tracegrade.model.trace_result import TraceResult
from tracegrade.store.history import SeriesHistory, Window
from tracegrade.store.open import reading
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.results import results
from tracegrade.store.schema import series, traces
from tracegrade.store.series import recent_series
from tracegrade.store.tallies import ALL_SUMS, RATED_BY, tallies
from tracegrade.store.write import StoreWriter

HASH = "0123456789abcdef"
HOUR_NS = 3600 * 10**9


def measured(number: int, tokens: float | None, outcome: str = "pass", **changes: Any) -> TraceResult:
    """A judged trace of which tokens and its duration were measured."""
    found = judged(number, outcome, **changes)
    values: tuple[tuple[Measure, float | None], ...] = (("tokens", tokens), ("duration", 1.5))
    for decision in found.decisions:
        decision.measured = values
    return new_result(found.trace, found.spans, found.tool_calls, found.decisions)


def counted(engine: Engine, measure: str, *, count_incomplete: bool = False) -> Tally | None:
    with reading(engine) as connection:
        window = Window(measure, START_NS - HOUR_NS, START_NS + HOUR_NS, count_incomplete)
        found = SeriesHistory(connection, {HASH}).bins(window, by_minute=True).get("checkout-order", {})
    assert len(found) <= 1
    sums = [total(item.tally for item in bins) for bins in found.values()]
    return sums[0] if sums else None


def test_what_was_measured_survives_the_results_journal() -> None:
    record = measured(1, 12_000.0)
    assert decode_result(encode_result(record)).decisions[0].measured == (("tokens", 12_000.0), ("duration", 1.5))
    assert decode_result(encode_result(judged(1))).decisions[0].measured == ()


def test_values_are_summed_by_place_and_unknown_ones_counted_apart(engine: Engine) -> None:
    StoreWriter(engine).write([measured(1, 100.0), measured(2, 300.0, "fail"), measured(3, None), judged(4)])
    tokens = counted(engine, "tokens")
    assert tokens is not None
    assert (tokens.passed, tokens.failed, tokens.not_evaluable) == (2, 0, 1)
    assert (tokens.all_scores, tokens.all_score_squares) == (400.0, 100_000.0)
    duration = counted(engine, "duration")
    assert duration is not None
    assert (duration.passed, duration.all_scores) == (3, 4.5)
    assert counted(engine, "cost") is None


def test_a_revision_takes_back_what_the_one_before_it_counted(engine: Engine) -> None:
    writer = StoreWriter(engine)
    writer.write([measured(1, 100.0), measured(2, None)])
    writer.write([measured(1, 250.0, revision=3, supersedes=2), measured(2, 50.0, revision=3, supersedes=2)])
    tokens = counted(engine, "tokens")
    assert tokens is not None
    assert (tokens.passed, tokens.not_evaluable) == (2, 0)
    assert (tokens.all_scores, tokens.all_score_squares) == (300.0, 65_000.0)
    writer.write([judged(1, revision=4, supersedes=3), judged(2, revision=4, supersedes=3)])
    assert counted(engine, "tokens") is None


def test_a_value_that_was_kept_with_a_probability_stands_for_as_many_more(engine: Engine) -> None:
    record = measured(1, 100.0)
    for decision in record.decisions:
        decision.pair.probability = 0.25
    StoreWriter(engine).write([record])
    tokens = counted(engine, "tokens")
    assert tokens is not None
    assert (tokens.passed, tokens.all_passed, tokens.all_scores, tokens.judged_squares) == (1, 4.0, 400.0, 16.0)


def test_values_of_incomplete_traces_are_left_out_unless_they_count(engine: Engine) -> None:
    StoreWriter(engine).write([measured(1, 100.0, complete=False)])
    assert counted(engine, "tokens") is None
    assert counted(engine, "tokens", count_incomplete=True) is not None


def test_what_was_measured_is_no_evaluation(engine: Engine) -> None:
    StoreWriter(engine).write([measured(1, 100.0, "fail")])
    with reading(engine) as connection:
        names = set(connection.execute(select(series.c.evaluation)).scalars())
        found = results(connection, ResultFilter(), 100)
        of_both = tallies(connection, ResultFilter(), RATED_BY, of="both", summed=ALL_SUMS)
        over_time = tallies(connection, ResultFilter(), ("rule_id",))
        recent = recent_series(connection, START_NS, 100)
        (row,) = connection.execute(select(traces.c.decisions)).scalars()
    assert names == {"", "tool-call-order", "tokens", "duration"}
    assert [result.evaluation for result in found] == ["tool-call-order"]
    assert sorted(evaluation for _, _, evaluation, _ in of_both) == ["", "tool-call-order"]
    assert over_time["checkout-order",].results == 1
    assert [name for *_, name, _, _ in recent] == ["tool-call-order"]
    assert "100.0" in row


@pytest.mark.parametrize("view", ["decisions", "evaluations"])
def test_the_views_have_a_row_for_each_result_and_no_more(engine: Engine, view: str) -> None:
    StoreWriter(engine).write([measured(1, 100.0), judged(2)])
    with reading(engine) as connection:
        assert connection.exec_driver_sql(f"SELECT count(*) FROM {view}").scalar_one() == 2
