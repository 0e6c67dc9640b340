"""Lists of what is stored, newest first, in pages."""

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from struct import Struct
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection

from tracegrade.queries.parameters import StoreQuery
from tracegrade.store.heads import NEWEST, SessionSums, TraceHead, session_heads, session_sums, trace_heads
from tracegrade.store.named import session_named, trace_id_named
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.results import Result, results
from tracegrade.store.schema import LIVE

_CURSOR = Struct(">QQ")

Item = TypeVar("Item")
Q = TypeVar("Q", bound=StoreQuery)


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """A part of a list; ``next`` is the cursor of the part after it, None at the end."""

    items: Sequence[Item]
    next: str | None


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


def page_of(found: Sequence[Item], limit: int, place: Callable[[Item], tuple[int, int]]) -> Page[Item]:
    """The first `limit` of `found`, of which there is one more if there is a next page, which begins after a place."""
    shown = found[:limit]
    return Page(shown, cursor_of(*place(shown[-1])) if len(found) > limit else None)


def cursor_of(number: int, place: int = 0) -> str:
    """The cursor that goes on after (`number`, `place`): 22 letters, digits, ``-`` and ``_``."""
    return base64.urlsafe_b64encode(_CURSOR.pack(number, place)).rstrip(b"=").decode()


def read_cursor(cursor: str | None) -> tuple[int, int] | None:
    """The number and place of a cursor of this form; None without a cursor."""
    if cursor is None:
        return None
    number, place = _CURSOR.unpack(base64.urlsafe_b64decode(cursor + "=="))
    return min(number, NEWEST), min(place, NEWEST)
