"""Expected calls assigned to calls made: by name, and by whatever an evaluator compares of them.

Worked example: two searches are expected, the first with any arguments, the second with ``q: Rome``; made were
``search(q: Rome)``, then ``search(q: Oslo)``.

- `pair_first` takes the expected calls in order. The first takes the first call, which fits. The second finds only the
  Oslo call, which does not: one of two.
- `pair_in_turn` compares the first with the first and the second with the second: one of two again.
- Where both calls start at the same time and no message tells them apart, nothing says which came first. `pair_first`
  then takes as many pairs as possible (`most_pairs`): the second expected call takes the Rome call, the first one the
  Oslo call: two of two.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, TypeVar

from tracegrade.evaluate.call_facts import names as names_of
from tracegrade.evaluate.call_facts import positions_by_name, positions_of
from tracegrade.evaluate.call_order import any_tied, of_equal_rank
from tracegrade.evaluate.compare.bipartite_matching import Fits, Matching
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

    Not the best assignment: a call taken early is not given back, unless the order in which they were made is unknown.

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
    if None in pairs and evidence.once(any_tied):
        return _pair_most(names, wanted, evidence, found, work)
    return pairs


def _pair_most(
    names: Sequence[str], wanted: Sequence[Matches[Found]], evidence: Evidence, found: ByPosition[Found], work: Work
) -> list[int | None]:
    """As many pairs as possible: what some order of tied calls gives, and the first that matches in that order."""
    pairs: list[int | None] = [None] * len(names)
    made = evidence.once(positions_by_name)
    for name, indexes in positions_of(names).items():
        positions = made.get(name, ())
        fits: list[dict[int, float]] = [{} for _ in positions]
        for rank, position in enumerate(positions):
            work.position = position
            for index in indexes:
                work.spend()
                if wanted[index](found[position], work):
                    fits[rank][index] = 1.0
        for index, rank in most_pairs(indexes, fits, work):
            pairs[index] = positions[rank]
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
) -> list[int | None]:
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
        for index, position in in_turn(indexes, of_equal_rank(evidence, made.get(name, ())), fit, work):
            pairs[index] = position
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
