"""Random results of one series whose truth is known: seasons, bursts, weekends, levels that wander, falls."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, pi, sin

from tracegrade.alert.detect.evidence import Step

STEP = 5  # minutes
DAY = 24 * 60
STEPS_A_DAY = DAY // STEP


@dataclass(frozen=True)
class Traffic:
    """Results of one series: ``share`` of them pass, ``a_day`` come.

    ``season``: by how much the share goes up and down with the hour of the day. ``swing``: how many times as many come
    in the busiest hour as in the quietest. ``concentration``: of the beta distribution of which each half hour draws a
    share of its own, None for none. ``fall`` happens on day ``falls_on``, ``drift`` is lost each day from then on, and
    on the days of ``incident`` half of all fail.
    """

    share: float
    a_day: float
    season: float = 0.0
    swing: float = 1.0
    concentration: float | None = None
    burst_steps: int = 6
    weekend: float = 0.0
    wander: float = 0.0
    memory: float = 0.0
    fall: float = 0.0
    falls_on: float = inf
    drift: float = 0.0
    incident: tuple[int, ...] = ()

    def steps(self, days: float, chance: random.Random) -> list[Step]:
        """Random results of so many days, five minutes a step."""
        found = []
        own = 0.0
        off = chance.gauss(0, self.wander) if self.wander else 0.0
        volumes = [self.a_day / STEPS_A_DAY * weight for weight in self._volume_by_hour()]
        for number in range(int(days * STEPS_A_DAY)):
            minute = number * STEP
            hour = minute // 60 % 24
            if self.wander and minute % 60 == 0:
                off = self.memory * off + chance.gauss(0, self.wander * (1 - self.memory**2) ** 0.5)
            share = min(0.9995, max(0.001, self._share(minute, hour) + off))
            if self.concentration is not None:
                if number % self.burst_steps == 0:
                    own = chance.betavariate(self.concentration * share, self.concentration * (1 - share))
                share = own
            results = poisson(volumes[hour], chance)
            passed = binomial(results, share, chance)
            found.append(Step(minute, STEP, passed, results - passed))
        return found

    def _share(self, minute: int, hour: int) -> float:
        day = minute / DAY
        share = self.share + self.season * sin(hour / 24 * 2 * pi + 1) - self.drift * max(0.0, day - self.falls_on)
        if int(day) % 7 >= 5:
            share -= self.weekend
        if day >= self.falls_on:
            share -= self.fall
        if int(day) in self.incident:
            share = 0.5
        return min(0.9995, max(0.001, share))

    def _volume_by_hour(self) -> list[float]:
        raw = [(sin(hour / 24 * 2 * pi) + 1) / 2 * (self.swing - 1) + 1 for hour in range(24)]
        return [weight * 24 / sum(raw) for weight in raw]


def poisson(mean: float, chance: random.Random) -> int:
    """A random number of results."""
    if mean > 50:
        return max(0, round(chance.gauss(mean, mean**0.5)))
    count, product, least = 0, chance.random(), exp(-mean)
    while product > least:
        count += 1
        product *= chance.random()
    return count


def binomial(results: int, share: float, chance: random.Random) -> int:
    """How many of so many results pass."""
    spread = results * share * (1 - share)
    if spread > 30:
        return min(results, max(0, round(chance.gauss(results * share, spread**0.5))))
    return sum(chance.random() < share for _ in range(results))


def by_hour(steps: Sequence[Step]) -> list[Step]:
    """Steps of an hour, from the first on."""
    found = []
    for first in range(0, len(steps), 12):
        some = steps[first : first + 12]
        found.append(Step(some[0].minute, 60, sum(step.good for step in some), sum(step.bad for step in some)))
    return found
