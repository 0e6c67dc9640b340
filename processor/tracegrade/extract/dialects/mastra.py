"""Mastra: the GenAI conventions, with what was asked, answered and requested under `mastra.*`.

Source: mastra-ai/mastra, observability/otel-exporter, gen-ai-semantics.ts.
"""

from tracegrade.extract.decode.values import decode
from tracegrade.extract.dialects import gen_ai
from tracegrade.extract.messages import ai_sdk_message, read_messages
from tracegrade.extract.reading import SESSION_WORDS, USER_WORDS, Dialect, Holds, Keys, Message, SpanKind, under
from tracegrade.model.span import Span

_TYPE = "mastra.span.type"
_AGENT_INPUT = "mastra.agent_run.input"
_AGENT_OUTPUT = "mastra.agent_run.output"
_STEP_INPUT = "mastra.model_step.input"
_STEP_OUTPUT = "mastra.model_step.output"
_METADATA = "mastra.metadata."

# A step holds the calls that its model call asked for, and that one does not. A generation is around all steps.
_KINDS: dict[str, SpanKind] = {"model_step": "chat", "model_generation": "other"}


def _classify(span: Span) -> SpanKind | None:
    kind = span.attributes.get(_TYPE)
    return (_KINDS.get(kind) if isinstance(kind, str) else None) or gen_ai.DIALECT.classify(span)


def _outputs(span: Span) -> list[Message]:
    attributes = span.attributes
    raw = attributes.get(_STEP_OUTPUT, attributes.get(_AGENT_OUTPUT))
    value = decode(raw).value
    if not isinstance(value, dict):
        return gen_ai.DIALECT.outputs(span)
    return [ai_sdk_message(value.get("text"), value.get("toolCalls"))]


def _inputs(span: Span) -> list[Message]:
    attributes = span.attributes
    raw = attributes.get(_STEP_INPUT, attributes.get(_AGENT_INPUT))
    value = decode(raw).value
    if isinstance(value, str):
        return [Message("user", value)]
    return read_messages(value) or gen_ai.DIALECT.inputs(span)


DIALECT: Dialect = gen_ai.VARIANT._replace(
    name="mastra",
    marks=frozenset({_TYPE}),
    classify=_classify,
    keys=Keys(session=under(_METADATA, SESSION_WORDS), user=under(_METADATA, (*USER_WORDS, "resourceId"))),
    holds=Holds(structure=(_TYPE,), messages=(_AGENT_INPUT, _AGENT_OUTPUT, _STEP_INPUT, _STEP_OUTPUT)),
    outputs=_outputs,
    inputs=_inputs,
)
