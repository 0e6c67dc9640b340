"""The sessions named by stored traces, including those that no rule judges as a whole."""

from dataclasses import dataclass
from typing import Annotated

from sqlalchemy import Connection, func, select

from tracegrade.model.json_value import JsonValue
from tracegrade.model.record import Shown, json_of
from tracegrade.store.heads import IS_TRACE
from tracegrade.store.result_filter import ResultFilter, of_traces
from tracegrade.store.schema import traces


@dataclass(frozen=True, slots=True)
class SessionSums:
    """Sums over the traces of one session of one tenant; ``number`` is that of the latest trace."""

    id: Annotated[str, Shown("the conversation's id")]
    tenant: Annotated[str, Shown("whose session")]
    trace_count: Annotated[int, Shown("its traces")]
    span_count: Annotated[int, Shown("their spans")]
    call_count: Annotated[int, Shown("their tool calls")]
    start_ns: Annotated[int, Shown("when the first of them started", is_time=True)]
    end_ns: Annotated[int, Shown("when the last of them ended", is_time=True)]
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
