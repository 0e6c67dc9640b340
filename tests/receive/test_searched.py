"""What is searched of a request: all texts, as they stand."""

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from build import each
from tracegrade.model.signal import Signal
from tracegrade.receive.searched import searched


def _request(span: Span) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.append(span)
    return request


@each("parent", [b"", b"p" * 8])
@each("name", ["", "chat", "n" * 300])
def test_ids_and_times_are_blank_and_all_else_is_as_it_was(parent: bytes, name: str) -> None:
    span = Span(trace_id=b"t" * 16, span_id=b"s" * 8, parent_span_id=parent, name=name, kind=Span.SPAN_KIND_CLIENT)
    span.start_time_unix_nano = span.end_time_unix_nano = 0x4141414141414141
    span.attributes.add(key="k" * 16).value.string_value = "AAAAAA"
    wire = _request(span).SerializeToString()
    found = searched(Signal.TRACES, wire)
    assert len(found) == len(wire)
    span.trace_id, span.span_id, span.parent_span_id = bytes(16), bytes(8), bytes(len(parent))
    if len(name) < 0x80:
        span.start_time_unix_nano = span.end_time_unix_nano = 0
        blank = found.replace(b"\x39" + bytes(8) + b"\x41" + bytes(8), b"")
        assert len(blank) == len(found) - 18
    assert ExportTraceServiceRequest.FromString(found) == _request(span)


def test_fields_in_another_order_stay_as_they_are() -> None:
    name_first = b"\x2a\x04chat" + Span(trace_id=b"t" * 16, span_id=b"s" * 8).SerializeToString()
    wire = b"\n" + bytes((len(name_first) + 4,)) + b"\x12" + bytes((len(name_first) + 2,)) + b"\x12"
    wire += bytes((len(name_first),)) + name_first
    assert searched(Signal.TRACES, wire) == wire


def test_a_span_that_ends_early_is_searched() -> None:
    for end in range(29):
        cut = Span(trace_id=b"t" * 16, span_id=b"s" * 8).SerializeToString()[:end]
        wire = b"\n" + bytes((end + 4,)) + b"\x12" + bytes((end + 2,)) + b"\x12" + bytes((end,)) + cut
        assert len(searched(Signal.TRACES, wire)) == len(wire)
