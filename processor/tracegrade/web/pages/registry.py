"""All pages: address -> what shows it. Those that the navigation names are in ``render.SECTIONS`` too."""

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

from tracegrade.web.pages import alerts, ingest, overview, rules, sessions, trace, traces

PAGES: dict[str, Callable[[Request], Response]] = {
    "/": overview.show,
    "/traces": traces.show,
    "/traces/{trace_id}": trace.show,
    "/traces/{trace_id}/spans/{span_id}": trace.show_span,
    "/rules": rules.show_all,
    "/rules/{rule_id}": rules.show,
    "/alerts": alerts.show,
    "/sessions": sessions.show_all,
    "/sessions/{trace_id}": sessions.show,
    "/ingest": ingest.show,
}
