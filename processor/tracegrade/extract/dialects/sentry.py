"""Sentry's SDKs: the GenAI conventions with what was asked and answered under keys of their own.

Calls are in the shape of whichever provider, or framework, answered. Source: sentry-javascript 10,
packages/core/src/tracing/ai/gen-ai-attributes.ts.
"""

from tracegrade.extract.decode.values import first_text, parse_plain
from tracegrade.extract.dialects import gen_ai
from tracegrade.extract.messages import read_message, read_messages
from tracegrade.extract.reading import Dialect, Holds, Message
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span

_RESPONSE_TOOL_CALLS = "gen_ai.response.tool_calls"
_RESPONSE_TEXT = "gen_ai.response.text"
_REQUEST_MESSAGES = "gen_ai.request.messages"


def _outputs(span: Span) -> list[Message]:
    messages = gen_ai.DIALECT.outputs(span)
    if any(message.calls for message in messages):
        return messages
    text = next((message.text for message in messages if message.text), "") or first_text(span, (_RESPONSE_TEXT,))
    calls = parse_plain(span.attributes.get(_RESPONSE_TOOL_CALLS))
    parts: list[JsonValue] = [
        part for item in (calls if isinstance(calls, list) else []) if (part := _part(parse_plain(item)))
    ]
    return [read_message({"content": text, "parts": parts}, 0, "assistant")] if text or parts else messages


def _part(call: JsonValue) -> JsonValue:
    if not isinstance(call, dict):
        return None
    return call if "type" in call or "function" in call else {**call, "type": "tool_call"}


def _inputs(span: Span) -> list[Message]:
    return gen_ai.DIALECT.inputs(span) or read_messages(span.attributes.get(_REQUEST_MESSAGES))


DIALECT: Dialect = gen_ai.VARIANT._replace(
    name="sentry",
    marks=frozenset({_RESPONSE_TOOL_CALLS, _RESPONSE_TEXT, _REQUEST_MESSAGES}),
    holds=Holds(messages=(_RESPONSE_TOOL_CALLS, _RESPONSE_TEXT, _REQUEST_MESSAGES)),
    classify=gen_ai.DIALECT.classify,
    outputs=_outputs,
    inputs=_inputs,
)
