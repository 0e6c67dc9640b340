"""Laminar: `lmnr.span.type`, values as JSON in `lmnr.span.input` and `lmnr.span.output`."""

from tracegrade import semconv as s
from tracegrade.extract.messages import read_messages
from tracegrade.extract.reading import Dialect, Keys, Message, SpanKind
from tracegrade.model.span import Span


def _classify(span: Span) -> SpanKind | None:
    """Its other types say nothing about what a span is."""
    kind = span.attributes.get(s.LMNR_TYPE)
    return "tool" if kind == "TOOL" else "chat" if kind == "LLM" else None


def _inputs(span: Span) -> list[Message]:
    return _messages(span, s.INPUT_MESSAGES, s.LMNR_INPUT)


def _outputs(span: Span) -> list[Message]:
    return _messages(span, s.OUTPUT_MESSAGES, s.LMNR_OUTPUT)


def _messages(span: Span, instrumented: str, observed: str) -> list[Message]:
    """A model client's instrumentation writes under one key, a decorated function under the other."""
    attributes = span.attributes
    return read_messages(attributes[instrumented] if instrumented in attributes else attributes.get(observed))


def _tool_name(span: Span) -> str:
    return span.name


DIALECT: Dialect = Dialect(
    name="laminar",
    marks=frozenset({s.LMNR_TYPE}),
    classify=_classify,
    keys=Keys(
        arguments=(s.LMNR_INPUT,),
        output=(s.LMNR_OUTPUT,),
        session=(s.LMNR_SESSION_ID,),
        user=(s.LMNR_USER_ID,),
        prompt=(s.LMNR_INPUT,),
        answer=(s.LMNR_OUTPUT,),
    ),
    attributes=frozenset({s.INPUT_MESSAGES, s.OUTPUT_MESSAGES}),
    inputs=_inputs,
    outputs=_outputs,
    tool_name=_tool_name,
)
