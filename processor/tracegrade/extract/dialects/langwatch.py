"""LangWatch: `langwatch.span.type`, values as `{"type", "value"}` in `langwatch.input` and `langwatch.output`.

Source: langwatch (Python), attributes.py.
"""

from typing import TypeGuard

from tracegrade.extract.decode.unwrap import Output, read_schemas, unwrap_output
from tracegrade.extract.decode.values import decode
from tracegrade.extract.messages import read_message, read_messages
from tracegrade.extract.reading import Dialect, Holds, Keys, Message, SpanKind, Words, span_name
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span

_TYPE = "langwatch.span.type"
_INPUT = "langwatch.input"
_OUTPUT = "langwatch.output"
_PARAMS = "langwatch.params"
_METADATA = "metadata"

_TYPES = frozenset({"text", "json", "raw", "list", "chat_messages"})
_KINDS = Words({"tool": "tool", "llm": "chat", "agent": "agent"})


def _classify(span: Span) -> SpanKind | None:
    """Its other types say nothing about what a span is; the outermost span, with metadata, is a turn of some agent."""
    kind = span.attributes.get(_TYPE)
    found = _KINDS[kind] if isinstance(kind, str) else "unknown"
    if found != "unknown":
        return found
    return "agent" if _METADATA in span.attributes and span.is_local_root else None


def _value(raw: JsonValue) -> JsonValue:
    recorded = decode(raw).value
    return _opened(recorded) if isinstance(recorded, dict) and "type" in recorded else recorded


def _opened(recorded: dict[str, JsonValue]) -> JsonValue:
    """The value in a record of its type; in a list, each item is one."""
    value = recorded.get("value")
    if recorded["type"] == "list" and isinstance(value, list):
        return [item["value"] if _is_typed(item) and item["type"] in _TYPES else item for item in value]
    return value


def _arguments(span: Span) -> JsonValue:
    return _value(span.attributes.get(_INPUT))


def _output(span: Span) -> JsonValue:
    return span.attributes.get(_OUTPUT)


def _is_typed(value: JsonValue) -> TypeGuard[dict[str, JsonValue]]:
    return isinstance(value, dict) and value.keys() == {"type", "value"} and isinstance(value["type"], str)


def _read_output(span: Span, raw: JsonValue) -> Output:
    """The result, of a tool's message too: a callback of LangChain writes a list of one, in a role that it lost."""
    recorded = decode(raw).value
    if not _is_typed(recorded):
        return unwrap_output(decode(raw))
    value = _opened(recorded)
    if recorded["type"] == "json" and _is_typed(value) and value["type"] in _TYPES:  # of LangChain
        recorded, value = value, _opened(value)
    if recorded["type"] == "chat_messages" and isinstance(value, list) and len(value) == 1:
        only = value[0]
        if isinstance(only, dict) and "content" in only:
            value = only["content"]
    return unwrap_output(decode(value))


def _messages(raw: JsonValue) -> list[Message]:
    value = _value(raw)
    if isinstance(value, str):
        return []
    return read_messages(value)


def _inputs(span: Span) -> list[Message]:
    return _messages(span.attributes.get(_INPUT))


def _outputs(span: Span) -> list[Message]:
    raw = span.attributes.get(_OUTPUT)
    value = _value(raw)
    return [read_message({"content": value}, 0, "assistant")] if isinstance(value, str) else _messages(raw)


def _schemas(span: Span) -> dict[str, JsonValue]:
    params = decode(span.attributes.get(_PARAMS)).value
    return read_schemas(params.get("tools")) if isinstance(params, dict) else {}


def _agent_name(span: Span) -> str:
    return span.name if span.attributes.get(_TYPE) == "agent" else ""


DIALECT: Dialect = Dialect(
    name="langwatch",
    marks=frozenset({_TYPE}),
    classify=_classify,
    keys=Keys(
        agent=("langwatch.langgraph.lc_agent_name",),
        session=("langwatch.thread.id", "langwatch.langgraph.thread_id"),
        user=("langwatch.user.id",),
    ),
    holds=Holds(structure=(_TYPE,), arguments=(_PARAMS,), messages=(_INPUT, _OUTPUT)),
    outputs=_outputs,
    inputs=_inputs,
    read_output=_read_output,
    schemas=_schemas,
    schemas_in=(_PARAMS,),
    tool_name=span_name,
    arguments=_arguments,
    output=_output,
    agent_name=_agent_name,
    metadata=(_METADATA,),
)
