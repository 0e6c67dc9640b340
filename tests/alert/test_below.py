import pytest

from tracegrade.alert.below import is_below
from tracegrade.match.rule import BelowAlert
from tracegrade.store.rates import Rate

ALERT = BelowAlert(below=0.9, over=3600.0, min_samples=10)


def rate(passed: int, failed: int, **others: int) -> Rate:
    counts = {"not_evaluable": 0, "errors": 0, "incomplete": 0} | others
    return Rate("default", "rule", "", "shop", passed, failed, **counts, score_sum=0.0, passes=passed, fails=failed)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (rate(8, 2), True),
        (rate(9, 1), False),  # exactly the bound is not below it
        (rate(10, 0), False),
        (rate(0, 10), True),
        (rate(0, 9), None),  # too few
        (rate(0, 0), None),
        (rate(0, 0, not_evaluable=50, errors=50), None),  # nothing judged is not a rate of zero
        (rate(5, 4, incomplete=50), None),
        (None, None),
    ],
)
def test_the_share_of_passes_is_compared_with_the_bound(seen: Rate | None, expected: bool | None) -> None:
    assert is_below(ALERT, seen) is expected
