"""Expected calls paired with calls made: by name, and by whatever an evaluator compares of them."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tracegrade.evaluate.calls import positions_by_name
from tracegrade.evaluate.evaluator import Evidence
from tracegrade.evaluate.work import Work

# Whether the expected call at the first position is satisfied by the call at the second.
Satisfied: TypeAlias = Callable[[int, int], bool]
Pairing: TypeAlias = Callable[[Sequence[str], Evidence, Satisfied, Work], list[int | None]]


def pair_first(names: Sequence[str], evidence: Evidence, satisfied: Satisfied, work: Work) -> list[int | None]:
    """For each expected call in order, the first unused call of its name that satisfies it; None where none does.

    Not the best assignment: a call taken early is not given back.

    Raises:
        EvaluatorError: ``work_bound``.
    """
    made = evidence.once(positions_by_name)
    free: dict[str, list[int]] = {}
    pairs: list[int | None] = []
    for index, name in enumerate(names):
        if (candidates := free.get(name)) is None:
            candidates = free[name] = list(made.get(name, ()))
        found = None
        for rank, position in enumerate(candidates):
            work.spend()
            work.position = position
            if satisfied(index, position):
                found = position
                del candidates[rank]
                break
        pairs.append(found)
    return pairs


def pair_in_turn(names: Sequence[str], evidence: Evidence, satisfied: Satisfied, work: Work) -> list[int | None]:
    """For each expected call, the call of its name of the same rank (the second with the second), if it satisfies it.

    Raises:
        EvaluatorError: ``work_bound``.
    """
    by_name = evidence.once(positions_by_name)
    turns = dict.fromkeys(names, 0)
    pairs: list[int | None] = []
    for index, name in enumerate(names):
        work.spend()
        positions, turn = by_name.get(name, []), turns[name]
        turns[name] += 1
        work.position = position = positions[turn] if turn < len(positions) else None
        pairs.append(position if position is not None and satisfied(index, position) else None)
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
