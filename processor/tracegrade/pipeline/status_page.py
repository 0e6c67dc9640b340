"""``/metrics`` and ``/healthz``: both roles' metrics, served by the receive role."""

import time
from collections.abc import Callable
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tracegrade.otlp.metrics import prometheus_page

Snapshots = Callable[[], list[dict[str, Any]]]


def status_app(snapshots: Snapshots) -> Starlette:
    """The two pages; `snapshots` gives the receive role's snapshot and, if there is one, the judge's."""

    async def metrics(request: Request) -> Response:
        return Response(prometheus_page(snapshots(), time.time_ns()), media_type=CONTENT_TYPE_LATEST)

    async def healthz(request: Request) -> Response:
        taken = snapshots()
        now_ns = time.time_ns()
        ages = {snapshot["role"]: round(max(0, now_ns - snapshot["time_ns"]) / 1e9, 3) for snapshot in taken}
        refused = any(
            value["value"] for snapshot in taken for value in snapshot["metrics"].get("tracegrade.rules.refused", ())
        )
        rules = "changed files refused, the old rules are in force; see the judge's log" if refused else "ok"
        return JSONResponse({"status": "ok", "rules": rules, "snapshot_age_s": ages})

    return Starlette(routes=[Route("/metrics", metrics), Route("/healthz", healthz)])
