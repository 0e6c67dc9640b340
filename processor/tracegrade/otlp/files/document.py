"""Recognises the format of a JSON document, and reads it: OTLP/JSON, Grafana Tempo's export of a trace, or ATIF."""

from dataclasses import dataclass, field

from tracegrade.model.json_value import JsonValue
from tracegrade.model.signal import Signal
from tracegrade.otlp.files.atif import is_atif, read_atif
from tracegrade.otlp.json import JsonRequest, read_request

OTLP_JSON = "OTLP/JSON"
TEMPO = "Grafana Tempo"
_SIGNALS = {
    "resourceSpans": Signal.TRACES,
    "resource_spans": Signal.TRACES,
    "resourceLogs": Signal.LOGS,
    "resource_logs": Signal.LOGS,
    "resourceMetrics": Signal.METRICS,
    "resource_metrics": Signal.METRICS,
}


@dataclass(frozen=True, slots=True)
class DocumentRequests:
    """The requests that a document holds, one for each signal, and its format.

    ``part`` is what a part that was left out is called, where that is no span, log record or metric.
    """

    file_format: str
    requests: list[tuple[Signal, JsonRequest]]
    part: str = ""
    remarks: list[str] = field(default_factory=list)


def document_requests(document: JsonValue) -> DocumentRequests | None:
    """The format of a JSON document; None when it is of no format that is read.

    Raises:
        OtlpJsonError: a value of a wrong type outside of a span, or nested too deep.
    """
    if not isinstance(document, dict):
        return None
    if is_atif(document):
        trace = read_atif(document)
        return DocumentRequests(trace.file_format, [(Signal.TRACES, trace.request)], "part", trace.remarks)
    if (tempo := _of_tempo(document)) is not None:
        return DocumentRequests(TEMPO, [(Signal.TRACES, read_request(Signal.TRACES, tempo, lenient=True))])
    signals = dict.fromkeys(signal for key, signal in _SIGNALS.items() if key in document)
    if not signals and document:
        return None
    requests = []
    for signal in signals:
        others = {key for key, other in _SIGNALS.items() if other is not signal}
        own = {key: value for key, value in document.items() if key not in others}
        requests.append((signal, read_request(signal, own, lenient=True)))
    return DocumentRequests(OTLP_JSON, requests)


def _of_tempo(document: dict[str, JsonValue]) -> JsonValue:
    """The request that Tempo's answer to a query for a trace is, None when it is none.

    It is ``{"batches": [...]}``, where batches are resource spans, or, since its second API, ``{"trace":
    {"resourceSpans": [...]}}`` or ``{"trace": {"batches": [...]}}``; ids may be in base64 and enums by name, as
    protobuf's own JSON has them. Source: grafana/tempo, pkg/tempopb/tempo.proto (`Trace`, `TraceByIDResponse`).
    """
    trace = document.get("trace")
    if isinstance(trace, dict) and ({"resourceSpans", "resource_spans", "batches"} & trace.keys()):
        return _of_tempo(trace) if "batches" in trace else trace
    batches = document.get("batches")
    if isinstance(batches, list) and not (_SIGNALS.keys() & document.keys()):
        return {"resourceSpans": batches}
    return None
