"""Which results fell most: slices of them, by how much of the fall each explains."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from math import sqrt
from typing import TypeAlias

from tracegrade.alert.diagnose.cases import Case, Sample
from tracegrade.alert.diagnose.watched import Both, Part
from tracegrade.store.diagnosis import Slice

MOST_SLICES = 5

# Of how many results of any slice the rate before is added to a slice's own: one with fewer is judged by that mostly.
_BORROWED = 10
_LEAST_EXPLAINED = 0.1
_LEAST_BAD = 3
_LEAST_MEASURED = 10
# How far, in standard deviations, the bad results in a slice must be above those of a fall that is the same everywhere.
# There are hundreds of slices to look at, and few of 3 by chance.
_STANDS_OUT = 3.0

ValuesOf: TypeAlias = Callable[[Case], Iterable[str]]
"""The values of a case: several of one that has several tools or models."""


def of_cases(since: Sample, before: Sample, counted: Both, values_of: ValuesOf) -> tuple[dict[str, Both], Both]:
    """The results by value, and all of them, as the cases tell; `counted` are all as they were counted.

    Each case stands for as many results that bad and good ones have the proportions that were counted.
    """
    found: defaultdict[str, Both] = defaultdict(Both)
    everything = Both()
    for sample, whole, time in ((since, counted.since, "since"), (before, counted.before, "before")):
        for cases, is_bad, results in ((sample.bad, True, whole.bad), (sample.good, False, whole.results - whole.bad)):
            stands_for = results / sum(case.weight for case in cases) if cases else 0.0
            for case in cases:
                weight = case.weight * stands_for
                loss = weight * case.loss
                sums = Part(weight, weight * is_bad, loss, loss * case.loss, 1, int(is_bad))
                for both in (everything, *(found[value] for value in set(values_of(case)))):
                    part: Part = getattr(both, time)
                    part.add(sums)
    return dict(found), everything


def explaining(by: str, parts: Mapping[str, Both], everything: Both, assumed_before: float) -> list[Slice]:
    """The slices of one kind that explain some of the fall.

    How much one explains: the bad results that it has beyond those that it would have had at its rate before, divided
    by all that there are beyond the rate before. The rate before of a slice that was seen seldom is drawn to that of
    all. What fell no more than the rest is left out, and so is what everything has in common.

    Args:
        by: the kind.
        parts: the results by value; a result may count at several values.
        everything: all results.
        assumed_before: the rate of bad results before, where there were no results.
    """
    since, before = everything.since, everything.before
    usual = before.rate if before.rate is not None else assumed_before
    excess = since.loss - since.results * usual
    if excess <= 0:
        return []
    borrowed = _BORROWED * (before.results / before.seen if before.seen else 1.0)
    found = []
    for value, part in parts.items():
        own, own_before = part.since, part.before
        if not own.results:
            continue
        expected = own.results * (own_before.loss + borrowed * usual) / (own_before.results + borrowed)
        explains = (own.loss - expected) / excess
        # As bad as it would be if it had fallen like everything else.
        even = expected + own.results * excess / since.results
        if explains >= _LEAST_EXPLAINED and _stands_out(own, since, even):
            found.append(
                Slice(
                    by=by,
                    value=value,
                    explains=min(1.0, explains),
                    bad=own.loss / own.results,
                    bad_before=own_before.rate,
                    share=min(1.0, own.results / since.results),
                )
            )
    return found


def explaining_alone(by: str, parts: Mapping[str, Both], everything: Both) -> list[Slice]:
    """The slices of one kind that explain some of the fall, where no result before had any of their values.

    Then none of them stands out among the rest, since nothing of what was usual came beside them; empty otherwise.
    """
    since, usual = everything.since, everything.before.rate
    now = {value: both.since for value, both in parts.items() if both.since.results}
    is_all_new = not any(parts[value].before.results for value in now)
    if usual is None or not is_all_new or sum(own.results for own in now.values()) < since.results:
        return []
    excess = since.loss - since.results * usual
    found = []
    for value, own in now.items():
        above = own.loss - own.results * usual
        if excess > 0 and above >= _LEAST_EXPLAINED * excess:
            explains, bad = min(1.0, above / excess), own.loss / own.results
            found.append(Slice(by, value, explains, bad, None, min(1.0, own.results / since.results)))
    return found


def _stands_out(own: Part, since: Part, even: float) -> bool:
    """Whether a part is worse than chance makes a part of a fall that is the same everywhere, by which it is `even`."""
    if since.loss != since.bad:  # scores, or what was measured: not as many as are bad
        variance = since.squares / since.results - (since.loss / since.results) ** 2
        above = (own.loss - even) / own.results
        return own.seen >= _LEAST_MEASURED and above > 0 and above >= _STANDS_OUT * sqrt(max(0.0, variance) / own.seen)
    share = even / since.loss
    if own.seen_bad < _LEAST_BAD or share >= 1:
        return False
    return own.seen_bad - since.seen_bad * share >= _STANDS_OUT * sqrt(since.seen_bad * share * (1 - share))


def most_explaining(found: Iterable[Slice]) -> list[Slice]:
    """The slices that explain most, first; of those that explain as much, the smaller one."""
    ranked = sorted(found, key=lambda item: (-round(item.explains, 2), item.share, item.by, item.value))
    return ranked[:MOST_SLICES]
