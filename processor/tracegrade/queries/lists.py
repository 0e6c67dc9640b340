"""Lists of what is stored, newest first, in pages."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from sqlalchemy import Connection

from tracegrade.queries.paging import Page, page_of, read_cursor
from tracegrade.queries.parameters import StoreQuery
from tracegrade.store.heads import NEWEST, SessionSums, TraceHead, session_heads, session_sums, trace_heads
from tracegrade.store.named import session_named, trace_id_named
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.results import Result, results
from tracegrade.store.schema import LIVE

Q = TypeVar("Q", bound=StoreQuery)


def with_whole_ids(connection: Connection, query: Q) -> Q:
    """`query` with whole ids in place of the beginnings of ids by which it names a session or a trace.

    Raises:
        NotFound: there is no such run; or nothing stored has such an id, or several have.
    """
    run: str = getattr(query, "run", LIVE)
    check_run(connection, run)
    whole: dict[str, Any] = {}
    if (session := getattr(query, "session", None)) is not None:
        whole["session"] = session_named(connection, session, run=run)
    if (trace_id := getattr(query, "trace_id", None)) is not None:
        whole["trace_id"] = trace_id_named(connection, trace_id, run=run, sessions=False).hex()
    return replace(query, **whole)


def check_run(connection: Connection, run: str) -> None:
    """Check that there is a run of that name.

    Raises:
        NotFound: there is none.
    """
    if run != LIVE:
        from tracegrade.history.runs.experiments import check_stored  # takes a tenth of a second to import

        check_stored(connection, run)


def results_page(connection: Connection, chosen: ResultFilter, limit: int, cursor: str | None = None) -> Page[Result]:
    """The newest evaluations, without their values. Raises as `check_run`."""
    check_run(connection, chosen.run)
    found = results(connection, chosen, limit + 1, before=read_cursor(cursor))
    return page_of(found, limit, lambda result: (result.number, result.place))


def traces_page(connection: Connection, chosen: ResultFilter, limit: int, cursor: str | None = None) -> Page[TraceHead]:
    """The newest traces, without their spans and results. Raises as `check_run`."""
    return _heads_page(trace_heads, connection, chosen, limit, cursor)


def judged_sessions_page(
    connection: Connection, chosen: ResultFilter, limit: int, cursor: str | None = None
) -> Page[TraceHead]:
    """The newest sessions that rules judged as a whole, by their own results. Raises as `check_run`."""
    return _heads_page(session_heads, connection, chosen, limit, cursor)


def _heads_page(
    find: Callable[..., list[TraceHead]], connection: Connection, chosen: ResultFilter, limit: int, cursor: str | None
) -> Page[TraceHead]:
    check_run(connection, chosen.run)
    found = find(connection, chosen, limit + 1, before=(read_cursor(cursor) or (NEWEST, 0))[0])
    return page_of(found, limit, lambda head: (head.number, 0))


def sessions_page(
    connection: Connection, chosen: ResultFilter, limit: int, cursor: str | None = None
) -> Page[SessionSums]:
    """The sessions with the latest traces, added up over those of their traces that are chosen."""
    found = session_sums(connection, chosen, limit + 1, before=(read_cursor(cursor) or (NEWEST, 0))[0])
    return page_of(found, limit, lambda session: (session.number, 0))
