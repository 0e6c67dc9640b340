"""All pages: address -> the function that shows it, for callers who may read; and all forms.

The navigation is in ``render.NAVIGATION``.
"""

from tracegrade.web.pages import (
    alerts,
    experiments,
    find,
    incidents,
    ingest,
    overview,
    rule_tests,
    rules,
    runs,
    sessions,
    silences,
    trace,
    traces,
)
from tracegrade.web.part import Action, Page, web_parts

PAGES: dict[str, Page] = {
    "/": overview.show,
    "/traces": traces.show,
    "/traces/{trace_id}": trace.show,
    "/traces/{trace_id}/spans/{span_id}": trace.show_span,
    "/traces/{trace_id}/trace.json": trace.download_json,
    "/traces/{trace_id}/trace.otlp.jsonl": trace.download_otlp,
    "/traces/{trace_id}/tests/{rule_id}.zip": rule_tests.of_one,
    "/rules": rules.show_all,
    "/rules/{rule_id}": rules.show,
    "/rules/{rule_id}/tests.zip": rule_tests.of_some,
    "/experiments": experiments.show_all,
    "/experiments/{experiment:path}": experiments.show,
    "/runs/{run:path}": runs.show,
    "/alerts": alerts.show,
    "/incidents/{incident_id}": incidents.show,
    "/silences/new": silences.show_new,
    "/sessions": sessions.show_all,
    "/sessions/{trace_id}": sessions.show,
    "/ingest": ingest.show,
    "/find": find.show,
}

ACTIONS: dict[str, Action] = {
    "/experiments/{experiment:path}": (experiments.change, "run"),
    "/runs/{run:path}": (runs.change, "run"),
    "/incidents/{incident_id}/accept": (incidents.accept_level, "admin"),
    "/incidents/{incident_id}/acknowledge": (incidents.acknowledge_it, "review"),
    "/incidents/{incident_id}/own": (incidents.own_it, "review"),
    "/incidents/{incident_id}/comments": (incidents.comment_on_it, "review"),
    "/silences": (silences.create, "admin"),
    "/silences/{silence_id}/end": (silences.end, "admin"),
}
"""What forms of pages do: address -> the function that does it when it is posted, and the right that it needs."""


def pages() -> dict[str, Page]:
    """All pages, with those of parts."""
    return PAGES | {path: show for part in web_parts() for path, show in part.pages.items()}


def actions() -> dict[str, Action]:
    """What all forms do, with those of parts."""
    return ACTIONS | {path: act for part in web_parts() for path, act in part.actions.items()}
