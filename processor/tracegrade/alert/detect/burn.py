"""``alert: {slo}``: how fast is the error budget of an objective spent, and how much of it is left?

An objective of 99 % over 30 days lets 1 % of the results fail: that is its error budget. The *burn rate* of a time is
the share of fails in it, divided by the share that the objective lets fail: at 1 the budget lasts just as long as its
window. An alert fires when one of three parts of the budget is spent within its time, and the last twelfth of that time
burns as fast, so that it is not yet over: 2 % within 1/720 of the window (1 h of 30 days: a burn rate of 14.4), 5 %
within 1/120 (6 h: 6), 10 % within 1/10 (3 days: 1). It is resolved when none of the three holds and both of the shorter
last twelfths (5 and 30 minutes) burn slower. This is arithmetic on what was counted, not a test: chance is not weighed.

A worked example: an objective of 99 % over 30 days, 100 results an hour, of which 20 fail from 10:00 on. At 10:45, 15
of the last 100 have failed: a burn rate of 15 over the hour and of 20 over the last 5 minutes, above 14.4.

Source: B. Beyer et al. (Google), The Site Reliability Workbook, 2018, chapter 5, "Alerting on SLOs", sixth approach:
multiwindow, multi-burn-rate alerts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, isclose
from typing import NamedTuple

from tracegrade.alert.detect.finding import Finding
from tracegrade.model.tally import Tally
from tracegrade.rule.alert_forms import Slo
from tracegrade.store.alerts import ErrorBudget
from tracegrade.store.history import Bin

# Of the budget, and the time within which it is spent as a part of the window.
_PARTS = ((0.02, 1 / 720), (0.05, 1 / 120), (0.1, 1 / 10))
_SHORT = 12
_FAST = 2  # pairs
_ROUNDING = 1e-9


class BurnPair(NamedTuple):
    """It burns when the burn rate is at least ``times`` over both its times, in minutes; ``part`` is then spent."""

    part: float
    long: int
    short: int
    times: float


class Burn(NamedTuple):
    """The burn rate of the last ``minutes``, by ``judged`` passes and fails; None where there are none.

    ``failed`` of them failed; None where only some results are kept, so that their number is another one.
    """

    minutes: int
    rate: float | None
    judged: int
    failed: int | None = None


@dataclass(frozen=True, slots=True)
class Budget:
    """The error budget of one series.

    ``left``: the part of it that is left, below 0 where more was spent; None when nothing was judged in the window, of
    which ``judged`` were stored. ``burns``: the burn rate of each time of `pairs_of`, the shortest first.
    ``spent_in_s``: the seconds until nothing is left; None for never, or when nobody knows.
    """

    left: float | None
    judged: int
    burns: tuple[Burn, ...]
    spent_in_s: float | None

    def burn(self, minutes: int) -> Burn:
        """The burn rate of one of the times."""
        return next(burn for burn in self.burns if burn.minutes == minutes)


class Judged(NamedTuple):
    """Passes and fails, as many as they stand for; ``stored`` counts those that were kept."""

    passes: float = 0.0
    fails: float = 0.0
    stored: float = 0.0

    def plus(self, tally: Tally, part: float = 1.0) -> "Judged":
        """With a part of the results in `tally`."""
        return Judged(
            self.passes + part * tally.all_passed,
            self.fails + part * tally.all_failed,
            self.stored + part * tally.judged,
        )

    @property
    def failed(self) -> int | None:
        """The number of fails, where all results were kept."""
        return round(self.fails) if isclose(self.passes + self.fails, self.stored) else None

    @property
    def share(self) -> float | None:
        """The share of fails; None when nothing was judged."""
        return self.fails / (self.passes + self.fails) if self.stored else None


def pairs_of(slo: Slo) -> tuple[BurnPair, ...]:
    """The times over which `slo` is looked at, the fastest pair first; of whole minutes."""
    window = slo.window / 60
    found = []
    for part, of_window in _PARTS:
        long = ceil(window * of_window - 1e-9)
        found.append(BurnPair(part, long, ceil(long / _SHORT), part * window / long))
    return tuple(found)


def times_of(slo: Slo) -> tuple[int, ...]:
    """The times of all pairs in minutes, each once, the shortest first."""
    return tuple(sorted({minutes for pair in pairs_of(slo) for minutes in (pair.long, pair.short)}))


def budget_of(slo: Slo, min_samples: int, bins: Sequence[Bin], whole: Tally, until: int) -> Budget:
    """The error budget of one series.

    Args:
        slo: the objective.
        min_samples: from so many results on, a time tells how fast the budget is spent at present.
        bins: its outcomes of any release, in order, over the longest time of `pairs_of` at least.
        whole: its outcomes within the window of the objective.
        until: the minute up to which results were looked at.
    """
    times = times_of(slo)
    burns = tuple(
        Burn(minutes, _rate(slo, found), round(found.stored), found.failed)
        for minutes, found in zip(times, judged_within(bins, until, times), strict=True)
    )
    counted = Judged().plus(whole)
    spent = _rate(slo, counted)
    left = None if spent is None else 1 - spent
    by_time = {burn.minutes: burn for burn in burns}
    long = [by_time[pair.long] for pair in pairs_of(slo)]
    present = next((burn.rate for burn in long if burn.judged >= min_samples), None)
    return Budget(left, round(counted.stored), burns, _spent_in_s(slo, left, present))


def judged_within(bins: Sequence[Bin], until: int, times: Iterable[int]) -> list[Judged]:
    """What was judged within each of `times`, ascending, before the minute `until`.

    Of an hour of which a part lies within, as large a part of its outcomes.
    """
    found = []
    so_far, place = Judged(), len(bins)
    for minutes in times:
        first = until - minutes
        while place and bins[place - 1].minute >= first:
            place -= 1
            so_far = so_far.plus(bins[place].tally)
        cut = bins[place - 1] if place else None
        inside = max(0, cut.minute + cut.minutes - first) if cut is not None else 0
        found.append(so_far.plus(cut.tally, inside / cut.minutes) if cut is not None else so_far)
    return found


def look_burn(
    slo: Slo, min_samples: int, budget: Budget, bins: Sequence[Bin], until: int, *, is_firing: bool
) -> Finding | None:
    """Whether the budget is spent too fast; None when nothing was judged for long.

    ``value`` is the burn rate over the time that the finding's budget names, ``bound`` that of the fastest pair that
    burns; ``samples`` are the results in that time. Where none burns, they are those of the last minutes.
    """
    pairs = pairs_of(slo)
    burning = next((pair for pair in pairs if _burns(pair, budget, min_samples)), None)
    if burning is not None:
        pair, shown, evidence = burning, budget.burn(burning.long), float(not is_firing)
    else:
        # Whether it is over is told by the last minutes: over the long times, the rate stays high for long. Where few
        # results come, or none any more, the hours of the slow pair tell it.
        recent = pairs[:_FAST] if budget.burn(pairs[_FAST - 1].short).judged else pairs[_FAST:]
        pair = recent[-1]
        shown = budget.burn(pair.short)
        burns_still = any(_is_reached(budget.burn(fast.short), fast) for fast in recent)
        evidence = float(is_firing and not burns_still)
    if shown.rate is None:
        return None
    return Finding(
        value=shown.rate,
        low=shown.rate,
        high=shown.rate,
        samples=shown.judged,
        bound=pair.times,
        evidence=evidence,
        since=_since(slo, pair, bins, until),
        is_counted=True,
        budget=ErrorBudget(
            slo.objective, slo.window, shown.minutes * 60.0, budget.left, budget.spent_in_s, shown.failed
        ),
    )


def fires_after_s(slo: Slo, fails: float) -> float | None:
    """After how many seconds it fires when this share of results fails and none did before; None for never."""
    rate = fails / (1 - slo.objective)
    waits = [pair.long * 60 * pair.times / rate for pair in pairs_of(slo) if rate >= pair.times]
    return min(waits, default=None)


def _burns(pair: BurnPair, budget: Budget, min_samples: int) -> bool:
    long, short = budget.burn(pair.long), budget.burn(pair.short)
    return long.judged >= min_samples and _is_reached(long, pair) and _is_reached(short, pair)


def _is_reached(burn: Burn, pair: BurnPair) -> bool:
    return burn.rate is not None and burn.rate >= pair.times - _ROUNDING


def _rate(slo: Slo, found: Judged) -> float | None:
    return None if found.share is None else found.share / (1 - slo.objective)


def _spent_in_s(slo: Slo, left: float | None, rate: float | None) -> float | None:
    """When nothing is left, if all goes on at `rate`, and what was spent before leaves the window evenly."""
    if left is None or rate is None:
        return None
    if left <= 0:
        return 0.0
    return slo.window * left / (rate - 1 + left) if rate > 1 else None


def _since(slo: Slo, pair: BurnPair, bins: Sequence[Bin], until: int) -> int | None:
    """The minute since when fails exceed half of what makes `pair` burn by the most."""
    usual = pair.times * (1 - slo.objective) / 2
    total = most = 0.0
    since = None
    for item in reversed(bins):
        if item.minute + item.minutes <= until - pair.long:
            break
        fails = item.tally.all_failed
        total += fails - usual * (item.tally.all_passed + fails)
        if total > most:
            most, since = total, item.minute
    return since
