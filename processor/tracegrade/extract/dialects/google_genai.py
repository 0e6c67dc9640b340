"""Google's model client and ADK as others instrument them: OpenInference or GenAI keys, Gemini's function responses.

What is theirs is what a function response means: ``{"result": ...}``, ``{"output": ...}``, ``{"error": ...}``.
"""

from tracegrade import semconv as s
from tracegrade.extract.decode.unwrap import Output, unwrap_output
from tracegrade.extract.decode.values import decode
from tracegrade.extract.dialects import gen_ai, openinference
from tracegrade.extract.reading import Dialect, Keys, Message, SpanKind
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span

_SCOPES = frozenset(
    {
        "openinference.instrumentation.google_genai",
        "openinference.instrumentation.google_adk",
        "openinference.instrumentation.vertexai",
        "opentelemetry.instrumentation.google_genai",
        "opentelemetry.instrumentation.google_generativeai",
        "opentelemetry.instrumentation.vertexai",
    }
)


def _classify(span: Span) -> SpanKind | None:
    return _base(span).classify(span) if span.scope in _SCOPES else None


def _base(span: Span) -> Dialect:
    return openinference.DIALECT if s.OPENINFERENCE_KIND in span.attributes else gen_ai.DIALECT


def _outputs(span: Span) -> list[Message]:
    return _base(span).outputs(span)


def _inputs(span: Span) -> list[Message]:
    return _base(span).inputs(span)


def _schemas(span: Span) -> dict[str, JsonValue]:
    return _base(span).schemas(span)


def _tool_name(span: Span) -> str:
    return _base(span).tool_name(span)


def _agent_name(span: Span) -> str:
    return _base(span).agent_name(span)


def _read_output(span: Span, raw: JsonValue) -> Output:
    return unwrap_output(decode(raw), function_response=True)


DIALECT: Dialect = Dialect(
    name="google_genai",
    marks=frozenset({s.OPENINFERENCE_KIND, s.OPERATION_NAME}),
    classify=_classify,
    keys=Keys(),
    prefixes=openinference.DIALECT.prefixes,
    events=gen_ai.DIALECT.events,
    outputs=_outputs,
    inputs=_inputs,
    tool_events=gen_ai.DIALECT.tool_events,
    read_output=_read_output,
    schemas=_schemas,
    tool_name=_tool_name,
    agent_name=_agent_name,
)
