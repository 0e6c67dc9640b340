"""Secrets sent to a real ``serve`` are nowhere: no file, export, page, answer of the API, log, metric or alert."""

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from end_to_end.test_alert import FELL, MISSING, RULE, Webhook, downstream, remember, webhook
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from build.everything import contents
from build.otlp import agent_span, payload, spans_of, tool_span
from build.planted_requests import Planter, planted_requests
from build.served import LOGS, TRACES, Downstream, Server, export, exporter, served
from tracegrade.otlp.json import to_json
from tracegrade.store.open import open_store
from waiting import eventually

pytestmark = pytest.mark.long

__all__ = ["downstream", "webhook"]

KEY = "0123456789abcdef0123456789abcdef"
ARGUMENTS = {
    **RULE,
    "id": "order-of-user-1",
    "alert": [],
    "evaluate": [{"evaluator": "tool-call-args", "tool_calls": [{"name": "create_order", "args": {"user_id": 1}}]}],
}


def trace_id_of(number: int) -> bytes:
    return random.Random(number).randbytes(16)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files of the processes that are started."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def send_json(server: Server, document: Any, path: str) -> None:
    url = f"http://{server.endpoints['http']}{path}"
    with urlopen(Request(url, json.dumps(document).encode(), {"content-type": "application/json"})) as ok:
        assert ok.status == 200


def orders(planter: Planter, number: int) -> bytes:
    """A trace on which the rule fails, so that the alert fires and says why."""
    arguments = json.dumps({"user_id": planter.disguised()})
    spans = spans_of([agent_span(number, 1), tool_span(number, 2, 1, "create_order", arguments)])
    return payload(spans, "demo-shop")


def read(url: str) -> str | None:
    """What is there, None where there is nothing yet."""
    try:
        with urlopen(url) as response:
            return str(response.read().decode())
    except HTTPError as error:
        if error.code != 404:
            raise
        return None


def everything_said(server: Server, traces: list[str]) -> Iterator[tuple[str, str]]:
    """What people and programs are shown, by where."""
    web = server.endpoints["web"].removeprefix("http://")
    pages = ["/", "/traces", "/alerts", "/api/v1/incidents", "/api/v1/results?limit=1000"]
    for path in pages + [f"{at}/{one}" for one in traces for at in ("/traces", "/api/v1/traces")]:
        yield path, eventually(lambda path=path: read(f"http://{web}{path}"), path)
    yield "metrics", server.page()
    options = ("-c", str(server.config))
    for command in (["results"], ["alerts", "list"], ["doctor"], *(["traces", "show", one] for one in traces[:5])):
        for form in ("table", "json"):
            yield " ".join(command), server.cli(*command, "--format", form, *options).output


def test_planted_secrets_are_nowhere(tmp_path: Path, temporary: Path, webhook: Webhook, downstream: Downstream) -> None:
    for rule in (RULE, ARGUMENTS):
        folder = tmp_path / "rules" / str(rule["id"])
        folder.mkdir(parents=True)
        (folder / "rule.yaml").write_text(json.dumps(rule))
    remember(tmp_path / "data", FELL, time.time_ns(), "demo-shop")
    hook = {"webhook": {"url": f"http://127.0.0.1:{webhook.server_port}/hook"}}
    settings = {
        "redaction": {"key": KEY, "actions": {"email": "hash", "card": "drop"}},
        "rules": {"paths": [str(tmp_path / "rules"), "builtin:default"]},
        "alerts": {"interval": "200ms", "channels": {"ops": hook}},
        "judge": {"include_values": True},
        "exporters": exporter(downstream),
    }
    planter = Planter()
    with served(tmp_path, **settings) as server:
        sent = 0
        for number, planted in enumerate(planted_requests(planter, trace_id_of)):
            is_logs = isinstance(planted, ExportLogsServiceRequest)
            if number % 3:
                method = LOGS if is_logs else TRACES
                export(server.endpoints["grpc"], planted.SerializeToString(), method=method)
            else:
                send_json(server, to_json(planted), "/v1/logs" if is_logs else "/v1/traces")
            sent += not is_logs
        for number in range(1, 1 + MISSING):
            export(server.endpoints["grpc"], orders(planter, number))
        eventually(lambda: webhook.posted, "the alert")
        eventually(lambda: len(downstream.requests[TRACES]) >= sent + MISSING, "the exporter")
        traces = [f"{number:032x}" for number in range(1, 1 + MISSING)] + [trace_id_of(n).hex() for n in range(5)]
        said = dict(everything_said(server, traces))
        said["log"] = server.log
        said["alerts"] = json.dumps(webhook.posted, default=str)
        assert server.metric("tracegrade_redacted_total", "receive", detector="email") > 0
    engine = open_store(f"sqlite:///{server.data / 'tracegrade.db'}")
    everything: list[tuple[str, str | bytes]] = [*said.items(), *contents(server.data, engine)]
    engine.dispose()
    everything += [("exports", one) for many in downstream.requests.values() for one in many]
    everything += [(str(path), path.read_bytes()) for path in temporary.rglob("*") if path.is_file()]
    assert planter.seen_in(" ".join(planter.needles[:9])) == set(planter.needles[:9])  # they would be found
    found = {(place, needle) for place, content in everything for needle in planter.seen_in(content)}
    assert found == set()
    assert planter.secrets > 5000
