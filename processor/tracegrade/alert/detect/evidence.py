"""Has a share changed? A sequential test whose false alarms are counted by time, however often one looks.

It is a Shiryaev-Roberts detector in the form of an e-detector. For each time at which the change may have begun, the
results since then are weighed: how much likelier are they after the change than without it? While there is no change,
the mean of such a likelihood ratio is 1. The ratios of all times are added up, each with the length of its time as a
part of `false_alarm_every`. So the mean of the sum after a time T is at most ``T / false_alarm_every``, and the sum
reaches 1 at most once in `false_alarm_every` on average, at any number of results: times without results bring nothing.

Results of one hour may depend on each other: a customer who fails fails again and again. They are taken as draws from
one urn (beta-binomial): the share of the hour itself varies around the share that is tested, with the correlation
``dispersion``. So an hour tells at most as much as ``1 / dispersion`` independent results, however many it has. Hours
are independent of each other. What makes an hour vary may last for minutes only, so results of a part of an hour depend
on each other more: half an hour has twice the dispersion. With the dispersion 0 all results are independent.

A worked example: 90 % good is compared with 70 %, without dispersion, ``false_alarm_every`` is 30 days. Ten results
come each hour, the time of an hour is 1 / 720 of 30 days. An hour with 9 good ones has the likelihood ratio
``(0.7 / 0.9)**9 * (0.3 / 0.1)`` = 0.31, one with 6 good ones ``(0.7 / 0.9)**6 * (0.3 / 0.1)**4`` = 17.9::

    hour   good   evidence
    1      9      (0      + 1 / 720) * 0.31 = 0.0004
    2      6      (0.0004 + 1 / 720) * 17.9 = 0.0327
    3      6      (0.0327 + 1 / 720) * 17.9 = 0.611
    4      6      (0.611  + 1 / 720) * 17.9 = 11       an alarm; it most likely began with the second hour

Where the share without a change is known only so well, it is a level drawn from a distribution: the likelihood without
a change is the mean over all levels, and the mean of the ratio is 1 over them together, not at each.

Sources: M. Pollak, Optimal detection of a change in distribution, 1985; J. Shin, A. Ramdas and A. Rinaldo, E-detectors:
a nonparametric framework for sequential change detection, 2023.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import exp, inf, lgamma, log, log1p, sqrt
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

HOURS = 24
_HOUR = 60
# No share that is tested is more certain than this: a single result that contradicts it must not decide alone.
LEAST_SHARE, MOST_SHARE = 0.0005, 0.9995


def certain(share: float) -> float:
    """The share, or the nearest to it that is tested."""
    return min(max(share, LEAST_SHARE), MOST_SHARE)


# More than this changes no decision, and a float holds it.
_MOST_LOG = 200.0
_BEYOND_DOUBT = -50.0
# From here on an urn differs from independent results by less than the numbers are worth.
_LEAST_DISPERSION = 1e-6
MOST_DISPERSION = 0.9
_FAR_LIKELIER = 20.0


class Step(NamedTuple):
    """Good and bad results within ``minutes`` (at most an hour) from ``minute`` (since 1970 UTC) on.

    Of scores, ``good`` is their sum and ``bad`` what is missing to their number.
    """

    minute: int
    minutes: int
    good: float
    bad: float


@dataclass(frozen=True, slots=True)
class Change:
    """The change that is looked for, as shares of good results by the hour of the day (UTC), 24 each.

    ``without`` is what holds as long as nothing has changed. ``after`` are the sizes of change that are looked for, all
    on the same side of it. Either may have 168 shares in place of 24, for each hour of a week (from Thursday on, as
    1970 began). ``known_by``: the share without a change is known as from so many bad results; the fewer, the further
    it may really lie on the side of the change (see `_levels`). ``lasting``: so many hours that follow each other tell
    as much as one.
    """

    without: Sequence[float]
    after: Sequence[Sequence[float]]
    known_by: float = inf
    lasting: float = 1.0


@dataclass(frozen=True, slots=True)
class Evidence:
    """How strongly results speak for a change: at 1 it is an alarm. ``since`` is the minute it most likely began with.

    ``since`` is None when nothing speaks for any.
    """

    value: float
    since: int | None


class TimeStep(Protocol):
    """What came within ``minutes`` (at most an hour) from ``minute`` (since 1970 UTC) on."""

    @property
    def minute(self) -> int:
        """Its first minute."""

    @property
    def minutes(self) -> int:
        """Its length."""


_Step = TypeVar("_Step", bound=TimeStep)
_Weighed = TypeVar("_Weighed", bound=TimeStep, contravariant=True)


class Ratios(Protocol[_Weighed]):
    """How much likelier results are after a change than without it, by size of the change."""

    @property
    def logs(self) -> int:
        """How many numbers `add` gives."""

    def begin(self, hour: int) -> None:
        """Begin with an hour of the day (UTC), without any results."""

    def add(self, step: _Weighed, minutes: int) -> list[float]:
        """Add a step of that hour, so far `minutes` long: log likelihoods of the hour, or ratios of them."""

    def of_sizes(self, logs: list[float]) -> list[float]:
        """The log ratio for each size, from the sums of what `add` gave for each hour."""


def look_for(
    change: Change, latest_first: Iterable[Step], dispersion: float, false_alarm_every_s: float, until: int = 0
) -> Evidence:
    """The evidence for `change` in the steps.

    Args:
        change: what is compared.
        latest_first: see `weigh`.
        dispersion: the correlation of two results of one hour, from 0 (none) to below 1.
        false_alarm_every_s: see `weigh`.
        until: see `weigh`.
    """
    steps = (step for step in latest_first if step.good + step.bad > 0)
    return weigh(LikelihoodRatios(change, dispersion), steps, false_alarm_every_s, until)


def weigh(ratios: Ratios[_Step], latest_first: Iterable[_Step], false_alarm_every_s: float, until: int = 0) -> Evidence:
    """The evidence for a change in the steps: the sum over the times at which it may have begun.

    What is older than the time in which all that came since speaks against a change beyond doubt is not read: it
    would have been an alarm in its own time.

    Args:
        ratios: what the change is, and without it the mean of each ratio is at most 1.
        latest_first: in order of time from the last on, none of them empty or beyond the end of an hour.
        false_alarm_every_s: at most one false alarm in this time, on average; in seconds.
        until: hours that ended by this minute count as whole ones, however few results came.
    """
    total, best, since = 0.0, 0.0, None
    most, sizes, hour = 0.0, 1, -1
    for step, time_s, logs in sums(ratios, latest_first, until):
        if step.minute // _HOUR != hour:
            if most < _BEYOND_DOUBT:
                break
            hour = step.minute // _HOUR
        gains = ratios.of_sizes(logs)
        most, sizes = max(gains), len(gains)
        total += time_s * sum([exp(min(gain, _MOST_LOG)) for gain in gains])
        if most > best:
            best, since = most, step.minute
    return Evidence(total / false_alarm_every_s / sizes, since)


def sums(
    ratios: Ratios[_Step], latest_first: Iterable[_Step], until: int
) -> Iterator[tuple[_Step, float, list[float]]]:
    """Each step with the seconds since the one before it ended, and the sums of logs of all that came from it on.

    The arguments are those of `weigh`.
    """
    later_hours = logs = [0.0] * ratios.logs  # of all whole hours that come later
    hour, end = -1, 0
    over = until // _HOUR  # hours before it have ended
    for step, time_s in _with_times(latest_first):
        if step.minute // _HOUR != hour:
            later_hours = logs
            hour = step.minute // _HOUR
            end = (hour + 1) * _HOUR if hour < over else step.minute + step.minutes
            ratios.begin(hour)
        logs = [later + so_far for later, so_far in zip(later_hours, ratios.add(step, end - step.minute), strict=True)]
        yield step, time_s, logs


def _with_times(latest_first: Iterable[_Step]) -> Iterator[tuple[_Step, float]]:
    """The steps, each with the seconds since the one before it ended."""
    later: _Step | None = None
    for step in latest_first:
        if later is not None:
            yield later, (later.minute + later.minutes - step.minute - step.minutes) * 60
        later = step
    if later is not None:
        yield later, later.minutes * 60


def far_likelier(good: float, bad: float, share: float, than: float) -> bool:
    """Whether so many good and bad results are 20 times likelier at one share of good ones than at another.

    Of results at the other share, at most one series in 20 ever looks so (A. Wald, 1945): unlike `look_for` it takes
    them as independent, and does not go on for ever.
    """
    share, than = certain(share), certain(than)
    return good * log(share / than) + bad * (log1p(-share) - log1p(-than)) >= log(_FAR_LIKELIER)


# The balls of an urn, and what no draw brings; of independent results (without the second), what each brings.
_Urn: TypeAlias = tuple[float, float | None, float]


# How far a level may lie on the side of the change, in standard deviations, each with its part of a normal curve.
_DEVIATIONS = tuple(number / 2 for number in range(7))
_PARTS = (0.5987, 0.1747, 0.1210, 0.0655, 0.0279, 0.0092, 0.0030)


def _levels(share: float, known_by: float) -> list[float]:
    """The shares of good results that may really be the usual one, `share` first.

    The odds of a bad result are as if `known_by` bad ones had been counted, which is a gamma distribution; its
    quantiles are found by the cube root, which is nearly normal (E. B. Wilson and M. M. Hilferty, 1931).
    """
    odds = (1 - share) / share
    spread = 1 / (3 * sqrt(known_by))
    return [1 / (1 + odds * (1 + deviation * spread) ** 3) for deviation in _DEVIATIONS]


class LikelihoodRatios:
    """How much likelier good and bad results are under each share after a change than under the one without it."""

    def __init__(self, change: Change, dispersion: float) -> None:
        """Compare the shares of `change`; `dispersion` is the correlation of two results of one hour."""
        shares = [change.without, *change.after]
        if change.known_by < inf:
            without = zip(*(_levels(share, change.known_by) for share in change.without), strict=True)
            shares = [*without, *change.after]
        self._shares_of_hours = list(zip(*[[certain(share) for share in one] for one in shares], strict=True))
        self._dispersion = dispersion
        self._lasting = change.lasting
        self._urns: dict[tuple[tuple[float, ...], int], list[_Urn]] = {}
        self._nulls = len(shares) - len(change.after)
        self.logs = len(shares)
        self._hour, self._good, self._bad = 0, 0.0, 0.0

    def begin(self, hour: int) -> None:
        """See `Ratios`."""
        self._hour, self._good, self._bad = hour % len(self._shares_of_hours), 0.0, 0.0

    def add(self, step: Step, minutes: int) -> list[float]:
        """See `Ratios`."""
        self._good += step.good
        self._bad += step.bad
        good, bad = self._good, self._bad
        about = self._shares_of_hours[self._hour], minutes
        if about not in self._urns:
            dispersion = min(self._dispersion * _HOUR / minutes, MOST_DISPERSION)
            self._urns[about] = [_urn(share, dispersion) for share in about[0]]
        lasting = self._lasting
        return [
            (good * a + bad * nothing if b is None else lgamma(a + good) + lgamma(b + bad) - nothing) / lasting
            for a, b, nothing in self._urns[about]
        ]

    def of_sizes(self, logs: list[float]) -> list[float]:
        """See `Ratios`."""
        nulls = self._nulls
        if nulls == 1:
            none = logs[0]
        else:
            most = max(logs[:nulls])
            none = most + log(sum([part * exp(one - most) for part, one in zip(_PARTS, logs, strict=False)]))
        return [size - none for size in logs[nulls:]]


def _urn(share: float, dispersion: float) -> _Urn:
    if dispersion < _LEAST_DISPERSION:
        return log(share), None, log1p(-share)
    balls = 1 / dispersion - 1
    a, b = balls * share, balls * (1 - share)
    return a, b, lgamma(a) + lgamma(b)
