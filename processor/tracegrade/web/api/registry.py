"""All files of operations, in the order in which the document shows them."""

from tracegrade.web.api import (
    alerts,
    compare,
    deletions,
    experiments,
    health,
    incidents,
    results,
    rules,
    sessions,
    slos,
    traces,
)

ROUTERS = (
    rules.router,
    results.router,
    traces.router,
    sessions.router,
    experiments.router,
    compare.router,
    incidents.router,
    alerts.router,
    slos.router,
    health.router,
    deletions.router,
)
