"""Expected calls paired with calls made: by name, and by whatever an evaluator compares of them."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, TypeVar

from tracegrade.evaluate.calls import names as names_of
from tracegrade.evaluate.calls import positions_by_name
from tracegrade.evaluate.evidence import Evidence
from tracegrade.evaluate.work import Work

Found = TypeVar("Found")
_Held = TypeVar("_Held", covariant=True)

# Whether what was found is what was expected; counts at least one step of work.
Matches: TypeAlias = Callable[[Found, Work], bool]


class ByPosition(Protocol[_Held]):
    """What was found of each call, by its position."""

    def __getitem__(self, position: int, /) -> _Held: ...


# The names of the expected calls and what each matches, the calls made and what was found of each.
Pairing: TypeAlias = Callable[
    [Sequence[str], Sequence[Matches[Found]], Evidence, ByPosition[Found], Work], list[int | None]
]


def in_step(
    names: Sequence[str],
    wanted: Sequence[Matches[Found]],
    evidence: Evidence,
    found: ByPosition[Found],
    work: Work,
    *,
    steps: int,
) -> bool:
    """Whether the calls made are as expected one by one, and no others: soon seen, and so it is mostly.

    Then all that pair by name and by what matches, in order, pair so, too.

    Args:
        names: of the expected calls.
        wanted: what each matches.
        evidence: the calls made.
        found: what was found of each.
        work: counts what is compared, and `steps` for each call beside.
        steps: as many as the pairing counts that this stands for.

    Raises:
        EvaluatorError: ``work_bound``.
    """
    if evidence.once(names_of) != names:
        return False
    for position, matches in enumerate(wanted):
        work.left -= steps
        work.position = position
        if not matches(found[position], work):
            return False
    return True


def pair_first(
    names: Sequence[str], wanted: Sequence[Matches[Found]], evidence: Evidence, found: ByPosition[Found], work: Work
) -> list[int | None]:
    """For each expected call in order, the first unused call of its name that it matches; None where none does.

    Not the best assignment: a call taken early is not given back.

    Raises:
        EvaluatorError: ``work_bound``.
    """
    made = evidence.once(positions_by_name)
    free: dict[str, list[int]] = {}
    pairs: list[int | None] = []
    for name, matches in zip(names, wanted, strict=True):
        if (candidates := free.get(name)) is None:
            candidates = free[name] = list(made.get(name, ()))
        paired = None
        for position in candidates:
            work.left -= 1  # the bound is asked for by what follows
            work.position = position
            if matches(found[position], work):
                paired = position
                candidates.remove(position)
                break
        pairs.append(paired)
    return pairs


def pair_in_turn(
    names: Sequence[str], wanted: Sequence[Matches[Found]], evidence: Evidence, found: ByPosition[Found], work: Work
) -> list[int | None]:
    """For each expected call, the call of its name of the same rank (the second with the second), if it matches it.

    Raises:
        EvaluatorError: ``work_bound``.
    """
    by_name = evidence.once(positions_by_name)
    turns = dict.fromkeys(names, 0)
    pairs: list[int | None] = []
    for name, matches in zip(names, wanted, strict=True):
        work.spend()
        positions, turn = by_name.get(name, []), turns[name]
        turns[name] += 1
        work.position = position = positions[turn] if turn < len(positions) else None
        pairs.append(position if position is not None and matches(found[position], work) else None)
    return pairs


def nearest_unpaired(names: Sequence[str], evidence: Evidence, pairs: Sequence[int | None]) -> list[int | None]:
    """`pairs`, and for each unpaired expected call the next call of its name that nothing was paired with.

    That is the call a reader wants to see beside the expectation that it failed.
    """
    used = {position for position in pairs if position is not None}
    left = {
        name: [position for position in positions if position not in used]
        for name, positions in evidence.once(positions_by_name).items()
    }
    shown: list[int | None] = []
    for name, position in zip(names, pairs, strict=True):
        if position is None and (rest := left.get(name)):
            position = rest.pop(0)
        shown.append(position)
    return shown
