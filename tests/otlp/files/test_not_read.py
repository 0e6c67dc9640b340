"""Files that are not written as OTLP says: what is read of them, and what is said of the rest."""

import base64
import io
import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from build import each
from tracegrade.model.errors import TraceGradeError
from tracegrade.model.signal import Signal
from tracegrade.otlp.files.report import SourceReport
from tracegrade.otlp.files.sources import read_sources
from tracegrade.otlp.json import to_json

TRACE, GOOD, BAD = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "00f067aa0ba902b7"


def span(span_id: str = GOOD, **fields: Any) -> dict[str, Any]:
    return {
        "traceId": TRACE,
        "spanId": span_id,
        "name": "work",
        "kind": 3,
        "startTimeUnixNano": "1",
        "status": {"code": 2},
    } | fields


def request(*spans: dict[str, Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {"name": "lib"}, "spans": list(spans)}]}]}


def snake(value: Any) -> Any:
    """`value` with all keys in snake_case."""
    if isinstance(value, dict):
        named = {"".join(f"_{c.lower()}" if c.isupper() else c for c in key): item for key, item in value.items()}
        return {key: snake(item) for key, item in named.items()}
    return [snake(item) for item in value] if isinstance(value, list) else value


def b64(hexadecimal: str) -> str:
    return base64.b64encode(bytes.fromhex(hexadecimal)).decode()


def old(name: str) -> dict[str, Any]:
    """A request as OTLP was before 0.15, with its keys in one form or the other."""
    scope, spans = ("instrumentation_library", "instrumentation_library_spans")
    if name == "camel":
        scope, spans = "instrumentationLibrary", "instrumentationLibrarySpans"
    return {"resourceSpans": [{"resource": {}, spans: [{scope: {"name": "lib"}, "spans": [span()]}]}]}


def as_proto(document: dict[str, Any]) -> ExportTraceServiceRequest:
    (found,) = read(document)[0]
    return found


def read(document: Any) -> tuple[list[ExportTraceServiceRequest], list[str]]:
    """The requests of a file with `document`, and what is said of it."""
    content = document if isinstance(document, bytes) else json.dumps(document).encode()
    report = SourceReport()
    requests = read_sources(["-"], report, io.BytesIO(content))
    found = [ExportTraceServiceRequest.FromString(one.payload) for one in requests if one.signal is Signal.TRACES]
    return found, [line.removeprefix("-: ") for line in report.warnings]


def test_what_can_mean_one_thing_only_is_read() -> None:
    plain = as_proto(request(span(parentSpanId=BAD)))
    written: dict[str, Any] = {
        "enums by name": request(span(parentSpanId=BAD, kind="SPAN_KIND_CLIENT", status={"code": "STATUS_CODE_ERROR"})),
        "short names": request(span(parentSpanId=BAD, kind="client", status={"code": "Error"})),
        "numbers as text": request(span(parentSpanId=BAD, kind="3", status={"code": "2"})),
        "ids in base64": request(span(b64(GOOD), traceId=b64(TRACE), parentSpanId=b64(BAD))),
        "ids in base64 without padding": request(
            span(b64(GOOD).rstrip("="), traceId=b64(TRACE).rstrip("="), parentSpanId=b64(BAD))
        ),
        "snake_case": snake(request(span(parentSpanId=BAD))),
        "protobuf's own JSON": MessageToDict(plain),
        "Tempo": {"batches": MessageToDict(plain)["resourceSpans"]},
        "Tempo's second API": {"trace": request(span(parentSpanId=BAD)), "metrics": {}},
        "Tempo's second API with batches": {"trace": {"batches": request(span(parentSpanId=BAD))["resourceSpans"]}},
    }
    wrong = {name: found for name, document in written.items() if (found := read(document)) != ([plain], [])}
    assert wrong == {}
    assert [read(old(name)) for name in ("camel", "snake")] == [([as_proto(request(span()))], [])] * 2


NOT_READ = [
    (span(BAD, kind="SPAN_KIND_ROBOT"), "$.kind: expected an enum's number or name, found 'SPAN_KIND_ROBOT'"),
    (span(BAD, attributes={"k": "v"}), "$.attributes: expected a list, found an object"),
    (span(BAD, droppedEventsCount=-1), "$.droppedEventsCount: expected an integer from 0 to 4294967295, found -1"),
    (span(BAD, traceId="0" * 32), "trace ids must be 16 bytes and not all zero"),
    (span(BAD, traceId="abcd"), "trace ids must be 16 bytes and not all zero"),
    (
        span(BAD, traceId=b64(TRACE + "00")),
        "$.traceId: expected an id in hexadecimal, found 'CvdlGRbNQ92ESOshHIAxnAA='",
    ),
    (span("0" * 16), "span ids must be 8 bytes and not all zero"),
    (span(BAD, parentSpanId="abcd"), "parent span ids must be empty or 8 bytes"),
]


@each(("bad", "reason"), NOT_READ)
def test_a_span_that_cannot_be_read_is_named_and_its_neighbours_are_read(bad: dict[str, Any], reason: str) -> None:
    found, said = read(request(bad, span()))
    assert found == [as_proto(request(span()))]
    name = repr(bad["spanId"]) if reason.startswith("$") else bad["spanId"]
    assert said == [f"1 span was not read: span {name}: {reason}"]


def test_spans_with_bad_ids_in_protobuf_are_named_too() -> None:
    message = as_proto(request(*[span()] * 8))
    spans = message.resource_spans[0].scope_spans[0].spans
    spans[0].span_id = b""
    for number in range(1, 7):
        spans[number].trace_id, spans[number].span_id = bytes(16), bytes([number] * 8)
    found, said = read(message.SerializeToString())
    assert found == [as_proto(request(span()))]
    reason = "trace ids must be 16 bytes and not all zero"
    first = "; ".join(f"span {f'{number:02x}' * 8}: {reason}" for number in range(1, 5))
    nameless = "span without an id: span ids must be 8 bytes and not all zero"
    assert said == [f"7 spans were not read: {nameless}; {first}; and more"]


def test_log_records_of_tool_calls_that_name_no_span_are_spoken_of() -> None:
    named = {"attributes": [{"key": "event.name", "value": {"stringValue": "qwen-code.tool_call"}}]}
    records = [
        named,
        named,
        {"eventName": "app.started"},
        {"eventName": "x.tool_call", "traceId": TRACE, "spanId": GOOD},
    ]
    document = {"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}
    said = "2 log records of tool calls without a trace id, such as 'qwen-code.tool_call'"
    assert read(document)[1] == [f"{said}: no call is read from such records"]


def test_scopes_of_the_old_field_in_protobuf_are_read() -> None:
    message = as_proto(request(span()))
    resource = message.resource_spans[0]
    scope = resource.scope_spans[0].SerializeToString()
    del resource.scope_spans[:]
    resource.MergeFromString(b"\xc2\x3e" + bytes([len(scope)]) + scope)  # field 1000
    assert read(message.SerializeToString()) == ([as_proto(request(span()))], [])


def test_spans_under_keys_that_otlp_does_not_have_are_counted() -> None:
    document = request(span())
    document["resourceSpans"][0] |= {"librarySpans": [{"spans": [span(), span(BAD)]}], "note": ["no", "spans"]}
    assert read(document)[1] == ["2 spans were not read: 'librarySpans': OTLP has no such key"]


def test_log_records_are_counted_as_such() -> None:
    wrong: list[dict[str, Any]] = [{"spanId": BAD, "body": {"stringValue": 5}}, {"spanId": GOOD, "traceId": "abcd"}]
    records = [*wrong, {"timeUnixNano": "1", "traceId": "0" * 32}]
    [said] = read({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]})[1]
    assert said.startswith(f"2 log records were not read: log record {BAD!r}: $.body.stringValue: expected a string")
    assert said.endswith(f"log record {GOOD}: trace ids of log records must be empty or 16 bytes")


ONE = json.dumps(request(span()))
FOREIGN = [
    (f"[{ONE}, {ONE}]", "found a JSON list of 2 values (jq -c '.[]' puts each on a line of its own)"),
    (json.dumps([request(span())], indent=2), "found a JSON list of 1 value (jq"),
    (f"{ONE}\n[]", ":2: $: found a JSON list of 0 values"),
    ('["a"]', "found a JSON list of 1 value; expected one request"),
    (f'{ONE}\n"done"', ":2: $: found a JSON text"),
    (f"{json.dumps(request(span()), indent=1)}\n{json.dumps(request(span()), indent=1)}", "jq -c ."),
    ('{"data": [{"traceID": "1", "spans": []}]}', "which is Jaeger's own JSON"),
    ('[{"traceId": "1", "id": "2"}]', "which is Zipkin's JSON"),
    ('{"runs": [{"spanId": "1"}]}', "found a JSON object with 'runs', with spans in it"),
    ('{"schema_version": "ATIF-v2.0"}', "found a JSON object with 'schema_version', with schema_version 'ATIF-v2.0'"),
    ("resourceSpans:\n- {}\n", "found text that begins with 'resourceSpans: - {}'"),
    ("[1, 2]", "found text that begins with '[1, 2]'; expected OTLP as JSON or protobuf, as the file exporter"),
    (ONE.encode("utf-16"), "found text in UTF-16; expected UTF-8"),
    (ONE.encode("utf-16-le"), "found text in UTF-16LE"),
    (ONE.encode("utf-16-be"), "found text in UTF-16BE"),
    (f"\n [{ONE}]".encode("utf-16-le"), "found text in UTF-16LE"),
    (ONE.encode("utf-32"), "found text in UTF-32"),
    (ONE.encode("utf-32-be"), "found text in UTF-32BE"),
    (b"PK\x03\x04\x14\x00", "found a zip archive"),
]


@each(("content", "said"), FOREIGN)
def test_a_file_of_another_format_is_told_what_it_is(content: str | bytes, said: str) -> None:
    with pytest.raises(TraceGradeError) as caught:
        read(content if isinstance(content, bytes) else content.encode())
    assert said in str(caught.value)


def test_utf_8_with_a_byte_order_mark_is_read_also_within_a_file() -> None:
    bom = "\ufeff".encode()
    assert read(bom + ONE.encode() + b"\n" + bom + ONE.encode()) == ([as_proto(request(span()))] * 2, [])


def test_a_document_of_several_signals_is_read_whole(tmp_path: Path) -> None:
    logs = [{"scopeLogs": [{"logRecords": [{"spanId": GOOD}]}]}]
    (tmp_path / "all.json").write_text(json.dumps(request(span()) | {"resourceLogs": logs, "resourceMetrics": []}))
    report = SourceReport()
    assert [one.signal.name for one in read_sources([str(tmp_path)], report)] == ["TRACES", "LOGS", "METRICS"]
    assert report.warnings == []


def test_files_of_several_formats_are_named_with_theirs(tmp_path: Path) -> None:
    message = as_proto(request(span()))
    (tmp_path / "a.json").write_text(json.dumps(to_json(message)))
    (tmp_path / "b.json").write_text(json.dumps({"batches": []}))
    (tmp_path / "c.binpb").write_bytes(message.SerializeToString())
    (tmp_path / "d.json").write_text(json.dumps([{"a": 1}, {"runs": [span()]}]))
    (tmp_path / "e.json").write_text("")
    (tmp_path / "g.json").write_text("[1, 2]")
    (tmp_path / "f.json").write_text(json.dumps({"schema_version": "ATIF-v1.5", "agent": {}, "steps": []}))
    report = SourceReport()
    assert len(list(read_sources([str(tmp_path)], report))) == 4
    assert report.format_lines == [
        f"Taken for OTLP/JSON: {tmp_path}/a.json",
        f"Taken for Grafana Tempo: {tmp_path}/b.json",
        f"Taken for OTLP protobuf: {tmp_path}/c.binpb",
        f"Without traces: {tmp_path}/d.json, {tmp_path}/g.json",
        f"Empty: {tmp_path}/e.json",
        f"Taken for ATIF v1.5: {tmp_path}/f.json",
    ]
    assert report.warnings == [
        f"{tmp_path}/b.json: no spans in it",
        f"{tmp_path}/d.json: 1 span was not read: found a JSON list of 2 values",
    ]


def test_a_folder_without_a_name_that_is_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "traces.txt").write_text(ONE)
    report = SourceReport()
    assert list(read_sources([str(tmp_path)], report)) == []
    assert report.warnings[0].startswith(f"{tmp_path}: no name in this folder ends in one of .bin, .binpb")
