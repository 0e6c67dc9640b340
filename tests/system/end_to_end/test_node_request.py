"""What Node's OpenTelemetry SDK sends: OTLP/JSON, chunked, 64-bit integers as numbers, times as texts.

``node_request.json`` is the body that ``tests/system/interop/agent.mjs`` sent with OTLPTraceExporter 0.223.1, with line
breaks put in; without them it is the same bytes. ``tests/system/interop/run node`` sends it live.
"""

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from build.served import LOGS, TRACES, Downstream, exporter, served
from waiting import eventually

pytestmark = pytest.mark.long

REQUEST = json.loads(Path(__file__).with_name("node_request.json").read_text())
KINDS = {
    "stringValue": "string_value",
    "intValue": "int_value",
    "doubleValue": "double_value",
    "boolValue": "bool_value",
    "arrayValue": "array_value",
}


@pytest.fixture
def downstream() -> Iterator[Downstream]:
    peer = Downstream()
    yield peer
    peer.stop()


def test_nodes_json_leaves_as_protobuf_with_every_value_and_is_judged(tmp_path: Path, downstream: Downstream) -> None:
    with served(tmp_path, exporters=exporter(downstream)) as server:
        assert send_as_node_does(server.endpoints["http"]) == (200, {})
        original = eventually(lambda: downstream.requests[TRACES] and downstream.requests[TRACES][0], "the original")
        eventually(lambda: downstream.requests[LOGS], "evaluations")
        listed = eventually(
            lambda: (
                server.cli(
                    "results", "list", "--data-dir", str(server.data), "--outcome", "fail", "--format", "json"
                ).stdout
            ),
            "stored results",
        )
    sent = spans_of(REQUEST)
    arrived = list(ExportTraceServiceRequest.FromString(original).resource_spans[0].scope_spans[0].spans)
    assert [span.name for span in arrived] == [span["name"] for span in sent]
    for span, twin in zip(sent, arrived, strict=True):
        _check(span, twin)
    assert {json.loads(line)["trace_id"] for line in listed.splitlines()} == {sent[0]["traceId"]}


def send_as_node_does(endpoint: str) -> tuple[int, Any]:
    """Status and body of the answer; sent in two chunks, cut within a character of several bytes."""
    body = json.dumps(REQUEST, separators=(",", ":"), ensure_ascii=False).encode()
    middle = body.index("🚀".encode()) + 2
    connection = http.client.HTTPConnection(endpoint)
    try:
        headers = {"Content-Type": "application/json", "User-Agent": "OTel-OTLP-Exporter-JavaScript/0.223.1"}
        connection.request("POST", "/v1/traces", iter([body[:middle], body[middle:]]), headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def spans_of(request: dict[str, Any]) -> list[dict[str, Any]]:
    """The spans of the recorded request."""
    [resource_spans] = request["resourceSpans"]
    [scope_spans] = resource_spans["scopeSpans"]
    spans: list[dict[str, Any]] = scope_spans["spans"]
    return spans


def _check(span: dict[str, Any], twin: Any) -> None:
    assert twin.trace_id.hex() == span["traceId"]
    assert twin.span_id.hex() == span["spanId"]
    assert twin.parent_span_id.hex() == span.get("parentSpanId", "")
    assert str(twin.start_time_unix_nano) == span["startTimeUnixNano"]
    assert str(twin.end_time_unix_nano) == span["endTimeUnixNano"]
    assert (twin.kind, twin.status.code, twin.flags) == (span["kind"], span["status"]["code"], span["flags"])
    assert [(pair.key, wire(pair.value)) for pair in twin.attributes] == [
        (pair["key"], in_json(pair["value"])) for pair in span["attributes"]
    ]
    assert [(event.name, str(event.time_unix_nano)) for event in twin.events] == [
        (event["name"], event["timeUnixNano"]) for event in span["events"]
    ]


def wire(value: AnyValue) -> tuple[str, Any]:
    """Type and value in the protobuf that we sent on."""
    kind = value.WhichOneof("value")
    found = getattr(value, kind)
    return kind, [wire(item) for item in found.values] if kind == "array_value" else found


def in_json(value: dict[str, Any]) -> tuple[str, Any]:
    """Type and value in Node's JSON."""
    [(key, found)] = value.items()
    return KINDS[key], [in_json(item) for item in found["values"]] if key == "arrayValue" else found
