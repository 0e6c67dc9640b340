"""How many times as many results tell what "cannot tell" does not, if the difference stays as it is.

The answer is a number of results at which four of five comparisons of new results tell (a power of 80 %): what the
results at hand show by chance is not what the next ones show. Of a difference that is normally distributed around its
value, a fifth lies more than `_Z80` standard errors above it, and a fifth as far below. A fall that is still sure at
the upper of these two is sure in four of five comparisons; one that is still within the margin at the lower is so, too.

Source: S. Julious, Sample sizes for clinical trials with normal data, 2004 (power, non-inferiority).
"""

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt
from statistics import NormalDist
from typing import TypeAlias

from tracegrade.compare.bootstrap import Spread
from tracegrade.compare.pairing import Found
from tracegrade.compare.pairs import PairTable, paired
from tracegrade.compare.shares import Difference, Share, independent
from tracegrade.compare.verdict import ALPHA, Verdict, is_failure, verdict
from tracegrade.model.tally import Weighted

POWER = 0.8
"""The share of comparisons that tell with as many results as are said to be needed."""

_MOST_TIMES = 2.0**13
_HALVINGS = 10
_NORMAL = NormalDist()
_Z80 = _NORMAL.inv_cdf(POWER)

Needed: TypeAlias = tuple[float, Verdict]
"""How many times as many results, and which verdict they would give."""


def results_needed(found: Found, others: Sequence[float], margin: float) -> Needed | None:
    """How many times as many results of one rule would tell with a power of `POWER`, and what; None for too many.

    Told is that B is worse, be it within the margin or not, or that it is not worse, or better.

    Args:
        found: its difference, of which nothing can be told.
        others: the p-values of the other rules of its family, which stay as they are.
        margin: by so much the pass rate may fall before it matters.
    """
    sure = _sure_at(others)

    def of(times: float, deviation: float) -> Verdict:
        difference = _with_more(found, times, deviation)
        return verdict(difference, difference.p * ALPHA / sure, margin)

    def told(times: float) -> Verdict | None:
        if is_failure(of(times, _Z80)) or of(times, -_Z80) in ("not_worse", "better"):
            return of(times, 0.0)
        return None

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


def _with_more(found: Found, times: float, deviation: float) -> Difference:
    """The difference of so many times as many results, which lies `deviation` standard errors above that of `found`.

    Shares deviate by as much as each has a part in the variance of the difference: of all shares that give this
    difference they are the likeliest.
    """
    difference, made_of = found.difference, found.made_of
    assert difference is not None, "nothing is known of it"
    if isinstance(made_of, PairTable):
        return paired(_more_pairs(made_of, times, deviation)) or difference
    shares = [one for one in made_of if isinstance(one, Share)]
    if shares:
        return independent(*_more_results(shares, times, deviation))
    spreads = [one for one in made_of if isinstance(one, Spread)]
    return _of_clusters(difference, spreads, times, deviation)


def _more_results(shares: Sequence[Share], times: float, deviation: float) -> list[Share]:
    variances = [share.variance / times for share in shares]
    error = sqrt(sum(variances))

    def more(share: Share, variance: float, direction: float) -> Share:
        results, passes = (share.passes + share.fails) * times, share.passes * times
        if error and share.passes and share.fails:
            slope = share.slope
            passes += direction * deviation * variance / error / slope * results
        passes = min(max(passes, 0.0), results)
        return Share(passes, results - passes, share.ratio)

    return list(map(more, shares, variances, (-1.0, 1.0)))


def _more_pairs(table: PairTable, times: float, deviation: float) -> PairTable:
    cells = {"pass_pass": 0.0, "pass_fail": -1.0, "fail_pass": 1.0, "fail_fail": 0.0}  # B less A
    totals = {name: getattr(table, name).total for name in cells}
    pairs = sum(totals.values())
    value = sum(totals[name] * change for name, change in cells.items()) / pairs
    variance = sum(totals[name] * (change - value) ** 2 for name, change in cells.items()) / pairs
    error = sqrt(variance / (pairs * table.scale * times))

    def more(cell: Weighted, change: float) -> Weighted:
        likelier = max(0.0, 1 + deviation * error * (change - value) / variance) if variance else 1.0
        factor = times * likelier
        return Weighted(round(cell.stored * factor), cell.total * factor, cell.squares * factor)

    found = {name: more(getattr(table, name), change) for name, change in cells.items()}
    return PairTable(**found, ratio_a=table.ratio_a, ratio_b=table.ratio_b)


def _of_clusters(difference: Difference, spreads: Sequence[Spread], times: float, deviation: float) -> Difference:
    """The difference of clusters whose drawings reach less far, as if they were normally distributed."""
    now, then = (sqrt(sum(one.variance(number) for one in spreads)) for number in (1.0, times))
    error = sqrt(sum(one.of_share for one in spreads) / times)
    narrower, value = now / then, difference.value + deviation * error
    far = _NORMAL.inv_cdf(1 - difference.p / 2) if difference.p < 1 else 0.0
    far = (far if difference.value > 0 else -far) * narrower + deviation * error / then
    return replace(
        difference,
        value=value,
        low=value - (difference.value - difference.low) / narrower,
        high=value + (difference.high - difference.value) / narrower,
        p=2 * _NORMAL.cdf(-abs(far)),
    )
