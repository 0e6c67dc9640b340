"""Captured requests of real agents, for being sent again: folders of frameworks, each with its ``*.binpb``."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tracegrade.model.signal import Signal
from tracegrade.otlp.files.report import SourceReport
from tracegrade.otlp.files.sources import read_sources


def read(folders: Iterable[Path]) -> list[bytes]:
    """The requests with traces in them, as they came."""
    sources = [str(path) for folder in folders for path in sorted(folder.glob("*.binpb")) if ".logs." not in path.name]
    return [request.payload for request in read_sources(sources, SourceReport()) if request.signal == Signal.TRACES]


def joined(requests: Iterable[bytes], spans: int) -> list[bytes]:
    """Requests put together, in their order, until each holds so many spans at least."""
    found, parts, count = [], [], 0
    for request in requests:
        parts.append(request)
        count += span_count(request)
        if count >= spans:
            found.append(b"".join(parts))  # messages of repeated fields alone: one after the other is one of both
            parts, count = [], 0
    return found + ([b"".join(parts)] if parts else [])


def span_count(request: bytes) -> int:
    """How many spans a request holds."""
    return len(_trace_ids(request))


def trace_ids(requests: Sequence[bytes]) -> list[bytes]:
    """The ids of all traces in them."""
    return sorted({trace_id for request in requests for trace_id in _trace_ids(request)})


def _trace_ids(request: bytes) -> list[bytes]:
    parsed = ExportTraceServiceRequest.FromString(request)
    return [span.trace_id for r in parsed.resource_spans for scope in r.scope_spans for span in scope.spans]
