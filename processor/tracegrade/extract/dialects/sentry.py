"""Sentry's SDKs: the GenAI conventions with what was asked and answered under keys of their own.

Calls are in the shape of whichever provider, or framework, answered.
"""

from tracegrade import semconv as s
from tracegrade.extract.decode.values import first_text, parse_plain
from tracegrade.extract.dialects import gen_ai
from tracegrade.extract.messages import read_message, read_messages
from tracegrade.extract.reading import Dialect, Holds, Message
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span


def _outputs(span: Span) -> list[Message]:
    messages = gen_ai.DIALECT.outputs(span)
    if any(message.calls for message in messages):
        return messages
    text = next((message.text for message in messages if message.text), "") or first_text(span, (s.RESPONSE_TEXT,))
    calls = parse_plain(span.attributes.get(s.RESPONSE_TOOL_CALLS))
    parts: list[JsonValue] = [
        part for item in (calls if isinstance(calls, list) else []) if (part := _part(parse_plain(item)))
    ]
    return [read_message({"content": text, "parts": parts}, 0, "assistant")] if text or parts else messages


def _part(call: JsonValue) -> JsonValue:
    if not isinstance(call, dict):
        return None
    return call if "type" in call or "function" in call else {**call, "type": "tool_call"}


def _inputs(span: Span) -> list[Message]:
    return gen_ai.DIALECT.inputs(span) or read_messages(span.attributes.get(s.REQUEST_MESSAGES))


DIALECT: Dialect = gen_ai.VARIANT._replace(
    name="sentry",
    marks=frozenset({s.RESPONSE_TOOL_CALLS, s.RESPONSE_TEXT, s.REQUEST_MESSAGES}),
    holds=Holds(messages=(s.RESPONSE_TOOL_CALLS, s.RESPONSE_TEXT, s.REQUEST_MESSAGES)),
    classify=gen_ai.DIALECT.classify,
    outputs=_outputs,
    inputs=_inputs,
)
