"""``/metrics``, ``/healthz`` and ``/readyz``: both roles' metrics and conditions, served by the receive role.

``/healthz`` is liveness: it answers 200 as long as this process works, even if other things are wrong, since a restart
would not repair those. ``/readyz`` is readiness: 503 while senders are refused. Both name every condition.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as OPENMETRICS
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tracegrade.display import time_text
from tracegrade.otlp.metrics import Instance
from tracegrade.otlp.prometheus import prometheus_page
from tracegrade.telemetry.conditions import Condition, conditions_in

Snapshots = Callable[[], list[dict[str, Any]]]

REFUSES = 503
_RECEIVES = "receive"


def status_app(snapshots: Snapshots, instance: Instance) -> Starlette:
    """The three pages of `instance`; `snapshots` gives the snapshot of receive and, if there is one, of judge."""

    async def metrics(request: Request) -> Response:
        openmetrics = _asks_for_openmetrics(request.headers.get("accept", ""))
        render = partial(prometheus_page, snapshots(), instance, time.time_ns(), openmetrics=openmetrics)
        # In a thread: requests of senders are answered in between, and do not wait for all of a large page.
        return Response(
            await asyncio.to_thread(render),
            media_type=OPENMETRICS if openmetrics else CONTENT_TYPE_LATEST,
            headers={"vary": "accept"},
        )

    async def healthz(request: Request) -> Response:
        return JSONResponse(_health(snapshots()))

    async def readyz(request: Request) -> Response:
        health = _health(snapshots())
        return JSONResponse(health, REFUSES if health["status"] == "refusing" else 200)

    return Starlette(routes=[Route("/metrics", metrics), Route("/healthz", healthz), Route("/readyz", readyz)])


def _asks_for_openmetrics(accept: str) -> bool:
    """Whether the Accept header has OpenMetrics 1.0, and does not prefer the text format to it."""
    preferred = {"application/openmetrics-text": 0.0, "text/plain": 0.0}
    for accepted in accept.lower().split(","):
        kind, *rest = (part.strip() for part in accepted.split(";"))
        parameters = dict(part.split("=", 1) for part in rest if "=" in part)
        if kind == "application/openmetrics-text" and parameters.get("version", "1.0.0") != "1.0.0":
            continue
        if kind in preferred:
            try:
                quality = float(parameters.get("q", "1"))
            except ValueError:
                continue
            preferred[kind] = max(preferred[kind], quality)
    return preferred["application/openmetrics-text"] > 0 and (
        preferred["application/openmetrics-text"] >= preferred["text/plain"]
    )


def _health(taken: list[dict[str, Any]]) -> dict[str, Any]:
    """``status`` is ok; degraded (senders are served, something else is wrong); or refusing (they are not served)."""
    now_ns = time.time_ns()
    found = {snapshot["role"]: conditions_in(snapshot) for snapshot in taken}
    refuses = any(condition.refuses for condition in found.get(_RECEIVES, ()))
    status = "refusing" if refuses else "degraded" if any(found.values()) else "ok"
    return {
        "status": status,
        "conditions": [shown for role, conditions in found.items() for shown in _shown(role, conditions, now_ns)],
        "snapshot_age_s": {item["role"]: round(max(0, now_ns - item["time_ns"]) / 1e9, 3) for item in taken},
    }


def _shown(role: str, conditions: Iterable[Condition], now_ns: int) -> list[dict[str, Any]]:
    return [
        {
            "name": condition.name,
            "role": role,
            "where": condition.where,
            "since": f"{time_text(condition.since_ns).replace(' ', 'T')}Z",
            "for_s": round(max(0, now_ns - condition.since_ns) / 1e9, 3),
            "message": condition.message,
            "advice": condition.advice,
        }
        for condition in conditions
    ]
