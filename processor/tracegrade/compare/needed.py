"""How many times as many results would tell what "cannot tell" does not, if the difference stays as it is."""

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt
from statistics import NormalDist
from typing import TypeAlias

from tracegrade.compare.bootstrap import Spread
from tracegrade.compare.pairing import Found
from tracegrade.compare.pairs import PairTable, paired
from tracegrade.compare.shares import Difference, Share, Weighted, independent
from tracegrade.compare.verdict import ALPHA, Verdict, verdict

_MOST_TIMES = 2.0**13
_HALVINGS = 10
_NORMAL = NormalDist()

Needed: TypeAlias = tuple[float, Verdict]
"""How many times as many results, and which verdict they would give."""


def results_needed(found: Found, others: Sequence[float], margin: float) -> Needed | None:
    """How many times as many results of one rule would tell, about, and what; None for too many to be sent.

    Args:
        found: its difference, of which nothing can be told.
        others: the p-values of the other rules of its family, which stay as they are.
        margin: by so much the pass rate may fall before it matters.
    """
    sure = _sure_at(others)

    def told(times: float) -> Verdict | None:
        difference = _with_more(found, times)
        word = verdict(difference, difference.p * ALPHA / sure, margin)
        return None if word == "cannot_tell" else word

    enough = 2.0
    while told(enough) is None:
        enough *= 2
        if enough > _MOST_TIMES:
            return None
    few = enough / 2
    for _ in range(_HALVINGS):
        middle = sqrt(few * enough)
        few, enough = (few, middle) if told(middle) is not None else (middle, enough)
    word = told(enough)
    assert word is not None, "that many told before"
    return enough, word


def _sure_at(others: Sequence[float]) -> float:
    """The largest p-value that is sure after Holm's correction beside those of `others`."""
    rules = len(others) + 1
    surer = 0
    for p in sorted(others):
        if p * (rules - surer) > ALPHA:
            break
        surer += 1
    return ALPHA / (rules - surer)


def _with_more(found: Found, times: float) -> Difference:
    """The difference of so many times as many results with the same shares."""
    difference, made_of = found.difference, found.made_of
    assert difference is not None, "nothing is known of it"
    if isinstance(made_of, PairTable):
        return paired(_more_pairs(made_of, times)) or difference
    shares = [one for one in made_of if isinstance(one, Share)]
    if shares:
        return independent(*(Share(one.passes * times, one.fails * times, one.ratio) for one in shares))
    spreads = [one for one in made_of if isinstance(one, Spread)]
    now, then = (sum(one.variance(number) for one in spreads) for number in (1.0, times))
    return _narrower(difference, sqrt(now / then))


def _more_pairs(table: PairTable, times: float) -> PairTable:
    def more(cell: Weighted) -> Weighted:
        return Weighted(round(cell.stored * times), cell.total * times, cell.squares * times)

    return replace(
        table,
        pass_pass=more(table.pass_pass),
        pass_fail=more(table.pass_fail),
        fail_pass=more(table.fail_pass),
        fail_fail=more(table.fail_fail),
    )


def _narrower(difference: Difference, narrower: float) -> Difference:
    """The difference of clusters whose drawings reach so many times less far, as if they were normally distributed."""
    value = difference.value
    far = _NORMAL.inv_cdf(1 - difference.p / 2) if difference.p < 1 else 0.0
    return replace(
        difference,
        low=value - (value - difference.low) / narrower,
        high=value + (difference.high - value) / narrower,
        p=2 * _NORMAL.cdf(-far * narrower),
    )
