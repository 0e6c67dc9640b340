"""Stored traces and sessions without their spans and results, newest first, in the order of closing and storing.

A session has a row like a trace's, but lists of traces do not contain sessions, nor lists of sessions traces.

`session_sums` has all sessions that stored traces name, including those that no rule judges as a whole.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, fields
from itertools import islice
from typing import Annotated, Any, NamedTuple

import orjson
from sqlalchemy import ColumnElement, Connection, Select, case, column, func, literal, select, table

from tracegrade.model.field_schema import FieldSpec, json_of
from tracegrade.model.json_value import JsonValue
from tracegrade.model.session import session_trace_id
from tracegrade.model.usage import Tokens, Usage
from tracegrade.store.database import in_parts, rows_in
from tracegrade.store.index import numbers_of
from tracegrade.store.registry import database
from tracegrade.store.result_filter import ResultFilter, of_traces
from tracegrade.store.results import matching
from tracegrade.store.schema import LIVE, OUTCOMES, traces

NEWEST = 2**63 - 1  # higher than the number of every trace

IS_TRACE = traces.c.members.is_(None)
_IS_SESSION = traces.c.members.is_not(None)
_AGENT, _MODEL, _PROMPT_HASH, _INPUT, _OUTPUT = 1, 4, 5, 6, 7  # in a row of the view ``agent_runs``
_CACHE = 9  # from here on, where a cache was used: tokens read from it, and written to it
_LARGE = ("judged", "spans", "decisions", "tool_calls")
_AT_A_TIME = 100
_MOST_SUMMED_UP = 10_000  # traces


@dataclass(frozen=True, slots=True)
class TraceHead:
    """One stored trace, or session under a trace id of its own, without spans and results.

    ``members`` is the number of traces of a session. ``agents`` are those of a trace, the outermost first; ``usages``
    what the model calls of each of its runs used, under the name of the last model of the run. ``prompt_hashes``: those
    of its runs.
    """

    number: int
    trace_id: Annotated[str, FieldSpec("the trace id")]
    tenant: Annotated[str, FieldSpec("whose trace")]
    service: Annotated[str, FieldSpec("the service of its root")]
    session: Annotated[str | None, FieldSpec("its conversation")]
    root_name: Annotated[str, FieldSpec("the name of the root span")]
    close_reason: Annotated[str, FieldSpec("why it was closed")]
    complete: Annotated[bool, FieldSpec("whether nothing was missing")]
    cut_by: Annotated[str | None, FieldSpec("the bound that cut it short, if one did")]
    revision: Annotated[int, FieldSpec("the highest replaces the others")]
    span_count: Annotated[int, FieldSpec("spans kept")]
    call_count: Annotated[int, FieldSpec("tool calls read; 0 where it was not decoded")]
    start_ns: Annotated[int, FieldSpec("when its first span started", is_time=True)]
    end_ns: Annotated[int, FieldSpec("when its last span ended", is_time=True)]
    first_received_ns: Annotated[int, FieldSpec("when the first span came in", is_time=True)]
    not_decoded: Annotated[
        str | None,
        FieldSpec("why no rule judged it, so that it was not decoded: `not_matched` or `sampled_out`"),
    ]
    release: Annotated[str | None, FieldSpec("its release")]
    cost: Annotated[
        float | None, FieldSpec("what its model calls cost, by the prices in force when it was judged; null: not known")
    ]
    prompt: Annotated[str | None, FieldSpec("the first words of its first prompt", is_value=True)]
    outcomes: Annotated[Mapping[str, int], FieldSpec("how many evaluations had which outcome")]
    members: int = 0
    agents: Sequence[str] = ()
    usages: Sequence[Usage] = ()
    prompt_hashes: Set[str] = frozenset()

    @property
    def tokens(self) -> int | None:
        """What its model calls read and wrote; None where none recorded it."""
        return sum(usage.tokens.total for usage in self.usages) if self.usages else None

    def to_json(self) -> dict[str, JsonValue]:
        """The documented JSON object."""
        return json_of(self)


_DERIVED = ("trace_id", "outcomes", "members", "agents", "usages", "prompt_hashes")
_AS_STORED = [field.name for field in fields(TraceHead) if field.name not in _DERIVED]


def trace_heads(
    connection: Connection, result_filter: ResultFilter, limit: int, *, before: int = NEWEST
) -> list[TraceHead]:
    """The newest traces that `result_filter` selects, at most `limit`; `before` continues after that number.

    Rule, evaluation, outcome, agent and release of `result_filter` must all be met by the same result of the trace.
    """
    return [_head(row) for row in _rows(connection, result_filter, IS_TRACE, limit, before)]


def session_heads(
    connection: Connection, result_filter: ResultFilter, limit: int, *, before: int = NEWEST
) -> list[TraceHead]:
    """The newest sessions that `result_filter` selects by their own results; otherwise as `trace_heads`."""
    return [_head(row) for row in _rows(connection, result_filter, _IS_SESSION, limit, before)]


def heads_of(
    connection: Connection, tenant: str, run: str, trace_ids: Sequence[bytes], *, sessions: bool = False
) -> list[TraceHead]:
    """Those of these traces of a tenant, or of these sessions, that are stored, in order of start."""
    found = []
    kind = _IS_SESSION if sessions else IS_TRACE
    for some in in_parts(trace_ids):
        chosen = (database(connection).of_ids(some), traces.c.tenant == tenant, traces.c.run == run, kind)
        found += [_head(row) for row in connection.execute(_heads().where(*chosen))]
    return sorted(found, key=lambda head: (head.start_ns, head.number))


def heads_numbered(connection: Connection, numbers: Sequence[int]) -> list[TraceHead]:
    """The traces and sessions of these numbers, in their order."""
    found = {row.number: row for row in rows_in(connection, _heads(), traces.c.number, dict.fromkeys(numbers))}
    return [_head(found[number]) for number in numbers if number in found]


def count_heads(connection: Connection, result_filter: ResultFilter, most: int, *, sessions: bool = False) -> int:
    """The number of traces, or sessions, with results that `result_filter` selects, at most `most`. O(counted)."""
    found = 0
    for _ in matching(connection, result_filter, _IS_SESSION if sessions else IS_TRACE):
        found += 1
        if found >= most:
            break
    return found


def _rows(
    connection: Connection, result_filter: ResultFilter, kind: ColumnElement[bool], limit: int, before: int
) -> list[Any]:
    query = _heads().where(kind, *of_traces(result_filter), traces.c.number < before).order_by(traces.c.number.desc())
    if result_filter.asks_for_results:
        numbers = list(islice(_matching(connection, result_filter, kind, before), limit))
        return list(rows_in(connection, query, traces.c.number, numbers))
    return _newest(connection, result_filter, query, limit)


def _matching(
    connection: Connection, result_filter: ResultFilter, kind: ColumnElement[bool], before: int
) -> Iterator[int]:
    """The numbers of those with results that `result_filter` selects, newest first."""
    return (found[0][0].number for found in matching(connection, result_filter, kind, before=(before, 0)))


def _newest(connection: Connection, result_filter: ResultFilter, query: Select[Any], limit: int) -> list[Any]:
    """The first rows of `query`, which `result_filter` selects without regard to results."""
    if result_filter.stored_as != LIVE or result_filter.since_ns is not None or result_filter.until_ns is not None:
        bounds = numbers_of(connection, result_filter)
        if bounds is None:
            return []
        query = query.where(traces.c.number.between(*bounds))
    return list(connection.execute(query.limit(limit)))


_RUN = table("agent_runs", *map(column, ("trace", "input_tokens", "output_tokens")))
_RESULT = table("evaluations", *map(column, ("trace", "outcome")))
_BASE = 1_000_000  # more than a trace has results
_WEIGHTS = {OUTCOMES.index(name): _BASE**place for place, name in enumerate(("not_evaluable", "error", "fail"))}

MEASURES: Mapping[str, ColumnElement[Any]] = {
    "duration": (traces.c.end_ns - traces.c.start_ns) / literal(1e9),
    "calls": traces.c.call_count,
    "tokens": select(func.sum(func.coalesce(_RUN.c.input_tokens, 0) + func.coalesce(_RUN.c.output_tokens, 0)))
    .where(_RUN.c.trace == traces.c.number, func.coalesce(_RUN.c.input_tokens, _RUN.c.output_tokens).is_not(None))
    .correlate(traces)
    .scalar_subquery(),
    "cost": traces.c.cost,
}
"""What is measured of a trace, by name: s, numbers, and the currency of the prices; NULL where it is not known."""

BADNESS = (
    select(func.coalesce(func.sum(case(_WEIGHTS, value=_RESULT.c.outcome, else_=0)), 0))
    .where(_RESULT.c.trace == traces.c.number)
    .correlate(traces)
    .scalar_subquery()
)
"""Greater with more fails, then errors, then results that are not evaluable."""

_MOST_LOOKED_AT = 50_000


class Ordered(NamedTuple):
    """Numbers of traces, newest first, each with a value; ``stopped_at``: the last looked at, where more are left."""

    found: Sequence[tuple[int, float | None]]
    stopped_at: int | None = None


def ordered_by(
    connection: Connection,
    result_filter: ResultFilter,
    conditions: Sequence[ColumnElement[bool]],
    value: ColumnElement[Any],
    limit: int,
    before: int = NEWEST,
) -> Ordered:
    """The newest traces that `result_filter` and `conditions` select, at most `limit`, with `value`.

    Where `result_filter` asks for results, at most 50,000 traces with such results are looked at.
    """
    number = traces.c.number
    query = select(number, value).where(IS_TRACE, *of_traces(result_filter), *conditions, number < before)
    query = query.order_by(number.desc())
    if not result_filter.asks_for_results:
        return Ordered([(row[0], row[1]) for row in _newest(connection, result_filter, query, limit)])
    numbers = _matching(connection, result_filter, IS_TRACE, before)
    found: list[tuple[int, float | None]] = []
    for _ in range(0, _MOST_LOOKED_AT, _AT_A_TIME):
        some = list(islice(numbers, _AT_A_TIME))
        found += [(row[0], row[1]) for row in rows_in(connection, query, number, some)]
        if len(some) < _AT_A_TIME or len(found) >= limit:
            return Ordered(found[:limit])
    return Ordered(found, some[-1])


def _heads() -> Select[Any]:
    return select(*(column for column in traces.c if column.name not in _LARGE))


def usages_in(runs: Sequence[Sequence[Any]]) -> list[Usage]:
    """What the model calls of each run used that recorded any, from the rows of ``traces.agent_runs``."""
    return [
        Usage(
            run[_MODEL] or "",
            Tokens(run[_INPUT], run[_OUTPUT], (run[_INPUT] or 0) + (run[_OUTPUT] or 0), *run[_CACHE:]),
        )
        for run in runs
        if run[_INPUT] is not None or run[_OUTPUT] is not None
    ]


def _head(row: Any) -> TraceHead:
    runs = orjson.loads(row.agent_runs)
    counted = Counter(item[5] for item in orjson.loads(row.evaluations))
    return TraceHead(
        **{name: getattr(row, name) for name in _AS_STORED},
        trace_id=bytes(row.trace_id).hex(),
        outcomes={name: counted[place] for place, name in enumerate(OUTCOMES) if counted[place]},
        members=0 if row.members is None else sum(map(bool, orjson.loads(row.members))),
        agents=tuple(dict.fromkeys(run[_AGENT] for run in runs if run[_AGENT])),
        usages=usages_in(runs),
        prompt_hashes={run[_PROMPT_HASH] for run in runs if run[_PROMPT_HASH]},
    )


@dataclass(frozen=True, slots=True)
class SessionSums:
    """Sums over the traces of one session of one tenant; ``number`` is that of the latest trace."""

    id: Annotated[str, FieldSpec("the conversation's id")]
    tenant: Annotated[str, FieldSpec("whose session")]
    trace_count: Annotated[int, FieldSpec("its traces")]
    span_count: Annotated[int, FieldSpec("their spans")]
    call_count: Annotated[int, FieldSpec("their tool calls")]
    start_ns: Annotated[int, FieldSpec("when the first of them started", is_time=True)]
    end_ns: Annotated[int, FieldSpec("when the last of them ended", is_time=True)]
    number: int

    def to_json(self) -> dict[str, JsonValue]:
        """The documented JSON object."""
        return json_of(self)


def session_sums(connection: Connection, result_filter: ResultFilter, limit: int, *, before: int) -> list[SessionSums]:
    """The sessions whose latest trace has a number below `before`, the latest first, at most `limit`.

    Uses only service, tenant, session and times of `result_filter`. O(traces).
    """
    last = func.max(traces.c.number)
    query = select(
        traces.c.session,
        traces.c.tenant,
        func.count(),
        func.sum(traces.c.span_count),
        func.sum(traces.c.call_count),
        func.min(traces.c.start_ns),
        func.max(traces.c.end_ns),
        last,
    ).where(traces.c.session.is_not(None), IS_TRACE, *of_traces(result_filter))
    query = query.group_by(traces.c.session, traces.c.tenant).having(last < before)
    return [
        SessionSums(row[0], row[1], *map(int, row[2:]))
        for row in connection.execute(query.order_by(last.desc()).limit(limit))
    ]


def unjudged_sessions(connection: Connection, result_filter: ResultFilter, limit: int) -> list[SessionSums]:
    """The sessions that no rule judged as a whole, the latest first, at most `limit`.

    They are summed up over the newest 10,000 traces that `result_filter` selects by service, tenant, session and times.
    """
    query = (
        select(
            *(
                traces.c[name]
                for name in ("session", "tenant", "span_count", "call_count", "start_ns", "end_ns", "number")
            )
        )
        .where(traces.c.session.is_not(None), IS_TRACE, *of_traces(result_filter))
        .order_by(traces.c.number.desc())
    )
    found: dict[tuple[str, str], SessionSums] = {}
    for name, tenant, spans, calls, start_ns, end_ns, number in _newest(
        connection, result_filter, query, _MOST_SUMMED_UP
    ):
        sums = found.setdefault((name, tenant), SessionSums(name, tenant, 0, 0, 0, start_ns, end_ns, number))
        found[name, tenant] = SessionSums(
            name,
            tenant,
            sums.trace_count + 1,
            sums.span_count + spans,
            sums.call_count + calls,
            min(sums.start_ns, start_ns),
            max(sums.end_ns, end_ns),
            sums.number,
        )
    unjudged: list[SessionSums] = []
    left = iter(found.values())
    while len(unjudged) < limit and (some := list(islice(left, _AT_A_TIME))):
        ids = {(sums.tenant, session_trace_id(sums.tenant, sums.id)): sums for sums in some}
        chosen = (
            database(connection).of_ids([id_ for _, id_ in ids]),
            traces.c.run == result_filter.stored_as,
            _IS_SESSION,
        )
        for row in connection.execute(select(traces.c.tenant, traces.c.trace_id).where(*chosen)):
            ids.pop((row.tenant, bytes(row.trace_id)), None)
        unjudged += ids.values()
    return unjudged[:limit]
