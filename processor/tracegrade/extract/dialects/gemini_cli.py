"""Gemini CLI: GenAI keys with operations, message shapes and a call id key of its own.

A tool span's messages are the request ``{callId, name, args}`` and the completed call ``{status, response}``. Source:
google-gemini/gemini-cli, packages/core/src/telemetry and src/scheduler/tool-executor.ts.
"""

from tracegrade import semconv as s
from tracegrade.extract.decode.unwrap import Output, unwrap_output
from tracegrade.extract.decode.values import decode
from tracegrade.extract.messages import read_messages
from tracegrade.extract.reading import Dialect, Holds, Keys, Message, SpanKind
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span

_OLD_INPUT = "input-json"
_OLD_OUTPUT = "output-json"

_SCOPE = "gemini-cli"
_KINDS: dict[str, SpanKind] = {
    "tool_call": "tool",
    "llm_call": "chat",
    "agent_call": "agent",
    "schedule_tool_calls": "other",
    "user_prompt": "other",
    "system_prompt": "other",
}


def _classify(span: Span) -> SpanKind | None:
    operation = span.attributes.get(s.OPERATION_NAME)
    kind = _KINDS.get(operation) if type(operation) is str else None
    if kind is None or _SCOPE in (span.scope, span.attributes.get(s.AGENT_NAME)):
        return kind
    return None


def _outputs(span: Span) -> list[Message]:
    """Streamed pieces of one answer, as one message."""
    messages = read_messages(span.attributes.get(s.OUTPUT_MESSAGES))
    if len(messages) < 2 or any(message.role not in ("model", "assistant", "") for message in messages):
        return messages
    calls = [call for message in messages for call in message.calls]
    text = "".join(message.text for message in messages)
    placed = tuple(call._replace(path=f"0/{place}") for place, call in enumerate(calls))
    return [Message(messages[0].role, text, placed)]


def _inputs(span: Span) -> list[Message]:
    messages = read_messages(span.attributes.get(s.INPUT_MESSAGES))
    text = decode(span.attributes.get(s.INPUT_MESSAGES)).value
    return messages or ([Message("user", text)] if isinstance(text, str) else [])


def _arguments(span: Span) -> JsonValue:
    request = decode(span.attributes.get(s.INPUT_MESSAGES, span.attributes.get(_OLD_INPUT))).value
    return request.get("args") if isinstance(request, dict) else None


def _output(span: Span) -> JsonValue:
    return span.attributes.get(s.OUTPUT_MESSAGES, span.attributes.get(_OLD_OUTPUT))


def _read_output(span: Span, raw: JsonValue) -> Output:
    """What the function responded: ``{"output": result}``, or ``{"error": message}`` where it failed."""
    decoded = decode(raw)
    completed = decoded.value
    response = completed.get("response") if isinstance(completed, dict) else None
    parts = response.get("responseParts") if isinstance(response, dict) else None
    for part in parts if isinstance(parts, list) else []:
        function = part.get("functionResponse") if isinstance(part, dict) else None
        shown = function.get("response") if isinstance(function, dict) else None
        if isinstance(shown, dict):
            failed = shown.keys() == {"error"}
            envelope = next(iter(shown)) if failed or shown.keys() == {"output"} else None
            return Output(decode(shown if envelope is None else shown[envelope]), None, failed)
    return unwrap_output(decoded)


DIALECT: Dialect = Dialect(
    name="gemini_cli",
    marks=frozenset({s.OPERATION_NAME}),
    classify=_classify,
    keys=Keys(call_id=("gen_ai.tool.call_id",)),
    holds=Holds(arguments=(_OLD_INPUT,), output=(_OLD_OUTPUT,), messages=(s.INPUT_MESSAGES, s.OUTPUT_MESSAGES)),
    outputs=_outputs,
    inputs=_inputs,
    read_output=_read_output,
    arguments=_arguments,
    output=_output,
)
