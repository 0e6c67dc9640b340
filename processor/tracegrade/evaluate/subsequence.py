"""The longest common subsequence of what was expected and what happened, where some of it happened together.

What happened comes as groups of names: a group of one is a call of its own, the names of a larger group have no order
among themselves and take the best one.
"""

from collections import Counter
from collections.abc import Sequence

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
    wanted = set(expected)
    counts = [Counter(name for name in group if name in wanted) for group in groups]
    counts = [count for count in counts if count]
    best = [[0] * (len(expected) + 1)]
    for count in counts:
        best.append(_next_row(expected, count, best[-1], work))
    return _positions(expected, counts, best)


def _next_row(expected: Sequence[str], count: Counter[str], before: list[int], work: Work) -> list[int]:
    if count.total() == 1:
        work.spend(len(expected))
        (only,) = count
        row = [0]
        for j, name in enumerate(expected, 1):
            taken = before[j - 1] + 1 if name == only else 0
            row.append(max(row[-1], before[j], taken))
        return row
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


def _positions(expected: Sequence[str], counts: Sequence[Counter[str]], best: Sequence[list[int]]) -> list[int]:
    """Walk back through `best` and note what each group contained."""
    positions: list[int] = []
    j = len(expected)
    for count, before in zip(reversed(counts), reversed(best[:-1]), strict=True):
        choices = _choices(expected, count, before, j)
        i = j - choices.index(max(choices))
        left = dict(count)
        for position in range(j - 1, i - 1, -1):
            name = expected[position]
            if left.get(name, 0):
                left[name] -= 1
                positions.append(position)
        j = i
    return positions[::-1]


def is_arrangement(expected: Sequence[str], groups: Groups) -> bool:
    """Whether some order of the names inside each group makes them exactly `expected`."""
    start = 0
    for group in groups:
        end = start + len(group)
        if end > len(expected) or Counter(expected[start:end]) != Counter(group):
            return False
        start = end
    return start == len(expected)
