"""Request classes in which attributes of spans and log records are protobuf maps, keyed by name.

On the wire, a map is a list of entries with a key 1 and a value 2, just as KeyValue. When it is read as a map, names
are walked and values are looked up without a Python object for each attribute, which halves the cost of decoding.
"""

from typing import Any

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from opentelemetry.proto.common.v1.common_pb2 import DESCRIPTOR as COMMON
from opentelemetry.proto.logs.v1.logs_pb2 import DESCRIPTOR as LOGS
from opentelemetry.proto.resource.v1.resource_pb2 import DESCRIPTOR as RESOURCE
from opentelemetry.proto.trace.v1.trace_pb2 import DESCRIPTOR as TRACE


def _class(otlp: FileDescriptor, item_name: str, request_name: str) -> Any:
    """OTLP's TracesData or LogsData, which are the export requests under other names, with one change."""
    file = FileDescriptorProto()
    otlp.CopyToProto(file)
    item = next(message for message in file.message_type if message.name == item_name)
    entry = item.nested_type.add()
    COMMON.message_types_by_name["KeyValue"].CopyToProto(entry)
    entry.name = "AttributesEntry"
    entry.options.map_entry = True
    del entry.field[2:]
    attributes = next(field for field in item.field if field.name == "attributes")
    attributes.type_name = f".{file.package}.{item_name}.AttributesEntry"
    # A separate pool: the default one has OTLP's classes under the same names.
    pool = DescriptorPool()
    for dependency in (COMMON, RESOURCE):
        pool.AddSerializedFile(dependency.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName(f"{file.package}.{request_name}"))


# Of type Any: the classes are made here, and stubs know only OTLP's.
KeyedRequest: Any = _class(TRACE, "Span", "TracesData")
KeyedLogsRequest: Any = _class(LOGS, "LogRecord", "LogsData")
