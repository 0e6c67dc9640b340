"""Alerts where releases come and go: is one fall one incident, is the right release named, and is nothing else told?

Usage: python tests/system/bench/alert_releases.py [--runs 6] [--days 100] [--seed 1] [--only WORD]

Prints tables in Markdown. Results are random, with a fixed seed; checks are those of the judge, over a history in
memory. `drop: {against: 7d, by: 0.1}`, 97 % pass before; times are in minutes.
"""

import argparse
import random
import sys
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.alert_rates import table
from bench.alert_traffic import Traffic, binomial, by_hour

from tracegrade.alert.check import Before, Ending, check, looks_back_s
from tracegrade.alert.detect.evidence import Step
from tracegrade.alert.incidents import incidents_now
from tracegrade.model.tally import Tally, total
from tracegrade.rule.rule import Rule
from tracegrade.store.alerts import StoredAlert
from tracegrade.store.history import Bin, SeriesKey, Window
from tracegrade.store.incidents import Incident
from tracegrade.store.schema import MINUTE_NS

DAY = 24 * 60
BEGIN = 16  # days of history
DROP = {"drop": {"against": "7d", "by": 0.1}}

Results = Mapping[str | None, Sequence[Step]]
"""The results of each release, by its name, in steps of five minutes."""


def split(steps: Sequence[Step], part: float, chance: random.Random) -> tuple[list[Step], list[Step]]:
    """Results of one traffic, of which `part` go to another release: what is left, and what goes there."""
    there = [
        step._replace(good=binomial(int(step.good), part, chance), bad=binomial(int(step.bad), part, chance))
        for step in steps
    ]
    left = [
        step._replace(good=step.good - gone.good, bad=step.bad - gone.bad)
        for step, gone in zip(steps, there, strict=True)
    ]
    return left, there


def deployed(steps: Iterable[Step], every: int) -> Results:
    """Results of one traffic of which each stretch of `every` minutes goes to another release."""
    found: dict[str | None, list[Step]] = {}
    for step in steps:
        found.setdefault(f"1.{step.minute // every}", []).append(step)
    return found


def within(steps: Iterable[Step], first: float, last: float) -> list[Step]:
    """The steps from the day `first` on, up to the day `last`."""
    return [step for step in steps if first * DAY <= step.minute < last * DAY]


def rule_with(*alerts: dict[str, Any]) -> Rule:
    """A rule with these alerts."""
    evaluation = {"evaluator": "tool-call-order", "name": "order", "tool_calls_order": ["a", "b"]}
    return Rule.model_validate({"id": "one", "evaluate": [evaluation], "alert": list(alerts)})


class History:
    """Simulated results, as checks read them: by the hour, or by five minutes in place of the minute."""

    def __init__(self, rule: Rule, results: Results) -> None:
        self._fine, self._hours = dict[SeriesKey, list[Bin]](), dict[SeriesKey, list[Bin]]()
        for release, steps in results.items():
            key = SeriesKey("default", rule.id, rule.hash, "", "shop", "support", release)
            self._fine[key] = list(_bins(steps))
            first = -steps[0].minute // 5 % 12 if steps else 0
            self._hours[key] = list(_bins([*by_hour_of(steps[:first]), *by_hour(steps[first:])]))
        self.bins = lru_cache(8)(self._read)

    def _read(self, rule_id: str, window: Window, by_minute: bool = False) -> Mapping[SeriesKey, Sequence[Bin]]:
        """See `tracegrade.alert.scan.History.bins`."""
        if not rule_id:
            return {}
        first, end = window.since_ns // MINUTE_NS, window.until_ns // MINUTE_NS
        found = {}
        for key, bins in (self._fine if by_minute else self._hours).items():
            if bins and bins[0].minute < end and bins[-1].minute >= first:
                low, high = (bisect_left(bins, minute, key=lambda item: item.minute) for minute in (first, end))
                if low < high:
                    found[key] = bins[low:high]
        return found

    def backfilled(self, rule_id: str, window: Window) -> Mapping[SeriesKey, Sequence[Bin]]:
        """See `tracegrade.alert.read.History.backfilled`."""
        return {}

    def totals(self, rule_id: str, window: Window) -> Mapping[SeriesKey, Tally]:
        """See `tracegrade.alert.scan.History.totals`."""
        return {key: total(item.tally for item in bins) for key, bins in self.bins(rule_id, window).items()}


def by_hour_of(steps: Sequence[Step]) -> list[Step]:
    """The one step of what is less than an hour."""
    return [step._replace(minute=step.minute // 60 * 60) for step in by_hour(steps)]


def _bins(steps: Iterable[Step]) -> Iterator[Bin]:
    for minute, minutes, good, bad in steps:
        if good + bad:
            yield Bin(minute, minutes, Tally.of(int(good), int(bad), 0, 0))


@dataclass
class Course:
    """What checks found: every alert, and every incident."""

    alerts: dict[str, StoredAlert] = field(default_factory=dict)
    incidents: dict[str, Incident] = field(default_factory=dict)

    def began(self) -> list[tuple[int, StoredAlert]]:
        """The minute in which each alert began, in order of time."""
        found = ((alert.starts_ns // MINUTE_NS, alert) for alert in self.alerts.values())
        return sorted(found, key=lambda each: each[0])


class Checks:
    """Checks of one rule in order of time, which know of the ones before."""

    def __init__(self, rule: Rule, results: Results) -> None:
        self.rule, self.history = rule, History(rule, results)
        self.course = Course()
        self.accepted: set[str] = set()
        self._back_ns = int(looks_back_s([rule]) * 1e9)

    def look(self, minute: int) -> list[StoredAlert]:
        """The alerts that begin with a check at `minute`."""
        now_ns, known = minute * MINUTE_NS, self.course.alerts
        firing = [alert for alert in known.values() if alert.state == "firing"]
        ended = [a for a in known.values() if a.ends_ns is not None and a.ends_ns >= now_ns - self._back_ns]
        before = Before(firing, ended, accepted=frozenset(self.accepted))
        checked = check(self.history, [self.rule], before, now_ns, Ending())
        new = [alert for alert in checked.open if alert.key not in known]
        known.update((alert.key, alert) for alert in (*checked.open, *checked.resolved))
        fire = [each for each in self.course.incidents.values() if each.state == "firing"]
        for incident in incidents_now(fire, [*checked.open, *checked.resolved], lambda one, other: True):
            self.course.incidents[incident.id] = incident
        return new

    def run(self, first: float, last: float, every: int = 5) -> Course:
        """Look from the day `first` to the day `last`, every so many minutes."""
        for minute in range(round(first * DAY), round(last * DAY) + 1, every):
            self.look(minute)
        return self.course

    def first(self, days: float, every: int = 5) -> tuple[float, StoredAlert | None]:
        """The first alert after `BEGIN`, and how many minutes after; infinitely many when none begins."""
        for minute in range(BEGIN * DAY + every, round((BEGIN + days) * DAY), every):
            if new := self.look(minute):
                return minute - BEGIN * DAY, new[0]
        return inf, None


def _minutes(found: Sequence[float]) -> str:
    middle = median(found)
    return "not found" if middle == inf else f"{middle:,.0f}"


def _days_to_find(a_day: float) -> float:
    return 1 if a_day > 5000 else 4


def _deploys(runs: int, chance: random.Random) -> None:
    rows = []
    for a_day in (300, 1000, 20_000):
        found: list[tuple[float, float]] = []
        incidents = alerts = 0
        for _ in range(runs):
            days = _days_to_find(a_day)
            steps = Traffic(0.97, a_day, fall=0.2, falls_on=BEGIN).steps(BEGIN + days + 1, chance)
            often, one = Checks(rule_with(DROP), deployed(steps, 90)), Checks(rule_with(DROP), {"1": steps})
            found.append((often.first(days)[0], one.first(days)[0]))
            often.run(BEGIN + found[-1][0] / DAY, BEGIN + days + 1, 15)
            incidents += len(often.course.incidents)
            alerts += len(often.course.alerts)
        delays = (_minutes([each[number] for each in found]) for number in (0, 1))
        rows.append((f"{a_day:,}", *delays, f"{incidents / runs:g}", f"{alerts / runs:g}"))
    print("\nA release each 90 minutes, and a lasting fall by 20 points\n")
    print(table(("results a day", "found after", "without releases", "incidents", "alerts"), rows))


def _canaries(runs: int, chance: random.Random) -> None:
    rows = []
    for a_day in (1000, 20_000):
        for part in (0.1, 0.2, 0.5):
            for fall in (0.2, 0.4, 0.97):
                found = [_canary(a_day, part, fall, chance) for _ in range(runs)]
                times = [_minutes([each[number] for each in found]) for number in (0, 1, 3)]
                named = sum(each[2] for each in found)
                again = sum(each[4] for each in found)
                rows.append(
                    (f"{a_day:,}", f"{part:.0%}", f"{fall:.0%}", *times[:2], f"{named} of {runs}", times[2], again)
                )
    print("\nA new release takes a part of the traffic and is worse; it is rolled back when it is found\n")
    heading = ("results a day", "part", "fall", "found after", "all together", "named", "over after", "fired again")
    print(table(heading, rows))


def _canary(a_day: float, part: float, fall: float, chance: random.Random) -> tuple[float, float, bool, float, int]:
    """Found after, by all releases together alone, whether it was named, over after, how often it fired again."""
    days = _days_to_find(a_day)
    old = Traffic(0.97, a_day).steps(BEGIN, chance)
    rest = within(Traffic(0.97, a_day * (1 - part)).steps(BEGIN + days, chance), BEGIN, inf)
    new = within(Traffic(0.97 - fall, a_day * part).steps(BEGIN + days, chance), BEGIN, inf)
    checks = Checks(rule_with(DROP), {"1": old + rest, "2": new})
    found, alert = checks.first(days)
    both = [one._replace(good=one.good + two.good, bad=one.bad + two.bad) for one, two in zip(rest, new, strict=True)]
    together, _ = Checks(rule_with(DROP), {"1": old + both}).first(days)
    if alert is None:
        return inf, together, False, inf, 0
    back = BEGIN * DAY + int(found)
    after = [step for step in Traffic(0.97, a_day).steps(BEGIN + days + 1, chance) if step.minute >= back]
    left = [[step for step in steps if step.minute < back] for steps in (rest, new)]
    checks.history = History(checks.rule, {"1": old + left[0] + after, "2": left[1]})
    checks.run((back + 5) / DAY, back / DAY + 1)
    ended = checks.course.alerts[alert.key].ends_ns
    over = inf if ended is None else ended / MINUTE_NS - back
    return found, together, alert.release == "2", over, len(checks.course.alerts) - 1


def _common(runs: int, chance: random.Random) -> None:
    rows = []
    for a_day in (1000, 20_000):
        for part in (0.1, 0.5):
            blamed, found = 0, list[tuple[float, float]]()
            for _ in range(runs):
                days = _days_to_find(a_day)
                steps = Traffic(0.97, a_day, fall=0.2, falls_on=BEGIN).steps(BEGIN + days, chance)
                left, there = split(within(steps, BEGIN - 0.5, inf), part, chance)
                checks = Checks(rule_with(DROP), {"1": within(steps, 0, BEGIN - 0.5) + left, "2": there})
                delay, _ = checks.first(days)
                checks.run(BEGIN + min(delay, DAY) / DAY, BEGIN + days, 15)
                blamed += sum(alert.release is not None for alert in checks.course.alerts.values())
                found.append((delay, Checks(rule_with(DROP), {"1": steps}).first(days)[0]))
            delays = (_minutes([each[number] for each in found]) for number in (0, 1))
            rows.append((f"{a_day:,}", f"{part:.0%}", *delays, f"{blamed} of {runs}"))
    print("\nTwo releases beside each other fall together, by 20 points\n")
    print(table(("results a day", "part of one", "found after", "with one release", "a release was blamed"), rows))


def rolled_out(traffic: Traffic, part: float, days: float, chance: random.Random, common: bool) -> Results:
    """Each day a new release takes `part` of the traffic for half a day, then all; bursts are `common` or its own."""
    found: dict[str | None, list[Step]] = {}
    steps = traffic.steps(days, chance)
    if common:
        left, there = split(steps, part, chance)
    else:
        shares = (replace(traffic, a_day=traffic.a_day * size) for size in (1 - part, part))
        left, there = (each.steps(days, chance) for each in shares)
    for whole, some, others in zip(steps, left, there, strict=True):
        day, minute = divmod(whole.minute, DAY)
        if minute < DAY // 2:
            found.setdefault(f"1.{day - 1}", []).append(some)
        found.setdefault(f"1.{day}", []).append(others if minute < DAY // 2 else whole)
    return found


def _false(days: int, chance: random.Random) -> None:
    rows = []

    def count(name: str, results: Results) -> None:
        course = Checks(rule_with(DROP), results).run(14, 14 + days, 30)
        rows.append((name, days, f"{days / 30:.1f}", len(course.alerts)))

    for a_day in (300, 1000, 20_000):
        steps = Traffic(0.97, a_day).steps(14 + days, chance)
        count(f"97 %, a release each 90 minutes, {a_day:,} a day", deployed(steps, 90))
    for a_day in (1000, 20_000):
        for name, traffic, common in (
            ("3 points up and down, volume swings 20 times", Traffic(0.96, a_day, 0.03, 20), False),
            ("bursts of each release (concentration 10), 85 %", Traffic(0.85, a_day, concentration=10), False),
            ("bursts of all (concentration 10), 85 %", Traffic(0.85, a_day, concentration=10), True),
        ):
            count(
                f"{name}, a canary of 20 % each day, {a_day:,} a day",
                rolled_out(traffic, 0.2, 14 + days, chance, common),
            )
    differ = {"1": Traffic(0.97, 1000).steps(14 + days, chance), "": Traffic(0.85, 300).steps(14 + days, chance)}
    count("two releases for good, 97 % and 85 %, 1,000 and 300 a day", differ)
    print("\nAlarms where nothing fell\n")
    print(table(("traffic", "days", "promised: at most", "alarms"), rows))


def _accepted(runs: int, chance: random.Random) -> None:
    rows = []
    for a_day, fall in ((50, 0.2), (50, 0.4), (1000, 0.2)):
        again, found = 0, {1: list[float](), 4: list[float]()}
        for _ in range(runs):
            steps = Traffic(0.97, a_day, fall=fall, falls_on=BEGIN).steps(BEGIN + 24, chance)
            delay, alert = Checks(rule_with(DROP), {"1": steps}).first(7, 30)
            if alert is None:
                continue
            at = BEGIN + delay / DAY
            same = _accept(steps, alert, at)
            same.run(at + 1 / 24, at + 14.5, 60)
            again += len(same.course.alerts) - 1
            for after, times in found.items():
                further = within(Traffic(0.97 - 2 * fall, a_day).steps(BEGIN + 24, chance), at + after, inf)
                checks = _accept([*within(steps, 0, at + after), *further], alert, at)
                course = checks.run(at + after, at + after + 8, 60)
                fired = [minute - (at + after) * DAY for minute, _ in course.began()[1:]]
                times.append(fired[0] if fired else inf)
        rows.append((a_day, f"{fall:.0%}", again, *map(_minutes, found.values())))
    print("\nA fall is accepted; then a further one, by as much, 1 or 4 days later\n")
    print(table(("results a day", "fall", "fired again in 14 days", "found after: 1 day later", "4 days later"), rows))


def _accept(steps: Sequence[Step], alert: StoredAlert, day: float) -> Checks:
    """Checks after the level of `alert` was accepted on `day`."""
    checks = Checks(rule_with(DROP), {"1": steps})
    checks.course.alerts[alert.key] = alert
    checks.accepted.add(alert.key)
    checks.look(round(day * DAY) + 15)
    return checks


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--days", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=["deploys", "canaries", "common", "accepted", "false"])
    asked = parser.parse_args()
    print(f"{asked.runs} runs each, false_alarm_every 30d")
    parts = {"deploys": _deploys, "canaries": _canaries, "common": _common, "accepted": _accepted}
    for name, part in parts.items():
        if asked.only in (None, name):
            part(asked.runs, random.Random(asked.seed))
    if asked.only in (None, "false"):
        _false(asked.days, random.Random(asked.seed))


if __name__ == "__main__":
    main()
