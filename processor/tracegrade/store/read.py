"""What the command line and the page ask the store, and what assembly asks it about late spans.

Results come newest first: in the order in which traces were closed and stored. Times choose whole traces, by first
receive time, here as everywhere.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select, text

from tracegrade.store.arrivals import number_range
from tracegrade.store.json_text import from_json
from tracegrade.store.packing import unpack
from tracegrade.store.schema import OUTCOMES, SUBJECT_KINDS, evaluations, series, traces

# Up to so many series are each read from the index and merged; of more, the newest are near whichever way one looks.
_MAX_MERGED_SERIES = 100
_MAX_IDS_A_QUERY = 500
_MAX_INTEGER = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which results or traces: every field that is set must hold. Times are ns since 1970 UTC, the end excluded."""

    rule: str | None = None
    outcome: str | None = None
    service: str | None = None
    agent: str | None = None
    trace_id: bytes | None = None
    since_ns: int | None = None
    until_ns: int | None = None
    tenant: str | None = None
    run: str = "live"


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
    agent: str
    complete: bool
    time: int


@dataclass(frozen=True, slots=True)
class TraceHead:
    """One stored trace without its spans and results."""

    number: int
    trace_id: str
    tenant: str
    service: str
    session: str | None
    root_name: str
    close_reason: str
    complete: bool
    cut_by: str | None
    revision: int
    span_count: int
    call_count: int
    start_ns: int
    end_ns: int
    first_received_ns: int
    outcomes: Mapping[str, int]  # how many evaluations had which outcome


@dataclass(frozen=True, slots=True)
class StoredTrace:
    """Everything stored of one trace: the record as it was delivered, and its kept spans, packed."""

    trace: dict[str, Any]
    tool_calls: list[dict[str, Any]]
    evaluations: list[dict[str, Any]]
    decisions: list[dict[str, Any]]
    spans: bytes


@dataclass(frozen=True, slots=True)
class ClosedTrace:
    """What assembly needs of a closed trace when a late span names it; ``spans`` are packed."""

    closed_ns: int
    first_received_ns: int
    last_received_ns: int
    first_position: int
    revision: int
    cut_by: str | None
    rule_set_hash: str
    spans: bytes


def results(
    connection: Connection, wanted: Filter, limit: int, *, before: tuple[int, int] | None = None
) -> list[Result]:
    """The newest results that `wanted` lets through, at most `limit`; `before` continues after that (number, place).

    Read from an index as far as rule, outcome, service and agent go, so it takes as long in a full store as in an
    empty one; O(series x limit).
    """
    chosen = _series(connection, wanted)
    bounds = number_range(connection, wanted.since_ns, wanted.until_ns) if _has_times(wanted) else (0, _MAX_INTEGER)
    if bounds is None:
        return []
    outcomes = range(len(OUTCOMES)) if wanted.outcome is None else [OUTCOMES.index(wanted.outcome)]
    condition, values = _conditions(wanted)
    if wanted.trace_id is not None:
        by_id = select(traces.c.number).where(traces.c.trace_id == wanted.trace_id)
        numbers = connection.execute(by_id).scalars().all()
        if not numbers:
            return []
        condition += f" AND e.trace IN ({', '.join(map(str, numbers))})"
    values |= {"limit": limit, "lowest": bounds[0], "before_trace": bounds[1], "before_place": _MAX_INTEGER}
    if before is not None and before < (bounds[1], _MAX_INTEGER):
        values["before_trace"], values["before_place"] = before
    if chosen is not None and len(chosen) <= _MAX_MERGED_SERIES:
        condition += " AND e.series = :series AND e.outcome = :outcome"
        queries = [(condition, values | {"series": s, "outcome": o}) for s in chosen for o in outcomes]
    else:
        if wanted.outcome is not None:
            condition += " AND e.outcome = :outcome"
            values["outcome"] = outcomes[0]
        if wanted.outcome not in (None, "pass"):
            condition += " AND e.outcome <> 0"  # the words by which SQLite knows its partial index
        if chosen is not None:
            # The plus sign keeps SQLite from sorting all of them: it walks back from the newest instead.
            condition += f" AND +e.series IN ({', '.join(map(str, chosen))})"
        queries = [(condition, values)]
    found = [
        _result(row) for where, named in queries for row in connection.execute(text(_RESULTS.format(where)), named)
    ]
    found.sort(key=lambda result: (result.number, result.place), reverse=True)
    return found[:limit]


def full_evaluations(connection: Connection, found: Sequence[Result]) -> list[dict[str, Any]]:
    """The documented JSON object of each of `found`, in their order."""
    judged: dict[int, list[dict[str, Any]]] = {}
    numbers = list(dict.fromkeys(result.number for result in found))
    for start in range(0, len(numbers), _MAX_IDS_A_QUERY):
        some = numbers[start : start + _MAX_IDS_A_QUERY]
        for number, blob in connection.execute(
            select(traces.c.number, traces.c.judged).where(traces.c.number.in_(some))
        ):
            judged[number] = from_json(unpack(blob))[2]
    # A trace that a higher revision or the retention took away between the two queries has no values to show.
    return [judged[result.number][result.place] for result in found if result.number in judged]


def trace_heads(connection: Connection, wanted: Filter, limit: int, *, before: int = _MAX_INTEGER) -> list[TraceHead]:
    """The newest traces that `wanted` lets through, at most `limit`; `before` continues after that number.

    Of `wanted`, rule, outcome and agent hold when one evaluation of the trace has them all.
    """
    by_evaluation = wanted.rule is not None or wanted.outcome is not None or wanted.agent is not None
    query = select(traces).where(traces.c.number < before, traces.c.run == wanted.run)
    if by_evaluation:
        having = select(evaluations.c.trace).join(series, series.c.number == evaluations.c.series)
        for column, value in ((series.c.rule_id, wanted.rule), (series.c.agent, wanted.agent)):
            if value is not None:
                having = having.where(column == value)
        if wanted.outcome is not None:
            having = having.where(evaluations.c.outcome == OUTCOMES.index(wanted.outcome))
        query = query.where(having.where(evaluations.c.trace == traces.c.number).exists())
    if wanted.trace_id is not None:
        query = query.where(traces.c.trace_id == wanted.trace_id)
    for column, value in ((traces.c.service, wanted.service), (traces.c.tenant, wanted.tenant)):
        if value is not None:
            query = query.where(column == value)
    if _has_times(wanted):
        bounds = number_range(connection, wanted.since_ns, wanted.until_ns)
        if bounds is None:
            return []
        query = query.where(traces.c.number.between(*bounds))
    if wanted.since_ns is not None:
        query = query.where(traces.c.first_received_ns >= wanted.since_ns)
    if wanted.until_ns is not None:
        query = query.where(traces.c.first_received_ns < wanted.until_ns)
    query = query.order_by(traces.c.number.desc()).limit(limit)
    query = query.with_only_columns(*(column for column in traces.c if column.name not in ("judged", "spans")))
    rows = connection.execute(query).all()
    outcomes = _outcomes_by_trace(connection, [row.number for row in rows])
    return [
        TraceHead(
            number=row.number,
            trace_id=row.trace_id.hex(),
            tenant=row.tenant,
            service=row.service,
            session=row.session,
            root_name=row.root_name,
            close_reason=row.close_reason,
            complete=row.complete,
            cut_by=row.cut_by,
            revision=row.revision,
            span_count=row.span_count,
            call_count=row.call_count,
            start_ns=row.start_ns,
            end_ns=row.end_ns,
            first_received_ns=row.first_received_ns,
            outcomes=outcomes.get(row.number, {}),
        )
        for row in rows
    ]


def stored_traces(connection: Connection, trace_id: bytes, *, run: str = "live") -> list[StoredTrace]:
    """The trace of that id with all its results: one for each tenant that sent it, [] when it is not stored."""
    query = (
        select(traces.c.judged, traces.c.spans)
        .where(traces.c.trace_id == trace_id, traces.c.run == run)
        .order_by(traces.c.tenant)
    )
    found = []
    for judged, spans in connection.execute(query):
        trace, tool_calls, judged_evaluations, decisions = from_json(unpack(judged))
        found.append(StoredTrace(trace, tool_calls, judged_evaluations, decisions, bytes(spans)))
    return found


def closed_traces(connection: Connection, keys: Sequence[tuple[str, bytes]]) -> dict[tuple[str, bytes], ClosedTrace]:
    """Those of `keys` (tenant, trace id) whose trace was judged live, in one query for each 500 of them."""
    found: dict[tuple[str, bytes], ClosedTrace] = {}
    mark = "?" if connection.dialect.paramstyle == "qmark" else "%s"
    for start in range(0, len(keys), _MAX_IDS_A_QUERY):
        some = keys[start : start + _MAX_IDS_A_QUERY]
        # Through the driver: assembly asks this for every new trace, and Core takes 2 µs an id to write an IN list.
        marks = ", ".join([mark] * len(some))
        rows = connection.exec_driver_sql(
            "SELECT tenant, trace_id, closed_ns, first_received_ns, last_received_ns, first_position, revision, "
            f"cut_by, rule_set_hash, spans FROM traces WHERE trace_id IN ({marks}) AND run = 'live'",
            tuple(trace_id for _, trace_id in some),
        ).all()
        wanted = set(some) if rows else set()
        for tenant, trace_id, closed, first, last, position, revision, cut_by, rule_set_hash, spans in rows:
            if (key := (tenant, bytes(trace_id))) in wanted:
                found[key] = ClosedTrace(closed, first, last, position, revision, cut_by, rule_set_hash, bytes(spans))
    return found


_RESULTS = """
SELECT e.trace, e.place, t.trace_id, s.rule_id, s.evaluation, e.case_id, e.subject_kind, e.subject_id, e.outcome,
    e.score, s.threshold, s.level, s.service, s.agent, t.complete, e.time
FROM evaluations AS e JOIN series AS s ON s.number = e.series JOIN traces AS t ON t.number = e.trace
WHERE e.trace >= :lowest AND (e.trace, e.place) < (:before_trace, :before_place){}
ORDER BY e.trace DESC, e.place DESC LIMIT :limit
"""


def _result(row: Any) -> Result:
    return Result(
        number=row.trace,
        place=row.place,
        trace_id=bytes(row.trace_id).hex(),
        rule_id=row.rule_id,
        evaluation=row.evaluation,
        case=row.case_id,
        subject_kind=SUBJECT_KINDS[row.subject_kind],
        subject_id=row.subject_id,
        outcome=OUTCOMES[row.outcome],
        score=row.score,
        threshold=row.threshold,
        level=row.level,
        service=row.service,
        agent=row.agent,
        complete=bool(row.complete),
        time=row.time,
    )


def _series(connection: Connection, wanted: Filter) -> list[int] | None:
    """The numbers of the series that `wanted` lets through; None when that is all of them."""
    query = select(series.c.number).where(series.c.evaluation != "")
    everything = connection.execute(select(func.count()).select_from(query.subquery())).scalar_one()
    for column, value in (
        (series.c.rule_id, wanted.rule),
        (series.c.service, wanted.service),
        (series.c.agent, wanted.agent),
        (series.c.tenant, wanted.tenant),
        (series.c.run, wanted.run),
    ):
        if value is not None:
            query = query.where(column == value)
    numbers = list(connection.execute(query).scalars())
    return None if len(numbers) == everything else numbers


def _has_times(wanted: Filter) -> bool:
    return wanted.since_ns is not None or wanted.until_ns is not None


def _conditions(wanted: Filter) -> tuple[str, dict[str, Any]]:
    """The SQL conditions on times, and their values."""
    condition = ""
    values: dict[str, Any] = {}
    if wanted.since_ns is not None:
        condition += " AND t.first_received_ns >= :since_ns"
        values["since_ns"] = wanted.since_ns
    if wanted.until_ns is not None:
        condition += " AND t.first_received_ns < :until_ns"
        values["until_ns"] = wanted.until_ns
    return condition, values


def _outcomes_by_trace(connection: Connection, numbers: Sequence[int]) -> dict[int, dict[str, int]]:
    query = (
        select(evaluations.c.trace, evaluations.c.outcome, func.count())
        .where(evaluations.c.trace.in_(numbers))
        .group_by(evaluations.c.trace, evaluations.c.outcome)
        .order_by(evaluations.c.trace, evaluations.c.outcome)
    )
    found: dict[int, dict[str, int]] = {}
    for number, outcome, count in connection.execute(query):
        found.setdefault(number, {})[OUTCOMES[outcome]] = count
    return found
