"""Who read and deleted what, as ``serve`` notes it: in the data folder, at an exporter, and after the deletion."""

import json
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from build.otlp import agent_span, payload
from build.served import LOGS, Downstream, Server, export, served
from waiting import eventually

pytestmark = pytest.mark.long

TRACE = agent_span(1, 1).trace_id.hex()
ADDRESS = f"/api/v1/traces/{TRACE}"


def token(server: Server, name: str, role: str) -> str:
    made = server.cli("tokens", "new", name, "--role", role, "-c", str(server.config))
    assert made.exit_code == 0, made.output
    return str(made.stdout).strip()


def ask(server: Server, method: str, secret: str) -> tuple[int, str]:
    asked = Request(server.endpoints["web"] + ADDRESS, method=method, headers={"authorization": f"Bearer {secret}"})
    try:
        with urlopen(asked) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


def noted(server: Server) -> list[dict[str, Any]]:
    """The access log."""
    files = sorted((server.data / "access").glob("access-*.jsonl"))
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


def sent(downstream: Downstream) -> list[str]:
    """The operations of the access log that the exporter's peer got."""
    return [
        attribute.value.string_value
        for request in map(ExportLogsServiceRequest.FromString, downstream.requests[LOGS])
        for of_scope in request.resource_logs[0].scope_logs
        if of_scope.scope.name == "tracegrade.access"
        for record in of_scope.log_records
        for attribute in record.attributes
        if attribute.key == "tracegrade.access.operation"
    ]


def test_reads_and_deletions_are_noted_sent_and_outlive_what_was_deleted(tmp_path: Path) -> None:
    downstream = Downstream()
    exporters = {"otlp": {"endpoint": f"127.0.0.1:{downstream.port}", "tls": {"insecure": True}}}
    web = {"endpoint": "127.0.0.1:0", "auth": {}}
    try:
        with served(tmp_path, web=web, exporters=exporters, rules={"paths": []}, traces={"settle": "50ms"}) as server:
            reader, admin = token(server, "auditor", "read"), token(server, "operator", "admin")
            export(server.endpoints["grpc"], payload([agent_span(1, 1)]))
            eventually(lambda: ask(server, "GET", admin)[0] == 200, "the trace")
            status, shown = ask(server, "GET", reader)
            assert (status, "Please order" in shown, "[hidden]" in shown) == (200, False, True)
            assert ask(server, "DELETE", reader)[0] == 403
            assert ask(server, "DELETE", admin)[0] == 202
            eventually(lambda: ask(server, "GET", admin)[0] == 404, "the deletion")

            def deleted() -> list[tuple[str, int]]:
                wanted = [entry for entry in noted(server) if entry["operation"].startswith("DELETE")]
                return [(entry["name"], entry["status"]) for entry in wanted]

            eventually(lambda: deleted() == [("auditor", 403), ("operator", 202)], "the entries")
            (read,) = [entry for entry in noted(server) if (entry["name"], entry["status"]) == ("auditor", 200)]
            assert read["operation"] == "GET /api/v1/traces/{trace_id}"
            assert (read["named"], read["right"], read["values"]) == ({"trace_id": TRACE}, "read", False)
            eventually(lambda: sent(downstream).count("DELETE /api/v1/traces/{trace_id}") == 2, "the events")
            assert sent(downstream)[:2] == ["tracegrade tokens new"] * 2
        everything = "".join(path.read_text("latin-1") for path in (tmp_path / "data" / "access").iterdir())
        assert not any(secret in everything + server.log for secret in (reader, admin, "Please order"))
    finally:
        downstream.stop()
