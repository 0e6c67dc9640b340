"""What was expected aligned with what happened, where some of it happened together.

What happened comes as groups of calls: a group of one is a call of its own, the calls of a larger group have no order
among themselves and take the best one. A call is described by its *fits*: the positions of what is expected that it can
stand for, ascending, and what it is then worth (above 0, at most 1).

Worked example of `align`: expected are a b c b, at the positions 0 to 3. Made were b, then a and c together, then b.
The rows hold the most that the groups so far are worth of the first 0, 1, ... 4 expected::

    before any call      0 0 0 0 0
    b fits 1 and 3       0 0 1 1 1    of "a b" one is had
    a, c fit 0 and 2     0 1 1 2 2    both of "a b c", or c after the first b: two either way
    b fits 1 and 3       0 1 2 2 3    the b at position 3, after "a b c"

The last cell is the answer: three. The way back reads which: b is the one at position 3, and the group's c the one at
position 2 with its a at position 0, so the first b was paired with nothing. Walking back prefers the latest group that
was worth something; where several alignments are worth the same, that is the one shown.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TypeAlias

from tracegrade.evaluate.call_facts import positions_of
from tracegrade.evaluate.work import Work

Fits: TypeAlias = Mapping[int, float]
Groups: TypeAlias = Sequence[Sequence[int]]
FitGroups: TypeAlias = Sequence[Sequence[Fits]]


class Matching:
    """Calls without order paired with what is expected, as many as possible; each once.

    ``member_of`` is the call paired with an expected position. Grown one expected position at a time along augmenting
    paths: what was paired stays paired, perhaps with another call.
    """

    __slots__ = ("_group", "_index_of", "_work", "member_of")

    def __init__(self, group: Sequence[Fits], work: Work) -> None:
        self._group = group
        self._index_of: dict[int, int] = {}
        self._work = work
        self.member_of: dict[int, int] = {}

    @property
    def worth(self) -> float:
        """What the pairs are worth together."""
        return sum(self._group[member][index] for index, member in self.member_of.items())

    def add(self, index: int) -> bool:
        """Pair the expected position too, if some call is left for it or can be freed."""
        # Breadth first: each call is visited once, and no recursion goes deeper than Python's.
        came_from: dict[int, int] = {}
        queue = [index]
        for wanted in queue:
            self._work.spend(len(self._group))
            members = [m for m, fits in enumerate(self._group) if m not in came_from and wanted in fits]
            members.sort(key=lambda m: -self._group[m][wanted])
            for member in members:
                came_from[member] = wanted
                if member not in self._index_of:
                    self._flip(member, index, came_from)
                    return True
                queue.append(self._index_of[member])
        return False

    def _flip(self, member: int, index: int, came_from: Mapping[int, int]) -> None:
        while True:
            wanted = came_from[member]
            freed = self.member_of.get(wanted)
            self.member_of[wanted] = member
            self._index_of[member] = wanted
            if wanted == index or freed is None:
                return
            member = freed


class ExpectedOrder:
    """Names in the order expected, and where each stands: as what a call of it fits, and as a set of bits."""

    __slots__ = ("bits", "fits", "names")

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        positions = positions_of(names)
        self.fits: dict[str, Fits] = {name: dict.fromkeys(at, 1) for name, at in positions.items()}
        self.bits = {name: sum(1 << index for index in at) for name, at in positions.items()}


def all_in_order(wanted: Sequence[str], names: Sequence[str]) -> list[int] | None:
    """The first places in `names` that have all `wanted` in their order, whatever stands between; linear in both."""
    found: list[int] = []
    at = -1
    try:
        for name in wanted:
            at = names.index(name, at + 1)
            found.append(at)
    except ValueError:
        return None
    return found


def longest_common_subsequence(
    order: ExpectedOrder, names: Sequence[str], groups: Groups, work: Work
) -> list[tuple[int, int]]:
    """The names of `order` that calls have in that order, as many as possible.

    Args:
        order: what is expected.
        names: of the calls.
        groups: their positions, those together that count in their best order.
        work: as everywhere.

    Returns:
        (expected, call) positions, ascending by what is expected.

    Raises:
        EvaluatorError: ``work_bound``.
    """
    fits = order.fits
    kept = [positions for group in groups if (positions := _wanted(group, names, fits))]
    if (found := _all_in_groups(order.names, names, kept, work)) is not None:
        return found
    calls = [position for group in kept for position in group]
    aligned = align(len(order.names), [[fits[names[position]] for position in group] for group in kept], work)
    return [(index, calls[rank]) for index, rank in aligned]


def _wanted(group: Sequence[int], names: Sequence[str], fits: Mapping[str, Fits]) -> list[int]:
    """The calls that are expected, of a name as many as expected at most: a large group shrinks to what matters."""
    if len(group) == 1:
        return [group[0]] if names[group[0]] in fits else []
    left = {name: len(fits[name]) for position in group if (name := names[position]) in fits}
    kept = []
    for position in group:
        if left.get(names[position]):
            left[names[position]] -= 1
            kept.append(position)
    return kept


def longest_of_single_calls(order: ExpectedOrder, names: Sequence[str], work: Work) -> list[tuple[int, int]]:
    """`longest_common_subsequence` where every group is of one name: the same table, a row as one number.

    A row's bit j is 0 where best[j + 1] is one more than best[j], so a row is made by a handful of operations on whole
    numbers, and what is had of the first j expected is the number of its zeros below j.

    Raises:
        EvaluatorError: ``work_bound``.

    Source: Hyyrö, Bit-parallel LCS-length computation revisited (2004).
    """
    size = len(order.names)
    calls = [(position, bits) for position, bits in enumerate(map(order.bits.get, names)) if bits is not None]
    work.spend((1 + size) * len(calls))
    row = whole = (1 << size) - 1
    # Rows before calls that changed them, and those calls: few, in a long run.
    changes: list[tuple[int, int, int]] = []
    for position, bits in calls:
        met = row & bits
        after = (row + met | row - met) & whole
        if after != row:
            changes.append((row, position, bits))
            row = after
    found: list[tuple[int, int]] = []
    j = size
    for before, position, bits in reversed(changes):
        wanted, row = _had(row, j), before
        if _had(before, j) == wanted:
            continue  # as much can be had without this call
        places = bits & (1 << j) - 1
        j = places.bit_length() - 1
        while _had(before, j) + 1 != wanted:
            places ^= 1 << j
            j = places.bit_length() - 1
        found.append((j, position))
    return found[::-1]


def _had(row: int, j: int) -> int:
    return j - (row & (1 << j) - 1).bit_count()


def align(size: int, groups: FitGroups, work: Work) -> list[tuple[int, int]]:
    """The alignment worth most: what is expected, in order, paired with calls, in order and each once.

    best[g][j] is the most that the first g groups are worth of the first j expected. The next group takes any i..j of
    what is expected: best[g+1][j] = max over i of best[g][i] + worth(i, j), the worth of pairing its calls with those.
    For a group of one that is the usual recurrence; for a larger group it is quadratic in what it can stand for. There,
    as many as possible are paired, and of those what each is worth: the best order where all fits are worth the same.

    Args:
        size: how many are expected.
        groups: the calls made.
        work: as everywhere.

    Returns:
        (expected, call) positions, ascending by what is expected; calls are counted over all groups.

    Raises:
        EvaluatorError: ``work_bound``.
    """
    best: list[list[float]] = [[0] * (size + 1)]
    kept = [_without_more_of_the_same(group) for group in groups]
    for group, members in zip(groups, kept, strict=True):
        if len(group) == 1:
            best.append(_row_after_one(group[0], best[-1], work))
        else:
            best.append(_row_after([group[member] for member in members], best[-1], work))
    return _pairs(size, groups, kept, best, work)


def _without_more_of_the_same(group: Sequence[Fits]) -> Sequence[int]:
    """The members of a group that can matter: of those that fit the same equally well, as many as can be paired."""
    if len(group) == 1:
        return (0,)
    left: dict[tuple[tuple[int, float], ...], int] = {}
    kept = []
    for member, fits in enumerate(group):
        key = tuple(fits.items())
        number = left.setdefault(key, len(fits))
        if number:
            left[key] = number - 1
            kept.append(member)
    return kept


def _all_in_groups(
    expected: Sequence[str], names: Sequence[str], groups: Groups, work: Work
) -> list[tuple[int, int]] | None:
    """All of `expected` in order, where `groups` have them: each takes of what is left as much as it holds."""
    work.spend(len(groups))
    found: list[int] = []
    for group in groups:
        if len(group) == 1:
            if len(found) < len(expected) and expected[len(found)] == names[group[0]]:
                found.append(group[0])
            continue
        left = {position: names[position] for position in group}
        while len(found) < len(expected) and expected[len(found)] in left.values():
            work.spend(len(left))
            found.append(next(position for position, name in left.items() if name == expected[len(found)]))
            del left[found[-1]]
    return list(enumerate(found)) if len(found) == len(expected) else None


def _row_after_one(fits: Fits, before: list[float], work: Work) -> list[float]:
    """The row after a group of one."""
    if not fits:
        return before
    size = len(before)
    work.spend(size - 1)
    row = before  # copied when it changes: in a long run most calls change nothing
    for index, worth in fits.items():
        value = before[index] + worth
        j = index + 1
        if row[j] < value and row is before:
            row = before.copy()
        while j < size and row[j] < value:  # `_raise`, without calling it for every cell of most alignments
            row[j] = value
            j += 1
    return row


def _raise(row: list[float], j: int, value: float) -> None:
    """At least `value` from `j` on; as rows never fall, that holds already from where as much was had."""
    while j < len(row) and row[j] < value:
        row[j] = value
        j += 1


def _row_after(group: Sequence[Fits], before: list[float], work: Work) -> list[float]:
    row = before.copy()
    for _, j, value, _ in _choices(group, before, len(before) - 1, work):
        _raise(row, j, value)
    return row


def _choices(
    group: Sequence[Fits], before: list[float], limit: int, work: Work
) -> list[tuple[int, int, float, dict[int, int]]]:
    """What can be had when the group takes expected[i:j]: (i, j, worth of all up to j, expected position to member).

    Only where i and j - 1 are positions that the group can stand for: no other choice is worth more.
    """
    relevant = sorted({index for fits in group for index in fits if index < limit})
    found = []
    for last in range(len(relevant)):
        matching = Matching(group, work)
        for index in reversed(relevant[: last + 1]):
            if matching.add(index):
                found.append((index, relevant[last] + 1, before[index] + matching.worth, dict(matching.member_of)))
                if len(matching.member_of) == len(group):
                    break  # all its calls are taken
    return found


def _pairs(
    size: int, groups: FitGroups, kept: Sequence[Sequence[int]], best: Sequence[list[float]], work: Work
) -> list[tuple[int, int]]:
    """Walk back through `best` and note what each group was paired with."""
    starts = [0, *accumulate(map(len, groups))]
    pairs: list[tuple[int, int]] = []
    j = size
    for number in range(len(groups) - 1, -1, -1):
        group, before, wanted = groups[number], best[number], best[number + 1][j]
        if before[j] == wanted:
            continue  # as much can be had without this group
        if len(group) == 1:
            j = max(index for index, worth in group[0].items() if index < j and before[index] + worth == wanted)
            pairs.append((j, starts[number]))
            continue
        choices = _choices([group[member] for member in kept[number]], before, j, work)
        j, _, _, member_of = next(choice for choice in reversed(choices) if choice[2] == wanted)
        pairs.extend(
            (index, starts[number] + kept[number][member_of[index]]) for index in sorted(member_of, reverse=True)
        )
    return pairs[::-1]


def arrange(size: int, groups: FitGroups, work: Work) -> list[tuple[int, int]]:
    """What is expected paired with calls position by position, in the best order inside each group.

    Returns:
        (expected, call) positions that fit, ascending by what is expected.

    Raises:
        EvaluatorError: ``work_bound``.
    """
    pairs: list[tuple[int, int]] = []
    start = 0
    for group in groups:
        end = min(start + len(group), size)
        matching = Matching(group, work)
        for index in range(start, end):
            matching.add(index)
        pairs.extend((index, start + member) for index, member in sorted(matching.member_of.items()))
        start += len(group)
    return pairs


def arrangement(expected: Sequence[str], names: Sequence[str], groups: Groups) -> list[int] | None:
    """The calls in an order, inside each group, in which their names are exactly `expected`; None where none is."""
    found: list[int] = []
    for group in groups:
        free: dict[str, list[int]] = {}
        for position in reversed(group):
            free.setdefault(names[position], []).append(position)
        for name in expected[len(found) : len(found) + len(group)]:
            if not free.get(name):
                return None
            found.append(free[name].pop())
        if any(free.values()):
            return None
    return found if len(found) == len(expected) else None
