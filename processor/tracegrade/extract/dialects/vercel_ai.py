"""Vercel AI SDK before 7 (`ai.operationId`), and the legacy integration of 7; 7 itself writes the GenAI conventions.

``ai.generateText`` and its like are an agent's run with all its steps; below them ``.doGenerate`` and ``.doStream``
are model calls and ``ai.toolCall`` the tools. Source: vercel/ai, packages/otel, legacy-open-telemetry.ts.
"""

from tracegrade import semconv as s
from tracegrade.extract.decode.values import decode, first_text
from tracegrade.extract.messages import ai_sdk_message, read_messages
from tracegrade.extract.reading import SESSION_WORDS, USER_WORDS, Dialect, Holds, Keys, Message, SpanKind, under
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span

_OPERATION = "ai.operationId"
_METADATA = "ai.telemetry.metadata."
_CONTEXT = "ai.settings.context."
_PROMPT = "ai.prompt"
_PROMPT_MESSAGES = "ai.prompt.messages"
_TEXT = "ai.response.text"
_TOOL_CALLS = "ai.response.toolCalls"
_OBJECT = "ai.response.object"
_OLD_TEXT = "ai.result.text"
_OLD_TOOL_CALLS = "ai.result.toolCalls"
_OLD_OBJECT = "ai.result.object"

_TOOL = "ai.toolCall"
_AGENTS = frozenset({"ai.generateText", "ai.streamText", "ai.generateObject", "ai.streamObject"})
_MODEL_CALLS = ("doGenerate", "doStream")


def _operation(span: Span) -> str:
    return first_text(span, (_OPERATION,)) or first_text(span, (s.OPERATION,)).partition(" ")[0]


def _classify(span: Span) -> SpanKind | None:
    operation = _operation(span)
    if not operation.startswith("ai."):
        return None
    if operation == _TOOL:
        return "tool"
    head, _, last = operation.rpartition(".")
    if last in _MODEL_CALLS and head in _AGENTS:
        return "chat"
    return "agent" if operation in _AGENTS else "other"


def _outputs(span: Span) -> list[Message]:
    """Of a model call its text and calls; of a run its text alone, since it repeats the calls of its steps."""
    text = first_text(span, (_TEXT, _OLD_TEXT, _OBJECT, _OLD_OBJECT))
    calls: JsonValue = None
    if _operation(span) not in _AGENTS:
        calls = decode(span.attributes.get(_TOOL_CALLS) or span.attributes.get(_OLD_TOOL_CALLS)).value
    return [ai_sdk_message(text, calls)] if text or calls else []


def _inputs(span: Span) -> list[Message]:
    attributes = span.attributes
    if _PROMPT_MESSAGES in attributes:
        return read_messages(attributes[_PROMPT_MESSAGES])
    prompt = decode(attributes.get(_PROMPT)).value
    if isinstance(prompt, dict) and isinstance(text := prompt.get("prompt"), str):
        return [Message("user", text)]
    return read_messages(prompt)


DIALECT: Dialect = Dialect(
    name="vercel_ai",
    marks=frozenset({_OPERATION, s.OPERATION}),
    classify=_classify,
    keys=Keys(
        tool_name=("ai.toolCall.name",),
        call_id=("ai.toolCall.id",),
        arguments=("ai.toolCall.args",),
        output=(s.AI_TOOL_RESULT,),
        agent=(s.AI_FUNCTION_ID,),
        session=(*under(_METADATA, SESSION_WORDS), *under(_CONTEXT, SESSION_WORDS)),
        user=(*under(_METADATA, USER_WORDS), *under(_CONTEXT, USER_WORDS)),
        model=("ai.response.model", "ai.model.id"),
    ),
    holds=Holds(
        structure=(_OPERATION, s.OPERATION),
        messages=(_PROMPT, _PROMPT_MESSAGES, _TEXT, _TOOL_CALLS, _OBJECT, _OLD_TEXT, _OLD_TOOL_CALLS, _OLD_OBJECT),
    ),
    outputs=_outputs,
    inputs=_inputs,
)
