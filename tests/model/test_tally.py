"""The one count of outcomes, worked by hand."""

import pytest

from tracegrade.model.evaluation import OUTCOMES
from tracegrade.model.tally import NO_RESULTS, Tally, Weighted, total


def test_a_result_kept_with_the_chance_of_a_quarter_stands_for_four_subjects() -> None:
    """Three passes and a fail at 1/4, one fail that is always kept: 12 of 17 pass."""
    found = total([Tally.of(3, 1, 0, 0, weight=4.0), Tally.one("fail")])
    assert (found.passed, found.failed, found.all_passed, found.all_failed) == (3, 2, 12.0, 5.0)
    assert found.pass_rate == 12 / 17
    assert (found.passes, found.fails) == (Weighted(3, 12.0, 48.0), Weighted(2, 5.0, 17.0))
    assert found.fails.effective == pytest.approx(25 / 17)
    assert (found.judged_squares, found.squares) == (65.0, 65.0)


def test_one_result_is_counted_by_its_outcome_alone() -> None:
    for place, outcome in enumerate(OUTCOMES):
        one = Tally.one(outcome, 0.5)
        assert one[:8] == tuple(int(place == at) * weight for weight in (1, 2.0) for at in range(4))
        assert [type(number) for number in one[:4]] == [int] * 4  # JSON would say true for a bool


def test_scores_are_summed_as_stored_and_by_weight() -> None:
    found = Tally.of(2, 0, 1, 0, 1.5, 1.25, weight=2.0).plus(Tally.of(0, 1, 0, 0, 0.5, 0.25))
    assert (found.score_sum, found.all_scores, found.all_score_squares) == (2.0, 3.5, 2.75)
    assert (found.passed_squares, found.failed_squares, found.other_squares) == (8.0, 1.0, 4.0)
    assert (found.all_judged, found.all_results) == (5.0, 7.0)


def test_results_of_incomplete_traces_are_in_no_other_number() -> None:
    counts = Tally.of(4, 3, 2, 1, 9.0)
    assert counts.counted(counts=True) == counts
    assert counts.counted(counts=False) == Tally(incomplete=10)
    assert counts.counted(counts=False, backfilled=True).backfilled == 0
    assert counts.counted(counts=True, backfilled=True) == counts._replace(backfilled=10)
    both = counts.plus(counts.counted(counts=False))
    assert (both.results, both.subjects) == (10, 20)


def test_a_count_that_a_revision_took_below_zero_is_none() -> None:
    """Retention deletes counts that a later revision then subtracts."""
    assert Tally.of(2, -1, 0, 0, weight=2.0) == Tally.of(2, 0, 0, 0, weight=2.0)


def test_nothing_has_no_rate() -> None:
    assert total([]) == NO_RESULTS == Tally.of(0, 0, 0, 0)
    assert (NO_RESULTS.pass_rate, NO_RESULTS.interval, NO_RESULTS.coverage) == (None, None, None)
    assert Tally.of(0, 0, 3, 0).coverage == 0.0
