"""Expected calls that one call may meet, though they do not expect the same: a scan may give it to the wrong one.

All that is said of two matchers is that some value may meet both; only where one of the two is literal is it asked.
"""

import math
from collections.abc import Callable, Sequence

from tracegrade.evaluate.call_facts import positions_of
from tracegrade.evaluate.criteria.data_flow import FromMatcher
from tracegrade.evaluate.criteria.expected import Expected, ExpectedList, ExpectedObject, LiteralValue, every_part
from tracegrade.evaluate.json_values import json_equal
from tracegrade.evaluate.work import Work


def first_contended(names: Sequence[str], contend: Callable[[int, int], bool]) -> tuple[int, int] | None:
    """The first two expected calls of one name that `contend`, by their indexes; None where none do."""
    return next(
        (
            (one, other)
            for indexes in positions_of(names).values()
            for place, other in enumerate(indexes)
            for one in indexes[:place]
            if contend(one, other)
        ),
        None,
    )


def may_contend(one: Expected, other: Expected, *, partly: bool = False) -> bool:
    """Whether one value may be what both expect, who do not expect the same; `partly`: further members are free."""
    return not same(one, other) and may_meet(one, other, partly=partly)


def may_contend_in_part(one: ExpectedObject, other: ExpectedObject, least: float) -> bool:
    """The same where it is enough to have that share of the expected members."""
    if same(one, other):
        return False
    if not one.members or not other.members:
        return least <= 0.5  # what some arguments are worth where none are expected
    shared = one.members.keys() & other.members.keys()
    against = sum(not may_meet(one.members[key], other.members[key]) for key in shared)
    needed = 0
    for members in (one.members, other.members):
        enough = max(1, math.ceil(least * len(members) - 1e-9))
        needed += max(0, enough - (len(members) - against))
    return needed <= against


def same(one: Expected, other: Expected) -> bool:
    """Whether both expect the same, as far as it is written the same."""
    return json_equal(one.source, other.source, Work())


def may_meet(one: Expected, other: Expected, *, partly: bool = False) -> bool:
    """Whether one value may be what both expect; `partly`: further members are free."""
    one, other = one.opened(), other.opened()
    if isinstance(one, ExpectedObject) and isinstance(other, ExpectedObject):
        for key in one.members.keys() | other.members.keys():
            if key in one.members and key in other.members:
                if not may_meet(one.members[key], other.members[key]):
                    return False
            elif not partly and not (one.members.get(key) or other.members[key]).optional:
                return False
        return True
    if isinstance(one, ExpectedList) and isinstance(other, ExpectedList):
        return len(one.items) == len(other.items) and all(
            may_meet(each, of_other) for each, of_other in zip(one.items, other.items, strict=True)
        )
    for literal, expected in ((one, other), (other, one)):
        if isinstance(literal, LiteralValue) and not any(
            isinstance(part, FromMatcher) for part in every_part(expected)
        ):
            return expected.matches(literal.source, Work())
    return True
