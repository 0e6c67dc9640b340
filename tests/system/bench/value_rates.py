"""How often alerts on tokens, cost and duration are wrong and how late they are, in simulations.

Usage: python tests/system/bench/value_rates.py [--runs 6] [--seed 1] [--only WORDS]

As `alert_rates.py`, for means of values that are not negative: `rise: {against: 7d, by: 30 %}` and `above`. Beside
ours: the rule that people write by hand (the mean of an hour is 30 % above the usual one for 10 minutes).
"""

import argparse
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import exp, inf, pi, sin
from pathlib import Path
from statistics import median

sys.path.extend(map(str, Path(__file__).parents[1:2]))

from bench.alert_rates import EVERY_S, HISTORY_DAYS, MIN_SAMPLES, table  # importable by the line above
from bench.alert_traffic import poisson

from tracegrade.alert.detect.evidence import Evidence, weigh
from tracegrade.alert.detect.mean import above, back, fallen_back, risen, usual_value_of, without_high_quarters
from tracegrade.alert.detect.moments import Moments, correlation, hourly, mean_of

BY = 0.3
_DAY = 1440
_STEP = 5
_STEPS_A_DAY = _DAY // _STEP
_BURST_STEPS = 6
_FINE = 60


@dataclass(frozen=True)
class Values:
    """Values of one series, with a mean of 1 before anything changes.

    ``spread``: sigma of a lognormal, 0 for values that are all the same. ``season``: the mean goes up and down by this
    part within a day, the volume by ``swing`` times. ``bursts``: sigma of a lognormal by which the mean of each half
    hour differs. ``rise``: from the day ``rises_on`` to ``falls_on`` the mean is higher by this part. ``incident``:
    days at five times the mean.
    """

    spread: float
    a_day: float
    season: float = 0.0
    swing: float = 1.0
    bursts: float = 0.0
    rise: float = 0.0
    rises_on: float = inf
    falls_on: float = inf
    incident: tuple[int, ...] = ()

    def steps(self, days: float, chance: random.Random) -> list[Moments]:
        """Random values of so many days, five minutes a step."""
        found = []
        own = 1.0
        raw = [(sin(hour / 24 * 2 * pi) + 1) / 2 * (self.swing - 1) + 1 for hour in range(24)]
        for number in range(int(days * _STEPS_A_DAY)):
            minute = number * _STEP
            hour = minute // 60 % 24
            if self.bursts and number % _BURST_STEPS == 0:
                own = exp(chance.gauss(-(self.bursts**2) / 2, self.bursts))
            mean = own * self._mean(minute, hour)
            values = poisson(self.a_day / _STEPS_A_DAY * raw[hour] * 24 / sum(raw), chance)
            total = squares = 0.0
            for _ in range(values if self.spread else 0):
                value = mean * exp(self.spread * chance.gauss(0, 1) - self.spread**2 / 2)
                total += value
                squares += value * value
            if not self.spread:
                total, squares = values * mean, values * mean * mean
            found.append(Moments(minute, _STEP, values, total, squares))
        return found

    def _mean(self, minute: int, hour: int) -> float:
        day = minute / _DAY
        mean = 1 + self.season * sin(hour / 24 * 2 * pi + 1)
        if self.rises_on <= day < self.falls_on:
            mean *= 1 + self.rise
        return mean * (5 if int(day) in self.incident else 1)


Look = Callable[[Sequence[Moments], Sequence[Moments], int, bool], Evidence | None]
"""The evidence in values of some time, given those of the time before it, up to a minute, and whether it fires."""


def look_for_rise(values: Sequence[Moments], before: Sequence[Moments], until: int, is_firing: bool) -> Evidence | None:
    """As ``rise: {against: 7d, by: 30 %}`` looks."""
    usual = usual_value_of(without_high_quarters(before, BY))
    if usual is None or usual.samples < MIN_SAMPLES:
        if not is_firing:
            return None
        # The history is all of the time in which it fires: the usual mean was noted when it began.
        left = usual_value_of([step for step in values if step.minute < until - _FINE - _DAY])
        if left is None:
            return None
        usual = replace(left, by_hour=(1.0,) * 24, mean=1.0, high=1.0)
    bets = fallen_back(usual, usual.mean, BY) if is_firing else risen(usual, BY)
    return weigh(bets, [step for step in reversed(values) if step.samples], EVERY_S, until)


def look_above(bound: float) -> Look:
    """As ``above`` looks."""

    def look(values: Sequence[Moments], before: Sequence[Moments], until: int, is_firing: bool) -> Evidence:
        hours = hourly([*before, *(step for step in values if step.minute < until - _FINE - _DAY)])
        _, mean, variance = mean_of(hours)
        dispersion, spread = correlation(hours), (variance + (bound - mean) ** 2) / bound**2
        bets = back(bound, dispersion, spread if hours else 0.0) if is_firing else above(bound, dispersion)
        return weigh(bets, [step for step in reversed(values) if step.samples], EVERY_S, until)

    return look


@dataclass(frozen=True)
class Change:
    """An alarm at a minute, or its end."""

    minute: int
    fires: bool


def changes(steps: Sequence[Moments], look: Look, first_day: float = 2 * HISTORY_DAYS, every: int = 15) -> list[Change]:
    """The alarms from `first_day` on, and their ends."""
    hours = list(_hours(steps))
    found: list[Change] = []
    reach = HISTORY_DAYS * 24
    ended, firing = 0, False
    for now in range(int(first_day * _DAY), steps[-1].minute + _STEP + 1, every):
        hour = now // 60
        since = max(hour - reach, -(-ended // 60))
        fine = max(hour * 60 - _FINE, ended)
        seen = [*hours[since : fine // 60], *steps[fine // _STEP : now // _STEP]]
        if sum(step.samples for step in seen) < MIN_SAMPLES:
            continue
        incidents = _incidents(found)
        before = [
            step
            for step in hours[max(0, hour - 2 * reach) : max(0, hour - reach)]
            if not any(first <= step.minute <= last for first, last in incidents)
        ]
        evidence = look(seen, before, now, firing)
        if evidence is not None and evidence.value >= 1:
            firing, ended = not firing, now
            found.append(Change(now, firing))
    return found


def _incidents(found: Sequence[Change]) -> list[tuple[float, float]]:
    ends = [change.minute for change in found if not change.fires]
    begins = [change.minute for change in found if change.fires]
    return [(begin, ends[number] if number < len(ends) else inf) for number, begin in enumerate(begins)]


def _hours(steps: Sequence[Moments]) -> Iterator[Moments]:
    for first in range(0, len(steps), 12):
        some = steps[first : first + 12]
        yield Moments(some[0].minute, 60, *(sum(parts) for parts in list(zip(*some, strict=True))[2:]))


def by_hand(steps: Sequence[Moments], usual: float, from_day: float) -> list[int]:
    """When the rule by hand fires: ten minutes in which the mean of an hour is `BY` above `usual`."""
    found: list[int] = []
    held, firing = 0, False
    for number in range(int(from_day * _STEPS_A_DAY), len(steps) + 1):
        samples, mean, _ = mean_of(steps[number - 12 : number])
        held = held + 1 if samples and mean > usual * (1 + BY) else 0
        if held >= 3 and not firing:
            found.append(steps[number - 1].minute + _STEP)
        firing = held >= 3
    return found


STEADY = {
    "all the same, 1,000 a day": Values(0.0, 1000),
    "narrow (sigma 0.3), 1,000 a day": Values(0.3, 1000),
    "lognormal (sigma 1), 20 a day": Values(1.0, 20),
    "lognormal (sigma 1), 200 a day": Values(1.0, 200),
    "lognormal (sigma 1), 2,000 a day": Values(1.0, 2000),
    "lognormal (sigma 1), 20,000 a day": Values(1.0, 20_000),
    "heavy (sigma 1.5), 20 a day": Values(1.5, 20),
    "heavy (sigma 1.5), 200 a day": Values(1.5, 200),
    "heavy (sigma 1.5), 2,000 a day": Values(1.5, 2000),
    "very heavy (sigma 2), 200 a day": Values(2.0, 200),
    "very heavy (sigma 2), 2,000 a day": Values(2.0, 2000),
    "half up and down a day, volume swings 20 times, 1,000 a day": Values(0.7, 1000, 0.5, 20),
    "half up and down a day, volume swings 20 times, 10,000 a day": Values(0.7, 10_000, 0.5, 20),
    "bursts (sigma 0.5), 2,000 a day": Values(0.7, 2000, bursts=0.5),
    "bursts (sigma 0.5), 20,000 a day": Values(0.7, 20_000, bursts=0.5),
    "bursts (sigma 1), 2,000 a day": Values(0.7, 2000, bursts=1.0),
    "one value each, bursts (sigma 0.5), 2,000 a day": Values(0.0, 2000, bursts=0.5),
}
HALF_RISEN = {
    "a lasting rise of 15 %, sigma 0.3, 2,000 a day": Values(0.3, 2000, rise=0.15, rises_on=14),
    "a lasting rise of 15 %, sigma 1, 2,000 a day": Values(1.0, 2000, rise=0.15, rises_on=14),
    "a lasting rise of 15 %, sigma 1, 20,000 a day": Values(1.0, 20_000, rise=0.15, rises_on=14),
    "a lasting rise of 15 %, sigma 1.5, 2,000 a day": Values(1.5, 2000, rise=0.15, rises_on=14),
}


def _false_alarms(runs: int, chance: random.Random) -> None:
    rows = []
    begin = 2 * HISTORY_DAYS
    for days, scenarios in ((30, STEADY), (7, HALF_RISEN)):
        for name, values in scenarios.items():
            ours = hand = 0
            for _ in range(runs):
                steps = values.steps(begin + days, chance)
                ours += sum(change.fires for change in changes(steps, look_for_rise))
                hand += len(by_hand(steps, 1.0, begin))
            rows.append((name, f"{days * runs}", f"{days * runs * 86_400 / EVERY_S:.1f}", ours, hand))
    for spread in (0.3, 1.0, 1.5):
        for a_day in (200, 2000):
            for bursts in (0.0, 0.5):
                ours = 0
                for _ in range(runs):
                    steps = Values(spread, a_day, bursts=bursts).steps(begin + 21, chance)
                    ours += sum(change.fires for change in changes(steps, look_above(1.0)))
                also = ", bursts (sigma 0.5)" if bursts else ""
                name = f"`above`, the mean lies at the bound, sigma {spread:g}, {a_day:,} a day{also}"
                rows.append((name, f"{21 * runs}", f"{21 * runs * 86_400 / EVERY_S:.1f}", ours, "-"))
    print("\nAlarms where nothing rose by more than 15 %, `rise: {against: 7d, by: 30 %}` and `above`\n")
    print(table(("values", "days", "promised: at most", "alarms", "by hand"), rows))


def _false_ends(runs: int, chance: random.Random) -> None:
    """Ends of alarms while the mean stays where it made them fire."""
    rows = []
    begin = 2 * HISTORY_DAYS
    for spread, a_day, bursts in (
        (0.3, 2000, 0.0),
        (1.0, 2000, 0.0),
        (1.5, 2000, 0.0),
        (1.5, 200, 0.0),
        (0.7, 2000, 0.5),
    ):
        for kind, rise, look, days in (("rise", 0.6, look_for_rise, 7), ("above", 0.2, look_above(1.0), 21)):
            alarms = ends = 0
            for _ in range(runs):
                steps = Values(spread, a_day, bursts=bursts, rise=rise, rises_on=begin).steps(begin + days, chance)
                found = changes(steps, look)
                alarms += sum(change.fires for change in found)
                ends += sum(not change.fires for change in found)
            also = f", bursts (sigma {bursts:g})" if bursts else ""
            promised = f"{days * runs * 86_400 / EVERY_S:.1f}"
            rows.append(
                (
                    f"sigma {spread:g}, {a_day:,} a day{also}",
                    f"`{kind}`, {rise:.0%}",
                    days * runs,
                    promised,
                    alarms,
                    ends,
                )
            )
    print("\nEnds of alarms while the mean stays higher: by 60 % against the baseline, or by 20 % above the bound\n")
    print(table(("values", "alert", "days", "promised: at most", "alarms", "ends"), rows))


def _delays(runs: int, chance: random.Random) -> None:
    rows = []
    begin, lasts = 2 * HISTORY_DAYS, 6
    for spread in (0.3, 1.0, 1.5):
        for a_day in (200, 2000):
            for rise in (0.3, 0.6, 2.0):
                values = Values(spread, a_day, rise=rise, rises_on=begin, falls_on=begin + lasts)
                rows.append((f"sigma {spread:g}, {a_day:,} a day", f"{rise:.0%}", *_delay(values, runs, chance)))
    for name, values in (
        ("sigma 1, 2,000 a day, a day of the history at five times the mean", Values(1.0, 2000, incident=(4,))),
        ("sigma 0.7, 2,000 a day, bursts (sigma 0.5)", Values(0.7, 2000, bursts=0.5)),
        ("sigma 0.7, 1,000 a day, half up and down, volume swings 20 times", Values(0.7, 1000, 0.5, 20)),
    ):
        risen_values = replace(values, rise=0.6, rises_on=begin, falls_on=begin + lasts)
        rows.append((name, "60%", *_delay(risen_values, runs, chance)))
    print(f"\nValues from a rise to its alarm, and from its end after {lasts} days to the end of the alarm; medians\n")
    print(table(("values", "rise", "alarm", "by hand", "end"), rows))


def _delay(values: Values, runs: int, chance: random.Random) -> tuple[str, str, str]:
    found: list[tuple[float, float, float]] = []
    for _ in range(runs):
        steps = values.steps(values.falls_on + 6, chance)
        seen = changes(steps, look_for_rise, values.rises_on, every=_STEP if values.a_day > 500 else 60)
        alarm = next((change.minute for change in seen if change.fires), None)
        ends = (change.minute for change in seen if not change.fires and change.minute > values.falls_on * _DAY)
        end = next(ends, None)
        hand = next(iter(by_hand(steps, 1.0, values.rises_on)), None)
        found.append(
            (
                _between(steps, values.rises_on, alarm),
                _between(steps, values.rises_on, hand),
                inf if alarm is None else _between(steps, values.falls_on, end),
            )
        )
    ours, hands, ends = (median(some) for some in zip(*found, strict=True))
    return _number(ours), _number(hands), _number(ends)


def _between(steps: Sequence[Moments], from_day: float, until: int | None) -> float:
    if until is None:
        return inf
    return sum(step.samples for step in steps if from_day * _DAY <= step.minute < until)


def _number(value: float) -> str:
    return "not found" if value == inf else f"{value:,.0f}"


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=["false", "ends", "delays"])
    asked = parser.parse_args()
    print(f"{asked.runs} runs each, false_alarm_every 30d")
    for name, part in (("false", _false_alarms), ("ends", _false_ends), ("delays", _delays)):
        if asked.only in (None, name):
            part(asked.runs, random.Random(asked.seed))


if __name__ == "__main__":
    main()
