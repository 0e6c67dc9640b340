"""What differences say of rules: p-values that are adjusted, verdicts, and the exit code of all together.

Each family of rules has an adjustment of its own, so that ready-made rules do not weaken a user's own ones: they are in
force unless others are named, and many of them never fail. Among them, a rule of one's own would need several times as
much evidence.

Source: S. Holm, A simple sequentially rejective multiple test procedure, 1979.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from tracegrade.compare.shares import Difference
from tracegrade.rule.gate import MARGIN
from tracegrade.rule.load import ready_made_hash

Verdict: TypeAlias = Literal["worse", "worse_within_margin", "better", "not_worse", "cannot_tell"]

VERDICTS: tuple[Verdict, ...] = ("worse", "worse_within_margin", "better", "not_worse", "cannot_tell")
"""All verdicts, in the order in which they are counted."""

ALPHA = 0.05


Family: TypeAlias = Literal["own", "ready-made"]

FAMILIES: tuple[Family, ...] = ("own", "ready-made")


def family_of(rule_id: str, rule_hash: str) -> Family:
    """The family of a rule: a copy of a ready-made rule that judges otherwise is one's own."""
    return "ready-made" if ready_made_hash(rule_id) == rule_hash else "own"


def holm(values: Sequence[float]) -> list[float]:
    """The adjusted p-value of each of `values`, in their order.

    Of the rules whose adjusted value is at most 0.05, any is there by chance alone in at most 5 % of comparisons.
    """
    adjusted = [0.0] * len(values)
    largest = 0.0
    for rank, place in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        largest = max(largest, min(1.0, (len(values) - rank) * values[place]))
        adjusted[place] = largest
    return adjusted


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
