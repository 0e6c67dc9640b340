"""What one side of a comparison holds: its series and their counts."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from sqlalchemy import Connection, func, or_, select

from tracegrade.store.rates import stretches
from tracegrade.store.result_filter import ResultFilter, of_series
from tracegrade.store.schema import DAY_MINUTES, EVERY_TRACE, WHOLE_RULE, counts, series
from tracegrade.store.series import IS_EVALUATION

_SUMMED = (counts.c.passed, counts.c.failed, counts.c.not_evaluable, counts.c.errors)


class SideSeries(NamedTuple):
    """One series of a side; ``rule_hash`` is the present one, ``evaluation`` is "" for a rule as a whole."""

    rule_id: str
    rule_hash: str
    evaluation: str
    level: str
    probability: float
    agent: str


class SeriesCounts(NamedTuple):
    """Outcomes of one series, by its number, of complete traces or of incomplete ones."""

    series: int
    complete: bool
    passed: int
    failed: int
    not_evaluable: int
    errors: int


def side_series(connection: Connection, result_filter: ResultFilter) -> dict[int, SideSeries]:
    """The series of rules and evaluations that `result_filter` selects, by number."""
    wanted = (series.c.rule_id, series.c.present_hash, series.c.evaluation, series.c.level)
    query = select(series.c.number, *wanted, series.c.probability, series.c.agent).where(
        series.c.rule_id != EVERY_TRACE,
        or_(IS_EVALUATION, series.c.evaluation == WHOLE_RULE),
        *of_series(replace(result_filter, evaluation=None)),
    )
    return {number: SideSeries(*row) for number, *row in connection.execute(query)}


def side_counts(
    connection: Connection, result_filter: ResultFilter, chosen: Mapping[int, SideSeries]
) -> Iterator[SeriesCounts]:
    """The counts of the `chosen` series, widened to whole minutes of the traces' last spans; parts of a series apart.

    As fast over a year as over an hour.
    """
    of_side = select(series.c.number).where(*of_series(replace(result_filter, evaluation=None)))
    query = (
        select(counts.c.series, counts.c.complete, *map(func.sum, _SUMMED))
        .where(counts.c.series.in_(of_side))
        .group_by(counts.c.series, counts.c.complete)
    )
    for minutes, first, last in stretches(result_filter.since_ns, result_filter.until_ns, DAY_MINUTES):
        stretch = query.where(counts.c.minutes == minutes, counts.c.minute.between(first, last))
        for number, complete, *found in connection.execute(stretch):
            if number in chosen:
                # Retention deletes counts that a later revision then subtracts.
                yield SeriesCounts(number, bool(complete), *(max(0, int(count)) for count in found))


def run_names(connection: Connection) -> list[str]:
    """The runs that have results, in order."""
    return list(connection.execute(select(series.c.run).distinct().order_by(series.c.run)).scalars())
