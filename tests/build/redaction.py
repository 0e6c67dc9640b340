"""Requests of one span, and what redaction on receipt leaves of a request."""

import json
from functools import cache
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from build.otlp import any_value
from tracegrade.model.signal import Signal
from tracegrade.receive.redaction import RequestRedactor, trial_redactor
from tracegrade.redact.settings import RedactionSettings

KEY = "0123456789abcdef0123456789abcdef"
MAIL = "ann.lee@corp.io"


def request_redactor(**settings: Any) -> RequestRedactor:
    """The redactor with these settings, made once: compiling all detectors costs more than most tests."""
    return _redactor(json.dumps(settings, sort_keys=True))


@cache
def _redactor(settings: str) -> RequestRedactor:
    return trial_redactor(RedactionSettings.model_validate_json(settings))


def redacted(request: Any, signal: Signal = Signal.TRACES, tenant: str = "default", **settings: Any) -> Any:
    """A copy of `request` as redaction with these settings leaves it."""
    payload = request_redactor(**settings).redacted(signal, request.SerializeToString(), tenant).payload
    return type(request).FromString(payload)


def one_span(**attributes: Any) -> ExportTraceServiceRequest:
    """A request of one span; ``__`` in the name of an attribute is a dot."""
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add(trace_id=b"t" * 16, span_id=b"s" * 8, name="call")
    span.start_time_unix_nano, span.end_time_unix_nano = 1_700_000_000_000_000_000, 1_700_000_000_000_000_001
    set_attributes(span.attributes, **attributes)
    return request


def set_attributes(attributes: Any, **values: Any) -> None:
    """Add attributes; ``__`` in a name is a dot, and bytes stay bytes."""
    for key, value in values.items():
        made = AnyValue(bytes_value=value) if isinstance(value, bytes) else any_value(value)
        attributes.add(key=key.replace("__", ".")).value.CopyFrom(made)


def attributes_of(request: Any) -> dict[str, Any]:
    """The texts among the attributes of a request's first span, by key."""
    return {one.key: one.value.string_value for one in request.resource_spans[0].scope_spans[0].spans[0].attributes}
