"""How right ``tracegrade compare`` is about how many times as many results would tell.

    python tests/system/bench/compare_needed.py [--runs 1000] [--seed 1]

Prints a table in Markdown. Each line is a comparison of which nothing can be told: how many times as many results it
says would tell, and what; then, of random comparisons of results with the same shares, how many tell that (worse, be it
within the margin or not; or not worse, or better) with half as many as that, with as many, and with twice as many.
"""

import argparse
import random
from collections.abc import Sequence
from math import ceil

from tracegrade.compare.needed import results_needed
from tracegrade.compare.pairing import Found
from tracegrade.compare.shares import Share, independent
from tracegrade.compare.verdict import Verdict, holm, is_failure, verdict
from tracegrade.rule.gate import MARGIN

KINDS: Sequence[tuple[float, float, int, int]] = (
    (0.95, 0.95, 200, 0),
    (1.0, 1.0, 60, 0),
    (0.95, 0.90, 200, 0),
    (0.95, 0.90, 200, 9),
    (1.0, 0.98, 400, 17),
    (0.80, 0.83, 200, 0),
    (0.99, 0.9773, 600, 0),
    (0.99, 0.9773, 600, 9),
    (0.90, 0.8873, 600, 0),
)
"""Shares on A and B, results a side, and how many other rules are compared that do not differ."""


def compared(a: Share, b: Share, others: int) -> tuple[Found, Verdict]:
    """The difference, and the verdict beside so many rules."""
    found = independent(a, b)
    return Found(found, made_of=(a, b)), verdict(found, holm([found.p, *[1.0] * others])[0])


def drawn(chance: random.Random, share: float, results: int) -> Share:
    """So many results, which pass with this chance."""
    passes = sum(chance.random() < share for _ in range(results))
    return Share(passes, results - passes)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000, help="random comparisons of each kind")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print("| A, B | results a side | rules | times as many | tells | with half | with as many | with twice |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for kind in KINDS:
        share_a, share_b, results, others = kind
        sides = (Share(share * results, (1 - share) * results) for share in (share_a, share_b))
        found, word = compared(*sides, others)
        needed = results_needed(found, [1.0] * others, MARGIN)
        if word != "cannot_tell" or needed is None:
            raise SystemExit(f"{kind}: expected a comparison that cannot tell, found {word}")
        chance = random.Random(f"{options.seed} {kind}")
        shares = []
        for more in (0.5, 1.0, 2.0):
            size = ceil(results * needed[0] * more)
            words = [
                compared(drawn(chance, share_a, size), drawn(chance, share_b, size), others)[1]
                for _ in range(options.runs)
            ]
            told = [word != "cannot_tell" and is_failure(word) == is_failure(needed[1]) for word in words]
            shares.append(f"{sum(told) / options.runs:.0%}")
        numbers = f"{needed[0]:.1f} | {needed[1].replace('_', ' ')} | {' | '.join(shares)}"
        print(f"| {share_a:.0%}, {share_b:.0%} | {results} | {1 + others} | {numbers} |", flush=True)


if __name__ == "__main__":
    main()
