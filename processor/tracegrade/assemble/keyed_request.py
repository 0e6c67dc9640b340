"""The trace request with the attributes of its spans keyed by name, as protobuf sees them.

On the wire a map is a list of entries with a key 1 and a value 2, which is what KeyValue is. Read as a map, names are
walked and values looked up without a Python object for each attribute: that halves what decoding costs.
"""

from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from opentelemetry.proto.common.v1.common_pb2 import DESCRIPTOR as COMMON
from opentelemetry.proto.resource.v1.resource_pb2 import DESCRIPTOR as RESOURCE
from opentelemetry.proto.trace.v1.trace_pb2 import DESCRIPTOR as TRACE


def _class() -> Any:
    """TracesData, which an ExportTraceServiceRequest is by another name, of OTLP's own descriptor with one change."""
    file = FileDescriptorProto()
    TRACE.CopyToProto(file)
    span = next(message for message in file.message_type if message.name == "Span")
    entry = span.nested_type.add()
    COMMON.message_types_by_name["KeyValue"].CopyToProto(entry)
    entry.name = "AttributesEntry"
    entry.options.map_entry = True
    del entry.field[2:]
    attributes = next(field for field in span.field if field.name == "attributes")
    attributes.type_name = f".{file.package}.Span.AttributesEntry"
    # A pool of its own: the default one has OTLP's classes under the same names.
    pool = DescriptorPool()
    for dependency in (COMMON, RESOURCE):
        pool.AddSerializedFile(dependency.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName(f"{file.package}.TracesData"))


# Of type Any: its classes are made here, and stubs know OTLP's only.
KeyedRequest: Any = _class()
