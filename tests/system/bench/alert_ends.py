"""How soon alerts end when the level is back, and how often they end and begin again while it is not.

Usage: python tests/system/bench/alert_ends.py [--runs 6] [--seed 1] [--only WORD]

Prints tables in Markdown. Results are random, with a fixed seed; checks are those of the judge, over a history in
memory, as `alert_releases.py` makes them.
"""

import argparse
import random
import sys
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.alert_rates import table  # importable by the line above
from bench.alert_releases import BEGIN, DAY, DROP, Checks, rule_with
from bench.alert_traffic import Traffic

from tracegrade.alert.detect.evidence import Step
from tracegrade.store.schema import MINUTE_NS

BELOW = {"below": 0.9}
# How long a fall lasts before the level is back, and how long its end is waited for, in days.
LASTS = 1
WAITS = {50: 10, 500: 4, 2000: 3, 20_000: 1}


def there_and_back(traffic: Traffic, chance: random.Random) -> list[Step]:
    """Results of a fall after `BEGIN` days that is over after `LASTS` more."""
    days = BEGIN + LASTS + WAITS[int(traffic.a_day)]
    level = replace(traffic, fall=0.0).steps(days, chance)
    fallen = replace(traffic, falls_on=BEGIN).steps(BEGIN + LASTS, chance)
    return [*level[: BEGIN * DAY // 5], *fallen[BEGIN * DAY // 5 :], *level[len(fallen) :]]


def _ends(runs: int, chance: random.Random) -> None:
    rows = []
    for a_day, every in ((500, 15), (2000, 5), (20_000, 5)):
        for alert, share, fall in (
            (DROP, 0.97, 0.1),
            (DROP, 0.97, 0.2),
            (DROP, 0.85, 0.1),
            (DROP, 0.85, 0.2),
            (BELOW, 0.97, 0.17),
            (BELOW, 0.97, 0.27),
            (BELOW, 0.93, 0.13),
        ):
            found = [end(alert, Traffic(share, a_day, fall=fall), every, chance) for _ in range(runs)]
            begins, ends = ([each[number] for each in found] for number in (0, 1))
            again = sum(each[2] for each in found)
            name = f"{'`drop`' if alert is DROP else '`below: 0.9`'}, {share:.0%}, {a_day:,} a day"
            rows.append((name, f"{fall:.0%}", _minutes(begins), _minutes(ends), ends.count(inf), again))
    print("\nMinutes from a fall to its alert, and from its end a day later to the end of the alert; medians\n")
    print(table(("alert, traffic", "fall", "found after", "over after", "not over", "fired again"), rows))


def end(alert: dict[str, Any], traffic: Traffic, every: int, chance: random.Random) -> tuple[float, float, int]:
    """Found after so many minutes, over after so many, and how often it fired again."""
    back = (BEGIN + LASTS) * DAY
    checks = Checks(rule_with(alert), {"1": there_and_back(traffic, chance)})
    found, first = checks.first(LASTS, every)
    if first is None:
        return inf, inf, 0
    for minute in range(BEGIN * DAY + int(found) + 30, back, 30):
        checks.look(minute)
    for minute in range(back, back + WAITS[int(traffic.a_day)] * DAY, every):
        checks.look(minute)
        if all(each.state != "firing" for each in checks.course.alerts.values()):
            break
    ended = [each.ends_ns for each in checks.course.alerts.values() if each.ends_ns is not None]
    over = max(ended) / MINUTE_NS - back if len(ended) == len(checks.course.alerts) else inf
    return found, over, len(checks.course.alerts) - 1


def _alternations(runs: int, chance: random.Random) -> None:
    rows, days = [], 21
    levels: list[tuple[str, dict[str, Any], Traffic]] = [
        *((f"97 % to {97 - 100 * fall:g} %", DROP, Traffic(0.97, 2000, fall=fall)) for fall in (0.05, 0.07, 0.1, 0.2)),
        *((f"85 % to {85 - 100 * fall:g} %", DROP, Traffic(0.85, 2000, fall=fall)) for fall in (0.05, 0.1)),
        ("97 % to 87 %, 20,000 a day", DROP, Traffic(0.97, 20_000, fall=0.1)),
        ("85 % to 75 %, bursts (concentration 10)", DROP, Traffic(0.85, 2000, concentration=10, fall=0.1)),
        (
            "93 % to 83 %, hours wander by 3 points (memory 0.97)",
            DROP,
            Traffic(0.93, 2000, 0, 1, None, 6, 0, 0.03, 0.97, 0.1),
        ),
        *((f"97 % to {level:.1%}", BELOW, Traffic(0.97, 2000, fall=0.97 - level)) for level in (0.8, 0.87, 0.89, 0.9)),
        ("97 % to 87 %, bursts (concentration 10)", BELOW, Traffic(0.97, 2000, concentration=10, fall=0.1)),
    ]
    for name, alert, traffic in levels:
        fired = again = 0
        for _ in range(runs):
            once, more = alternations(alert, traffic, days, chance)
            fired, again = fired + once, again + more
        kind = "`drop`" if alert is DROP else "`below: 0.9`"
        rows.append((f"{kind}, {name}", days * runs, f"{days * runs / 30:.1f}", f"{fired} of {runs}", again))
    print("\nA level that stays where it fell to: how often the alert ended and fired again\n")
    print(table(("alert, level", "days", "promised: at most", "fired", "again"), rows))


def alternations(
    alert: dict[str, Any], traffic: Traffic, days: int, chance: random.Random, every: int = 120
) -> tuple[bool, int]:
    """Whether a lasting fall fired, looked at every so many minutes, and how often it ended and fired again."""
    steps = replace(traffic, falls_on=BEGIN).steps(BEGIN + days, chance)
    alerts = len(Checks(rule_with(alert), {"1": steps}).run(BEGIN, BEGIN + days, every).alerts)
    return alerts > 0, max(0, alerts - 1)


def _minutes(found: Sequence[float]) -> str:
    middle = median(found)
    return "not found" if middle == inf else f"{middle:,.0f}"


PARTS = {"ends": _ends, "alternations": _alternations}


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=[*PARTS])
    asked = parser.parse_args()
    print(f"{asked.runs} runs each, false_alarm_every 30d")
    for name, part in PARTS.items():
        if asked.only in (None, name):
            part(asked.runs, random.Random(asked.seed))


if __name__ == "__main__":
    main()
