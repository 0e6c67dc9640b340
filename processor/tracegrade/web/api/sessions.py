"""Sessions: traces that share a conversation."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pydantic import Field

from tracegrade.model.session import session_trace_id
from tracegrade.store.filter import Filter
from tracegrade.store.heads import NEWEST, trace_heads
from tracegrade.store.read import stored_traces
from tracegrade.store.session_sums import session_sums
from tracegrade.web.api.documents import EvaluationDocument, TraceDocument
from tracegrade.web.api.operation import (
    Document,
    Name,
    Operation,
    Page,
    Paged,
    PathName,
    Time,
    cursor_of,
    not_found,
    page_of,
    read_cursor,
)
from tracegrade.web.api.traces import head_json
from tracegrade.web.sources import Sources

_MOST_TRACES = 1000
_MOST_TENANTS = 1000


class SessionsQuery(Paged):
    """Which sessions."""

    service: Name | None = Field(None, description="Only with traces of this service")
    since: Time | None = Field(None, description="Only with a trace first received at this time or later")
    until: Time | None = Field(None, description="Only with a trace first received before this time")


class SessionDocument(Document):
    """One session, added up over those of its traces that were chosen."""

    id: str
    tenant: str
    trace_count: int
    span_count: int
    call_count: int
    start_ns: int
    end_ns: int


class WholeSession(Document):
    """One session of one tenant: its traces, the newest first (at most 1000), and the results of rules on sessions."""

    id: str
    tenant: str
    traces: list[TraceDocument]
    evaluations: list[EvaluationDocument]


class WholeSessions(Document):
    """The sessions of one id: one for each tenant."""

    items: list[WholeSession]


def list_sessions(sources: Sources, query: SessionsQuery, path: Mapping[str, str]) -> dict[str, Any]:
    """A page of sessions, by their latest traces."""
    after = read_cursor(query.cursor)
    with sources.store() as connection:
        found = session_sums(
            connection,
            Filter(service=query.service, since_ns=query.since, until_ns=query.until),
            query.limit + 1,
            before=NEWEST if after is None else after[0],
        )
    shown, after_them = page_of(found, query.limit, lambda session: cursor_of(session.number))
    items = [{key: value for key, value in asdict(session).items() if key != "number"} for session in shown]
    return {"items": items, "next": after_them}


def show_session(sources: Sources, query: object, path: Mapping[str, str]) -> dict[str, Any]:
    """The traces of a session, and what was judged of it as a whole."""
    name = path["session_id"]
    items = []
    with sources.store() as connection:
        of_tenants = session_sums(connection, Filter(session=name), _MOST_TENANTS, before=NEWEST)
        for tenant in sorted(found.tenant for found in of_tenants):
            heads = trace_heads(connection, Filter(session=name, tenant=tenant), _MOST_TRACES)
            own = stored_traces(connection, session_trace_id(tenant, name))
            judged = [item for stored in own if stored.trace["tenant"] == tenant for item in stored.evaluations]
            items.append(
                {
                    "id": name,
                    "tenant": tenant,
                    "traces": [head_json(head) for head in heads],
                    "evaluations": [evaluation.to_json() for evaluation in judged],
                }
            )
    if not items:
        raise not_found(f"session {name[:200]!r} in the store")
    return {"items": items}


OPERATIONS = (
    Operation(
        "GET",
        "/sessions",
        "listSessions",
        "Sessions, by their latest traces",
        list_sessions,
        Page[SessionDocument],
        query=SessionsQuery,
    ),
    Operation(
        "GET",
        "/sessions/{session_id}",
        "showSession",
        "One session",
        show_session,
        WholeSessions,
        path_types={"session_id": PathName},
    ),
)
