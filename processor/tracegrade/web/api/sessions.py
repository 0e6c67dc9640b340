"""Sessions: traces that share a conversation."""

from typing import Annotated

from tracegrade.model.session import session_trace_id
from tracegrade.queries.lists import sessions_page
from tracegrade.queries.parameters import SessionsQuery
from tracegrade.store.heads import NEWEST, SessionSums, session_sums, trace_heads
from tracegrade.store.read import stored_traces
from tracegrade.store.result_filter import ResultFilter
from tracegrade.web.api.described import described_by
from tracegrade.web.api.documents import Document, EvaluationDocument, ExactJson, Page, TraceDocument, page_json
from tracegrade.web.api.operations import Operations
from tracegrade.web.api.parameters import (
    ApiCaller,
    ApiSources,
    NoParameters,
    PartOf,
    PathName,
    asked_in_pages,
)
from tracegrade.web.masked import seen_by
from tracegrade.web.problem import not_found

router = Operations(503)

_MOST_TRACES = 1000
_MOST_TENANTS = 1000


@described_by(SessionSums)
class SessionDocument(Document):
    """One session, added up over those of its traces that were chosen."""


class WholeSession(Document):
    """One session of one tenant: its traces, the newest first (at most 1000), and the results of rules on sessions."""

    id: str
    tenant: str
    traces: list[TraceDocument]
    evaluations: list[EvaluationDocument]


class WholeSessions(Document):
    """The sessions of one id: one for each tenant."""

    items: list[WholeSession]


@router.operation("GET /sessions", "Sessions, by their latest traces", Page[SessionDocument])
def list_sessions(
    sources: ApiSources, caller: ApiCaller, part: Annotated[PartOf[SessionsQuery], asked_in_pages(SessionsQuery)]
) -> ExactJson:
    """Sessions that all the parameters choose, in pages."""
    with sources.store() as connection:
        return page_json(caller, sessions_page(connection, part.query.filter(), part.limit, part.cursor))


@router.operation("GET /sessions/{session_id:path}", "One session", WholeSessions, 404)
def show_session(sources: ApiSources, caller: ApiCaller, session_id: PathName, query: NoParameters) -> ExactJson:
    """The traces of a session, and what was judged of it as a whole."""
    items = []
    with sources.store() as connection:
        of_tenants = session_sums(connection, ResultFilter(session=session_id), _MOST_TENANTS, before=NEWEST)
        for tenant in sorted(found.tenant for found in of_tenants):
            heads = trace_heads(connection, ResultFilter(session=session_id, tenant=tenant), _MOST_TRACES)
            own = stored_traces(connection, session_trace_id(tenant, session_id))
            judged = [item for stored in own if stored.trace.tenant == tenant for item in stored.evaluations]
            items.append(
                {
                    "id": session_id,
                    "tenant": tenant,
                    "traces": [head.to_json() for head in seen_by(caller, heads)],
                    "evaluations": [evaluation.to_json() for evaluation in seen_by(caller, judged)],
                }
            )
    if not items:
        raise not_found(f"session {session_id[:200]!r} in the store")
    return ExactJson({"items": items})
