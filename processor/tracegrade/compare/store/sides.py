"""The content of one side of a comparison: its series, and the traces with its results."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, or_, select

from tracegrade.codec.packing import Unreadable
from tracegrade.codec.results import unpack_calls
from tracegrade.model.tool_call import ToolCall
from tracegrade.store.database import in_parts
from tracegrade.store.index import block_ranges, numbers_of
from tracegrade.store.result_filter import ResultFilter, of_series, of_traces
from tracegrade.store.schema import BACKFILL, EVERY_TRACE, OUTCOMES, WHOLE_RULE, series, traces
from tracegrade.store.series import IS_EVALUATION

_TRACES_A_QUERY = 4096


class SideSeries(NamedTuple):
    """One series of a side; ``rule_hash`` is the present one, ``evaluation`` is "" for a rule as a whole."""

    rule_id: str
    rule_hash: str
    evaluation: str
    level: str
    probability: float
    agent: str


class SideRow(NamedTuple):
    """What a row of ``traces`` says of one trace or session: what names it and its lists, as JSON, without values."""

    number: int
    trace_id: bytes
    tenant: str
    session: str | None
    complete: bool
    start_ns: int = 0
    end_ns: int = 0
    members: str | None = None
    evaluations: str | bytes = "[]"
    decisions: str | bytes = "[]"
    tool_calls: str | bytes = "[]"
    agent_runs: str | bytes = "[]"


def side_series(connection: Connection, result_filter: ResultFilter) -> dict[int, SideSeries]:
    """The series of rules and evaluations that `result_filter` selects, by number."""
    wanted = (series.c.rule_id, series.c.rule_hash, series.c.evaluation, series.c.level)
    query = select(series.c.number, *wanted, series.c.probability, series.c.agent).where(
        series.c.rule_id != EVERY_TRACE,
        or_(IS_EVALUATION, series.c.evaluation == WHOLE_RULE),
        *of_series(replace(result_filter, evaluation=None)),
    )
    return {number: SideSeries(*row) for number, *row in connection.execute(query)}


def side_rows(
    connection: Connection, result_filter: ResultFilter, chosen: Mapping[int, SideSeries]
) -> Iterator[Sequence[Any]]:
    """The traces and sessions that may have a result of the `chosen` series, newest first, many at a time.

    Each has the columns of `SideRow`, in their order. O(traces read).
    """
    bounds = numbers_of(connection, result_filter)
    if bounds is None:
        return
    searched = [number for number, found in chosen.items() if found.evaluation]
    query = select(*(traces.c[name] for name in SideRow._fields)).where(*of_traces(_without_origin(result_filter)))
    query = query.where(traces.c.number.between(bindparam("first"), bindparam("last")))
    query = query.order_by(traces.c.number.desc())
    for first, last in _joined(block_ranges(connection, searched, range(len(OUTCOMES)), *bounds)):
        yield connection.execute(query, {"first": first, "last": last}).all()


def side_calls(connection: Connection, numbers: Sequence[int]) -> Iterator[list[tuple[str, list[ToolCall]]]]:
    """The trace id and the calls with their values of the traces with these numbers, many at a time.

    A trace whose results cannot be read has no calls, nor has one that no rule judged and that was not decoded.
    """
    query = select(traces.c.trace_id, traces.c.judged)
    for some in in_parts(numbers):
        rows = connection.execute(query.where(traces.c.number.in_(some)).order_by(traces.c.number.desc()))
        yield [(bytes(trace_id).hex(), _calls_of(judged)) for trace_id, judged in rows]


def _calls_of(judged: bytes) -> list[ToolCall]:
    try:
        return unpack_calls(judged)
    except Unreadable:  # damaged, or of another version: others tell enough
        return []


def _without_origin(result_filter: ResultFilter) -> ResultFilter:
    """The filter without the service: a result's own service need not be that of its trace."""
    return replace(result_filter, service=None)


def _joined(ranges: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Ranges that follow each other, newest first, as fewer and longer ones."""
    low: int | None = None
    high = 0
    for first, last in ranges:
        if low is not None and last == low - 1 and high - first < _TRACES_A_QUERY:
            low = first
            continue
        if low is not None:
            yield low, high
        low, high = first, last
    if low is not None:
        yield low, high


def runs_with_results(connection: Connection) -> list[str]:
    """The runs that have results, in order; without what was judged afterwards, which is compared with nothing."""
    query = select(series.c.run).distinct().where(series.c.run != BACKFILL)
    return list(connection.execute(query.order_by(series.c.run)).scalars())
