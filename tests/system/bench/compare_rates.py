"""How often ``tracegrade compare`` is right: its whole decision on simulated results whose truth is known.

    python tests/system/bench/compare_rates.py [--runs 1000] [--seed 1] [--only WORDS]

Prints tables in Markdown. Each line is one kind of results, compared many times: how often any rule is said to be worse
(exit code 1), and what else is said of the first rule, which alone changes where one does. Nothing else is involved
than the functions by which results are compared once they are read.
"""

import argparse
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tracegrade.compare.collected import Collected, Place, Unit
from tracegrade.compare.comparison import by_results, decided
from tracegrade.compare.measures import SideMeasures
from tracegrade.compare.tally import RuleTallies
from tracegrade.compare.verdict import VERDICTS, Verdict, exit_code
from tracegrade.model.tally import Tally, total
from tracegrade.model.usage import no_prices
from tracegrade.rule.gate import MARGIN

Results = Sequence[tuple[str, str | None, bool, float]]
"""Of each result: what goes together with it, its case, whether it passes, and how probable it was that it is kept."""

Made = Callable[[random.Random, float], Results]
"""The results of one side, of a rule that passes with this chance."""


def single(number: int) -> Made:
    """Results of as many different subjects."""

    def made(chance: random.Random, share: float) -> Results:
        return [(str(place), None, chance.random() < share, 1.0) for place in range(number)]

    return made


def sessions(number: int, size: int, alike: float) -> Made:
    """Sessions of `size` results; each has a share of its own, with the intra-class correlation `alike`."""
    strength = 1 / alike - 1

    def made(chance: random.Random, share: float) -> Results:
        own = [chance.betavariate(share * strength, (1 - share) * strength) for _ in range(number)]
        return [(f"s{place}", None, chance.random() < of, 1.0) for place, of in enumerate(own) for _ in range(size)]

    return made


def sampled(number: int, kept: float) -> Made:
    """A sample of so many subjects that keeps every fail, and passes with the probability `kept`."""

    def made(chance: random.Random, share: float) -> Results:
        drawn = [(str(place), chance.random() < share) for place in range(number)]
        return [
            (name, None, passed, kept if passed else 1.0)
            for name, passed in drawn
            if not passed or chance.random() < kept
        ]

    return made


def cases(number: int, repetitions: int) -> Made:
    """Cases, the same on both sides, each run several times; some are harder than others."""

    def made(chance: random.Random, share: float) -> Results:
        hardness = random.Random(number)
        found = []
        for case in range(number):
            own = hardness.random() ** (1 / share - 1)  # has the mean `share`
            found += [(f"{case}/{again}", f"case {case}", chance.random() < own, 1.0) for again in range(repetitions)]
        return found

    return made


@dataclass(frozen=True)
class Kind:
    """One line: how results are made, the shares on A and B of the first rule, and of how many other rules."""

    name: str
    made: Made
    a: float
    b: float
    others: int = 0


def kinds() -> Iterator[Kind]:
    """What is simulated: where nothing changed, where the first rule fell, and where it fell by just the margin."""
    shapes: dict[str, Made] = {
        "1,000 single results a side": single(1000),
        "200 sessions of 5 results, intra-class correlation 0.3": sessions(200, 5, 0.3),
        "a sample of 5,000 that keeps fails and a tenth of the passes": sampled(5000, 0.1),
        "300 cases, once each": cases(300, 1),
        "100 cases, 5 times each": cases(100, 5),
    }
    for name, made in shapes.items():
        yield Kind(name, made, 0.95, 0.95)
    yield Kind("200 single results a side", single(200), 0.99, 0.99)
    yield Kind("20 rules, 1,000 single results a side", single(1000), 0.95, 0.95, 19)
    for name, made in shapes.items():
        yield Kind(name, made, 0.95, 0.90)
    yield Kind("20 rules of which one fell, 1,000 single results a side", single(1000), 0.95, 0.90, 19)
    yield Kind("3,000 single results a side", single(3000), 0.95, 0.95 - MARGIN)
    yield Kind("600 sessions of 5 results, intra-class correlation 0.3", sessions(600, 5, 0.3), 0.95, 0.95 - MARGIN)


def compared(kind: Kind, chance: random.Random) -> tuple[bool, Verdict]:
    """Whether one comparison ends with 1, and the verdict on the first rule."""
    a, b = (_side(kind, first, chance, name) for name, first in (("a", kind.a), ("b", kind.b)))
    found = decided(by_results(a, b, sorted(a.tallies), {}), MARGIN)
    return exit_code(rule.verdict for rule in found) == 1, found[0].verdict


def _side(kind: Kind, first: float, chance: random.Random, name: str) -> Collected:
    side = Collected(SideMeasures(no_prices))
    for rule in range(1 + kind.others):
        key = (f"rule {rule:02}", "hash")
        parts = []
        results = kind.made(chance, first if rule == 0 else 0.95)
        for number, (together, case, passed, probability) in enumerate(results):
            trace = f"{name}{number:015}".encode()
            place = Place("default", trace, f"{name} {together}" if together.startswith("s") else trace)
            side.units[*key, ""].append(Unit(place, "subject", case, None, passed, probability))
        for probability in sorted({result[3] for result in results}):
            outcomes = Counter(passed for _, _, passed, kept in results if kept == probability)
            parts.append(Tally.of(outcomes[True], outcomes[False], 0, 0, weight=1 / probability))
        side.tallies[key] = RuleTallies(total(parts))
    return side


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000, help="comparisons of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", metavar="WORDS", help="only the kinds whose name has these words")
    options = parser.parse_args()
    print(f"| results | A, B | exit 1 | {' | '.join(word.replace('_', ' ') for word in VERDICTS)} |")
    print("| --- | --- | --- | " + " | ".join("---" for _ in VERDICTS) + " |")
    for kind in kinds():
        if options.only not in kind.name:
            continue
        chance = random.Random(f"{options.seed} {kind}")
        found = [compared(kind, chance) for _ in range(options.runs)]
        words = Counter(word for _, word in found)
        shares = [sum(ended for ended, _ in found), *(words[word] for word in VERDICTS)]
        numbers = " | ".join(f"{share / options.runs:.1%}" for share in shares)
        print(f"| {kind.name} | {kind.a:.2f}, {kind.b:.2f} | {numbers} |", flush=True)


if __name__ == "__main__":
    main()
