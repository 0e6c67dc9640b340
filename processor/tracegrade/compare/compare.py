"""Compares two sides of what is stored."""

from dataclasses import dataclass

from sqlalchemy import Connection

from tracegrade.compare.comparison import Comparison, by_counts, decided
from tracegrade.compare.sides import Side, check_sides
from tracegrade.compare.tally import RuleTexts, counted_side, rules_on_both, series_of
from tracegrade.compare.verdict import MARGIN


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked of a comparison.

    ``margin``: by so much a pass rate may fall before it matters, 0..1.
    """

    margin: float = MARGIN
    allow_within_margin: bool = False


def compare(connection: Connection, a: Side, b: Side, wanted: Wanted) -> Comparison:
    """How `b` differs from `a`.

    Raises:
        CompareError: the sides are the same, or one has no results.
    """
    check_sides(connection, a, b)
    series_a, series_b = series_of(connection, a), series_of(connection, b)
    texts = RuleTexts(connection, series_a, series_b)
    tallies_a = counted_side(connection, a, series_a, texts)
    tallies_b = counted_side(connection, b, series_b, texts)
    compared, left_out = rules_on_both(tallies_a, tallies_b)
    levels = {found.rule_id: found.level for found in (*series_a.values(), *series_b.values()) if found.level}
    numbers = by_counts(tallies_a, tallies_b, compared, levels)
    rules = decided(numbers, wanted.margin)
    return Comparison(a.text, b.text, rules, left_out, wanted.margin, wanted.allow_within_margin)
