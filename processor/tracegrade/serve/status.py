"""``/metrics``, ``/healthz`` and ``/readyz`` of a process that `serve` runs, or of all that one process keeps.

``/healthz`` is liveness: it answers 200 as long as this process works, even if other things are wrong, since a restart
would not repair those. ``/readyz`` is readiness: 503 while senders are refused. Both name every condition.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as OPENMETRICS
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tracegrade.access.tokens import MadeTokens
from tracegrade.build import build_version
from tracegrade.config import Config
from tracegrade.display import time_text
from tracegrade.otlp.metrics import Instance
from tracegrade.otlp.prometheus import prometheus_page
from tracegrade.pipeline.data_folder import DataFolder
from tracegrade.pipeline.version import tracegrade_version
from tracegrade.receive.access import guarded
from tracegrade.receive.certificate import server_context
from tracegrade.receive.http_connection import Bounds
from tracegrade.receive.http_server import HttpServer
from tracegrade.receive.listen import AddressTaken, bound_socket
from tracegrade.serve.background import BackgroundLoop
from tracegrade.telemetry.conditions import Condition, conditions_in

Snapshots = Callable[[], list[dict[str, Any]]]

REFUSES = 503
_STOPS_WITHIN_S = 2.0
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
        "version": build_version(),
        "conditions": [
            shown for role, conditions in found.items() for shown in _condition_documents(role, conditions, now_ns)
        ],
        "snapshot_age_s": {item["role"]: round(max(0, now_ns - item["time_ns"]) / 1e9, 3) for item in taken},
    }


def _condition_documents(role: str, conditions: Iterable[Condition], now_ns: int) -> list[dict[str, Any]]:
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


class StatusServer:
    """The three pages at ``telemetry.endpoint``; runs in the loop that starts it."""

    def __init__(self, config: Config, snapshots: Snapshots, instance: Instance, made: MadeTokens) -> None:
        """Bind its address; nothing is answered yet.

        Args:
            config: the settings.
            snapshots: gives what is shown.
            instance: whose it is.
            made: the tokens that the command line made.

        Raises:
            TraceGradeError: the address is taken, or the certificate or the tokens cannot be used.
        """
        settings = config.telemetry
        tls = None if settings.tls is None else server_context("telemetry", settings.tls)
        app = guarded(status_app(snapshots, instance), "telemetry", settings, made, config.access)
        self._listening = bound_socket("telemetry.endpoint", settings.endpoint)
        self._listening.listen()  # now, before the server has started: a reader of the endpoint may call at once
        self._server = HttpServer(app, Bounds(max_connections=100), tls)
        self.endpoint = with_port(settings.endpoint, self._listening.getsockname()[1])

    async def run(self, stop: asyncio.Event) -> None:
        """Answer until `stop` is set."""
        serving = asyncio.create_task(self._server.serve(sockets=[self._listening]))
        await stop.wait()
        self._server.should_exit = True
        await serving
        self._listening.close()


@contextmanager
def answering_status(config: Config, snapshots: Snapshots) -> Iterator[str]:
    """In this context, a thread answers at ``telemetry.endpoint``, which is given: for a role that runs alone.

    Raises:
        TraceGradeError: as `StatusServer`; where the address is taken, by another role of this machine perhaps.
    """
    instance = Instance(DataFolder(config.data_path).instance_id(), tracegrade_version())
    try:
        server = StatusServer(config, snapshots, instance, MadeTokens(config.tokens_path))
    except AddressTaken as error:
        raise AddressTaken(f"{error}. Roles that run alone on one machine need one each") from None
    thread = BackgroundLoop("status", server.run, lambda error: None)  # its traceback is printed; the role goes on
    thread.start()
    try:
        yield server.endpoint
    finally:
        thread.stop(_STOPS_WITHIN_S)


def with_port(endpoint: str, port: int) -> str:
    """`endpoint` with the port that was bound, in place of port 0."""
    return f"{endpoint.rpartition(':')[0]}:{port}"
