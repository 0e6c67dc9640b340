"""The longest common subsequence of what was expected and what happened, where some of it happened together.

What happened comes as groups of names: a group of one is a call of its own, the names of a larger group have no order
among themselves and take the best one.
"""

from collections import Counter
from collections.abc import Sequence

from tracegrade.evaluate.calls import positions_of
from tracegrade.evaluate.work import Work

Groups = Sequence[Sequence[str]]


def longest_common_subsequence(expected: Sequence[str], groups: Groups, work: Work) -> list[int]:
    """The positions in `expected` that `groups` contain in order, as many as possible; ascending.

    best[g][j] is the most of expected[:j] that the first g groups contain. The next group takes any expected[i:j] and
    contains of it, per name, the lesser of the two counts: best[g+1][j] = max over i of best[g][i] + contained(i, j).
    For a group of one that is the usual recurrence, in O(len(expected)); for a larger group it is quadratic.

    Raises:
        EvaluatorError: ``work_bound``.
    """
    places = positions_of(expected)
    kept = [names for group in groups if (names := [name for name in group if name in places])]
    if _contain_all(expected, kept, work):
        return list(range(len(expected)))
    best = [[0] * (len(expected) + 1)]
    for group in kept:
        if len(group) == 1:
            best.append(_row_after_one(places[group[0]], best[-1], work))
        else:
            best.append(_row_after(expected, group, best[-1], work))
    return _positions(expected, kept, best)


def _contain_all(expected: Sequence[str], groups: Groups, work: Work) -> bool:
    """Whether `groups` contain all of `expected` in order: each takes of what is left as much as it holds."""
    work.spend(len(groups))
    done = 0
    for group in groups:
        if len(group) == 1:
            done += done < len(expected) and expected[done] == group[0]
            continue
        left = list(group)
        while done < len(expected) and expected[done] in left:
            work.spend(len(left))
            left.remove(expected[done])
            done += 1
    return done == len(expected)


def _row_after_one(places: Sequence[int], before: list[int], work: Work) -> list[int]:
    """The row after a group of one name, which is expected at `places`."""
    work.spend(len(before) - 1)
    row = before.copy()
    for place in places:
        # One more than what was had before the place; as rows never fall, that holds up to where as much was had.
        had = before[place] + 1
        j = place + 1
        while j < len(row) and row[j] < had:
            row[j] = had
            j += 1
    return row


def _row_after(expected: Sequence[str], group: Sequence[str], before: list[int], work: Work) -> list[int]:
    count = Counter(group)
    row = [0]
    for j in range(1, len(expected) + 1):
        work.spend(j)
        row.append(max(_choices(expected, count, before, j)))
    return row


def _choices(expected: Sequence[str], count: Counter[str], before: list[int], j: int) -> list[int]:
    """What can be had of expected[:j] when the group takes expected[i:j]: by i, from j down to 0."""
    left = dict(count)
    contained = 0
    choices = [before[j]]
    for i in range(j - 1, -1, -1):
        name = expected[i]
        if left.get(name, 0):
            left[name] -= 1
            contained += 1
        choices.append(before[i] + contained)
    return choices


def _positions(expected: Sequence[str], groups: Groups, best: Sequence[list[int]]) -> list[int]:
    """Walk back through `best` and note what each group contained."""
    positions: list[int] = []
    j = len(expected)
    for number in range(len(groups) - 1, -1, -1):
        group, before = groups[number], best[number]
        if before[j] == best[number + 1][j]:
            continue  # as much can be had without this group
        if len(group) == 1:
            # Rows never fall: of all places of the name, the last one had most before it.
            j -= 1
            while expected[j] != group[0]:
                j -= 1
            positions.append(j)
            continue
        left = Counter(group)
        choices = _choices(expected, left, before, j)
        i = j - choices.index(max(choices))
        for position in range(j - 1, i - 1, -1):
            name = expected[position]
            if left[name]:
                left[name] -= 1
                positions.append(position)
        j = i
    return positions[::-1]


def is_arrangement(expected: Sequence[str], groups: Groups) -> bool:
    """Whether some order of the names inside each group makes them exactly `expected`."""
    start = 0
    for group in groups:
        end = start + len(group)
        if sorted(expected[start:end]) != sorted(group):
            return False
        start = end
    return start == len(expected)
