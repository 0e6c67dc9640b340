"""OpenInference: `openinference.span.kind`, values in `input.value` and `output.value`, messages as flattened keys."""

from functools import lru_cache
from typing import NamedTuple

from tracegrade import semconv as s
from tracegrade.extract.flattened import is_number
from tracegrade.extract.messages import read_messages
from tracegrade.extract.reading import Dialect, Keys, Message, RequestedCall, ShownResult, SpanKind
from tracegrade.extract.values import call_id, decode
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span

_KINDS: dict[str, SpanKind] = {"TOOL": "tool", "LLM": "chat", "AGENT": "agent"}

_AGENT_SPAN_SUFFIX = ".run"
_LISTS = ("tool_calls", "contents")
# Keys repeat: what one says is worked out once, for as many and as long ones as senders that are not hostile use.
_MAX_LEARNT_KEYS = 1 << 14
_LONGEST_LEARNT_KEY = 200


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
    return node if isinstance(node, str) else span.name.removesuffix(_AGENT_SPAN_SUFFIX)


def _outputs(span: Span) -> list[Message]:
    messages = _messages(span, s.OI_OUTPUT_MESSAGES)
    if messages or span.attributes.get(s.OPENINFERENCE_KIND) != "LLM":
        return messages
    # Some streamed model calls show only what the provider's library returned.
    return [message for message in read_messages(span.attributes.get(s.OI_OUTPUT)) if message.text or message.calls]


def _inputs(span: Span) -> list[Message]:
    messages = _messages(span, s.OI_INPUT_MESSAGES)
    if messages or span.attributes.get(s.OPENINFERENCE_KIND) != "AGENT":
        return messages
    # CrewAI's agents take a task object; what the task was stands in its output.
    output = decode(span.attributes.get(s.OI_OUTPUT)).value
    if isinstance(output, dict) and "raw" in output and isinstance(task := output.get("description"), str):
        return [Message("user", task)]
    return []


class _Place(NamedTuple):
    """What a flattened key says: message number, list in the message ("" for none), number in the list, member."""

    message: int
    list: str
    item: int
    member: str


def _read_place(key: str, start: int) -> _Place | None:
    """The place named by ``{i}.message.{member}`` or ``{i}.message.{list}.{j}.{member}`` behind `start`."""
    message, _, rest = key[start:].partition(".message.")
    if not rest or not is_number(message):
        return None
    name, _, tail = rest.partition(".")
    if name in _LISTS:
        item, _, member = tail.partition(".")
        if is_number(item):
            return _Place(int(message), name, int(item), member)
    return _Place(int(message), "", 0, rest)


_place = lru_cache(_MAX_LEARNT_KEYS)(_read_place)


class _Fields:
    """The values of one message."""

    __slots__ = ("lists", "members")

    def __init__(self) -> None:
        self.members: dict[str, JsonValue] = {}
        self.lists: dict[str, dict[int, dict[str, JsonValue]]] = {}

    def items(self, name: str) -> list[dict[str, JsonValue]]:
        """The items of a list in order of their numbers; numbers may be missing."""
        found = self.lists.get(name)
        return [] if found is None else [found[number] for number in sorted(found)]


def _messages(span: Span, prefix: str) -> list[Message]:
    """The messages under ``{prefix}{i}.message.``, in order of i; numbers may be missing."""
    start = len(prefix)
    attributes = span.attributes
    by_number: dict[int, _Fields] = {}
    for key in [key for key in attributes if key.startswith(prefix)]:
        place = _place(key, start) if len(key) <= _LONGEST_LEARNT_KEY else _read_place(key, start)
        if place is None:
            continue
        number, name, item, member = place
        fields = by_number.get(number)
        if fields is None:
            fields = by_number[number] = _Fields()
        if name:
            fields.lists.setdefault(name, {}).setdefault(item, {})[member] = attributes[key]
        else:
            fields.members[member] = attributes[key]
    # Empty arguments are left out, but so are attributes beyond a limit.
    left_out: JsonValue = {} if not span.dropped_attributes_count else None
    return [_message(by_number[number], position, left_out) for position, number in enumerate(sorted(by_number))]


def _message(fields: _Fields, position: int, left_out: JsonValue) -> Message:
    members = fields.members
    role = members.get("role")
    content = members.get("content")
    texts = [content] if isinstance(content, str) else []
    calls: tuple[RequestedCall, ...] = ()
    if fields.lists:
        items = fields.items
        calls = _calls(items("tool_calls"), position, left_out) or _calls(items("contents"), position, left_out)
        if not texts:
            blocks = (block.get("message_content.text") for block in fields.items("contents"))
            texts = [text for text in blocks if isinstance(text, str)]
    if not calls and isinstance(name := members.get("function_call_name"), str) and name:
        calls = (RequestedCall(name, None, members.get("function_call_arguments_json"), f"{position}/0"),)
    results: tuple[ShownResult, ...] = ()
    if role == "tool" or "tool_call_id" in members:
        shown: JsonValue = "\n".join(texts) if texts else content
        results = (ShownResult(call_id(members.get("tool_call_id")), shown),)
        texts = []
    return Message(role if isinstance(role, str) else "", "\n".join(texts), calls, results)


def _calls(items: list[dict[str, JsonValue]], position: int, left_out: JsonValue) -> tuple[RequestedCall, ...]:
    calls = []
    for index, item in enumerate(items):
        name = item.get("tool_call.function.name")
        if isinstance(name, str) and name:
            identity = call_id(item.get("tool_call.id"))
            arguments = item.get("tool_call.function.arguments", left_out)
            calls.append(RequestedCall(name, identity, arguments, f"{position}/{index}"))
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
