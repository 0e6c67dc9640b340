"""Stored results, newest first: by the order in which traces were closed and stored; in one trace, the last first.

Times select whole traces by first receive time, here as everywhere.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson
from sqlalchemy import ColumnElement, Connection, bindparam, func, select

from tracegrade.codec.results import unpack_result
from tracegrade.model.evaluation import Evaluation
from tracegrade.store.database import rows_in
from tracegrade.store.index import block_ranges, numbers_of
from tracegrade.store.registry import database
from tracegrade.store.result_filter import ResultFilter, of_series, of_traces
from tracegrade.store.schema import OUTCOMES, SUBJECT_KINDS, series, traces
from tracegrade.store.series import IS_EVALUATION
from tracegrade.telemetry.series_bound import OTHER

_MATCHED = ("number", "trace_id", "complete", "evaluations")
_OWN = 8  # where a result has its own names, if it is counted by others

Address: TypeAlias = tuple[int, int]  # the number of a trace, and the position of a result in it


@dataclass(frozen=True, slots=True)
class Result:
    """One evaluation without its values; `full_evaluations` gives those. ``number`` and ``place`` are its address."""

    number: int
    place: int
    trace_id: str
    rule_id: str
    evaluation: str
    case: str | None
    subject_kind: str
    subject_id: str
    outcome: str
    score: float | None
    threshold: float | None
    level: str
    service: str
    release: str | None
    agent: str
    complete: bool
    time: int
    run: str


def results(
    connection: Connection, result_filter: ResultFilter, limit: int, *, before: Address | None = None
) -> list[Result]:
    """The newest results that `result_filter` selects, at most `limit`; `before` continues after that (number, place).

    Reads the blocks of traces that hold some, newest first, until there are enough. So it takes as long in a full store
    as in an empty one; O(blocks read).
    """
    found: list[_Found] = []
    for some in matching(connection, result_filter, before=before):
        found += some
        if len(found) >= limit:
            break
    return _results(connection, found[:limit])


def newest_of_each(
    connection: Connection, result_filter: ResultFilter, group_of: Callable[[Any], tuple[str, ...]], limit: int
) -> list[Result]:
    """The newest result of each group, newest first, at most `limit`.

    Args:
        connection: on the store.
        result_filter: which results.
        group_of: the group of a row of ``series``.
        limit: how many groups; each is one search, even if other groups have many results.
    """
    query = select(series).where(IS_EVALUATION, *of_series(result_filter, or_other=True))
    rows = connection.execute(query).all()
    left = {row.number: group_of(row) for row in rows}
    exact = frozenset(row.number for row in rows if _has_names(result_filter, row))
    found: list[_Found] = []
    before = None
    while left and len(found) < limit:
        some = next(_search(connection, result_filter, left, exact, before=before), None)
        if some is None:
            break
        row, place, item = some[0]
        found.append(some[0])
        before, group = (row.number, place), left[item[1]]
        left = {number: other for number, other in left.items() if other != group}
    return _results(connection, found)


def full_evaluations(connection: Connection, found: Sequence[Result]) -> list[Evaluation]:
    """The evaluation of each of `found` with its values, in their order."""
    numbers = dict.fromkeys(result.number for result in found)
    rows = rows_in(connection, select(traces.c.number, traces.c.judged), traces.c.number, numbers)
    judged = {number: unpack_result(blob, b"").evaluations_of_any_run for number, blob in rows}
    # A trace that a higher revision or retention removed between the two queries has no values to show.
    return [judged[result.number][result.place] for result in found if result.number in judged]


_Found: TypeAlias = tuple[Any, int, list[Any]]  # the row of a trace, the position of a result in it, that result


def matching(
    connection: Connection,
    result_filter: ResultFilter,
    *conditions: ColumnElement[bool],
    before: Address | None = None,
) -> Iterator[list[_Found]]:
    """The results that `result_filter` selects, newest first, a list for each trace that has any.

    `conditions` are further conditions on the rows of ``traces``, such as not to be a session's.
    """
    return _search(connection, result_filter, *_series(connection, result_filter), *conditions, before=before)


def _search(
    connection: Connection,
    result_filter: ResultFilter,
    chosen: Collection[int] | None,
    exact: Collection[int],
    *conditions: ColumnElement[bool],
    before: Address | None,
) -> Iterator[list[_Found]]:
    """As `matching`, only in the `chosen` series; None for all series.

    Of those that are not `exact`, which count some names as `other`, only results whose own names are asked for.
    """
    outcomes = range(len(OUTCOMES)) if result_filter.outcome is None else (OUTCOMES.index(result_filter.outcome),)
    bounds = numbers_of(connection, result_filter)
    if bounds is None or (chosen is not None and not chosen):
        return
    low, high = bounds
    if before is not None:
        high = min(high, before[0])
    query = select(*(traces.c[name] for name in _MATCHED)).where(*of_traces(result_filter), *conditions)
    query = query.where(traces.c.number.between(bindparam("first"), bindparam("last")))
    query = query.order_by(traces.c.number.desc())
    if result_filter.trace_id is not None:
        ranges = _numbers_of(connection, result_filter.trace_id, low, high)
    else:
        ranges = block_ranges(connection, chosen, outcomes, low, high)
    allowed = None if chosen is None else frozenset(chosen)
    names = result_filter.names
    for first, last in ranges:
        for row in connection.execute(query, {"first": first, "last": last}):
            items = orjson.loads(row.evaluations)
            found = [
                (row, place, items[place])
                for place in range(len(items) - 1, -1, -1)
                if items[place][5] in outcomes
                and (
                    allowed is None
                    or (items[place][1] in allowed and (items[place][1] in exact or _own_match(items[place], names)))
                )
                and (before is None or (row.number, place) < before)
            ]
            if found:
                yield found


def _numbers_of(connection: Connection, trace_id: bytes, low: int, high: int) -> Iterator[tuple[int, int]]:
    query = select(traces.c.number).where(database(connection).of_ids([trace_id]), traces.c.number.between(low, high))
    for number in connection.execute(query.order_by(traces.c.number.desc())).scalars().all():
        yield number, number


def _series(connection: Connection, result_filter: ResultFilter) -> tuple[list[int] | None, frozenset[int]]:
    """The numbers of the series that `result_filter` selects, or whose results it may select; None for all series.

    And of those, the ones that it selects as a whole.
    """
    query = select(series.c.number, series.c.service, series.c.release, series.c.agent).where(IS_EVALUATION)
    everything = connection.execute(select(func.count()).select_from(query.subquery())).scalar_one()
    rows = connection.execute(query.where(*of_series(result_filter, or_other=True))).all()
    exact = frozenset(row.number for row in rows if _has_names(result_filter, row))
    return None if len(exact) == everything else [row.number for row in rows], exact


def _has_names(result_filter: ResultFilter, row: Any) -> bool:
    """Whether a row of ``series`` has the names that are asked for."""
    own = (row.service, row.release, row.agent)
    return all(name is None or name == found for name, found in zip(result_filter.names, own, strict=True))


def _own_match(item: Sequence[Any], names: Sequence[str | None]) -> bool:
    """Whether a result in a series with a name of `other` came with these names; `other` is every one."""
    own = item[_OWN] if len(item) > _OWN else ()
    return bool(own) and all(name in (None, OTHER, found) for name, found in zip(names, own, strict=True))


def _results(connection: Connection, found: Sequence[_Found]) -> list[Result]:
    numbers = dict.fromkeys(item[1] for _, _, item in found)
    named = {row.number: row for row in rows_in(connection, select(series), series.c.number, numbers)}
    return [_result(row, place, item, named[item[1]]) for row, place, item in found]


def _result(row: Any, place: int, item: list[Any], named: Any) -> Result:
    _, _, case, subject_kind, subject_id, outcome, score, time, *own = item
    service, release, agent = own[0] if own else (named.service, named.release, named.agent)
    return Result(
        number=row.number,
        place=place,
        trace_id=bytes(row.trace_id).hex(),
        rule_id=named.rule_id,
        evaluation=named.evaluation,
        case=case,
        subject_kind=SUBJECT_KINDS[subject_kind],
        subject_id=subject_id,
        outcome=OUTCOMES[outcome],
        score=score,
        threshold=named.threshold,
        level=named.level,
        service=service,
        release=release,
        agent=agent,
        complete=row.complete,
        time=time,
        run=named.run,
    )
