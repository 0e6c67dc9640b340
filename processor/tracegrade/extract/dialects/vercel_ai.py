"""Vercel AI SDK before 7 (`ai.operationId`), and the legacy integration of 7; 7 itself writes the GenAI conventions.

``ai.generateText`` and its like are an agent's run with all its steps; below them ``.doGenerate`` and ``.doStream`` are
model calls and ``ai.toolCall`` the tools.
"""

from tracegrade import semconv as s
from tracegrade.extract.decode.values import decode, first_text
from tracegrade.extract.messages import ai_sdk_message, read_messages
from tracegrade.extract.reading import SESSION_WORDS, USER_WORDS, Dialect, Holds, Keys, Message, SpanKind, under
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span

_TOOL = "ai.toolCall"
_AGENTS = frozenset({"ai.generateText", "ai.streamText", "ai.generateObject", "ai.streamObject"})
_MODEL_CALLS = ("doGenerate", "doStream")


def _operation(span: Span) -> str:
    return first_text(span, (s.AI_OPERATION,)) or first_text(span, (s.OPERATION,)).partition(" ")[0]


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
    text = first_text(span, (s.AI_TEXT, s.AI_OLD_TEXT, s.AI_OBJECT, s.AI_OLD_OBJECT))
    calls: JsonValue = None
    if _operation(span) not in _AGENTS:
        calls = decode(span.attributes.get(s.AI_TOOL_CALLS) or span.attributes.get(s.AI_OLD_TOOL_CALLS)).value
    return [ai_sdk_message(text, calls)] if text or calls else []


def _inputs(span: Span) -> list[Message]:
    attributes = span.attributes
    if s.AI_PROMPT_MESSAGES in attributes:
        return read_messages(attributes[s.AI_PROMPT_MESSAGES])
    prompt = decode(attributes.get(s.AI_PROMPT)).value
    if isinstance(prompt, dict) and isinstance(text := prompt.get("prompt"), str):
        return [Message("user", text)]
    return read_messages(prompt)


DIALECT: Dialect = Dialect(
    name="vercel_ai",
    marks=frozenset({s.AI_OPERATION, s.OPERATION}),
    classify=_classify,
    keys=Keys(
        tool_name=(s.AI_TOOL_NAME,),
        call_id=(s.AI_TOOL_ID,),
        arguments=(s.AI_TOOL_ARGS,),
        output=(s.AI_TOOL_RESULT,),
        agent=(s.AI_FUNCTION_ID,),
        session=(*under(s.AI_METADATA, SESSION_WORDS), *under(s.AI_CONTEXT, SESSION_WORDS)),
        user=(*under(s.AI_METADATA, USER_WORDS), *under(s.AI_CONTEXT, USER_WORDS)),
        model=(s.AI_RESPONSE_MODEL, s.AI_MODEL),
    ),
    holds=Holds(
        structure=(s.AI_OPERATION, s.OPERATION),
        messages=(
            s.AI_PROMPT,
            s.AI_PROMPT_MESSAGES,
            s.AI_TEXT,
            s.AI_TOOL_CALLS,
            s.AI_OBJECT,
            s.AI_OLD_TEXT,
            s.AI_OLD_TOOL_CALLS,
            s.AI_OLD_OBJECT,
        ),
    ),
    outputs=_outputs,
    inputs=_inputs,
)
