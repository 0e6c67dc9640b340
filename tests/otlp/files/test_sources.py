import gzip
import io
import os
import tracemalloc
from pathlib import Path
from typing import Any

import orjson
import pytest
import zstandard
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from build import each
from tracegrade.model.errors import TraceGradeError
from tracegrade.model.signal import Signal
from tracegrade.otlp.files.report import SourceReport
from tracegrade.otlp.files.source_request import SourceRequest
from tracegrade.otlp.files.sources import read_sources
from tracegrade.otlp.json import to_json


def traces(name: str = "work", *, spans: int = 1) -> bytes:
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for index in range(spans):
        scope.spans.add(
            trace_id=bytes(range(16)), span_id=(index + 1).to_bytes(8, "big"), name=name, start_time_unix_nano=1, kind=2
        )
    return request.SerializeToString()


def logs() -> bytes:
    request = ExportLogsServiceRequest()
    record = request.resource_logs.add().scope_logs.add().log_records.add(time_unix_nano=1, severity_text="INFO")
    record.body.string_value = "said"
    return request.SerializeToString()


def metrics(name: str = "requests", description: str = "") -> bytes:
    request = ExportMetricsServiceRequest()
    metric = request.resource_metrics.add().scope_metrics.add().metrics.add(name=name, description=description)
    metric.sum.data_points.add(as_int=1, time_unix_nano=1)
    return request.SerializeToString()


def as_json(payload: bytes) -> bytes:
    return orjson.dumps(to_json(ExportTraceServiceRequest.FromString(payload)))


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def delimited(*payloads: bytes) -> bytes:
    return b"".join(varint(len(payload)) + payload for payload in payloads)


def read(content: bytes, report: SourceReport | None = None) -> list[SourceRequest]:
    return list(read_sources(["-"], report or SourceReport(), io.BytesIO(content)))


ONE, TWO = traces("one"), traces("two")
FORMS = [
    pytest.param(as_json(ONE), [ONE], id="one JSON request"),
    pytest.param(as_json(ONE) + b"\n" + as_json(TWO) + b"\n", [ONE, TWO], id="one JSON request a line"),
    pytest.param(b"\xef\xbb\xbf\n\n" + as_json(ONE) + b"\r\n\r\n" + as_json(TWO), [ONE, TWO], id="blank lines"),
    pytest.param(orjson.dumps(orjson.loads(as_json(ONE)), option=orjson.OPT_INDENT_2), [ONE], id="indented JSON"),
    pytest.param(ONE, [ONE], id="one protobuf request"),
    pytest.param(delimited(ONE), [ONE], id="one delimited request"),
    pytest.param(delimited(ONE, b"", TWO), [ONE, TWO], id="delimited requests, one of them empty"),
    pytest.param(b"", [], id="an empty file"),
    pytest.param(b"\n", [], id="a blank file"),
    pytest.param(b"{}\n" + as_json(ONE), [ONE], id="an empty JSON request first"),
]


@each("compress", [bytes, gzip.compress, zstandard.compress], ids=["plain", "gzip", "zstd"])
@each(("content", "expected"), FORMS)
def test_every_form_is_recognised_by_its_content(content: bytes, expected: list[bytes], compress: Any) -> None:
    found = read(compress(content))
    assert [(request.signal, request.payload) for request in found] == [(Signal.TRACES, one) for one in expected]


def test_several_gzip_members_and_zstd_frames_are_one_stream() -> None:
    for compress in (gzip.compress, zstandard.compress):
        content = compress(as_json(ONE) + b"\n") + compress(as_json(TWO))
        assert [request.payload for request in read(content)] == [ONE, TWO]


@each("length", range(1, 300))
def test_a_lone_request_and_a_delimited_one_are_told_apart_at_every_length(length: int) -> None:
    # Among these are the lengths that look like a tag (0x0a), like `{` (0x7b), and like blanks.
    request = ExportTraceServiceRequest()
    request.resource_spans.add().schema_url = "u" * length
    request.resource_spans.add().scope_spans.add().spans.add(
        trace_id=bytes(range(16)), span_id=b"12345678", start_time_unix_nano=1
    )
    payload = request.SerializeToString()
    for content in (payload, delimited(payload)):
        assert [found.payload for found in read(content)] == [payload]


def test_requests_of_ten_bytes_are_told_apart() -> None:
    request = ExportTraceServiceRequest()
    request.resource_spans.add().schema_url = "123456"
    tiny = request.SerializeToString()
    assert len(tiny) == 10
    for content in (delimited(tiny, ONE), tiny + ONE):
        assert [span.name for found in read(content) for span in spans_of(found)] == ["one"]


def spans_of(request: SourceRequest) -> list[Any]:
    message = ExportTraceServiceRequest.FromString(request.payload)
    return [span for rs in message.resource_spans for ss in rs.scope_spans for span in ss.spans]


@each(
    ("payload", "signal"),
    [
        (traces(), Signal.TRACES),
        (logs(), Signal.LOGS),
        (metrics(), Signal.METRICS),
        # As long as a span's ids.
        (metrics("sixteen-byte-nam", "8 bytes."), Signal.METRICS),
    ],
)
def test_signals_are_told_apart_by_content(payload: bytes, signal: Signal) -> None:
    for content in (payload, delimited(payload)):
        assert [(request.signal, request.payload) for request in read(content)] == [(signal, payload)]


def test_json_signals_are_told_apart_by_their_key() -> None:
    lines = b'{"resourceSpans":[]}\n{"resourceLogs":[]}\n{"resourceMetrics":[]}'
    assert [request.signal for request in read(lines)] == [Signal.TRACES, Signal.LOGS, Signal.METRICS]


def test_a_name_decides_where_content_cannot(tmp_path: Path) -> None:
    request = ExportLogsServiceRequest()
    request.resource_logs.add().scope_logs.add().log_records.add(event_name="no time, no body")
    (tmp_path / "run-1.logs.binpb").write_bytes(request.SerializeToString())
    (tmp_path / "run-1.binpb").write_bytes(request.SerializeToString())
    [found] = read_sources([str(tmp_path / "run-1.logs.binpb")], SourceReport())
    assert found.signal is Signal.LOGS
    with pytest.raises(
        TraceGradeError, match=r"run-1\.binpb@0: cannot tell .* put one of these words into the file's name"
    ):
        list(read_sources([str(tmp_path / "run-1.binpb")], SourceReport()))


def test_a_name_does_not_overrule_content(tmp_path: Path) -> None:
    path = tmp_path / "with-logs.binpb"
    path.write_bytes(ONE)
    assert [request.signal for request in read_sources([str(path)], SourceReport())] == [Signal.TRACES]


def test_folders_are_read_deeply_in_order_and_other_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "2.jsonl").write_bytes(as_json(TWO))
    (tmp_path / "a.binpb.gz").write_bytes(gzip.compress(ONE))
    (tmp_path / "expected.json").write_bytes(b'{"tool_calls": []}')
    (tmp_path / "notes.md").write_bytes(b"# not OTLP")
    (tmp_path / ".hidden.json").write_bytes(b"nor this")
    found = list(read_sources([str(tmp_path)], SourceReport()))
    assert [(request.payload, request.origin) for request in found] == [
        (ONE, f"{tmp_path}/a.binpb.gz@0"),
        (TWO, f"{tmp_path}/b/2.jsonl:1"),
    ]


def test_several_sources_are_one_input_in_the_order_given(tmp_path: Path) -> None:
    (tmp_path / "2.json").write_bytes(as_json(TWO))
    found = list(read_sources([str(tmp_path / "2.json"), "-"], SourceReport(), io.BytesIO(ONE)))
    assert [request.payload for request in found] == [TWO, ONE]


def test_origins_name_line_and_offset() -> None:
    assert [request.origin for request in read(b"\n" + as_json(ONE) + b"\n\n" + as_json(TWO))] == ["-:2", "-:4"]
    assert [request.origin for request in read(delimited(ONE, TWO))] == ["-@0", f"-@{len(ONE) + 1}"]


@each(
    "content",
    [
        traces("wor?"),
        delimited(traces("wor?"), traces("wor?")),
        as_json(traces("wor?")) + b"\n" + as_json(traces("wor?")),
        orjson.dumps(orjson.loads(as_json(traces("wor?"))), option=orjson.OPT_INDENT_2),
    ],
    ids=["one", "delimited", "JSON lines", "indented JSON"],
)
def test_text_that_is_not_utf_8_is_repaired_and_said(content: bytes) -> None:
    report = SourceReport()
    requests = read(content.replace(b"wor?", b"wor\xe2"), report)
    expected = ExportTraceServiceRequest.FromString(traces("wor\ufffd"))
    texts = max(1, content.count(b"wor?"))
    assert [(ExportTraceServiceRequest.FromString(each.payload), each.signal) for each in requests] == [
        (expected, Signal.TRACES)
    ] * texts
    [said] = report.warnings
    assert said.startswith("-: 1 text was not UTF-8" if texts == 1 else "-: 2 texts were not UTF-8")
    assert report.not_read == 0


def test_a_file_of_other_signals_is_known_whatever_its_texts() -> None:
    for payload, signal in ((logs(), Signal.LOGS), (metrics(), Signal.METRICS)):
        report = SourceReport()
        [found] = read(payload.replace(b"said", b"sai\xff").replace(b"requests", b"request\xff"), report)
        assert (found.signal, report.file("-").repaired_texts) == (signal, 1)


def test_damaged_bytes_in_protobuf_cost_their_span() -> None:
    damaged = traces("work", spans=3).replace(b"\x2a\x04work", b"\x2a\x7fwork", 1)
    report = SourceReport()
    [found] = read(damaged, report)
    assert (len(spans_of(found)), report.not_read) == (2, 1)
    with pytest.raises(TraceGradeError, match="not OTLP"):
        read(traces("work").replace(b"\x2a\x04work", b"\x2a\x7fwork"))


ERRORS = [
    (b'{"resourceSpans": [}\n' + as_json(ONE), "-:1: $: not JSON"),
    (as_json(ONE) + b"\n" + as_json(TWO)[:-5], "-:2: $: not JSON"),
    (b'{\n "resourceSpans": [\n', "-: $: not JSON"),
    (
        b'{"tool_calls": []}',
        "-:1: $: found a JSON object with 'tool_calls'; expected one request in the file or one a line",
    ),
    (b'{"resourceSpans": 5}', "-:1: $.resourceSpans: expected a list, found 5"),
    (delimited(ONE, TWO)[:-1], f"-@{len(ONE) + 1}: torn: expected a request of {len(TWO)} bytes, found {len(TWO) - 1}"),
    (delimited(ONE) + b"\x80", f"-@{len(ONE) + 1}: torn: the file ends within a length"),
    (delimited(ONE) + varint(2**34), f"-@{len(ONE) + 1}: not OTLP: a length of"),
    (delimited(ONE) + b"\xff" * 6, f"-@{len(ONE) + 1}: not OTLP: expected a length"),
    (delimited(ONE, b"\x0a\x05abc"), f"-@{len(ONE) + 1}: not an OTLP traces request"),
    (b"\x0a\xff\xff", "-@0: not OTLP; expected JSON, or a protobuf export request"),
    (gzip.compress(as_json(ONE))[:-9], "-: broken compression"),
    (b"\x1f\x8bnot gzip", "-: broken compression"),
    (zstandard.compress(ONE * 100)[:8], "-: broken compression"),
    (b"\x28\xb5\x2f\xfdnot zstd", "-: broken compression"),
]


@each(("content", "message"), ERRORS)
def test_errors_name_the_place(content: bytes, message: str) -> None:
    with pytest.raises(TraceGradeError) as caught:
        read(content)
    assert str(caught.value).startswith(message)


def test_a_missing_file_and_a_missing_standard_input_are_named(tmp_path: Path) -> None:
    with pytest.raises(TraceGradeError, match=r"nowhere\.json: cannot be read: No such file"):
        list(read_sources([str(tmp_path / "nowhere.json")], SourceReport()))
    with pytest.raises(TraceGradeError, match="-: there is no standard input"):
        list(read_sources(["-"], SourceReport()))


def test_memory_is_bounded_by_one_request(tmp_path: Path) -> None:
    path = tmp_path / "many.jsonl.gz"
    line = as_json(traces(spans=200)) + b"\n"
    path.write_bytes(gzip.compress(line * 100))
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_sources([str(path)], SourceReport())) == 100
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 50 * len(line) < 100 * len(line)


def test_a_pipe_that_gives_a_few_bytes_at_a_time_is_read_whole() -> None:
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb", buffering=0) as pipe, os.fdopen(write_end, "wb", buffering=0) as sender:
        sender.write(gzip.compress(delimited(ONE, TWO)))
        sender.close()
        assert [request.payload for request in read_sources(["-"], SourceReport(), Slow(pipe))] == [ONE, TWO]  # type: ignore[arg-type]


class Slow(io.RawIOBase):
    """Never more than three bytes a read, as a slow pipe does."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def read(self, size: int = -1) -> bytes:
        return bytes(self._inner.read(min(size, 3) if size >= 0 else 3))
