"""Bets on the mean of values that are not negative, such as tokens: has it risen above a bound, or come back?

Someone bets a part ``l`` of what he has on each value x lying above the bound b: then he has ``1 + l * (x / b - 1)``
times as much. While the mean is at most b, he gains nothing on average, whatever the values look like otherwise. So
what he has is evidence, in the place of a likelihood ratio in `weigh`: it is 1 on average while nothing is wrong. Only
the number, the sum and the sum of squares of values are stored. With y = x / b - 1, which is -1 or more::

    log(1 + l * y) >= l * y - (-log(1 - l) - l) * y * y

and the right side needs no more than these. Several ``l`` are tried: a small one where few large values make up most of
the mean, a large one where values lie close together.

A worked example: the bound is 100, and 110, 90 and 160 came. The sum of y is 0.6, that of its squares 0.38. With l =
0.4, the log is ``0.4 * 0.6 - 0.111 * 0.38`` = 0.2: a little more than before. After twenty times as many such values it
is 4, which is evidence of ``exp(4)`` = 55.

The way back is harder: a mean below b is seen by large values that no longer come, and from few values nobody can tell
whether they no longer come. With y = 1 - x / b, and s the mean of its squares while nothing changes::

    l * y - l * l / 6 * (y * y + 2 * s)

holds for values of any size, if s is known. It is taken from history, and is at least what the values themselves show:
so the end of an alert is right only as far as the history shows how large values may be.

Values of one hour may depend on each other. As in `evidence`, an hour of n values with the correlation r tells as much
as ``n / (1 + (n - 1) * r)`` of them: the log is divided by so much, and r grows where less than an hour is seen.

Sources: X. Fan, I. Grama and Q. Liu, Exponential inequalities for martingales with applications, 2015, for the first
bound; B. Delyon, Exponential inequalities for sums of weakly dependent variables, 2009, for the second; I. Waudby-Smith
and A. Ramdas, Estimating means of bounded random variables by betting, 2024.
"""

from collections.abc import Sequence
from math import log1p

from tracegrade.alert.detect.evidence import MOST_DISPERSION
from tracegrade.alert.detect.moments import Moments

_PARTS = (0.8, 0.4, 0.2, 0.1, 0.05, 0.025)
_COSTS = tuple(-log1p(-part) - part for part in _PARTS)
_HOUR = 60


class Bets:
    """What bets on one side of a bound have brought, see `weigh`."""

    sizes = len(_PARTS)

    def __init__(self, bounds: Sequence[float], dispersion: float, back_from: float | None = None) -> None:
        """Bet on values above `bounds`, or below them.

        Args:
            bounds: by the hour of the day (UTC), 24, above 0.
            dispersion: the correlation of two values of one hour.
            back_from: the way back is looked for, to a mean below `bounds`; this is the mean of squares of
                ``1 - x / bound`` that history shows, 0 without one.
        """
        self._bounds = bounds
        self._dispersion = dispersion
        self._back_from = back_from
        self._bound = 1.0
        self._count = self._total = self._squares = 0.0

    def begin(self, hour: int) -> None:
        """Begin with an hour of the day, without any values."""
        self._bound = self._bounds[hour]
        self._count = self._total = self._squares = 0.0

    def add(self, step: Moments, minutes: int) -> list[float]:
        """Add a step of that hour, which is so far `minutes` long."""
        self._count += step.samples
        self._total += step.total / self._bound
        self._squares += step.squares / self._bound**2
        beyond = self._total - self._count
        squares = self._squares - 2 * self._total + self._count
        dispersion = min(self._dispersion * _HOUR / minutes, MOST_DISPERSION)
        alike = 1 + max(0.0, self._count - 1) * dispersion
        if self._back_from is None:
            return [(part * beyond - cost * squares) / alike for part, cost in zip(_PARTS, _COSTS, strict=True)]
        squares += 2 * max(squares, self._count * self._back_from)
        return [(-part * beyond - part * part / 6 * squares) / alike for part in _PARTS]
