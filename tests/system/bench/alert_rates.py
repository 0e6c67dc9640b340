"""How often alerts are wrong and how late they are: what is promised against what happens in simulations.

Usage: python tests/system/bench/alert_rates.py [--runs 12] [--seed 1] [--only WORDS]

Prints tables in Markdown. Results are random, with a fixed seed; nothing else is involved than the functions by which
alerts are judged. Beside ours: the yardstick, a CUSUM that knows the shares before and after and has one false alarm in
30 days, as simulated on the same traffic; and the rule that people write by hand in Prometheus (the rate of an hour is
10 points below the usual one for 10 minutes).
"""

import argparse
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import inf, log
from pathlib import Path
from statistics import median

sys.path.extend(map(str, Path(__file__).parents[1:2]))

from bench.alert_traffic import DAY, STEP, STEPS_A_DAY, Traffic, binomial, by_hour  # importable by the line above

from tracegrade.alert.detect.bound import past_bound
from tracegrade.alert.detect.drop import fall
from tracegrade.alert.detect.evidence import Evidence, Step, look_for
from tracegrade.alert.detect.stands_out import stands_out
from tracegrade.alert.detect.usual import Usual, dispersion_of, usuals_of

EVERY_S = 30 * 86_400.0  # `false_alarm_every`, as it is unless set
BY = 0.1
MIN_SAMPLES = 30
HISTORY_DAYS = 7
_WEEK = 7 * 24  # hours
_FINE = 60  # minutes that are looked at in steps; before them, hours


Look = Callable[[Sequence[Step], Sequence[Step]], Evidence | None]
"""The evidence in results of some time, given those of the time before it; None for no baseline yet."""


def end(steps: Sequence[Step]) -> int:
    """The minute at which they end."""
    return steps[-1].minute + steps[-1].minutes


def look_for_drop(results: Sequence[Step], before: Sequence[Step], by: float = BY) -> Evidence | None:
    """As ``drop: {against: 7d}`` looks."""
    found = [
        look_for(fall(usual, by), reversed(results), usual.dispersion, EVERY_S, end(results))
        for usual in _baselines(tuple(before), by)
    ]
    if not found:
        return None
    strongest = max(found, key=lambda one: one.value)
    return Evidence(sum(one.value for one in found) / len(found), strongest.since)


@lru_cache(4)  # it changes once an hour
def _baselines(before: tuple[Step, ...], by: float) -> list[Usual]:
    """What is usual by the week before, and by the one three weeks before that, as far as they are whole."""
    weeks = [before[max(0, len(before) - (ago + 1) * _WEEK) : max(0, len(before) - ago * _WEEK)] for ago in range(3)]
    return [
        usual
        for week, usual in zip((weeks[0], weeks[2]), usuals_of(weeks, by), strict=True)
        if len(week) == _WEEK and usual is not None and usual.samples >= MIN_SAMPLES
    ]


def look_for_bound(bound: float) -> Look:
    """As ``below`` looks."""
    change = past_bound(bound)
    dispersion = lru_cache(4)(dispersion_of)
    return lambda results, before: look_for(
        change, reversed(results), dispersion(tuple(before or results)), EVERY_S, end(results)
    )


def looks(
    steps: Sequence[Step], look: Look, first_day: float, every: int, *, begins_anew: bool = True
) -> Iterator[tuple[int, Evidence]]:
    """What each look from `first_day` on sees: the minute and the evidence, which `begins_anew` after an alarm."""
    hours = by_hour(steps)
    reach = HISTORY_DAYS * 24
    ended = 0
    for now in range(int(first_day * DAY), steps[-1].minute + STEP + 1, every):
        hour = now // 60
        since = max(hour - reach, -(-ended // 60))
        fine = max(hour * 60 - _FINE, ended)
        seen = [*hours[since : fine // 60], *steps[fine // STEP : now // STEP]]
        if sum(step.good + step.bad for step in seen) < MIN_SAMPLES:
            continue
        if (found := look(seen, hours[max(0, hour - 4 * reach) : max(0, hour - reach)])) is None:
            continue
        yield now, found
        if found.value >= 1 and begins_anew:
            ended = now


def alarms(
    steps: Sequence[Step], look: Look = look_for_drop, first_day: float = 2 * HISTORY_DAYS, every: int = 15
) -> list[int]:
    """The minutes of all alarms; each is taken as over at once, which makes as many as there can be."""
    return [now for now, found in looks(steps, look, first_day, every) if found.value >= 1]


_CALIBRATED_DAYS = 900


def cusum(steps: Sequence[Step], before: float, after: float, threshold: float, from_day: float = 0.0) -> list[int]:
    """The minutes at which a CUSUM (E. S. Page) alarms that knows the shares; it begins anew after each."""
    good, bad = log(after / before), log((1 - after) / (1 - before))
    found: list[int] = []
    evidence = 0.0
    for step in steps:
        evidence = max(0.0, evidence) + step.good * good + step.bad * bad
        if evidence >= threshold:
            evidence = 0.0
            if step.minute >= from_day * DAY:
                found.append(step.minute + step.minutes)
    return found


def threshold_of(traffic: Traffic, after: float, chance: random.Random) -> float:
    """With which a CUSUM has one false alarm in 30 days, on so much traffic without a fall."""
    steps = replace(traffic, fall=0.0).steps(_CALIBRATED_DAYS, chance)
    low, high = 0.0, 60.0
    for _ in range(12):
        middle = (low + high) / 2
        if len(cusum(steps, traffic.share, after, middle)) > _CALIBRATED_DAYS / 30:
            low = middle
        else:
            high = middle
    return high


def by_hand(steps: Sequence[Step], usual: float, from_day: float = 0.0) -> list[int]:
    """When the rule in Prometheus fires: ten minutes in which the rate of an hour is `BY` below `usual`."""
    found: list[int] = []
    held = 0
    firing = False
    for number in range(12, len(steps) + 1):
        hour = steps[number - 12 : number]
        good, results = sum(step.good for step in hour), sum(step.good + step.bad for step in hour)
        held = held + 1 if results and good / results < usual - BY else 0
        if held >= 3 and not firing and steps[number - 1].minute >= from_day * DAY:
            found.append(steps[number - 1].minute + STEP)
        firing = held >= 3
    return found


@dataclass(frozen=True)
class FalseAlarms:
    """Alarms in ``days`` days in which nothing fell by as much as matters; at most ``promised`` are allowed."""

    days: float
    promised: float
    ours: int
    by_hand: int


def false_alarms(
    traffic: Traffic, days: int, runs: int, chance: random.Random, look: Look = look_for_drop
) -> FalseAlarms:
    """Alarms of so many runs, each after two weeks of history."""
    ours = hand = 0
    for _ in range(runs):
        steps = traffic.steps(2 * HISTORY_DAYS + days, chance)
        ours += len(alarms(steps, look))
        hand += len(by_hand(steps, traffic.share, 2 * HISTORY_DAYS))
    return FalseAlarms(days * runs, days * runs * 86_400 / EVERY_S, ours, hand)


@dataclass(frozen=True)
class Delay:
    """Results from a fall to its alarm, medians; infinite where it is not found in time."""

    ours: float
    yardstick: float
    by_hand: float
    missed: int = 0


def delay(
    traffic: Traffic, days: float, runs: int, chance: random.Random, every: int = STEP, bound: float | None = None
) -> Delay:
    """Delays of a fall after two weeks of history, with `days` to find it, by ``drop`` or below a `bound`.

    The yardstick of a bound is right as seldom at the bound: what lies above it is not known beforehand.
    """
    begin = 2 * HISTORY_DAYS
    before, after = bound or traffic.share, traffic.share - traffic.fall
    threshold = threshold_of(replace(traffic, share=before), after, chance)
    traffic = replace(traffic, falls_on=begin)
    look = look_for_drop if bound is None else look_for_bound(bound)
    found: list[tuple[float, float, float]] = []
    for _ in range(runs):
        steps = traffic.steps(begin + days, chance)
        first = next((now for now, seen in looks(steps, look, begin, every) if seen.value >= 1), None)
        best = next(iter(cusum(steps, before, after, threshold, begin)), None)
        hand = next(iter(by_hand(steps, traffic.share, begin)), None)
        found.append((_results(steps, begin, first), _results(steps, begin, best), _results(steps, begin, hand)))
    ours, yardstick, hands = zip(*found, strict=True)
    return Delay(median(ours), median(yardstick), median(hands), ours.count(inf))


def _results(steps: Sequence[Step], from_day: float, until: int | None) -> float:
    if until is None:
        return inf
    return sum(step.good + step.bad for step in steps if from_day * DAY <= step.minute < until)


@dataclass(frozen=True)
class ManySeries:
    """Of many series some fall: what part of those that alarmed within a week did not fall; what part was found."""

    false: float
    found: float


def many_series(traffic: Traffic, series: int, fallen: int, runs: int, chance: random.Random) -> ManySeries:
    """A week after the fall, a look each three hours at all series together."""
    shares, right = [], 0
    begin = 2 * HISTORY_DAYS
    fell = replace(traffic, falls_on=begin)
    for _ in range(runs):
        alarmed: set[int] = set()
        evidence: dict[int, dict[int, float]] = {}
        for number in range(series):
            steps = (fell if number < fallen else replace(traffic, fall=0.0)).steps(begin + 7, chance)
            for now, found in looks(steps, look_for_drop, begin, 180, begins_anew=False):
                evidence.setdefault(now, {})[number] = found.value
        for _, at_once in sorted(evidence.items()):
            # What fires is out of the choice from then on.
            alarmed |= stands_out(
                {number: value for number, value in at_once.items() if number not in alarmed},
                HISTORY_DAYS * 86_400 / EVERY_S,
            )
        false = sum(number >= fallen for number in alarmed)
        right += len(alarmed) - false
        shares.append(false / max(1, len(alarmed)))
    return ManySeries(sum(shares) / runs, right / max(1, fallen * runs))


STEADY = {
    "independent, 99 %, 1,000 a day": Traffic(0.99, 1000),
    "independent, 97 %, 1,000 a day": Traffic(0.97, 1000),
    "independent, 85 %, 1,000 a day": Traffic(0.85, 1000),
    "independent, 60 %, 1,000 a day": Traffic(0.6, 1000),
    "independent, 97 %, 5 a day": Traffic(0.97, 5),
    "independent, 97 %, 20 a day": Traffic(0.97, 20),
    "independent, 97 %, 1,000,000 a day": Traffic(0.97, 1_000_000),
    "96 %, 3 points up and down a day, volume swings 20 times, 1,000 a day": Traffic(0.96, 1000, 0.03, 20),
    "3 points up and down, 20,000 a day": Traffic(0.96, 20_000, 0.03, 20),
    "3 points up and down, 1,000,000 a day": Traffic(0.96, 1_000_000, 0.03, 20),
    "bursts (concentration 30), 97 %, 2,000 a day": Traffic(0.97, 2000, concentration=30),
    "bursts (concentration 30), 97 %, 20,000 a day": Traffic(0.97, 20_000, concentration=30),
    "bursts (concentration 10), 85 %, 2,000 a day": Traffic(0.85, 2000, concentration=10),
    "bursts (concentration 10), 85 %, 20,000 a day": Traffic(0.85, 20_000, concentration=10),
    "bursts of 2 h (concentration 4), 90 %, 2,000 a day": Traffic(0.9, 2000, concentration=4, burst_steps=24),
    "bursts of 2 h (concentration 10), 95 %, 2,000 a day": Traffic(0.95, 2000, concentration=10, burst_steps=24),
    "weekends 7 points lower, 96 %, 2,000 a day": Traffic(0.96, 2000, swing=8, weekend=0.07),
    "weekends 10 points lower, 96 %, 2,000 a day": Traffic(0.96, 2000, swing=8, weekend=0.1),
    "hours wander by 3 points (memory 0.9), 93 %, 2,000 a day": Traffic(0.93, 2000, wander=0.03, memory=0.9),
    "hours wander by 3 points (memory 0.97), 93 %, 2,000 a day": Traffic(0.93, 2000, wander=0.03, memory=0.97),
    "hours wander by 3 points (memory 0.97), 93 %, 20,000 a day": Traffic(0.93, 20_000, wander=0.03, memory=0.97),
    "hours wander by 3 points (memory 0.99), 93 %, 2,000 a day": Traffic(0.93, 2000, wander=0.03, memory=0.99),
    "hours wander by 5 points (memory 0.9), 93 %, 2,000 a day": Traffic(0.93, 2000, wander=0.05, memory=0.9),
}
SMALL_FALLS = {
    "a lasting fall of 1 point, 97 %, 20,000 a day": Traffic(0.97, 20_000, fall=0.01, falls_on=14),
    "a lasting fall of 1 point, 97 %, 2,000 a day": Traffic(0.97, 2000, fall=0.01, falls_on=14),
    "a lasting fall of 3 points, 60 %, 2,000 a day": Traffic(0.6, 2000, fall=0.03, falls_on=14),
}


def table(heading: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table in Markdown."""
    lines = [heading, ["---"] * len(heading), *([str(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _number(value: float) -> str:
    return "not found" if value == inf else f"{value:,.0f}"


def _false_alarms(runs: int, chance: random.Random, words: Sequence[str] = ("",)) -> None:
    rows = []
    for days, scenarios in ((30, STEADY), (14, SMALL_FALLS)):
        for name, traffic in scenarios.items():
            if not any(word in name for word in words):
                continue
            found = false_alarms(traffic, days, runs, chance)
            rows.append((name, f"{found.days:.0f}", f"{found.promised:.1f}", found.ours, found.by_hand))
    for share in (0.9, 0.91) if "" in words else ():
        for a_day in (60 * 24, 600 * 24, 6000 * 24):
            for concentration in (None, 10.0):
                traffic = Traffic(share, a_day, concentration=concentration)
                found = false_alarms(traffic, 7, runs, chance, look_for_bound(0.9))
                bursts = ", bursts (concentration 10)" if concentration else ""
                name = f"`below: 0.9`, {share:.0%} pass, {a_day // 24:,} an hour{bursts}"
                rows.append((name, f"{found.days:.0f}", f"{found.promised:.1f}", found.ours, "-"))
    print("\nAlarms where nothing fell by 10 points, `drop: {against: 7d, by: 0.1}` and `below`\n")
    print(table(("traffic", "days", "promised: at most", "alarms", "by hand"), rows))


def _delays(runs: int, chance: random.Random) -> None:
    rows = []
    for a_day, days, every in ((50, 14, 60), (500, 7, 15), (2000, 3, STEP), (20_000, 1, STEP)):
        for share in (0.85, 0.93, 0.97, 0.999):
            for size in (0.1, 0.2):
                found = delay(Traffic(share, a_day, fall=size), days, runs, chance, every)
                rows.append((f"{100 * share:g} %, {a_day:,} a day", f"{size:.0%}", *_of(found)))
    for name, traffic in (
        ("97 %, 2,000 a day, a day of the history at 50 %", Traffic(0.97, 2000, incident=(9,))),
        ("85 %, 2,000 a day, bursts (concentration 10)", Traffic(0.85, 2000, concentration=10)),
        ("96 %, 3 points up and down, volume swings 20 times, 1,000 a day", Traffic(0.96, 1000, 0.03, 20)),
    ):
        found = delay(replace(traffic, fall=0.2), 6, runs, chance)
        rows.append((name, "20%", *_of(found)))
    print("\nResults from a fall to its alarm, medians\n")
    print(table(("traffic", "fall", "ours", "yardstick", "times", "missed", "by hand"), rows))


def _bounds(runs: int, chance: random.Random) -> None:
    rows = []
    for a_day, days, every in ((50, 14, 60), (500, 7, 15), (2000, 3, STEP), (20_000, 1, STEP)):
        for share, size in ((0.93, 0.08), (0.93, 0.13), (0.97, 0.17), (0.97, 0.27)):
            found = delay(Traffic(share, a_day, fall=size), days, runs, chance, every, bound=0.9)
            rows.append((f"{share:.0%} to {share - size:.0%}, {a_day:,} a day", *_of(found)[:-1]))
    print("\nResults from a fall below the bound of `below: 0.9` to its alarm, medians\n")
    print(table(("traffic", "ours", "yardstick", "times", "missed"), rows))


def _outages(runs: int, chance: random.Random) -> None:
    rows = []
    begin, hour = 2 * HISTORY_DAYS * STEPS_A_DAY, 60 // STEP
    for share in (0.97, 0.93, 0.85):
        threshold = threshold_of(Traffic(share, 2000), 0.4, chance)
        found = known = 0
        for _ in range(4 * runs):
            first = begin + chance.randrange(STEPS_A_DAY // 2)
            steps = Traffic(share, 2000).steps(2 * HISTORY_DAYS + 1, chance)[: first + 2 + hour]
            for number in (first, first + 1):
                results = int(steps[number].good + steps[number].bad)
                good = binomial(results, 0.4, chance)
                steps[number] = Step(steps[number].minute, STEP, good, results - good)
            day = steps[first].minute / DAY
            found += bool(alarms(steps, first_day=day, every=STEP))
            known += bool(cusum(steps, share, 0.4, threshold, day))
        rows.append((f"{share:.0%}, 2,000 a day", f"{found} of {4 * runs}", f"{known} of {4 * runs}"))
    print("\nTen minutes in which 60 % fail: found within an hour by `drop`, and by the yardstick\n")
    print(table(("traffic", "found", "yardstick"), rows))


def _sizes(runs: int, chance: random.Random) -> None:
    rows = []
    for share, by in ((0.999, 0.01), (0.97, 0.05), (0.85, 0.1), (0.6, 0.1)):
        cells = []
        for a_day, days, every in ((5, 30, 360), (50, 14, 60), (2000, 5, 15), (20_000, 2, STEP)):
            found: list[float] = []
            for _ in range(runs):
                steps = Traffic(share, a_day, fall=by, falls_on=14).steps(14 + days, chance)
                seen = looks(steps, partial(look_for_drop, by=by), 14, every)
                found.append(next((now / 60 - 14 * 24 for now, one in seen if one.value >= 1), inf))
            cells.append(f"{median(found):.1f} h, {found.count(inf)} of {runs} missed in {days} d")
        rows.append((f"{100 * share:g} %", f"{by:g}", *cells))
    print("\nUntil a fall by `by` is found\n")
    print(table(("usual", "by", "5 a day", "50", "2,000", "20,000"), rows))


def _of(found: Delay) -> tuple[str, ...]:
    times = "-" if found.yardstick in (0, inf) else f"{found.ours / found.yardstick:.1f}"
    return _number(found.ours), _number(found.yardstick), times, str(found.missed), _number(found.by_hand)


def _drifts(runs: int, chance: random.Random) -> None:
    rows = []
    for share, by in ((0.97, 0.05), (0.97, 0.1), (0.93, 0.05)):
        days: list[float] = []
        for _ in range(runs):
            steps = Traffic(share, 2000, falls_on=28, drift=0.002).steps(28 + 45, chance)
            first = next(iter(alarms(steps, partial(look_for_drop, by=by), 28, 360)), None)
            days.append(inf if first is None else first / DAY - 28)
        rows.append((f"{share:.0%}, 2,000 a day", f"{by:.2f}", _number(median(days)), days.count(inf)))
    print("\nDays until a share that loses 0.2 points a day is found, after 28 days of history\n")
    print(table(("traffic", "by", "days", "missed in 45"), rows))


def _many(runs: int, chance: random.Random) -> None:
    rows = []
    for name, traffic in (
        ("independent", Traffic(0.9, 200, fall=0.3)),
        ("bursts (concentration 10)", Traffic(0.9, 200, fall=0.3, concentration=10)),
    ):
        for fallen in (0, 5):
            found = many_series(traffic, 500, fallen, max(1, runs // 6), chance)
            rows.append((name, fallen, f"{found.false:.1%}", f"{found.found:.1%}" if fallen else "-"))
    print("\n500 series, 200 results a day each, 90 % to 60 %, within a week\n")
    print(table(("results", "of which fall", "of those that alarmed, did not fall", "falls found"), rows))


PARTS = {
    "false": _false_alarms,
    "delays": _delays,
    "bounds": _bounds,
    "outages": _outages,
    "drifts": _drifts,
    "sizes": _sizes,
    "many": _many,
}


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=[*PARTS])
    parser.add_argument("--rows", nargs="+", help="of false alarms of `drop`, only of traffic with one of these words")
    asked = parser.parse_args()
    print(f"{asked.runs} runs each, false_alarm_every 30d")
    if asked.rows:
        _false_alarms(asked.runs, random.Random(asked.seed), asked.rows)
        return
    for name, part in PARTS.items():
        if asked.only in (None, name):
            part(asked.runs, random.Random(asked.seed))


if __name__ == "__main__":
    main()
