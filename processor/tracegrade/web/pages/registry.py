"""All pages: address -> the function that shows it, for callers who may read; and all forms.

The navigation is in ``render.SECTIONS``.
"""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from tracegrade.access.rights import Right
from tracegrade.compare.web.pages import backtest, compare
from tracegrade.compare.web.pages import traces as compared_traces
from tracegrade.suites.web.pages import cases as suite_cases
from tracegrade.suites.web.pages import evals, run_eval, suites
from tracegrade.suites.web.pages import imports as suite_imports
from tracegrade.web.pages import (
    alerts,
    experiments,
    incidents,
    ingest,
    overview,
    rules,
    runs,
    sessions,
    trace,
    traces,
)

PAGES: dict[str, Callable[[Request], Response]] = {
    "/": overview.show,
    "/traces": traces.show,
    "/traces/{trace_id}": trace.show,
    "/traces/{trace_id}/spans/{span_id}": trace.show_span,
    "/traces/{trace_id}/tests/{rule_id}.zip": trace.download_test,
    "/rules": rules.show_all,
    "/rules/{rule_id}": rules.show,
    "/suites": suites.show_all,
    "/suites/new": suites.show_new,
    "/suites/import": suite_imports.show,
    "/suites/import-mcp": suite_imports.show_mcp,
    "/suites/{suite_id}": suites.show,
    "/suites/{suite_id}/edit": suites.show_edit,
    "/suites/{suite_id}/new-case": suite_cases.show_new,
    "/suites/{suite_id}/cases/{case_id:path}": suite_cases.show,
    "/evals": evals.show_all,
    "/evals/new": run_eval.show,
    "/evals/{id}": evals.show,
    "/experiments": experiments.show_all,
    "/experiments/{experiment:path}": experiments.show,
    "/runs/{run:path}": runs.show,
    "/compare": compare.show,
    "/compare/traces": compared_traces.show,
    "/alerts": alerts.show,
    "/incidents/{incident_id}": incidents.show,
    "/sessions": sessions.show_all,
    "/sessions/{trace_id}": sessions.show,
    "/ingest": ingest.show,
}

ACTIONS: dict[str, tuple[Callable[[Request], Response | Awaitable[Response]], Right]] = {
    "/suites/new": (suites.create, "run"),
    "/suites/import": (suite_imports.import_json, "run"),
    "/suites/import-mcp": (suite_imports.import_server, "run"),
    "/suites/{suite_id}/edit": (suites.change, "run"),
    "/suites/{suite_id}/delete": (suites.delete, "admin"),
    "/suites/{suite_id}/delete-case": (suites.delete_case, "run"),
    "/suites/{suite_id}/new-case": (suite_cases.create, "run"),
    "/suites/{suite_id}/cases/{case_id:path}": (suite_cases.change, "run"),
    "/evals": (run_eval.run, "run"),
    "/evals/{id}": (evals.change, "run"),
    "/evals/{id}/delete": (evals.delete, "admin"),
    "/experiments": (experiments.begin, "run"),
    "/experiments/{experiment:path}": (experiments.change, "run"),
    "/runs/{run:path}": (runs.change, "run"),
    "/rules/{rule_id}/backtest": (backtest.act, "run"),
    "/incidents/{incident_id}/accept": (incidents.accept_level, "admin"),
}
"""What forms of pages do: address -> the function that does it when it is posted, and the right that it needs."""
