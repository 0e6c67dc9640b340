"""Request classes for reading of spans only what assembly needs, and for taking their bytes as they are.

upb skips what a class does not declare, and copies bytes: both together cost a tenth of reading the spans.
"""

from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

_PACKAGE = "tracegrade.raw"
_Field = FieldDescriptorProto

# Field numbers are those of OTLP's ExportTraceServiceRequest. Bytes are repeated, so that a message which the wire
# splits into several, which protobuf allows, is noticed instead of lost.
_REPEATED_BYTES = (_Field.TYPE_BYTES, _Field.LABEL_REPEATED, "")
_BYTES = (_Field.TYPE_BYTES, _Field.LABEL_OPTIONAL, "")
_TEXT = (_Field.TYPE_STRING, _Field.LABEL_OPTIONAL, "")
_TIME = (_Field.TYPE_FIXED64, _Field.LABEL_OPTIONAL, "")


def _messages(of: str) -> tuple[int, int, str]:
    return _Field.TYPE_MESSAGE, _Field.LABEL_REPEATED, f".{_PACKAGE}.{of}"


_MESSAGES: dict[str, dict[str, tuple[int, tuple[int, int, str]]]] = {
    "Request": {"resource_spans": (1, _messages("ResourceSpans"))},
    "ResourceSpans": {"resource": (1, _REPEATED_BYTES), "scope_spans": (2, _messages("ScopeSpans"))},
    "ScopeSpans": {"scope": (1, _REPEATED_BYTES), "spans": (2, _REPEATED_BYTES)},
    "Heads": {"resource_spans": (1, _messages("ResourceHeads"))},
    "ResourceHeads": {"scope_spans": (2, _messages("ScopeHeads"))},
    "ScopeHeads": {"spans": (2, _messages("Head"))},
    "Ids": {"resource_spans": (1, _messages("ResourceIds"))},
    "ResourceIds": {"scope_spans": (2, _messages("ScopeIds"))},
    "ScopeIds": {"spans": (2, _messages("Id"))},
    "Id": {"trace_id": (1, _BYTES)},
    "Head": {
        "trace_id": (1, _BYTES),
        "span_id": (2, _BYTES),
        "parent_span_id": (4, _BYTES),
        "name": (5, _TEXT),
        "start_time_unix_nano": (7, _TIME),
        "end_time_unix_nano": (8, _TIME),
        "attributes": (9, _messages("Head.AttributesEntry")),
        "flags": (16, (_Field.TYPE_FIXED32, _Field.LABEL_OPTIONAL, "")),
    },
}


def _classes() -> tuple[Any, Any, Any]:
    file = FileDescriptorProto(name="tracegrade/raw.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        file.message_type.append(_message(name, fields))
    # A map, as in a `KeyedRequest`, whose values are the bytes of an AnyValue: those of few keys are read.
    entry = _message("AttributesEntry", {"key": (1, _TEXT), "value": (2, _BYTES)})
    entry.options.map_entry = True
    file.message_type[-1].nested_type.append(entry)
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    request, heads, ids = (
        GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in ("Request", "Heads", "Ids")
    )
    return request, heads, ids


def _message(name: str, fields: dict[str, tuple[int, tuple[int, int, str]]]) -> DescriptorProto:
    return DescriptorProto(name=name, field=[_field(*item) for item in fields.items()])


def _field(name: str, described: tuple[int, tuple[int, int, str]]) -> FieldDescriptorProto:
    number, (kind, label, message) = described
    field = FieldDescriptorProto(name=name, number=number)
    field.type, field.label = kind, label  # type: ignore[assignment]  # numbers of enums
    if message:
        field.type_name = message
    return field


# Of type Any: the classes are made here, and have no stubs.
RawRequest: Any
"""A request in which resources, scopes and spans are bytes."""
HeadsRequest: Any
"""The same request, in which a span has only its ids, name, times, flags, and attributes as bytes by key."""
TraceIdsRequest: Any
"""The same request, in which a span has only its trace id."""
RawRequest, HeadsRequest, TraceIdsRequest = _classes()
