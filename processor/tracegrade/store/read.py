"""What the command line and the page ask the store, and what assembly asks it about late spans.

Results come newest first: in the order in which traces were closed and stored. Times choose whole traces, by first
receive time, here as everywhere.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import orjson
from sqlalchemy import Connection, Select, bindparam, func, select

from tracegrade.model.evaluation import Decision, Evaluation
from tracegrade.model.session import TURN, session_trace_id
from tracegrade.model.tool_call import ToolCall
from tracegrade.store.arrivals import number_range
from tracegrade.store.blocks import block_ranges
from tracegrade.store.json_text import storable
from tracegrade.store.judged import unpack_judged
from tracegrade.store.rule_texts import present_hash
from tracegrade.store.schema import EVERY_SERIES, OUTCOMES, SUBJECT_KINDS, WHOLE_RULE, series, traces

# Blocks are looked up by so many series; results of more are near whichever way one looks.
_MAX_SEARCHED_SERIES = 1000
_MATCHED = ("number", "trace_id", "complete", "evaluations")
_LARGE = ("judged", "spans", "decisions", "tool_calls", "members")
_MAX_IDS_A_QUERY = 500
_MAX_INTEGER = 2**63 - 1

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which results or traces: every field that is set must hold. Times are ns since 1970 UTC, the end excluded."""

    rule: str | None = None
    rule_hash: str | None = None
    evaluation: str | None = None
    outcome: str | None = None
    service: str | None = None
    agent: str | None = None
    release: str | None = None
    session: str | None = None
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
class SessionHead:
    """One stored session, whose head has the trace id of its own, and of how many traces it is made."""

    head: TraceHead
    members: int


@dataclass(frozen=True, slots=True)
class StoredTrace:
    """Everything stored of one trace: the record as it was delivered, and its kept spans, packed.

    Or of one session, whose spans are with its traces.
    """

    trace: dict[str, Any]
    tool_calls: list[ToolCall]
    decisions: list[Decision]
    spans: bytes

    @property
    def evaluations(self) -> list[Evaluation]:
        """The evaluations of all decisions, in their order."""
        return [evaluation for decision in self.decisions for evaluation in decision.evaluations]

    @property
    def members(self) -> dict[bytes, int] | None:
        """Of a session its traces by id, with their revisions; None for a trace."""
        members = self.trace.get("members")
        return None if members is None else _members(members)

    @property
    def sessions(self) -> list[str]:
        """Of a trace the sessions that it is part of."""
        found = [run["session"] or self.trace["session"] for run in self.trace.get("runs", ())]
        return [name for name in dict.fromkeys(found) if name]


@dataclass(frozen=True, slots=True)
class StoredSession:
    """What assembly needs of a session: its traces by id with their revisions, and how it was judged last."""

    tenant: str
    id: str
    members: dict[bytes, int]
    closed_ns: int
    cut_by: str | None
    revision: int
    close_reason: str


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

    Of each block of traces that holds any, newest first, until there are enough: it takes as long in a full store as
    in an empty one; O(blocks read).
    """
    found = []
    for row, place, item in _matching(connection, wanted, before=before):
        found.append((row, place, item))
        if len(found) >= limit:
            break
    names = _series_rows(connection, {item[1] for _, _, item in found})
    return [_result(row, place, item, names[item[1]]) for row, place, item in found]


def full_evaluations(connection: Connection, found: Sequence[Result]) -> list[Evaluation]:
    """Each of `found` with its values, in their order."""
    judged: dict[int, list[Evaluation]] = {}
    for some in _parts(list(dict.fromkeys(result.number for result in found))):
        for number, blob in connection.execute(
            select(traces.c.number, traces.c.judged).where(traces.c.number.in_(some))
        ):
            _, _, decisions = unpack_judged(blob)
            judged[number] = [evaluation for decision in decisions for evaluation in decision.evaluations]
    # A trace that a higher revision or the retention took away between the two queries has no values to show.
    return [judged[result.number][result.place] for result in found if result.number in judged]


def trace_heads(connection: Connection, wanted: Filter, limit: int, *, before: int = _MAX_INTEGER) -> list[TraceHead]:
    """The newest traces that `wanted` lets through, at most `limit`; `before` continues after that number.

    Of `wanted`, rule, outcome, agent and release hold when one evaluation of the trace has them all.
    """
    query = _traces_query(wanted).where(traces.c.number < before).order_by(traces.c.number.desc()).limit(limit)
    if _has_times(wanted):
        bounds = number_range(connection, wanted.since_ns, wanted.until_ns)
        if bounds is None:
            return []
        query = query.where(traces.c.number.between(*bounds))
    if all(value is None for value in (*_of_series(wanted), wanted.outcome)):
        return [_head(row) for row in connection.execute(query)]
    numbers: dict[int, None] = {}
    for row, _, _ in _matching(connection, wanted, before=(before, 0)):
        numbers[row.number] = None
        if len(numbers) >= limit:
            break
    parts = (query.where(traces.c.number.in_(some)) for some in _parts(list(numbers)))
    return [_head(row) for part in parts for row in connection.execute(part)]


def session_heads(connection: Connection, wanted: Filter, limit: int) -> list[SessionHead]:
    """The newest sessions that `wanted` lets through, at most `limit`; of it, service, tenant and times are read."""
    query = select(*(column for column in traces.c if column.name not in _LARGE), traces.c.members)
    query = query.where(traces.c.run == wanted.run, traces.c.session.is_not(None), traces.c.members.is_not(None))
    for column, value in ((traces.c.service, wanted.service), (traces.c.tenant, wanted.tenant)):
        if value is not None:
            query = query.where(column == value)
    if _has_times(wanted):
        bounds = number_range(connection, wanted.since_ns, wanted.until_ns)
        if bounds is None:
            return []
        query = query.where(traces.c.number.between(*bounds))
    rows = connection.execute(_within(query, wanted).order_by(traces.c.number.desc()).limit(limit))
    return [SessionHead(_head(row), sum(map(bool, orjson.loads(row.members)))) for row in rows]


def newest_number(connection: Connection) -> int:
    """The number of the trace that was stored last, which grows with every closing; 0 in an empty store."""
    found: int = connection.execute(select(func.coalesce(func.max(traces.c.number), 0))).scalar_one()
    return found


def stored_traces(connection: Connection, trace_id: bytes, *, run: str = "live") -> list[StoredTrace]:
    """The trace, or session, of that id with all its results: one for each tenant, [] when it is not stored."""
    query = (
        select(traces.c.judged, traces.c.spans)
        .where(traces.c.trace_id == trace_id, traces.c.run == run)
        .order_by(traces.c.tenant)
    )
    found = []
    for judged, spans in connection.execute(query):
        found.append(StoredTrace(*unpack_judged(judged), bytes(spans)))
    return found


def sessions_of(connection: Connection, stored: StoredTrace) -> list[StoredTrace]:
    """The sessions that a stored trace is part of, as far as they were judged."""
    head = stored.trace
    found = []
    for name in stored.sessions:
        own = session_trace_id(head["tenant"], name)
        same_id = stored_traces(connection, own, run=head["run"])
        found += [session for session in same_id if session.trace["tenant"] == head["tenant"]]
    return found


def traces_of(connection: Connection, stored: StoredTrace) -> list[StoredTrace]:
    """A stored trace itself; of a session its traces, as far as they are stored."""
    head, members = stored.trace, stored.members
    if members is None:
        return [stored]
    found = [trace for trace_id in members for trace in stored_traces(connection, trace_id, run=head["run"])]
    return [trace for trace in found if trace.trace["tenant"] == head["tenant"] and trace.members is None]


def stored_session(connection: Connection, tenant: str, session_id: str) -> StoredSession | None:
    """The session of that id, if it was judged live."""
    own = session_trace_id(tenant, session_id)
    row = connection.execute(_SESSIONS.where(traces.c.trace_id == own, traces.c.tenant == tenant)).first()
    return _session(row) if row is not None else None


def sessions_going_on(connection: Connection) -> list[StoredSession]:
    """The sessions that have not ended, in the order in which their last traces closed."""
    rows = connection.execute(_SESSIONS.where(traces.c.close_reason == TURN).order_by(traces.c.closed_ns))
    return [_session(row) for row in rows]


_SESSIONS = select(
    *(traces.c[name] for name in ("tenant", "judged", "members", "closed_ns", "cut_by", "revision", "close_reason"))
).where(traces.c.run == "live")


def _session(row: Any) -> StoredSession:
    head, _, _ = unpack_judged(row.judged)  # the id as it came: the column holds what the database can
    members = _members(orjson.loads(row.members))
    return StoredSession(
        row.tenant, head["session"], members, row.closed_ns, row.cut_by, row.revision, row.close_reason
    )


def _members(members: Mapping[str, int]) -> dict[bytes, int]:
    return {bytes.fromhex(trace_id): revision for trace_id, revision in members.items()}


def newest_traces(connection: Connection, limit: int) -> Iterator[StoredTrace]:
    """The newest traces that were judged live, newest first, at most `limit`; a few in memory at a time."""
    query = select(traces.c.judged, traces.c.spans).where(traces.c.run == "live", traces.c.members.is_(None))
    query = query.order_by(traces.c.number.desc())
    for judged, spans in connection.execute(query.limit(limit).execution_options(yield_per=64)):
        yield StoredTrace(*unpack_judged(judged), bytes(spans))


def closed_traces(connection: Connection, keys: Sequence[tuple[str, bytes]]) -> dict[tuple[str, bytes], ClosedTrace]:
    """Those of `keys` (tenant, trace id) whose trace was judged live, in one query for each 500 of them."""
    found: dict[tuple[str, bytes], ClosedTrace] = {}
    mark = "?" if connection.dialect.paramstyle == "qmark" else "%s"
    for some in _parts(keys):
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


def _traces_query(wanted: Filter) -> Select[Any]:
    """The heads of the traces that `wanted` lets through, as far as the trace itself says it; none of sessions."""
    return chosen_by(select(*(column for column in traces.c if column.name not in _LARGE)), wanted)


def chosen_by(query: Select[Any], wanted: Filter) -> Select[Any]:
    """`query` of the traces that `wanted` lets through, as far as the trace itself says it; of no sessions."""
    query = query.where(traces.c.run == wanted.run, traces.c.members.is_(None))
    for column, value in (
        (traces.c.trace_id, wanted.trace_id),
        (traces.c.service, wanted.service),
        (traces.c.tenant, wanted.tenant),
    ):
        if value is not None:
            query = query.where(column == value)
    return _within(query, wanted)


def _within(query: Select[Any], wanted: Filter) -> Select[Any]:
    """`query` of what came within times, and of one session: of its traces and of itself."""
    if wanted.session is not None:
        query = query.where(traces.c.session == storable(wanted.session))
    if wanted.since_ns is not None:
        query = query.where(traces.c.first_received_ns >= wanted.since_ns)
    if wanted.until_ns is not None:
        query = query.where(traces.c.first_received_ns < wanted.until_ns)
    return query


def _head(row: Any) -> TraceHead:
    counted = Counter(item[5] for item in orjson.loads(row.evaluations))
    return TraceHead(
        number=row.number,
        trace_id=bytes(row.trace_id).hex(),
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
        outcomes={name: counted[place] for place, name in enumerate(OUTCOMES) if counted[place]},
    )


def _matching(
    connection: Connection, wanted: Filter, *, before: tuple[int, int] | None
) -> Iterator[tuple[Any, int, list[Any]]]:
    """The trace, place and row of each evaluation that `wanted` lets through, newest first."""
    chosen = _series(connection, wanted)
    outcomes = range(len(OUTCOMES)) if wanted.outcome is None else (OUTCOMES.index(wanted.outcome),)
    bounds = number_range(connection, wanted.since_ns, wanted.until_ns)
    if bounds is None or chosen == []:
        return
    low, high = bounds
    if before is not None:
        high = min(high, before[0])
    query = _within(select(*(traces.c[name] for name in _MATCHED)), wanted)
    query = query.where(traces.c.number.between(bindparam("first"), bindparam("last")))
    query = query.order_by(traces.c.number.desc())
    if wanted.trace_id is not None:
        ranges = _numbers_of(connection, wanted.trace_id, low, high)
    else:
        few = chosen is not None and len(chosen) <= _MAX_SEARCHED_SERIES
        ranges = block_ranges(connection, chosen if chosen is not None and few else [EVERY_SERIES], outcomes, low, high)
    allowed = None if chosen is None else set(chosen)
    for first, last in ranges:
        for row in connection.execute(query, {"first": first, "last": last}):
            items = orjson.loads(row.evaluations)
            for place in range(len(items) - 1, -1, -1):
                item = items[place]
                if (
                    item[5] in outcomes
                    and (allowed is None or item[1] in allowed)
                    and (before is None or (row.number, place) < before)
                ):
                    yield row, place, item


def _numbers_of(connection: Connection, trace_id: bytes, low: int, high: int) -> Iterator[tuple[int, int]]:
    query = select(traces.c.number).where(traces.c.trace_id == trace_id, traces.c.number.between(low, high))
    for number in connection.execute(query.order_by(traces.c.number.desc())).scalars().all():
        yield number, number


def _series_rows(connection: Connection, numbers: Collection[int]) -> dict[int, Any]:
    queries = (select(series).where(series.c.number.in_(some)) for some in _parts(list(numbers)))
    return {row.number: row for query in queries for row in connection.execute(query)}


def _parts(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    """`items` in parts that one query takes."""
    for start in range(0, len(items), _MAX_IDS_A_QUERY):
        yield items[start : start + _MAX_IDS_A_QUERY]


def _result(row: Any, place: int, item: list[Any], named: Any) -> Result:
    _, _, case, subject_kind, subject_id, outcome, score, time = item
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
        service=named.service,
        agent=named.agent,
        complete=row.complete,
        time=time,
    )


# What a result's series says, and its trace does not.
_OF_SERIES = (series.c.rule_id, series.c.present_hash, series.c.evaluation, series.c.agent, series.c.release)


def _by_present_hash(connection: Connection, wanted: Filter) -> Filter:
    return wanted if wanted.rule_hash is None else replace(wanted, rule_hash=present_hash(connection, wanted.rule_hash))


def _of_series(wanted: Filter) -> tuple[str | None, ...]:
    return wanted.rule, wanted.rule_hash, wanted.evaluation, wanted.agent, wanted.release


def _series(connection: Connection, wanted: Filter) -> list[int] | None:
    """The numbers of the series that `wanted` lets through; None when that is all of them."""
    query = select(series.c.number).where(series.c.evaluation != WHOLE_RULE)
    everything = connection.execute(select(func.count()).select_from(query.subquery())).scalar_one()
    for column, value in (
        *zip(_OF_SERIES, _of_series(_by_present_hash(connection, wanted)), strict=True),
        (series.c.service, wanted.service),
        (series.c.tenant, wanted.tenant),
        (series.c.run, wanted.run),
    ):
        if value is not None:
            query = query.where(column == value)
    numbers = list(connection.execute(query).scalars())
    return None if len(numbers) == everything else numbers


def _has_times(wanted: Filter) -> bool:
    return wanted.since_ns is not None or wanted.until_ns is not None
