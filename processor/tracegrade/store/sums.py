"""Sums of the counts of outcomes, by series and step: the one query that every reader of ``counts`` asks.

A sum over a year is as fast as over an hour: rows of days, hours and minutes are read, the longest that fit.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from sqlalchemy import ColumnElement, Connection, Select, func, literal_column, select

from tracegrade.store.schema import counts

OUTCOME_SUMS = (counts.c.passed, counts.c.failed, counts.c.not_evaluable, counts.c.errors)

Counting: TypeAlias = Literal["complete", "all", "apart"]
"""Which traces count: complete ones, or also the others, together or apart."""


class Sums(NamedTuple):
    """What the traces of one series add up to.

    Attributes:
        series: its number.
        step: when, in steps since 1970; 0 without steps.
        complete: whether the traces were complete; true where both are added up together.
        values: of each column that was asked for.
    """

    series: int
    step: int
    complete: bool
    values: Sequence[Any]


def sums(
    connection: Connection,
    numbers: Select[Any],
    stretches: Iterable[tuple[int, int, int]],
    columns: Sequence[ColumnElement[Any]] = OUTCOME_SUMS,
    *,
    step_minutes: int | None = None,
    traces: Counting = "apart",
) -> Iterator[Sums]:
    """The sums of series, in no order; those of one series and step come once for each stretch.

    Args:
        connection: on the store.
        numbers: selects the numbers of the series.
        stretches: of time, as `rates.stretches` gives them; none has rows of two steps.
        columns: what is added up.
        step_minutes: the length of a step; None for one step.
        traces: which traces count.
    """
    # By series here, and by name in Python: grouping by name in SQL takes twice as long.
    query = select(counts.c.series).where(counts.c.series.in_(numbers)).group_by(counts.c.series)
    if step_minutes is None:
        query = query.add_columns(literal_column("0"))
    else:
        step = counts.c.minute // literal_column(str(int(step_minutes)))
        query = query.add_columns(step).group_by(step)
    if traces == "apart":
        query = query.add_columns(counts.c.complete).group_by(counts.c.complete)
    else:
        query = query.add_columns(literal_column("1"))
    if traces == "complete":
        query = query.where(counts.c.complete)
    query = query.add_columns(*map(func.sum, columns))
    for minutes, first, last in stretches:
        stretch = query.where(counts.c.minutes == minutes, counts.c.minute.between(first, last))
        for number, of_step, is_complete, *values in connection.execute(stretch):
            yield Sums(number, int(of_step), bool(is_complete), values)
