"""What a difference says of a rule, and the exit code of all rules together."""

from collections.abc import Iterable
from typing import Literal, TypeAlias

from tracegrade.compare.shares import Difference
from tracegrade.rule.gate import MARGIN

Verdict: TypeAlias = Literal["worse", "worse_within_margin", "better", "not_worse", "cannot_tell"]

VERDICTS: tuple[Verdict, ...] = ("worse", "worse_within_margin", "better", "not_worse", "cannot_tell")
"""All verdicts, in the order in which they are counted."""

ALPHA = 0.05


def verdict(difference: Difference | None, adjusted_p: float, margin: float = MARGIN) -> Verdict:
    """What the difference of one rule says; without one, nothing can be told.

    Args:
        difference: with its unadjusted 95 % interval.
        adjusted_p: its p-value, adjusted over the rules of its family.
        margin: by so much the pass rate may fall before it matters, 0..1.
    """
    if difference is None:
        return "cannot_tell"
    stays_within = difference.low > -margin
    if adjusted_p <= ALPHA and difference.value < 0:
        return "worse_within_margin" if stays_within else "worse"
    if adjusted_p <= ALPHA and difference.value > 0:
        return "better"
    return "not_worse" if stays_within else "cannot_tell"


def is_failure(word: Verdict, *, allow_within_margin: bool = False) -> bool:
    """Whether a verdict ends a comparison with 1."""
    return word == "worse" or (word == "worse_within_margin" and not allow_within_margin)


def exit_code(verdicts: Iterable[Verdict], *, allow_within_margin: bool = False) -> int:
    """1 when any rule is worse, else 3 when of any nothing can be told or there is none, else 0.

    With `allow_within_margin`, a rule that is worse within the margin is not counted as worse.
    """
    found = set(verdicts)
    if any(is_failure(word, allow_within_margin=allow_within_margin) for word in found):
        return 1
    return 3 if "cannot_tell" in found or not found else 0
