"""OpenInference: `openinference.span.kind`, values in `input.value` and `output.value`, messages as flattened keys."""

from tracegrade import semconv as s
from tracegrade.extract.reading import Dialect, Keys, Message, RequestedCall, ShownResult, SpanKind
from tracegrade.extract.values import call_id, decode
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span

_KINDS: dict[str, SpanKind] = {"TOOL": "tool", "LLM": "chat", "AGENT": "agent"}

_CALL_KEYS = {
    "tool_call.id": "id",
    "tool_call.function.name": "name",
    "tool_call.function.arguments": "arguments",
}


def _classify(span: Span) -> SpanKind | None:
    attributes = span.attributes
    kind = attributes.get(s.OPENINFERENCE_KIND)
    if type(kind) is not str:
        return None
    found = _KINDS.get(kind, "other")
    if found == "tool":
        if attributes.get(s.OI_TOOL_SYNTHESIZED) in (True, "true"):
            return "other"
        # A handoff is a TOOL span that names no tool and has agent names as its input and output.
        if not attributes.get(s.OI_TOOL_NAME) and span.name.lower().startswith("handoff"):
            return "handoff"
    return found


def _tool_name(span: Span) -> str:
    return span.name


def _agent_name(span: Span) -> str:
    node = span.attributes.get(s.OI_GRAPH_NODE)
    return node if isinstance(node, str) else span.name


def _outputs(span: Span) -> list[Message]:
    return _messages(span, s.OI_OUTPUT_MESSAGES)


def _inputs(span: Span) -> list[Message]:
    return _messages(span, s.OI_INPUT_MESSAGES)


def _messages(span: Span, prefix: str) -> list[Message]:
    """The messages under ``{prefix}{i}.message.``, in order of i; numbers may be missing."""
    start = len(prefix)
    by_number: dict[int, dict[str, JsonValue]] = {}
    for key, value in span.attributes.items():
        if key.startswith(prefix):
            number, _, rest = key[start:].partition(".message.")
            if rest and number.isdecimal():
                by_number.setdefault(int(number), {})[rest] = value
    return [_message(by_number[number], position) for position, number in enumerate(sorted(by_number))]


def _message(fields: dict[str, JsonValue], position: int) -> Message:
    role = fields.get("role")
    content = fields.get("content")
    texts = [content] if isinstance(content, str) else []
    numbered = _numbered(fields)
    calls = _calls(numbered["tool_calls"], position) or _calls(numbered["contents"], position)
    if not calls and isinstance(name := fields.get("function_call_name"), str) and name:
        calls = (RequestedCall(name, None, fields.get("function_call_arguments_json"), f"{position}/0"),)
    if not texts:
        blocks = (block.get("message_content.text") for _, block in sorted(numbered["contents"].items()))
        texts = [text for text in blocks if isinstance(text, str)]
    results: tuple[ShownResult, ...] = ()
    if role == "tool" or "tool_call_id" in fields:
        shown: JsonValue = "\n".join(texts) if texts else content
        results = (ShownResult(call_id(fields.get("tool_call_id")), shown),)
        texts = []
    return Message(role if isinstance(role, str) else "", "\n".join(texts), calls, results)


def _numbered(fields: dict[str, JsonValue]) -> dict[str, dict[int, dict[str, JsonValue]]]:
    """Members of the lists of a message: list name -> number -> rest of the key -> value."""
    found: dict[str, dict[int, dict[str, JsonValue]]] = {"tool_calls": {}, "contents": {}}
    for key, value in fields.items():
        name, _, tail = key.partition(".")
        if name in found:
            number, _, rest = tail.partition(".")
            if number.isdecimal():
                found[name].setdefault(int(number), {})[rest] = value
    return found


def _calls(items: dict[int, dict[str, JsonValue]], position: int) -> tuple[RequestedCall, ...]:
    calls = []
    for index, number in enumerate(sorted(items)):
        item = {_CALL_KEYS[key]: value for key, value in items[number].items() if key in _CALL_KEYS}
        if isinstance(name := item.get("name"), str) and name:
            calls.append(RequestedCall(name, call_id(item.get("id")), item.get("arguments"), f"{position}/{index}"))
    return tuple(calls)


def _schemas(span: Span) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {}
    for key, raw in span.attributes.items():
        if key.startswith(s.OI_TOOLS) and key.endswith("json_schema"):
            value = decode(raw).value
            function = value.get("function", value) if isinstance(value, dict) else None
            if isinstance(function, dict) and isinstance(name := function.get("name"), str):
                found[name] = function.get("parameters", function.get("input_schema"))
    return found


DIALECT = Dialect(
    name="openinference",
    marks=frozenset({s.OPENINFERENCE_KIND}),
    classify=_classify,
    keys=Keys(
        tool_name=(s.OI_TOOL_NAME,),
        call_id=(s.OI_TOOL_ID, s.OI_TOOL_CALL_ID),
        arguments=(s.OI_INPUT, s.OI_TOOL_PARAMETERS),
        output=(s.OI_OUTPUT,),
        schema=(s.OI_TOOL_PARAMETERS,),
        agent=(s.OI_AGENT_NAME,),
        session=(s.SESSION_ID,),
        user=(s.USER_ID,),
        model=(s.OI_MODEL,),
        prompt=(s.OI_INPUT,),
        answer=(s.OI_OUTPUT,),
    ),
    attributes=frozenset({s.OI_TOOL_SYNTHESIZED, s.OI_GRAPH_NODE}),
    prefixes=(s.OI_INPUT_MESSAGES, s.OI_OUTPUT_MESSAGES, s.OI_TOOLS),
    outputs=_outputs,
    inputs=_inputs,
    schemas=_schemas,
    tool_name=_tool_name,
    agent_name=_agent_name,
)
