"""Compares two sides of what is stored."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from sqlalchemy import Connection

from tracegrade.compare.arguments import SideArguments, new_arguments
from tracegrade.compare.behaviour import Behaviour, behaviour
from tracegrade.compare.collected import Collected, collect
from tracegrade.compare.comparison import Comparison, by_counts, by_results, decided
from tracegrade.compare.measures import measured
from tracegrade.compare.sides import Side, check_sides, stored_runs_of
from tracegrade.compare.tally import RuleTexts, counted_side, rules_on_both
from tracegrade.compare.verdict import MARGIN
from tracegrade.model.usage import CostOf, no_prices
from tracegrade.store.runs import Run
from tracegrade.store.sides import side_calls, side_series


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked of a comparison.

    ``margin``: by so much a pass rate may fall before it matters, 0..1. ``rates_only``: from counts, every result by
    itself, so that ten million results take a second. ``behaviour``: also what is called differently. ``cost_of`` says
    what tokens cost.
    """

    margin: float = MARGIN
    allow_within_margin: bool = False
    rates_only: bool = False
    behaviour: bool = True
    cost_of: CostOf = no_prices


def compare(
    connection: Connection, a: Side, b: Side, wanted: Wanted, advance: Callable[[int], None] = lambda _: None
) -> Comparison:
    """How `b` differs from `a`; `advance` is told how many traces were read.

    Raises:
        CompareError: the sides are the same, or one has no results.
    """
    check_sides(connection, a, b)
    series_a, series_b = (side_series(connection, side.result_filter) for side in (a, b))
    runs_a, runs_b = stored_runs_of(connection, a), stored_runs_of(connection, b)
    hashes = {found.rule_hash for found in (*series_a.values(), *series_b.values())}
    texts = RuleTexts(connection, hashes, (*runs_a, *runs_b))
    levels = {found.rule_id: found.level for found in (*series_a.values(), *series_b.values()) if found.level}
    notes = [*_unfinished("A", runs_a), *_unfinished("B", runs_b)]
    asked = (wanted.margin, wanted.allow_within_margin)
    if wanted.rates_only:
        counted_a = counted_side(connection, a, series_a, texts)
        counted_b = counted_side(connection, b, series_b, texts)
        compared, left_out = rules_on_both(counted_a, counted_b)
        rules = decided(by_counts(counted_a, counted_b, compared, levels), wanted.margin)
        return Comparison(a.text, b.text, rules, left_out, *asked, notes=notes)
    read_a = collect(connection, a, series_a, texts, wanted.cost_of, advance)
    read_b = collect(connection, b, series_b, texts, wanted.cost_of, advance)
    notes += [_cut_short(name, read) for name, read in (("A", read_a), ("B", read_b)) if read.more_traces]
    compared, left_out = rules_on_both(read_a.tallies, read_b.tallies)
    rules = decided(by_results(read_a, read_b, compared, levels), wanted.margin)
    return Comparison(
        a.text,
        b.text,
        rules,
        left_out,
        *asked,
        measures=measured(read_a.measures, read_b.measures),
        behaviour=_behaviour(connection, read_a, read_b, advance) if wanted.behaviour else None,
        notes=notes,
    )


def _behaviour(connection: Connection, a: Collected, b: Collected, advance: Callable[[int], None]) -> Behaviour:
    sides = []
    for read in (a, b):
        found = SideArguments()
        for some in side_calls(connection, read.numbers):
            for trace_id, calls in some:
                found.add(trace_id, calls)
            advance(len(some))
        sides.append(found)
    return behaviour(a.behaviour, b.behaviour, new_arguments(*sides))


def _cut_short(name: str, read: Collected) -> str:
    return f"{name}: only its newest {read.traces} traces were read; --since, or --rates-only, for another choice"


def _unfinished(name: str, runs: Iterable[Run]) -> Iterator[str]:
    for run in runs:
        if run.state != "complete":
            yield f"{name}: the run is {run.state}" + (
                f": {run.problem}" if run.problem else "; results may be missing"
            )
