"""How often alerts are wrong and how late they are: what they were designed for against what happens in simulations.

Usage: python tests/system/bench/alert_rates.py [--runs 1000] [--seed 1]

Prints tables in Markdown. Results are random passes and fails, with a fixed seed; nothing else is involved than the
functions by which alerts are judged.
"""

import argparse
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, log
from statistics import median

from tracegrade.alert.detect.benjamini_hochberg import benjamini_hochberg
from tracegrade.alert.detect.bounds import chernoff_lower, share_p_value
from tracegrade.alert.detect.drop import BASELINE_ERROR
from tracegrade.alert.detect.sequential import DropDetector

EVERY = 10_000  # `false_alarm_every`, as it is unless set
BY = 0.1
AT_ONCE = 5  # results that come between two looks
STATED = 0  # a baseline that was not measured


def measured(share: float, samples: int, chance: random.Random) -> DropDetector:
    """A detector whose baseline is `samples` random results, or stated."""
    if samples == STATED:
        return DropDetector(share, BY)
    usual = count(share, samples, chance) / samples
    return DropDetector(chernoff_lower(usual, samples, BASELINE_ERROR), BY, usual=usual)


def count(share: float, samples: int, chance: random.Random) -> int:
    """How many of `samples` random results pass."""
    return sum(chance.random() < share for _ in range(samples))


def first_alarm(detector: DropDetector, shares: Iterator[float], chance: random.Random) -> int | None:
    """After how many results it alarms, when each `AT_ONCE` of them pass with the next of `shares`; None for never."""
    seen = 0
    for share in shares:
        passed = count(share, AT_ONCE, chance)
        detector.add(passed, AT_ONCE - passed)
        seen += AT_ONCE
        if detector.evidence >= EVERY:
            return seen
    return None


def steady(share: float, results: int) -> Iterator[float]:
    """So many results of one share."""
    return (share for _ in range(results // AT_ONCE))


@dataclass(frozen=True)
class FalseAlarms:
    """Within ``results`` results of a share that never changes."""

    share: float
    baseline: int
    results: int
    designed: float
    simulated: float


def false_alarms(share: float, baseline: int, results: int, runs: int, chance: random.Random) -> FalseAlarms:
    """The part of runs that alarm although nothing falls."""
    alarmed = sum(
        first_alarm(measured(share, baseline, chance), steady(share, results), chance) is not None for _ in range(runs)
    )
    designed = results / EVERY + (BASELINE_ERROR if baseline else 0)
    return FalseAlarms(share, baseline, results, designed, alarmed / runs)


@dataclass(frozen=True)
class Delay:
    """Results from a fall to its alarm."""

    share: float
    after: float
    baseline: int
    designed: float
    simulated: float
    found: float


def designed_delay(share: float, before: float, drop: float, evidence: float, usual: float) -> float:
    """How many results, about, it takes to find a share that has fallen to `share`: at most, on average.

    Args:
        share: the share after the fall.
        before: the share that the detector compares with, a lower bound of `usual`.
        drop: the smallest fall that it looks for; it looks for twice and four times as much, too.
        evidence: how much evidence an alarm takes.
        usual: the share before the fall.

    Returns:
        Infinity when so small a fall cannot be told from the baseline's own error.
    """
    falls = [after for after in (usual - drop, usual - 2 * drop, usual - 4 * drop) if 0.005 <= after < before]
    falls = falls or [min(0.005, before / 2)]
    best = max(share * log(after / before) + (1 - share) * log((1 - after) / (1 - before)) for after in falls)
    return log(evidence * len(falls)) / best if best > 0 else inf


def delay(share: float, after: float, baseline: int, runs: int, chance: random.Random, most: int = 3000) -> Delay:
    """The median delay of runs that begin with 200 results before the fall, and the part that finds it in `most`."""
    delays = []
    early = 0
    for _ in range(runs):
        detector = measured(share, baseline, chance)
        shares = (share if number < 200 // AT_ONCE else after for number in range((200 + most) // AT_ONCE))
        seen = first_alarm(detector, shares, chance)
        early += seen is not None and seen <= 200
        delays.append(float("inf") if seen is None else seen - 200)
    typical = share if baseline == STATED else chernoff_lower(share, baseline, BASELINE_ERROR)
    found = (sum(one < float("inf") for one in delays) - early) / (runs - early)
    return Delay(share, after, baseline, designed_delay(after, typical, BY, EVERY, share), median(delays), found)


@dataclass(frozen=True)
class ManySeries:
    """Many series at once, some of which fall."""

    series: int
    fallen: int
    designed: float
    simulated: float
    found: float


def many_series(series: int, fallen: int, results: int, runs: int, chance: random.Random) -> ManySeries:
    """Series whose passes fall from 0.9 to 0.7 or stay, looked at together; alarms are counted as they first come."""
    right = 0
    shares_of_wrong = []
    for _ in range(runs):
        detectors = [DropDetector(0.9, BY) for _ in range(series)]
        alarmed: set[int] = set()
        for _ in range(results // AT_ONCE):
            for number, detector in enumerate(detectors):
                passed = count(0.7 if number < fallen else 0.9, AT_ONCE, chance)
                detector.add(passed, AT_ONCE - passed)
            evidence = {number: 1 / max(1.0, detector.evidence) for number, detector in enumerate(detectors)}
            alarmed |= benjamini_hochberg(evidence, 1 / EVERY)
        false = sum(number >= fallen for number in alarmed)
        right += len(alarmed) - false
        shares_of_wrong.append(false / max(1, len(alarmed)))
    designed, simulated = results / EVERY, sum(shares_of_wrong) / runs
    return ManySeries(series, fallen, designed, simulated, right / max(1, fallen * runs))


def below_alarms(bound: float, samples: int, runs: int, chance: random.Random, error: float = 0.01) -> float:
    """The part of looks at a pass rate that is exactly the bound that would fire."""
    return sum(share_p_value(count(bound, samples, chance), samples, bound) <= error for _ in range(runs)) / runs


def days_with_alarms(share: float, bound: float, a_minute: int, runs: int, chance: random.Random) -> float:
    """The part of days on which a look at the last hour, made each minute, fires for a pass rate that stays."""
    fired = 0
    for _ in range(runs):
        minutes = [count(share, a_minute, chance) for _ in range(60)]
        inside = sum(minutes)
        for minute in range(24 * 60):
            minutes.append(count(share, a_minute, chance))
            inside += minutes[-1] - minutes[minute]
            if share_p_value(inside, 60 * a_minute, bound) <= 0.01:
                fired += 1
                break
    return fired / runs


def table(heading: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table in Markdown."""
    lines = [heading, ["---"] * len(heading), *([str(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    chance = random.Random(asked.seed)
    baselines = (STATED, 60, 500, 5000)
    print(f"False alarms of drop within 2,000 results, false_alarm_every {EVERY}, {asked.runs} runs each\n")
    rows = [
        false_alarms(share, baseline, 2000, asked.runs, chance)
        for share in (0.99, 0.95, 0.9, 0.7, 0.5)
        for baseline in baselines
    ]
    print(
        table(
            ("pass rate", "baseline", "designed: at most", "simulated"),
            [(r.share, r.baseline or "stated", f"{r.designed:.1%}", f"{r.simulated:.1%}") for r in rows],
        )
    )
    print(f"\nResults until a fall is found, by {BY}, false_alarm_every {EVERY}, {asked.runs} runs each\n")
    falls = [(0.99, 0.05), (0.99, 0.1), (0.95, 0.1), (0.9, 0.1), (0.9, 0.15), (0.9, 0.4), (0.7, 0.1), (0.7, 0.2)]
    found = [
        delay(share, share - fall, baseline, asked.runs, chance)
        for share, fall in falls
        for baseline in (STATED, 500, 5000)
    ]
    print(
        table(
            ("from", "to", "baseline", "designed", "simulated median", "found within 3,000"),
            [
                (
                    d.share,
                    f"{d.after:.2f}",
                    d.baseline or "stated",
                    f"{d.designed:.0f}",
                    f"{d.simulated:.0f}",
                    f"{d.found:.1%}",
                )
                for d in found
            ],
        )
    )
    print("\nMany series, 500 results each, false_alarm_every for all together, 20 runs each\n")
    many = [many_series(series, fallen, 500, 20, chance) for series, fallen in ((1, 0), (500, 0), (500, 25))]
    print(
        table(
            ("series", "of which fall", "false among alarms, designed: at most", "simulated", "falls found"),
            [
                (m.series, m.fallen, f"{m.designed:.1%}", f"{m.simulated:.1%}", f"{m.found:.1%}" if m.fallen else "-")
                for m in many
            ],
        )
    )
    print("\nLooks at a pass rate that is exactly the bound, confidence 0.99\n")
    looks = [(bound, samples) for bound in (0.5, 0.9, 0.95) for samples in (30, 100, 1000)]
    print(
        table(
            ("bound", "results", "designed", "simulated"),
            [(b, n, "1.0%", f"{below_alarms(b, n, 10 * asked.runs, chance):.1%}") for b, n in looks],
        )
    )
    print(f"\nDays on which below 0.9 over 1h fires, looked at each minute, {asked.runs // 5} days each\n")
    steady_rates = [(share, a_minute) for share in (0.9, 0.91, 0.93, 0.95) for a_minute in (1, 10)]
    print(
        table(
            ("pass rate that stays", "results an hour", "simulated"),
            [(s, 60 * n, f"{days_with_alarms(s, 0.9, n, asked.runs // 5, chance):.1%}") for s, n in steady_rates],
        )
    )


if __name__ == "__main__":
    main()
