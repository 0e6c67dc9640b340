"""All operations of the API, in the order in which the document shows them."""

from tracegrade.web.api import alerts, deletions, health, results, rules, sessions, traces

OPERATIONS = (
    *rules.OPERATIONS,
    *results.OPERATIONS,
    *traces.OPERATIONS,
    *sessions.OPERATIONS,
    *alerts.OPERATIONS,
    *health.OPERATIONS,
    *deletions.OPERATIONS,
)
