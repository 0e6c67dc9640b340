"""LlamaIndex's own OpenTelemetry package: steps of a workflow, the event that each got as a `repr` of 200 characters.

The step that calls a tool is the call, its result in an event; the tool's own span below it says what was raised.
Model calls have their messages whole in an event, which is where what the steps cut is read. Older versions have only
these, and spans without attributes. Agents are in no attribute. Source: llama-index-observability-otel 0.7.0, base.py;
llama-index-workflows, _event_summary.py.
"""

import ast
import re

from tracegrade import semconv as s
from tracegrade.extract.decode.unwrap import Output, read_schemas, unwrap_output
from tracegrade.extract.decode.values import Decoded, decode, first_text
from tracegrade.extract.messages import read_message
from tracegrade.extract.reading import Dialect, Holds, Keys, Message, SpanKind
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import STATUS_ERROR, Span
from tracegrade.model.tool_call import ToolError

_SUMMARY = "llamaindex.step.input_summary"
_OUTPUT = "step.output"
_CHAT_START = "LLMChatStartEvent"
_CHAT_END = "LLMChatEndEvent"

_CALL = re.compile(r"ToolCall\(tool_name='([^']+)', tool_kwargs=")
_CALL_ID = re.compile(r", tool_id='([^']*)'\)$")
_RESULT = re.compile(r"tool_output=ToolOutput\(blocks=\[TextBlock\(block_type='text', text=")
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
_CUT = "..."
_CUT_RESULT = "cut_result"
_REPLY = "response.message."


def _classify(span: Span) -> SpanKind | None:
    if span.events and any(event.name == _CHAT_START for event in span.events):
        return "chat"
    if _SUMMARY not in span.attributes:
        return None
    if span.name.endswith(".call_tool") and _CALL.match(_summary(span)):
        return "tool"
    return "outcome" if span.name.endswith(("Tool.acall", "Tool.call")) else "other"


def _inputs(span: Span) -> list[Message]:
    messages = decode(_event(span, _CHAT_START).get("messages")).value
    found = [message for message in messages if isinstance(message, dict)] if isinstance(messages, list) else []
    return [_message(message, position) for position, message in enumerate(found)]


def _outputs(span: Span) -> list[Message]:
    fields = _event(span, _CHAT_END)
    kwargs: dict[str, JsonValue] = {"tool_calls": decode(fields.get(f"{_REPLY}additional_kwargs.tool_calls")).value}
    blocks = decode(fields.get(f"{_REPLY}blocks")).value
    reply: dict[str, JsonValue] = {"role": "assistant", "additional_kwargs": kwargs, "blocks": blocks}
    return [_message(reply, 0)] if blocks or kwargs["tool_calls"] else []


def _event(span: Span, name: str) -> dict[str, JsonValue]:
    return next((event.attributes for event in span.events if event.name == name), {})


def _message(message: dict[str, JsonValue], position: int) -> Message:
    """A message in blocks, the calls of which older versions have only in the provider's own words beside them."""
    kwargs, listed = message.get("additional_kwargs"), message.get("blocks")
    beside = kwargs if isinstance(kwargs, dict) else {}
    blocks = [block for block in listed if isinstance(block, dict)] if isinstance(listed, list) else []
    body: dict[str, JsonValue] = {
        "role": message.get("role"),
        "content": "\n".join(text for block in blocks if isinstance(text := block.get("text"), str)),
        "tool_call_id": beside.get("tool_call_id"),
    }
    calls: list[JsonValue] = [
        {"id": block.get("tool_call_id"), "name": block.get("tool_name"), "arguments": block.get("tool_kwargs")}
        for block in blocks
        if block.get("block_type") == "tool_call"
    ]
    if calls or beside.get("tool_calls"):
        body["tool_calls"] = calls or beside["tool_calls"]
    return read_message(body, position)


def _schemas(span: Span) -> dict[str, JsonValue]:
    return read_schemas(_event(span, _CHAT_START).get("additional_kwargs.tools"))


def _summary(span: Span) -> str:
    return first_text(span, (_SUMMARY,))


def _tool_name(span: Span) -> str:
    found = _CALL.match(_summary(span))
    return found[1] if found else ""


def _arguments(span: Span) -> JsonValue:
    summary = _summary(span)
    found = _CALL.match(summary)
    return _CALL_ID.sub("", summary[found.end() :]).removesuffix(_CUT) if found else None


def _output(span: Span) -> JsonValue:
    """The result with the call's id, as in a message about it; the beginning of one that was cut."""
    event = _event(span, _OUTPUT).get("output")
    found = _RESULT.search(event) if isinstance(event, str) else None
    if found is None:
        return None
    shown = found.string[found.end() :]
    call_id = _CALL_ID.search(_summary(span))
    quoted = _QUOTED.match(shown)
    try:
        content = ast.literal_eval(quoted[0]) if quoted is not None else None
    except (ValueError, SyntaxError):
        content = None
    if content is None:
        return {_CUT_RESULT: shown[1:].removesuffix(_CUT)}
    return {"content": content, "tool_call_id": call_id[1] if call_id else None}


def _read_output(span: Span, raw: JsonValue) -> Output:
    if isinstance(raw, dict) and raw.keys() == {_CUT_RESULT}:
        return Output(Decoded(raw[_CUT_RESULT], "truncated"))
    return unwrap_output(decode(raw))


def _failure(span: Span) -> ToolError | None:
    if span.status_code != STATUS_ERROR:
        return None
    raised = next((event.attributes for event in span.events if event.name == s.EXCEPTION_EVENT), {})
    return ToolError(str(raised.get(s.EXCEPTION_TYPE, "")), span.status_message)


DIALECT: Dialect = Dialect(
    name="llama_index",
    marks=frozenset({_SUMMARY}),
    classify=_classify,
    keys=Keys(),
    holds=Holds(messages=(_SUMMARY,)),
    reads_names=True,
    events=frozenset({_OUTPUT, _CHAT_START, _CHAT_END}),
    outputs=_outputs,
    inputs=_inputs,
    read_output=_read_output,
    schemas=_schemas,
    schemas_in=(_CHAT_START,),
    failure=_failure,
    tool_name=_tool_name,
    arguments=_arguments,
    output=_output,
)
