"""The bodies of answers: export responses, and google.rpc.Status with or without a delay."""

from typing import Any

import orjson
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from tracegrade.journal.record import Encoding
from tracegrade.model.signal import Signal
from tracegrade.otlp.json import to_json
from tracegrade.receive.ingest import Accepted

# google.rpc.Code
INVALID_ARGUMENT = 3
NOT_FOUND = 5
PERMISSION_DENIED = 7
RESOURCE_EXHAUSTED = 8
UNIMPLEMENTED = 12
INTERNAL = 13
UNAVAILABLE = 14
UNAUTHENTICATED = 16

_RESPONSES: dict[Signal, tuple[type[Message], str]] = {
    Signal.TRACES: (ExportTraceServiceResponse, "rejected_spans"),
    Signal.LOGS: (ExportLogsServiceResponse, "rejected_log_records"),
    Signal.METRICS: (ExportMetricsServiceResponse, "rejected_data_points"),
}
_EMPTY = {Encoding.PROTOBUF: b"", Encoding.JSON: b"{}"}


def export_response(signal: Signal, encoding: Encoding, accepted: Accepted) -> bytes:
    """The response's bytes; full success leaves ``partial_success`` unset."""
    if not accepted.message:
        return _EMPTY[encoding]
    response_type, rejected = _RESPONSES[signal]
    response: Any = response_type()
    response.partial_success.error_message = accepted.message
    setattr(response.partial_success, rejected, accepted.rejected)
    if encoding is Encoding.PROTOBUF:
        return bytes(response.SerializeToString())
    return orjson.dumps(to_json(response))


def status_bytes(code: int, message: str, retry_after_s: int | None = None) -> bytes:
    """A serialized google.rpc.Status, with a RetryInfo when there is a delay."""
    status = Status(code=code, message=message)
    if retry_after_s is not None:
        status.details.add().Pack(_retry_info(retry_after_s))
    return bytes(status.SerializeToString())


def status_json(code: int, message: str) -> bytes:
    """A google.rpc.Status in JSON."""
    return orjson.dumps({"code": code, "message": message})


def retry_info_bytes(retry_after_s: int) -> bytes:
    """A serialized google.rpc.RetryInfo."""
    return bytes(_retry_info(retry_after_s).SerializeToString())


def _retry_info(retry_after_s: int) -> RetryInfo:
    info = RetryInfo()
    info.retry_delay.seconds = retry_after_s
    return info
