from typing import Any

import pytest

from tracegrade.alert.detect.below import look_above, look_below
from tracegrade.alert.detect.finding import measure
from tracegrade.rule.alert import Alert
from tracegrade.rule.rule import Rule
from tracegrade.store.history import Outcomes, total

RULE = Rule.model_validate(
    {"id": "one", "evaluate": [{"evaluator": "tool-call-order", "name": "order", "tool_calls_order": ["a"]}]}
)
SAMPLED = RULE.model_copy(update={"sample": type(RULE.sample)(share=0.05, keep_failures=True)})


def alert(**fields: Any) -> Alert:
    return Alert.model_validate({"below": 0.9, "over": "1h", "min_samples": 10} | fields)


def outcomes(passed: int = 0, failed: int = 0, not_evaluable: int = 0, errors: int = 0, score: float = 0.0) -> Outcomes:
    """Unsampled; every score is `score`."""
    judged, other = passed + failed, not_evaluable + errors
    counts = (passed, failed, not_evaluable, errors)
    return Outcomes(*counts, *map(float, counts), judged * score, judged * score * score, judged, other)


def verdict(seen: Outcomes, **fields: Any) -> str:
    watched = alert(**fields)
    found = look_below(RULE, watched, 0.9, seen)
    if found is None:
        return "nothing"
    return found.verdict(found.p_value is not None and found.p_value <= 1 - watched.confidence)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (outcomes(5, 15), "holds"),
        # Wilson's upper bound at 99 %, one-sided: 0.9275 and 0.8950.
        (outcomes(16, 4), "between"),
        (outcomes(160, 40), "holds"),
        (outcomes(18, 2), "recovered"),  # exactly the bound is not below it
        (outcomes(20, 0), "recovered"),
        (outcomes(0, 9), "unknown"),  # too few
        (outcomes(9, 0), "unknown"),  # too few to resolve as well
        (outcomes(), "nothing"),
        (outcomes(0, 0, 50, 50), "nothing"),  # nothing judged is not a rate of zero
    ],
)
def test_a_pass_rate_is_below_when_even_its_upper_bound_is(seen: Outcomes, expected: str) -> None:
    assert verdict(seen) == expected


def test_it_is_resolved_only_at_the_rate_that_the_rule_names() -> None:
    assert verdict(outcomes(46, 4)) == "recovered"
    assert verdict(outcomes(46, 4), resolve_at=0.95) == "between"


def test_a_mean_score_is_judged_by_how_far_scores_lie_apart() -> None:
    """Half the scores 1, half 0.5: mean 0.75 either way, but alike scores tell more."""
    apart = Outcomes(100, 100, 0, 0, 100.0, 100.0, 0.0, 0.0, 150.0, 125.0, 200.0, 0.0)
    alike = outcomes(100, 100, score=0.75)
    found = [look_below(RULE, alert(of="order.score"), 0.9, seen) for seen in (apart, alike)]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0].value == found[1].value == pytest.approx(0.75)
    assert found[1].high < found[0].high < 0.9
    assert found[1].p_value is not None
    assert found[0].p_value is not None
    assert found[1].p_value < found[0].p_value < 0.01


def test_of_a_sample_that_keeps_every_fail_a_pass_stands_for_many() -> None:
    """95 passes at 5 % and 95 fails: 1,900 passes for 95 fails."""
    seen = Outcomes(95, 95, 0, 0, 1900.0, 95.0, 0.0, 0.0, 0.0, 0.0, 95 * 400 + 95, 0.0)
    found = look_below(SAMPLED, alert(), 0.9, seen)
    assert found is not None
    assert found.value == pytest.approx(1900 / 1995)
    assert found.low < 0.9524 < found.high
    assert found.p_value is not None
    assert found.p_value > 0.5


def test_of_such_a_sample_fails_alone_say_little() -> None:
    """At 5 %, 10 fails and no pass may be 10 fails among 60."""
    seen = Outcomes(0, 10, 0, 0, 0.0, 10.0, 0.0, 0.0, 0.0, 0.0, 10.0, 0.0)
    found = look_below(SAMPLED, alert(), 0.9, seen)
    assert found is not None
    assert found.high > 0.85
    unsampled = look_below(RULE, alert(), 0.9, seen)
    assert unsampled is not None
    assert unsampled.high < 0.5


@pytest.mark.parametrize(
    ("seen", "of", "expected"),
    [
        (outcomes(5, 5, 30), "not_evaluable", "holds"),
        (outcomes(5, 5, 0, 30), "not_evaluable", "recovered"),
        (outcomes(5, 5, 0, 30), "error", "holds"),
        (outcomes(17, 0, 3), "not_evaluable", "between"),
        (outcomes(3, 2, 4), "not_evaluable", "unknown"),
        (outcomes(57, 0, 3), "not_evaluable", "recovered"),
        (outcomes(54, 0, 6), "not_evaluable", "recovered"),  # exactly the bound is not above it
    ],
)
def test_shares_of_what_could_not_be_judged_are_watched_too(seen: Outcomes, of: str, expected: str) -> None:
    watched = alert(below=None, above=0.1, of=of)
    found = look_above(watched, 0.1, seen)
    assert found is not None
    assert found.verdict(found.p_value is not None and found.p_value <= 0.01) == expected


def test_a_share_is_resolved_only_at_the_one_that_the_rule_names() -> None:
    watched = alert(below=None, above=0.1, of="error", resolve_at=0.02)
    found = [look_above(watched, 0.1, outcomes(judged, 0, 0, 60 - judged)) for judged in (57, 59)]
    assert [item is not None and item.recovered for item in found] == [False, True]


def test_results_from_before_the_sample_was_edited_weigh_as_they_were_kept() -> None:
    """60 passes and 10 fails of all, then of one in ten that passes, and every fail: 60 and 10.

    Together 60 + 600 passes and 20 fails: 660 / 680, whatever the rule says of its sample by now.
    """
    every, kept = outcomes(60, 10), outcomes(60, 10)._replace(all_passed=600.0)
    both = total([every, kept])
    for rule in (RULE, SAMPLED):
        measured = measure(rule, alert(), both)
        assert measured is not None
        assert measured.value == pytest.approx(660 / 680)
