"""The one trace of a unit: what an agent sent, below a root that says which case it was.

The root is an agent span of the name that the agent's own outermost span has, so that the two are read as one run
(`extract.runs`: the same agent, shown twice). What was in other traces, or had no parent here, is below the root too.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tracegrade import semconv as s
from tracegrade.assemble.decode import Decoder
from tracegrade.codec.span_reader import AttributeFilter
from tracegrade.display import count
from tracegrade.extract.extract import extract
from tracegrade.extract.registry import in_force
from tracegrade.model.signal import Signal
from tracegrade.model.span import PARENT_IS_REMOTE
from tracegrade.model.trace import Trace
from tracegrade.otlp.request import containers
from tracegrade.suites.agents.arrivals import Arrived
from tracegrade.suites.agents.command import Ended
from tracegrade.suites.conversation import Ran
from tracegrade.suites.recording import CaseTrace, note_case, note_error
from tracegrade.suites.suite import SuiteCase


@dataclass(frozen=True, slots=True)
class Asked:
    """One unit, and what became of asking it; times are ns since 1970 UTC."""

    trace_id: bytes
    root_id: bytes
    case: SuiteCase
    repetition: int
    begun_ns: int
    ended_ns: int
    ended: Ended


def unit_trace(key: str, asked: Asked, arrived: Arrived) -> Ran:
    """The trace of a unit of the agent `key`."""
    spans, logs = _joined(asked, arrived)
    own = [trace_id for trace_id, trace in arrived.traces.items() if trace.span_ids]
    notes = [f"its spans were in {len(own)} traces, which are judged as one"] if len(own) > 1 else []
    trace = CaseTrace(asked.trace_id, key, asked.root_id)
    name = _outermost_agent(asked.trace_id, spans) or key
    with trace.invoke_agent(name, asked.begun_ns, asked.ended_ns) as root:
        note_case(root, name, key, asked.case, asked.repetition)
        if own and own != [asked.trace_id]:
            root.set_attribute(s.SUITE_TRACE_IDS, [trace_id.hex() for trace_id in own])
        if asked.ended.exit_code is not None:
            root.set_attribute(s.SUITE_EXIT_CODE, asked.ended.exit_code)
        if asked.ended.stderr:
            root.set_attribute(s.SUITE_STDERR, asked.ended.stderr)
        if notes:
            root.set_attribute(s.SUITE_NOTES, notes)
        if asked.ended.problem:
            note_error(root, asked.ended.error_type, asked.ended.problem)
    payload, _ = trace.payload()
    request = ExportTraceServiceRequest.FromString(payload)
    if spans.resource_spans:
        request.resource_spans[0].resource.CopyFrom(_resource_of_root(asked, spans))
    request.MergeFrom(spans)
    return Ran(
        asked.trace_id,
        request.SerializeToString(),
        _items(Signal.TRACES, request),
        asked.ended.problem,
        logs.SerializeToString(),
        _items(Signal.LOGS, logs),
    )


def _joined(asked: Asked, arrived: Arrived) -> tuple[ExportTraceServiceRequest, ExportLogsServiceRequest]:
    """All that came as of one trace, whose outermost spans are below the root."""
    spans, logs = ExportTraceServiceRequest(), ExportLogsServiceRequest()
    taken: dict[bytes, bytes] = {}  # span id: the trace that has it
    for trace_id, trace in arrived.traces.items():
        renamed: dict[bytes, bytes] = {}
        for span_id in trace.span_ids:
            if taken.setdefault(span_id, trace_id) != trace_id:  # of another of its traces
                renamed[span_id] = blake2b(trace_id + span_id, digest_size=8).digest()
        for span in _each(Signal.TRACES, trace.spans):
            is_outermost = not span.parent_span_id or (
                span.flags & PARENT_IS_REMOTE == PARENT_IS_REMOTE and span.parent_span_id not in trace.span_ids
            )
            if is_outermost or span.parent_span_id == asked.root_id:
                span.parent_span_id = asked.root_id
                span.flags &= ~PARENT_IS_REMOTE  # it is here now
            _move(span, asked.trace_id, renamed)
            span.parent_span_id = renamed.get(span.parent_span_id, span.parent_span_id)
            for link in span.links:
                if link.trace_id in arrived.traces:
                    link.trace_id = asked.trace_id
        for record in _each(Signal.LOGS, trace.logs):
            _move(record, asked.trace_id, renamed)
        spans.MergeFrom(trace.spans)
        logs.MergeFrom(trace.logs)
    return spans, logs


def _move(item: Any, trace_id: bytes, renamed: dict[bytes, bytes]) -> None:
    item.trace_id = trace_id
    item.span_id = renamed.get(item.span_id, item.span_id)


def _each(signal: Signal, request: Any) -> Iterable[Any]:
    for items in containers(signal, request):
        yield from items


def _items(signal: Signal, request: Any) -> int:
    return sum(map(len, containers(signal, request)))


def _outermost_agent(trace_id: bytes, spans: ExportTraceServiceRequest) -> str:
    """The name of the first agent that no other encloses; "" where none has a name."""
    decoder = Decoder(AttributeFilter.of(in_force(), frozenset(), by_shape=True))
    decoded = {span.span_id: span for span in decoder.spans(spans.SerializeToString())}
    runs = extract(Trace(trace_id, "", list(decoded.values()), "end_of_input", [], 0)).runs
    return next((run.agent for run in runs if run.parent_span_id is None and run.agent), "")


def _resource_of_root(asked: Asked, spans: ExportTraceServiceRequest) -> Any:
    """The resource of the earliest of the outermost spans, which is the agent's."""
    found = [
        (span.start_time_unix_nano, place)
        for place, resource in enumerate(spans.resource_spans)
        for scope in resource.scope_spans
        for span in scope.spans
        if span.parent_span_id == asked.root_id
    ]
    return spans.resource_spans[min(found)[1] if found else 0].resource


def problem_of(arrived: Arrived, waited: str) -> tuple[str, str]:
    """Why what came cannot be judged, and the type of that error; empty where it can. `waited` is for how long."""
    if not arrived.has_spans:
        return f"no span came to {waited}", "no_spans"
    if arrived.other_cases:
        others = ", ".join(repr(case) for case in sorted(arrived.other_cases))
        return (
            f"its spans say {s.CASE_ID} {others}, and it was asked {arrived.case!r}; leave the attribute to "
            "OTEL_RESOURCE_ATTRIBUTES",
            "other_case",
        )
    if missing := arrived.missing:
        named = ", ".join(span_id.hex() for span_id in missing[:3])
        return (
            f"{count(len(missing), 'span')} did not come that others name as their parent ({named}); end all spans, "
            "and call shutdown() of the tracer provider at the end",
            "incomplete",
        )
    if arrived.is_cut:
        return "it sent more than 64 MiB of spans", "too_large"
    return "", ""
