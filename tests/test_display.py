"""What people read: values, numbers and times."""

from build import each
from tracegrade.display import judged_score_text, took_text


@each(
    ("score", "threshold", "shown"),
    [
        (1.0, 1.0, "1"),
        (30000 / 30001, 1.0, "0.99997"),
        (0.79999, 0.8, "0.79999"),
        (0.8, 0.8, "0.8"),
        (2 / 3, 0.8, "0.6667"),
        (0.0, 0.5, "0"),
        (1 - 2**-53, 1.0, "0.9999999999999999"),
    ],
)
def test_a_score_is_shown_on_its_side_of_the_threshold(score: float, threshold: float, shown: str) -> None:
    assert judged_score_text(score, threshold) == shown


def test_what_has_no_end_did_not_end_before_it_began() -> None:
    assert took_text(1_795_491_955_000_000_000, 0) == "not ended"
    assert took_text(1_000_000, 13_000_000) == "12 ms"
    assert took_text(13_000_000, 1_000_000) == "-12 ms"  # clocks that disagree: both times were recorded
