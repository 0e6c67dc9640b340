"""All files of operations, in the order in which the document shows them."""

from fastapi import APIRouter

from tracegrade.part import placed
from tracegrade.web.api import (
    alerts,
    deletions,
    experiments,
    health,
    results,
    rules,
    sessions,
    traces,
)
from tracegrade.web.part import web_parts

ROUTERS = {
    "rules": rules.router,
    "results": results.router,
    "traces": traces.router,
    "sessions": sessions.router,
    "experiments": experiments.router,
    "alerts": alerts.router,
    "health": health.router,
    "deletions": deletions.router,
}


def routers() -> list[APIRouter]:
    """All routers under ``/api/v1``, with those of parts."""
    return list(placed(ROUTERS, [added for part in web_parts() for added in part.routers]).values())
