"""A peer's answer, read as delivered, worth another try, or given up.

Pure: status codes, headers and bodies in, an `Answer` out. Source: the OTLP specification's tables of retryable gRPC
codes and HTTP statuses; what the collector's exporters do where it is silent.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Literal, Protocol

from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from tracegrade.model.signal import Signal

PROTOBUF = "application/x-protobuf"
_MAX_MESSAGE = 500  # characters kept of a peer's text
_RETRYABLE_CODES = {"cancelled", "deadline_exceeded", "aborted", "out_of_range", "unavailable", "data_loss"}
_RETRYABLE_STATUSES = {429, 502, 503, 504}


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of one attempt.

    ``kind``: sent, retry (later; when the peer asked for a delay, not before ``retry_after_s``) or failed (for good).
    ``reason`` has low cardinality, "" when sent. ``rejected`` counts the items that the peer rejected by partial
    success: they are gone, and the request counts as sent. ``message`` is the peer's or the network's own text.
    """

    kind: Literal["sent", "retry", "failed"]
    reason: str = ""
    retry_after_s: float | None = None
    rejected: int = 0
    message: str = ""


class Exports(Protocol):
    """The part of `OtlpClient` that most callers need."""

    async def export(self, signal: Signal, payload: bytes) -> Answer:
        """Make one attempt to deliver `payload`, an OTLP export request."""
        ...


def success(signal: Signal, body: bytes) -> Answer:
    """The answer of a peer that took the request, with the number of items that it rejected.

    A body that is not an export response is ignored: the status already says that the request was taken.
    """
    if not body:
        return Answer("sent")
    try:
        rejected, message = _partial_success(signal, body)
    except DecodeError:
        return Answer("sent", message=_one_line(body))
    return Answer("sent", rejected=max(rejected, 0), message=message[:_MAX_MESSAGE])


def _partial_success(signal: Signal, body: bytes) -> tuple[int, str]:
    if signal is Signal.LOGS:
        logs = ExportLogsServiceResponse.FromString(body).partial_success
        return logs.rejected_log_records, logs.error_message
    if signal is Signal.METRICS:
        metrics = ExportMetricsServiceResponse.FromString(body).partial_success
        return metrics.rejected_data_points, metrics.error_message
    traces = ExportTraceServiceResponse.FromString(body).partial_success
    return traces.rejected_spans, traces.error_message


def grpc_failure(code: str, message: str, status_details: bytes | None) -> Answer:
    """The answer behind a gRPC error.

    Args:
        code: the status code's name in lower case.
        message: the status message.
        status_details: the trailer ``grpc-status-details-bin``, a serialised ``google.rpc.Status``, if it came.
    """
    delay = None if status_details is None else _retry_info(status_details)
    retryable = code in _RETRYABLE_CODES or (code == "resource_exhausted" and delay is not None)
    return Answer(
        "retry" if retryable else "failed",
        code,
        retry_after_s=delay if retryable else None,
        message=message[:_MAX_MESSAGE],
    )


def _retry_info(status_details: bytes) -> float | None:
    """The seconds to wait that RetryInfo in the status asks for; None without one."""
    try:
        for detail in Status.FromString(status_details).details:
            info = RetryInfo()
            if detail.Unpack(info):
                delay: float = info.retry_delay.seconds + info.retry_delay.nanos / 1e9
                return max(delay, 0.0)
    except DecodeError:  # a trailer that is not a status carries no delay
        pass
    return None


def http_answer(signal: Signal, status: int, headers: Mapping[str, str], body: bytes, now_s: float) -> Answer:
    """The answer behind an HTTP response.

    Args:
        signal: what was sent.
        status: the HTTP status.
        headers: by name, in lower case.
        body: the part of it that was read.
        now_s: the time, seconds since 1970 UTC: a Retry-After may be a date.
    """
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if 200 <= status < 300:
        return success(signal, body if media_type == PROTOBUF else b"")
    retryable = status in _RETRYABLE_STATUSES
    return Answer(
        "retry" if retryable else "failed",
        f"http_{status}",
        retry_after_s=_retry_after(headers.get("retry-after"), now_s) if retryable else None,
        message=_status_message(body) if media_type == PROTOBUF else _one_line(body),
    )


def _retry_after(value: str | None, now_s: float) -> float | None:
    """The seconds that a Retry-After header asks to wait (a number or a date); None when absent or unreadable."""
    if value is None:
        return None
    if value.strip().isdecimal():
        return float(value)
    try:
        return max(parsedate_to_datetime(value).timestamp() - now_s, 0.0)
    except (ValueError, OverflowError):
        return None


def _status_message(body: bytes) -> str:
    try:
        return str(Status.FromString(body).message)[:_MAX_MESSAGE]
    except DecodeError:
        return _one_line(body)


def _one_line(body: bytes) -> str:
    """A body that is not protobuf, such as a proxy's page, as one line."""
    return " ".join(body[: 4 * _MAX_MESSAGE].decode("utf-8", "replace").split())[:_MAX_MESSAGE]
