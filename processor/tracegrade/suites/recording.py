"""One run of a case as a trace: spans of the OpenTelemetry SDK, by the conventions for generative AI.

A root ``invoke_agent``, a ``chat`` for each time the model is asked, an ``execute_tool`` for each call that a mock
answers. What the environment says of exporters, samplers, limits and resources is for the program's own telemetry, and
has no say here.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from tracegrade import semconv as s
from tracegrade.model.json_value import JsonValue
from tracegrade.suites.imported import SuiteError

if TYPE_CHECKING:
    from tracegrade.suites.models.reply import Reply
    from tracegrade.suites.suite import SuiteCase

Message = dict[str, JsonValue]

_NO_LIMITS = SpanLimits(
    max_attributes=SpanLimits.UNSET,
    max_events=SpanLimits.UNSET,
    max_links=SpanLimits.UNSET,
    max_span_attributes=SpanLimits.UNSET,
    max_event_attributes=SpanLimits.UNSET,
    max_link_attributes=SpanLimits.UNSET,
    max_attribute_length=SpanLimits.UNSET,
    max_span_attribute_length=SpanLimits.UNSET,
)


def check_sdk() -> None:
    """Raise `SuiteError` where the environment turns the SDK off: no run would leave a trace."""
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        raise SuiteError("OTEL_SDK_DISABLED is true, and every run of a case is written as a trace; unset it")


class _OneTrace(IdGenerator):
    """The trace id that is given, and span ids by chance; the root's may be given, too."""

    def __init__(self, trace_id: int, root_id: int | None) -> None:
        self._trace_id = trace_id
        self._root_id = root_id
        self._random = RandomIdGenerator()

    def generate_trace_id(self) -> int:
        return self._trace_id

    def generate_span_id(self) -> int:
        found, self._root_id = self._root_id, None
        return self._random.generate_span_id() if found is None else found


class CaseTrace:
    """The spans of one run of a case while it goes on; used by one thread."""

    def __init__(self, trace_id: bytes, service: str, root_id: bytes | None = None) -> None:
        """Without spans yet; the root's id is `root_id` where somebody was told it before."""
        self._exporter = InMemorySpanExporter()
        self._provider = TracerProvider(
            sampler=ALWAYS_ON,
            resource=_resource(service),
            id_generator=_OneTrace(int.from_bytes(trace_id), None if root_id is None else int.from_bytes(root_id)),
            span_limits=_NO_LIMITS,
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self._tracer = self._provider.get_tracer(s.SUITE_SCOPE, version("tracegrade"))

    @contextmanager
    def span(self, operation: str, name: str) -> Iterator[Span]:
        """A span of this operation of the conventions, on `name`: within the one that is open."""
        with self._tracer.start_as_current_span(f"{operation} {name}") as span:
            span.set_attribute(s.OPERATION_NAME, operation)
            yield span

    @contextmanager
    def invoke_agent(self, name: str, begun_ns: int, ended_ns: int) -> Iterator[Span]:
        """The span of an agent that was asked, afterwards."""
        span = self._tracer.start_span(f"invoke_agent {name}", start_time=begun_ns)
        span.set_attribute(s.OPERATION_NAME, "invoke_agent")
        yield span
        span.end(ended_ns)

    @contextmanager
    def chat(self, model: str, begun_ns: int, ended_ns: int) -> Iterator[Span]:
        """The span of a request that was made: afterwards, so that it does not count waiting for its turn."""
        span = self._tracer.start_span(f"chat {model}", kind=SpanKind.CLIENT, start_time=begun_ns)
        span.set_attribute(s.OPERATION_NAME, "chat")
        yield span
        span.end(ended_ns)

    def payload(self) -> tuple[bytes, int]:
        """All ended spans as an OTLP request in protobuf, and how many there are."""
        spans = self._exporter.get_finished_spans()
        return encode_spans(spans).SerializeToString(), len(spans)


@cache
def _resource(service: str) -> Resource:
    return Resource({s.SERVICE_NAME: service})


def note_case(root: Span, agent: str, model: str, case: "SuiteCase", repetition: int) -> None:
    """Write on the root which case was run, with which model or agent; `agent` is what it calls itself."""
    root.set_attribute(s.AGENT_NAME, agent)
    root.set_attribute(s.CASE_ID, case.id)
    root.set_attribute(s.SUITE_MODEL, model)
    root.set_attribute(s.SUITE_REPETITION, repetition)
    root.set_attribute(s.SUITE_EXPECTED, as_json(dict(case.criteria)))
    root.set_attribute(s.INPUT_MESSAGES, as_json([said("user", case.prompt)]))


def note_reply(span: Span, reply: "Reply") -> None:
    """Write on a ``chat`` span what the model said and used."""
    span.set_attribute(s.OUTPUT_MESSAGES, as_json([assistant(reply)]))
    if reply.model:
        span.set_attribute(s.RESPONSE_MODEL, reply.model)
    if reply.tokens is not None:
        tokens = reply.tokens
        for key, number in ((s.TOKENS_IN[0], tokens.input), (s.TOKENS_OUT[0], tokens.output)):
            if number is not None:
                span.set_attribute(key, number)
        if tokens.cached:
            span.set_attribute(s.TOKENS_CACHED[0], tokens.cached)


def note_error(span: Span, error_type: str, message: str) -> None:
    """Write on a span that what it stands for failed."""
    span.set_attribute(s.ERROR_TYPE, error_type)
    span.set_status(Status(StatusCode.ERROR, message))


def said(role: str, text: str) -> Message:
    """A message of text."""
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def assistant(reply: "Reply") -> Message:
    """What a model said, as a message."""
    parts: list[JsonValue] = []
    if text := reply.text or reply.refusal:
        parts.append({"type": "text", "content": text})
    for call in reply.calls:
        parts.append({"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments})
    return {"role": "assistant", "parts": parts, "finish_reason": reply.finish_reason or "stop"}


def answered(call_id: str, response: JsonValue) -> Message:
    """What a tool answered, as a message."""
    return {"role": "tool", "parts": [{"type": "tool_call_response", "id": call_id, "response": response}]}


def as_json(value: JsonValue) -> str:
    """`value` as a span attribute holds it."""
    return json.dumps(value, ensure_ascii=False)
