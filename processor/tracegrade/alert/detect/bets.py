"""Bets on the mean of values that are not negative, such as tokens: has it risen above a bound, or come back?

Someone bets a part ``l`` of what he has on each value x lying above the bound b: then he has ``1 - l + l * x / b``
times as much. While the mean is at most b, he gains nothing on average, whatever the values look like otherwise. So
what he has is evidence, in the place of a likelihood ratio in `weigh`: it is 1 on average while nothing is wrong.
Several ``l`` are tried: a small one where few large values make up most of the mean, a large one where values lie close
together.

Only the number n of values, their mean m and their mean square v are stored. Of all values with these, those that bring
least are of two kinds: 0, and ``v / m``, of which there are ``n * m * m / v``. They are what is counted, so nobody has
more than the values really brought.

A worked example: the bound is 100, and 110, 90 and 160 came: m is 120, v is 15,267. They count as 2.83 values of 127
and 0.17 of 0. With l = 0.4, ``2.83 * log(0.6 + 0.4 * 1.27) + 0.17 * log(0.6)`` = 0.205, and the values themselves would
have brought 0.213. After twenty times as many such values it is 4.1, which is evidence of ``exp(4.1)`` = 60.

The way back is harder: a mean below b is seen by large values that no longer come, and from few values nobody can tell
whether they no longer come. With y = 1 - x / b, and s the mean of its squares while nothing changes::

    l * y - l * l / 6 * (y * y + 2 * s)

holds for values of any size, if s is known. It is taken from history, and is at least what the values themselves show:
so the end of an alert is right only as far as the history shows how large values may be.

Values of one hour may depend on each other. As in `evidence`, an hour of n values with the correlation r tells as much
as ``n / (1 + (n - 1) * r)`` of them: the log is divided by so much, and r grows where less than an hour is seen. A
value of a sample that counts as a part of one brings at least that part of the log, since the log is concave.

Sources: I. Waudby-Smith and A. Ramdas, Estimating means of bounded random variables by betting, 2024; S. Karlin and W.
J. Studden, Tchebycheff systems, 1966, for the values that bring least; B. Delyon, Exponential inequalities for sums of
weakly dependent variables, 2009, for the way back.
"""

from collections.abc import Sequence
from math import log, log1p

from tracegrade.alert.detect.evidence import MOST_DISPERSION
from tracegrade.alert.detect.moments import Moments

_PARTS = (0.8, 0.4, 0.2, 0.1, 0.05, 0.025)
_LOST = tuple(log1p(-part) for part in _PARTS)  # by a value of 0
_HOUR = 60


class Bets:
    """What bets on one side of a bound have brought, see `weigh`."""

    logs = len(_PARTS)

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
        self._bound = self._bounds[hour % len(self._bounds)]
        self._count = self._total = self._squares = 0.0

    def add(self, step: Moments, minutes: int) -> list[float]:
        """Add a step of that hour, which is so far `minutes` long."""
        self._count += step.samples
        self._total += step.total / self._bound
        self._squares += step.squares / self._bound**2
        dispersion = min(self._dispersion * _HOUR / minutes, MOST_DISPERSION)
        alike = 1 + max(0.0, self._count - 1) * dispersion
        if self._back_from is None:
            return [gain / alike for gain in self._won()]
        below = self._count - self._total
        squares = self._squares - 2 * self._total + self._count
        squares += 2 * max(squares, self._count * self._back_from)
        return [(part * below - part * part / 6 * squares) / alike for part in _PARTS]

    def of_sizes(self, logs: list[float]) -> list[float]:
        """What is added is already a ratio."""
        return logs

    def _won(self) -> list[float]:
        """What bets on values above the bound have brought at least, as logs."""
        if self._squares <= 0:  # all are 0, but for the precision of floats
            return [self._count * lost for lost in _LOST]
        value = self._squares / self._total
        above = min(self._count, self._total / value)
        nothing = self._count - above
        return [above * log(1 - part + part * value) + nothing * lost for part, lost in zip(_PARTS, _LOST, strict=True)]
