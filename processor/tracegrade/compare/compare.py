"""Compares two sides of what is stored."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from tracegrade.compare.arguments import SideArguments, new_arguments
from tracegrade.compare.behaviour import Behaviour, behaviour
from tracegrade.compare.collected import MOST_TRACES, Collected, collect, collected
from tracegrade.compare.comparison import Comparison, by_counts, by_results, decided
from tracegrade.compare.measures import measured
from tracegrade.compare.progress import Progress, unseen
from tracegrade.compare.rejudging.sides import Rejudged, rejudge
from tracegrade.compare.rejudging.traces import Rejudging, not_judged_notes
from tracegrade.compare.sides import CompareError, Side, check_different, check_sides, stored_runs_of
from tracegrade.compare.store.sides import SideSeries, side_calls, side_series
from tracegrade.compare.tally import RuleTexts, counted_side, rules_on_both
from tracegrade.display import count
from tracegrade.model.usage import CostOf, no_prices
from tracegrade.rule.gate import MARGIN
from tracegrade.store.rule_texts import rules_of
from tracegrade.store.runs import Run


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked of a comparison.

    ``margin``: by so much a pass rate may fall before it matters, 0..1. ``rates_only``: from counts, every result by
    itself, as fast with ten million results as with ten. ``behaviour``: also what is called differently. ``cost_of``
    says what tokens cost.
    """

    margin: float = MARGIN
    allow_within_margin: bool = False
    rates_only: bool = False
    behaviour: bool = True
    cost_of: CostOf = no_prices


def compare(connection: Connection, a: Side, b: Side, wanted: Wanted, progress: Progress = unseen) -> Comparison:
    """How `b` differs from `a`; `progress` shows how far it is.

    Raises:
        CompareError: the sides are the same, or one has no results.
    """
    check_sides(connection, a, b)
    series_a, series_b = (side_series(connection, side.result_filter) for side in (a, b))
    runs_a, runs_b = stored_runs_of(connection, a), stored_runs_of(connection, b)
    series = (*series_a.values(), *series_b.values())
    texts = RuleTexts(rules_of(connection, {found.rule_hash for found in series}), (*runs_a, *runs_b))
    notes = [*_unfinished("A", runs_a), *_unfinished("B", runs_b)]
    if wanted.rates_only:
        counted_a = counted_side(connection, a, series_a, texts)
        counted_b = counted_side(connection, b, series_b, texts)
        compared, left_out = rules_on_both(counted_a, counted_b)
        rules = decided(by_counts(counted_a, counted_b, compared, _levels(series)), wanted.margin)
        return Comparison(
            a.text,
            b.text,
            rules,
            left_out,
            wanted.margin,
            wanted.allow_within_margin,
            rule_paths=_paths(runs_a, runs_b),
            notes=notes,
        )
    read_a, read_b = (
        collect(connection, side, of, texts, wanted.cost_of, progress, behaviour=wanted.behaviour)
        for side, of in ((a, series_a), (b, series_b))
    )
    about = _About(_levels(series), _paths(runs_a, runs_b), notes)
    return _of_results(connection, (a, b), (read_a, read_b), wanted, about, progress)


def compare_rejudged(
    connection: Connection,
    a: Side,
    b: Side,
    wanted: Wanted,
    by: Rejudging,
    progress: Progress = unseen,
) -> Comparison:
    """As `compare`, with the traces of both sides judged again by the same rules.

    Raises:
        CompareError: the sides are the same, or no rule matches a trace of one.
        CannotTell: a process that judges was killed, or crashed.
    """
    check_different(a, b)
    texts = RuleTexts({rule.hash: rule for rule in by.rule_set.rules})
    reads, notes = [], []
    levels: dict[str, str] = {}
    for name, side in (("A", a), ("B", b)):
        found = rejudge(connection, side, by, MOST_TRACES, progress)
        read = collected([found.rows], side, found.chosen, texts, wanted.cost_of, behaviour=wanted.behaviour)
        if not read.tallies:
            raise CompareError(f"{side.text}: {_why_nothing(found)}")
        reads.append(read)
        levels |= _levels(found.chosen.values())
        for missed, what in ((found.not_judged, "trace"), (found.sessions_not_judged, "session")):
            notes += [f"{name}: {text}" for text in not_judged_notes(missed, what)]
    about = _About(levels, by.rule_set.paths, notes)
    return _of_results(connection, (a, b), (reads[0], reads[1]), wanted, about, progress)


def _why_nothing(found: Rejudged) -> str:
    for missed, what in ((found.not_judged, "trace"), (found.sessions_not_judged, "session")):
        if missed.left_out and not found.rows:
            which = f"any of its {count(missed.left_out, what)}"
            return f"the store did not keep what the rules read of {which}, and {missed.why}"
    sessions = sum(row.members is not None for row in found.rows)
    traces = len(found.rows) - sessions
    if not sessions:
        return f"no rule matches any of its {count(traces, 'stored trace')}"
    return f"no rule matches any of its {count(traces, 'stored trace')} and {count(sessions, 'session')}"


@dataclass(frozen=True, slots=True)
class _About:
    """What else is known: the level and the file of rules by id, and what a reader has to know."""

    levels: Mapping[str, str]
    rule_paths: Mapping[str, str]
    notes: Sequence[str]


def _of_results(
    connection: Connection,
    sides: tuple[Side, Side],
    reads: tuple[Collected, Collected],
    wanted: Wanted,
    about: _About,
    progress: Progress,
) -> Comparison:
    (a, b), (read_a, read_b) = sides, reads
    compared, left_out = rules_on_both(read_a.tallies, read_b.tallies)
    return Comparison(
        a.text,
        b.text,
        decided(by_results(read_a, read_b, compared, about.levels), wanted.margin),
        left_out,
        wanted.margin,
        wanted.allow_within_margin,
        measures=measured(read_a.measures, read_b.measures),
        behaviour=_behaviour(connection, read_a, read_b, progress),
        rule_paths=about.rule_paths,
        notes=[
            *about.notes,
            *(_cut_short(name, read) for name, read in zip("AB", reads, strict=True) if read.more_traces),
        ],
    )


def _levels(series: Iterable[SideSeries]) -> dict[str, str]:
    return {found.rule_id: found.level for found in series if found.level}


def _paths(*sides: Iterable[Run]) -> dict[str, str]:
    """The files of rules by id, as runs know them; where they differ, as the last side does."""
    return {
        rule_id: rule["path"] for runs in sides for run in runs for rule_id, rule in run.rules.items() if "path" in rule
    }


def _behaviour(connection: Connection, a: Collected, b: Collected, progress: Progress) -> Behaviour | None:
    if a.behaviour is None or b.behaviour is None:
        return None
    sides = []
    with progress("calls read: traces", len(a.numbers) + len(b.numbers)) as advance:
        for read in (a, b):
            found = SideArguments()
            for some in side_calls(connection, read.numbers):
                for trace_id, calls in some:
                    found.add(trace_id, calls)
                advance(len(some))
            sides.append(found)
    return behaviour(a.behaviour, b.behaviour, new_arguments(*sides))


def _cut_short(name: str, read: Collected) -> str:
    return f"{name}: only its newest {read.traces} traces were read; choose a shorter time, or compare rates alone"


def _unfinished(name: str, runs: Iterable[Run]) -> Iterator[str]:
    for run in runs:
        if run.state != "complete":
            yield f"{name}: the run is {run.state}" + (
                f": {run.problem}" if run.problem else "; results may be missing"
            )
