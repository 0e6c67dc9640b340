"""What ``deploy/compose`` promises within a minute, asked of its programs over its own files."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from generator.panels import RESULT_ROWS
from interop import peers
from interop.dashboards import filled, with_exemplars
from interop.engine import Composed, Program, require_namespaces
from interop.peers import Place, Row

from waiting import eventually

DEPLOY = Path(__file__).parents[3] / "deploy"
PROMISED_S = 60


def compose(place: Place) -> Iterator[Row]:
    """Compose knows all keys; a failing rule, a judged trace and an alert come within a minute of the start."""
    for name in ("compose", "kafka"):
        file = DEPLOY / name / "compose.yaml"
        loader = [peers.compose_loader(place.installed), file]
        done = subprocess.run(loader, cwd=file.parent, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        yield Row("compose-go", f"deploy/{name}/compose.yaml", "nothing to say")
    require_namespaces()
    programs = _programs(place.installed)
    composed = Composed(DEPLOY / "compose" / "compose.yaml", programs, place.new("compose"))
    began = time.monotonic()

    def seen(peer: str, what: str, look: Callable[[], str | None]) -> Row:
        found = eventually(look, what, within_s=began + PROMISED_S - time.monotonic(), every_s=0.2)
        return Row(f"deploy/compose: {peer}", what, f"{found}, {time.monotonic() - began:.0f} s after the start")

    with composed.running() as running:
        yield seen("all healthy", "docker compose up", lambda: f"but {', '.join(running.left_out)}: not to be had")
        yield seen("Prometheus", "the first panel's query", lambda: _failing_rule(running))
        yield seen("Jaeger", "an exemplar's trace, with its evaluation span", lambda: _judged_trace(running))
        yield seen("Alertmanager", "the alert of a rule", lambda: _alert(running))


def _programs(work: Path) -> dict[str, Program]:
    """What runs in each image's place; Grafana is not to be had."""
    text = (DEPLOY / "Containerfile").read_text()
    (settings,) = re.findall(r"TRACEGRADE_CONFIG=(\S+)", text)
    (folder,) = re.findall(r"^WORKDIR (.*)$", text, re.MULTILINE)
    ours = {"TRACEGRADE_CONFIG": settings, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    alertmanager = peers.debian_package("prometheus-alertmanager", work)
    # It reads its own templates where the package would have put them.
    in_place = f'mount --bind "{alertmanager}/usr/share" /usr/share && exec "$@"'
    prometheus_alertmanager = alertmanager / "usr" / "bin" / "prometheus-alertmanager"
    return {
        "tracegrade": Program([sys.executable, "-m", "tracegrade"], ours, folder),
        "otel/opentelemetry-collector-contrib": Program([peers.collector_binary(work)]),
        "jaegertracing/jaeger": Program([peers.jaeger_binary(work)]),
        "prom/prometheus": Program([peers.prometheus_binary(work)]),
        "prom/alertmanager": Program(["sh", "-c", in_place, "sh", prometheus_alertmanager]),
    }


def _json(running: Composed, published: int, path: str, **arguments: object) -> Any:
    """An answer; None where there is none yet."""
    answer = running.ask(published, f"{path}?{urlencode(arguments)}")
    return json.loads(answer) if answer else None


def _failing_rule(running: Composed) -> str | None:
    first = next(iter(RESULT_ROWS.values()))[0]
    found = _json(running, 9090, "/api/v1/query", query=filled(first))
    return next((item["metric"]["rule"] for item in found["data"]["result"]), None) if found else None


def _judged_trace(running: Composed) -> str | None:
    """The id of a trace that an exemplar names, and that Jaeger has with an evaluation."""
    query = filled(with_exemplars())
    found = _json(running, 9090, "/api/v1/query_exemplars", query=query, start=0, end=9_999_999_999)
    for series in found["data"] if found else ():
        for exemplar in series["exemplars"]:
            trace = str(exemplar["labels"]["trace_id"])
            if any(name.startswith("evaluation ") for name in _spans(running, trace)):
                return trace
    return None


def _spans(running: Composed, trace: str) -> list[str]:
    found = _json(running, 16686, f"/api/v3/traces/{trace}")
    return [
        span["name"]
        for resource in (found["result"]["resourceSpans"] if found else ())
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


def _alert(running: Composed) -> str | None:
    """The name of an alert on what a rule found."""
    found = _json(running, 9093, "/api/v2/alerts") or []
    labels = [item["labels"] for item in found if "rule" in item["labels"]]
    return f"{labels[0]['alertname']} of {labels[0]['rule']}" if labels else None
