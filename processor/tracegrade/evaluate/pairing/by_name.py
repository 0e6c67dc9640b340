"""Expected calls assigned to calls made: by name, and by whatever an evaluator compares of them.

Worked example: two searches are expected, the first with any arguments, the second with ``q: Rome``; made were
``search(q: Rome)``, then ``search(q: Oslo)``.

- `pair_best` pairs as many as possible: the first takes the Oslo call, the second the Rome call: two of two.
- `pair_first` takes the expected calls in order. The first takes the first call, which fits. The second finds only the
  Oslo call, which does not: one of two. Where both calls start at the same time and no message tells them apart,
  nothing says which came first, and it does as `pair_best`.
- `pair_in_turn` compares the first with the first and the second with the second: one of two again.

Expected calls *contend* where one call may meet both, though they do not expect the same: a scan may give it to the
wrong one. Of two matchers no more is known than that some value may meet both, unless one of the two is literal.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from tracegrade.evaluate.call_facts import names as names_of
from tracegrade.evaluate.call_facts import positions_by_name, positions_of
from tracegrade.evaluate.criteria.data_flow import FromMatcher
from tracegrade.evaluate.criteria.expected import Expected, ExpectedList, ExpectedObject, LiteralValue, every_part
from tracegrade.evaluate.criteria.parameters import ParameterModel
from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.evidence import Evidence
from tracegrade.evaluate.json_values import json_equal
from tracegrade.evaluate.pairing.best import most_pairs_after
from tracegrade.evaluate.pairing.in_order import Fits, Matching
from tracegrade.evaluate.timeline import Timeline
from tracegrade.evaluate.work import WORK_LIMIT, Work
from tracegrade.model.evaluation import Pairing

Found = TypeVar("Found")
_Held = TypeVar("_Held", covariant=True)

# Whether what was found is what was expected; counts at least one step of work.
Matches: TypeAlias = Callable[[Found, Work], bool]


class ByPosition(Protocol[_Held]):
    """What was found of each call, by its position."""

    def __getitem__(self, position: int, /) -> _Held: ...


# Of all steps at least this part may be spent after a scan.
_LEAST_AFTER_SCAN = 5
# Why there may be more pairs than were found.
TOO_MANY = (
    f"it takes more than {WORK_LIMIT} steps to see whether more of the calls made are as expected; "
    "expect fewer calls of one tool, or judge a smaller subject (scope: agent, or tool-call)"
)


# The names of the expected calls and what each matches, the calls made and what was found of each.
Pair: TypeAlias = Callable[[Sequence[str], Sequence[Matches[Found]], Evidence, ByPosition[Found], Work], Pairing]

PairingWord: TypeAlias = Literal["first", "best", "positional"]


def pairing_in_force(written: PairingWord | None, criteria: ParameterModel) -> PairingWord:
    """How calls are paired by evaluators whose originals scan: so where nothing is expected that those do not know."""
    return written or ("first" if criteria.is_literal else "best")


def in_step(
    names: Sequence[str],
    wanted: Sequence[Matches[Found]],
    evidence: Evidence,
    found: ByPosition[Found],
    *,
    optimistic: bool,
    steps: int,
) -> Work | None:
    """Whether the calls made are as expected one by one, and no others: soon seen, and so it is mostly.

    Then all that pair by name and by what matches, in order, pair so, too.

    Args:
        names: of the expected calls.
        wanted: what each matches.
        evidence: the calls made.
        found: what was found of each.
        optimistic: whether what is unknown counts as what was expected.
        steps: as many for each call as the pairing counts that this stands for, beside what is compared.

    Returns:
        The work of seeing it; None where they are not.

    Raises:
        EvaluatorError: ``work_bound``.
    """
    if evidence.once(names_of) != names:
        return None
    work = Work(evidence=evidence, optimistic=optimistic)
    for position, matches in enumerate(wanted):
        work.left -= steps
        work.position = position
        if not matches(found[position], work):
            return None
    return work


def pair_first(
    names: Sequence[str], wanted: Sequence[Matches[Found]], evidence: Evidence, found: ByPosition[Found], work: Work
) -> Pairing:
    """For each expected call in order, the first unused call of its name that it matches; None where none does.

    A call taken early is not given back, unless the order in which the calls were made is unknown.

    Raises:
        EvaluatorError: ``work_bound``.
    """
    if evidence.once(Timeline).has_ties:
        pairing = pair_best(names, wanted, evidence, found, work)
    else:
        pairing = Pairing(_scan(names, wanted, evidence, found, work))
    if len(names) > 1 and len({*names}) < len(names):
        work.unbind()
    return pairing


def pair_best(
    names: Sequence[str], wanted: Sequence[Matches[Found]], evidence: Evidence, found: ByPosition[Found], work: Work
) -> Pairing:
    """As many expected calls as possible, each paired with a call of its name that it matches.

    Of the pairings that have most pairs the one that gives the first expected call its earliest call, then the second,
    and so on. The calls of a name are looked at again only where the scan of `pair_first` leaves one without a call.

    Raises:
        EvaluatorError: ``work_bound``, by the scan.
    """
    pairs = _scan(names, wanted, evidence, found, work)
    if None not in pairs:
        return Pairing(pairs)
    again = after_scan(work, evidence)

    def fits(index: int, position: int) -> bool:
        again.spend()
        again.position = position
        return wanted[index](found[position], again)

    made = evidence.once(positions_by_name)
    groups = ((indexes, [made.get(name, ())] * len(indexes)) for name, indexes in positions_of(names).items())
    return Pairing(pairs, more=sum(improve(pairs, indexes, candidates, fits, again) for indexes, candidates in groups))


def after_scan(work: Work, evidence: Evidence) -> Work:
    """What may be spent on better pairs than those of a scan, even if it has spent all of `work`."""
    limit = max(work.left, work.limit // _LEAST_AFTER_SCAN)
    return Work(limit, evidence, within=work, optimistic=work.optimistic)


def improve(
    pairs: list[int | None],
    indexes: Sequence[int],
    candidates: Sequence[Sequence[int]],
    fits: Callable[[int, int], bool],
    work: Work,
) -> int:
    """Pair as many of the expected calls `indexes` as possible, where a scan left some without a call.

    Args:
        pairs: of the scan; changed where there are more.
        indexes: expected calls that no other one shares candidates with.
        candidates: of each of them the positions of the calls that have its name, ascending.
        fits: whether the call at a position fits an expected call.
        work: what may be spent on it.

    Returns:
        How many more pairs there may be, where all of `work` was spent.
    """
    scanned = [pairs[index] for index in indexes]
    paired = len(indexes) - scanned.count(None)
    lists = {id(some): some for some in candidates}.values()  # mostly one
    most = min(len(indexes), len({position for some in lists for position in some}))
    if paired == most:
        return 0
    try:
        found = most_pairs_after(scanned, candidates, lambda place, position: fits(indexes[place], position), work)
    except EvaluatorError:
        return most - paired
    for index, position in zip(indexes, found, strict=True):
        pairs[index] = position
    return 0


def scan(
    candidates: Sequence[Sequence[int]], fit: Callable[[int, int], float], work: Work
) -> tuple[list[int | None], list[float]]:
    """Pair each one in order with the candidate left that fits it best, the earliest of equals; none is given back.

    Args:
        candidates: of each the positions that it may be paired with, in their order.
        fit: what the pair of one and a position is worth, 0 (no pair) to 1; none fits better than 1.
        work: counts the steps of passing over what was taken; `fit` counts its own.

    Returns:
        For each the position, None for none, and what the pair is worth.

    Raises:
        EvaluatorError: ``work_bound``, by `fit`.
    """
    left: dict[int, list[int]] = {}
    used: set[int] = set()
    pairs: list[int | None] = []
    worths: list[float] = []
    for index, positions in enumerate(candidates):
        if (free := left.get(id(positions))) is None:
            free = left[id(positions)] = list(positions)
        best, best_worth = None, 0.0
        for position in free:
            if position in used:  # by one of other candidates
                work.spend()
            elif (worth := fit(index, position)) > best_worth:
                best, best_worth = position, worth
                if worth == 1.0:
                    break
        if best is not None:
            used.add(best)
            free.remove(best)
        pairs.append(best)
        worths.append(best_worth)
    return pairs, worths


def _scan(
    names: Sequence[str], wanted: Sequence[Matches[Found]], evidence: Evidence, found: ByPosition[Found], work: Work
) -> list[int | None]:
    """For each expected call in order, the first unused call of its name that it matches; None where none does."""
    made = evidence.once(positions_by_name)
    left: dict[str, list[int]] = {}
    pairs: list[int | None] = []
    for name, matches in zip(names, wanted, strict=True):
        if (free := left.get(name)) is None:
            free = left[name] = [*made.get(name, ())]
        pair = None
        for place, position in enumerate(free):
            work.left -= 1  # the bound is asked for by what follows
            work.position = position
            if matches(found[position], work):
                pair = position
                del free[place]
                break
        pairs.append(pair)
    return pairs


def most_pairs(indexes: Sequence[int], fits: Sequence[Fits], work: Work) -> list[tuple[int, int]]:
    """As many of `indexes` as possible paired with calls that fit them, each once: (index, place in `fits`).

    Raises:
        EvaluatorError: ``work_bound``.
    """
    matching = Matching(fits, work)
    for index in indexes:
        matching.add(index)
    return sorted(matching.member_of.items())


def in_turn(
    indexes: Sequence[int], groups: Sequence[Sequence[int]], fit: Callable[[int, int], float], work: Work
) -> list[tuple[int, int]]:
    """Expected calls paired with calls made, the second with the second, in the best order inside each group.

    Args:
        indexes: the expected calls, ascending.
        groups: positions of the calls made, grouped where their order is unknown.
        fit: what the call at a position is worth as the expected one; 0 when it does not fit.
        work: as everywhere.

    Returns:
        (index, position) of those that fit.

    Raises:
        EvaluatorError: ``work_bound``.
    """
    pairs: list[tuple[int, int]] = []
    start = 0
    for group in groups:
        window = indexes[start : start + len(group)]
        start += len(group)
        if not window:
            break
        if len(group) == 1:
            if fit(window[0], group[0]):
                pairs.append((window[0], group[0]))
            continue
        fits = [{index: worth for index in window if (worth := fit(index, position))} for position in group]
        pairs += [(index, group[member]) for index, member in most_pairs(window, fits, work)]
    return pairs


def pair_in_turn(
    names: Sequence[str], wanted: Sequence[Matches[Found]], evidence: Evidence, found: ByPosition[Found], work: Work
) -> Pairing:
    """For each expected call, the call of its name of the same rank (the second with the second), if it matches it.

    Raises:
        EvaluatorError: ``work_bound``.
    """
    made = evidence.once(positions_by_name)
    pairs: list[int | None] = [None] * len(names)

    def fit(index: int, position: int) -> float:
        work.spend()
        work.position = position
        return float(wanted[index](found[position], work))

    for name, indexes in positions_of(names).items():
        for index, position in in_turn(indexes, evidence.once(Timeline).ranks(made.get(name, ())), fit, work):
            pairs[index] = position
    return Pairing(pairs)


PAIRINGS: dict[PairingWord, Pair[Any]] = {"first": pair_first, "best": pair_best, "positional": pair_in_turn}


def with_next_unused(candidates: Sequence[Sequence[int]], pairs: Sequence[int | None]) -> list[int | None]:
    """`pairs`, and for each unpaired expected call the next of its candidates that nothing was paired with.

    That is the call a reader wants to see beside the expectation that it failed.
    """
    shown = list(pairs)
    if None not in shown:
        return shown
    used = {position for position in shown if position is not None}
    turns: dict[int, Iterator[int]] = {}
    for index, positions in enumerate(candidates):
        if shown[index] is None:
            turn = turns.setdefault(id(positions), iter(positions))
            at = shown[index] = next((position for position in turn if position not in used), None)
            if at is not None:
                used.add(at)
    return shown


def candidates_by_name(names: Sequence[str], evidence: Evidence) -> list[Sequence[int]]:
    """For each expected call the positions of the calls of its name, in order; those of one name share a list."""
    made = evidence.once(positions_by_name)
    return [made.get(name, ()) for name in names]


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
            return expected.accepts(literal.source, Work())
    return True
