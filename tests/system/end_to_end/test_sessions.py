"""A conversation over several traces and a restart: judged turn by turn, sent, stored, explained and replayed."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from build.otlp import payload, spans_of
from build.served import TRACES, Downstream, Server, export, exporter
from pipeline.test_sessions import turn
from tracegrade.model.session import session_trace_id
from waiting import eventually

pytestmark = pytest.mark.long

RULE = {
    "id": "looked-up-first",
    "scope": "session",
    "evaluate": [{"evaluator": "tool-call-order", "tool_calls_order": ["find_order", "refund"]}],
}
OWN_ID = session_trace_id("default", "chat-1").hex()


@pytest.fixture
def downstream() -> Iterator[Downstream]:
    peer = Downstream()
    yield peer
    peer.stop()


@pytest.fixture
def server(tmp_path: Path, downstream: Downstream) -> Iterator[Server]:
    rules = tmp_path / "rules"
    rules.mkdir()
    (rules / "rule.yaml").write_text(json.dumps(RULE))
    server = Server(
        tmp_path,
        rules={"paths": [str(rules)]},
        traces={"settle": "200ms", "idle_timeout": "1s", "session_quiet": "1s"},
        exporters=exporter(downstream),
    )
    server.start()
    yield server
    server.stop()


def send(server: Server, trace: int, tool: str, start: int) -> None:
    export(server.endpoints["grpc"], payload(spans_of(turn(trace, "chat-1", tool, start))))


def listed(server: Server) -> list[tuple[str, bool, str]]:
    shown = server.cli("results", "list", "--format", "json", "-c", str(server.config))
    found = map(json.loads, shown.stdout.splitlines())
    return [(item["outcome"], item["complete"], item["subject"]["kind"]) for item in found]


def test_a_session_is_judged_over_a_restart_and_shown_once(server: Server, downstream: Downstream) -> None:
    send(server, 1, "find_order", 1000)
    eventually(lambda: listed(server) == [("fail", True, "session")], "the first turn's session to be quiet")
    server.kill()
    server.start()
    send(server, 2, "refund", 2000)
    eventually(lambda: listed(server) == [("pass", True, "session")], "the whole session")

    assert server.canonical("results", "list") == server.canonical("replay")
    for shown in (f"{2:032x}", f"{1:032x}", OWN_ID):
        (pair,) = [json.loads(line) for line in _json(server, "why", shown)]
        assert (pair["subject"], pair["outcome"]) == ({"kind": "session", "id": "chat-1"}, "pass")
        assert len(_json(server, "results", "show", shown)) == 1
    (session,) = map(json.loads, _json(server, "traces", "show", OWN_ID))
    assert session["trace"]["members"] == {f"{1:032x}": 2, f"{2:032x}": 2}
    assert len(_json(server, "traces", "list")) == 2
    for command in (("why", OWN_ID), ("traces", "show", OWN_ID), ("results", "stats"), ("replay",)):
        result = server.cli(*command, "-c", str(server.config))
        assert result.exit_code == 0, result.stderr

    last = eventually(lambda: len(found := carriers(downstream)) >= 4 and found[-1], "its carriers")
    assert (last.trace_id.hex(), last.links[0].trace_id.hex()) == (OWN_ID, f"{2:032x}")
    attributes = {attribute.key: attribute.value for attribute in last.attributes}
    assert attributes["session.id"].string_value == "chat-1"
    assert attributes["session.evaluations.0.evaluation.label"].string_value == "pass"


def _json(server: Server, *arguments: str) -> list[str]:
    shown = server.cli(*arguments, "--format", "json", "-c", str(server.config))
    assert shown.exit_code == 0, shown.stderr
    return shown.stdout.splitlines()


def carriers(downstream: Downstream) -> list[Span]:
    return [
        span
        for request in downstream.requests[TRACES]
        for resource_spans in ExportTraceServiceRequest.FromString(request).resource_spans
        for scope in resource_spans.scope_spans
        for span in scope.spans
        if scope.scope.name == "tracegrade"
    ]
