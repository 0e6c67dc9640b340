"""The messages that a model's span took in and put out, recognised by their structure wherever they stand."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from tracegrade.extract.decode.values import call_id, is_masked
from tracegrade.extract.document import OWN, nested, parsed
from tracegrade.extract.messages import ASSISTANT_ROLES, CALL_TYPES, RESULT_TYPES, read_messages, unwrapped
from tracegrade.extract.nodes import Node
from tracegrade.extract.reading import Dialect, Keys, Message, SpanKind
from tracegrade.extract.shape.dialect import SHAPE
from tracegrade.extract.shape.keys import is_key_of, may_hold_message
from tracegrade.extract.shape.words import Slot, words_of
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span

Side: TypeAlias = Literal["input", "output"]

_MAX_LEVELS = 8
_MAX_VALUES = 4000
_OUTPUT = frozenset(
    {"output", "outputs", "completion", "completions", "response", "responses", "choice", "choices"}
    | {"generations", "generated", "result", "results", "answer", "reply", "replies", "candidate", "candidates"}
    | {"returned", "return"}
)
_INPUT = frozenset({"input", "inputs", "prompt", "prompts", "request", "requests", "query", "context", "payload"})
# Below keys that end like this no messages are looked for: they are not those of the model call, or no messages.
_CLOSED = frozenset(
    {"expected", "reference", "example", "examples", "target", "metadata", "state", "history", "instructions", "usage"}
    | {"definitions", "definition", "schema", "tools", "functions", "declarations", "headers"}
)
_ROLES = {"user": "user", "human": "user", "assistant": "assistant", "system": "system", "tool": "tool"}
_ITEM_TYPES = CALL_TYPES | RESULT_TYPES
_OF_ITEMS = frozenset(
    {"name", "id", "call_id", "tool_call_id", "tool_use_id", "toolCallId", "toolName", "arguments", "input", "output"}
    | {"content", "result", "response"}
)
_LANGCHAIN_TYPES = frozenset({"human", "ai", "tool", "system"})
_PART_MEMBERS = frozenset(
    {"functionCall", "function_call", "functionResponse", "function_response", "toolUse", "toolResult", "toolRequest"}
    | {"toolResponse"}
)
# The members by which objects are known as messages, and the values of ``type`` that do so.
_MEMBERS = _PART_MEMBERS | {"role", "type", "parts", "tool_calls"}
_TYPES = _ITEM_TYPES | _LANGCHAIN_TYPES | {"constructor"}
_CALLS = frozenset({("tool", "calls"), ("tool", "call"), ("function", "calls"), ("function", "call"), ("tool", "uses")})
_ID_WORDS = frozenset(
    {("id",), ("call", "id"), ("tool", "call", "id"), ("tool", "use", "id"), ("tool", "id"), ("function", "call", "id")}
)
_NAME_WORDS = frozenset({("name",), ("tool", "name"), ("function", "name"), ("tool", "function")})
_ARGUMENT_WORDS = frozenset({"arguments", "args", "input", "parameters", "params", "kwargs"})
_ANSWERS = ("output", "content", "result", "response")
_ANSWERED_BY = ("tool_call_id", "toolCallId", "tool_use_id", "toolUseId", "call_id")


# Messages that are objects of one member: the role and what it said.
_SPEAKERS = {
    **{"system": "system", "developer": "system", "user": "user", "human": "user"},
    **{"assistant": "assistant", "ai": "assistant", "tool": "tool"},
}
_SPOKEN = re.compile(rf'\s*\{{\s*"(?:{"|".join(_SPEAKERS)})"\s*:')


class SpanMessages(NamedTuple):
    """Messages as JSON, as `read_messages` reads them."""

    inputs: list[JsonValue]
    outputs: list[JsonValue]


NOTHING = SpanMessages([], [])


class _Source(NamedTuple):
    """Messages that stand in one place; None: their key says no side."""

    side: Side | None
    messages: list[JsonValue]


def messages_of(span: Span, document: dict[str, JsonValue] | None = None) -> SpanMessages:
    """The messages of a model's span: of several places on one side the one that holds most calls and results.

    Args:
        span: the span.
        document: its attributes, nested, where that is known.
    """
    left = [_MAX_VALUES]
    sources: list[_Source] = []
    if _may_show(span.attributes):
        sources += [
            source
            for key, value in (nested(span.attributes) if document is None else document).items()
            for source in _sources(value, (key,), left)
        ]
    of_events = [source for event in span.events for source in _sources_of_event(event.name, event.attributes, left)]
    if of_events:
        sides: dict[Side | None, list[JsonValue]] = {}
        asked: dict[Side | None, set[str]] = {}
        for side, messages in of_events:
            place = side if side is not None or "output" not in sides else "input"
            known = asked.setdefault(place, set())
            sides.setdefault(place, []).extend(message for message in messages if not _is_repeated(message, known))
        sources += [_Source(side, messages) for side, messages in sides.items()]
    if not sources:
        return NOTHING
    inputs: list[list[JsonValue]] = []
    outputs: list[list[JsonValue]] = []
    for side, messages in sources:
        taken, put = (messages, []) if side == "input" else ([], messages) if side else _divided(messages)
        inputs += [taken] if taken else []
        outputs += [put] if put else []
    return SpanMessages(_best(inputs), _best(outputs))


def _is_repeated(message: JsonValue, known: set[str]) -> bool:
    """Whether all calls of a message are among those known by their ids, to which they are added.

    Some senders write an answer in several events.
    """
    ids = [call.call_id for read in read_messages([message]) for call in read.calls]
    found = {call_id for call_id in ids if call_id is not None}
    is_repeated = bool(ids) and len(found) == len(ids) and found <= known
    known |= found
    return is_repeated


def _may_show(attributes: Mapping[str, JsonValue]) -> bool:
    """Whether messages or calls may stand in attributes: in a text or an object, or flattened into their keys.

    It costs a tenth of a search, and models' spans of which no content was recorded have none.
    """
    for key, value in attributes.items():
        if _is_of_messages(key) and (key[-4:] != "type" or not isinstance(value, str) or value in _TYPES):
            return True
        if _may_be_message(value) if type(value) is str else _holds_container(value):
            return True
    return False


def _may_be_message(text: str) -> bool:
    return may_hold_message(text) or _SPOKEN.match(text) is not None


def _holds_container(value: JsonValue) -> bool:
    if isinstance(value, list):
        return any(isinstance(item, dict | list) or (type(item) is str and _SPOKEN.match(item)) for item in value)
    return isinstance(value, dict)


@lru_cache(maxsize=10_000)
def _is_of_messages(key: str) -> bool:
    """Whether a part of a key is a member by which a message or a call is known."""
    return any(part in _MEMBERS or _names_calls((part,)) for part in key.split("."))


def _best(sources: list[list[JsonValue]]) -> list[JsonValue]:
    if len(sources) < 2:
        return sources[0] if sources else []
    return max(sources, key=_weight)


def _weight(messages: list[JsonValue]) -> tuple[int, int, int]:
    read = read_messages(messages)
    calls = [call for message in read for call in message.calls]
    with_id = sum(call.call_id is not None for call in calls)
    results = sum(len(message.results) for message in read)
    return len(calls) + results, with_id, sum(bool(message.text) for message in read)


def _sources_of_event(name: str, attributes: dict[str, JsonValue], left: list[int]) -> Iterator[_Source]:
    path = tuple(name.split("."))
    role = _role_of(path)
    if role is None and not _names_calls(path) and not _may_show(attributes):
        return
    body: JsonValue = nested(attributes)
    if role is not None:
        message = _event_message(body, role)
        if message is not None:
            yield _Source("output" if _side(path) == "output" else "input", [message])
            return
    yield from _sources(body, path, left)


def _role_of(path: tuple[str, ...]) -> str | None:
    """The role of the message that an event is named after."""
    words = words_of(path[-1])
    if words[-1:] == ("message",):
        before = words[-2] if len(words) > 1 else (words_of(path[-2])[-1:] or ("",))[0] if len(path) > 1 else ""
        return _ROLES.get(before)
    return "assistant" if words[-1:] in (("choice",), ("completion",)) else None


def _event_message(body: JsonValue, role: str) -> JsonValue:
    """The one message of an event: its members flat, or as JSON in the only one that is an object."""
    for _ in range(3):
        if not isinstance(body, dict):
            return None
        if "role" in body or "content" in body or "tool_calls" in body or "parts" in body:
            inner = parsed(body.get("content"))
            if isinstance(inner, dict) and ("role" in inner or "content" in inner or "message" in inner):
                body = inner
                continue
            return message_of({"role": role, **body}) if not isinstance(body.get("message"), dict) else None
        inner = next((found for value in body.values() if isinstance(found := parsed(value), dict)), None)
        if inner is None:
            text = body.get("message")
            return {"role": role, "content": text} if isinstance(text, str) else None
        body = inner
    return None


def _sources(value: JsonValue, path: tuple[str, ...], left: list[int], level: int = 0) -> Iterator[_Source]:
    left[0] -= 1
    if left[0] < 0 or level > _MAX_LEVELS:
        return
    if _is_closed(path[-1]):
        if _names_tools(path[-1]) and (calls := _calls_among(value)):
            yield _Source(_side(path), [_asking(calls)])
        return
    if type(value) is str:
        if not _may_be_message(value):
            return
        value = parsed(value)
    if isinstance(value, list):
        if messages := _messages_in(value, path):
            yield _Source(_side(path), messages)
        else:
            for item in value:
                if isinstance(item, dict | list):
                    yield from _sources(item, path, left, level + 1)
    elif isinstance(value, dict):
        if is_message(value):
            yield _Source(_side(path), [message_of(value)])
            return
        if _names_calls(path) and (call := call_of(value, is_certain=True)) is not None:
            yield _Source(_side(path), [_asking([call])])
            return
        if _side(path) == "output" and (spoken := _spoken(value)) is not None and spoken["role"] == "assistant":
            yield _Source("output", [spoken])
            return
        for key, item in value.items():
            yield from _sources(item, (*path, key) if key != OWN else path, left, level + 1)


def _messages_in(items: list[JsonValue], path: tuple[str, ...]) -> list[JsonValue]:
    """The messages of a list: those of its items that are any, or one that asks for all calls in it."""
    shown = [parsed(item) for item in items]
    if (len(items) > 1 or _side(path) == "input") and any(_spoken(item) is not None for item in shown):
        spoken: list[JsonValue] = [said for item in shown if (said := _spoken(item) or _said_beside(item)) is not None]
        if len(spoken) == len(items):
            return _merged(spoken)
    if _names_calls(path) or not any(isinstance(item, dict) and is_message(item) for item in items):
        calls = [
            call
            for item in items
            if isinstance(item, dict) and (call := call_of(item, is_certain=_names_calls(path))) is not None
        ]
        return [_asking(calls)] if calls and len(calls) == len(items) else []
    return _merged([message_of(item) for item in items if isinstance(item, dict)])


def _spoken(value: JsonValue) -> dict[str, JsonValue] | None:
    """The message in an object whose only member is named after a role; None for any other value."""
    if not isinstance(value, dict) or len(value) != 1:
        return None
    speaker, said = next(iter(value.items()))
    role = _SPEAKERS.get(speaker.lower())
    if role is None:
        return None
    if role == "assistant":
        inner = parsed(said)
        asked = [*map(parsed, inner)] if isinstance(inner, list) else [inner]
        calls = [call for item in asked if isinstance(item, dict) and (call := call_of(item, is_certain=False))]
        if calls and len(calls) == len(asked) and all(call["arguments"] is not None for call in calls):
            return {"role": role, "parts": [*calls]}
    return {"role": role, "content": said}


def _said_beside(value: JsonValue) -> JsonValue:
    """The message of a call, or of an answer to one, that stands beside objects named after roles; None for others."""
    if not isinstance(value, dict):
        return None
    if (call := call_of(value, is_certain=False)) is not None:
        return _asking([call])
    answered = next((found for key in _ANSWERED_BY if (found := call_id(value.get(key))) is not None), None)
    given = next((key for key in value if key in _ANSWERS), None)
    if answered is None or given is None:
        return None
    return {"role": "tool", "tool_call_id": answered, "content": value[given]}


def _merged(messages: list[JsonValue]) -> list[JsonValue]:
    """Calls that stand in a list one after another, without a message around them, as those of one message."""
    merged: list[JsonValue] = []
    for message in messages:
        before, parts = _parts_alone(merged[-1] if merged else None), _parts_alone(message)
        if before is not None and parts is not None and before[0] == parts[0]:
            merged[-1] = {"role": parts[0], "parts": [*before[1], *parts[1]]}
        else:
            merged.append(message)
    return merged


def _parts_alone(message: JsonValue) -> tuple[JsonValue, list[JsonValue]] | None:
    """The role and parts of a message that has nothing else."""
    if not isinstance(message, dict) or message.keys() != {"role", "parts"}:
        return None
    parts = message["parts"]
    return (message["role"], parts) if isinstance(parts, list) else None


def _asking(calls: list[dict[str, JsonValue]]) -> JsonValue:
    return {"role": "assistant", "parts": [*calls]}


def _divided(messages: list[JsonValue]) -> tuple[list[JsonValue], list[JsonValue]]:
    """Messages of no known side: what follows the last that is not the model's was put out."""
    place = len(messages)
    while place and _role(messages[place - 1]) in ASSISTANT_ROLES:
        place -= 1
    return messages[:place], messages[place:]


def _role(message: JsonValue) -> str | None:
    read = read_messages([message])
    return read[0].role if read else None


def _side(path: tuple[str, ...]) -> Side | None:
    is_generated = False
    for part in path:
        for word in words_of(part):
            if word in _OUTPUT:
                return "output"
            if word in _INPUT:
                return "input"
            is_generated = is_generated or word == "generation"
    return "output" if is_generated else None


def _is_closed(part: str) -> bool:
    words = words_of(part)
    return bool(words) and words[-1] in _CLOSED


def _names_tools(part: str) -> bool:
    return words_of(part)[-1] in ("tools", "functions")


def _calls_among(tools: JsonValue) -> list[dict[str, JsonValue]]:
    """The calls that are all that a list of tools has: a definition has no call's id."""
    items = tools if isinstance(tools, list) else []
    calls = [call for item in items if isinstance(item, dict) and (call := call_of(item, is_certain=False)) is not None]
    is_asked = len(calls) == len(items) and all(call["id"] and call["arguments"] is not None for call in calls)
    return calls if is_asked else []


def _names_calls(path: tuple[str, ...]) -> bool:
    """Whether a key says that calls stand below it."""
    words = words_of(path[-1])
    return words[-2:] in _CALLS


def is_message(value: dict[str, JsonValue]) -> bool:
    """Whether an object is a message, or an item beside messages that is a call or a result."""
    inner = value.get("message")
    if isinstance(inner, dict) and "role" in inner:
        return True
    if isinstance(value.get("role"), str):
        return len(value) > 1 or value["role"] == "tool"
    kind = value.get("type")
    if isinstance(kind, str):
        if kind in _ITEM_TYPES and not _OF_ITEMS.isdisjoint(value):
            return True
        if kind in _LANGCHAIN_TYPES and ("content" in value or "data" in value):
            return True
        if kind == "constructor" and isinstance(value.get("kwargs"), dict):
            return "content" in value["kwargs"]  # type: ignore[operator]
    if isinstance(value.get("parts"), list) or isinstance(value.get("tool_calls"), list):
        return True
    return not _PART_MEMBERS.isdisjoint(value) and any(isinstance(value.get(key), dict) for key in _PART_MEMBERS)


def message_of(value: dict[str, JsonValue]) -> JsonValue:
    """A message in a shape that `read_messages` reads."""
    value = unwrapped(value)
    kind = value.get("type")
    if "role" not in value and isinstance(kind, str) and kind in _ITEM_TYPES:
        is_call = kind in CALL_TYPES
        return {"role": "assistant" if is_call else "tool", "parts": [value]}
    if "role" not in value and any(isinstance(value.get(key), dict) for key in _PART_MEMBERS):
        is_call = any(key in value for key in ("functionCall", "function_call", "toolUse", "toolRequest"))
        return {"role": "assistant" if is_call else "tool", "parts": [value]}
    changed = dict(value)
    changed.pop(OWN, None)
    if isinstance(blocks := value.get("blocks"), list) and "content" not in value:
        changed["content"] = [_part_of(part) for part in blocks]
    content = parsed(value.get("content"))
    if isinstance(content, list) and content and all(isinstance(part, dict) and "type" in part for part in content):
        changed["content"] = content
    further = value.get("additional_kwargs")
    if isinstance(further, dict) and "tool_calls" not in value and "tool_calls" in further:
        value = {**value, "tool_calls": further["tool_calls"]}
    for key in ("tool_calls", "toolCalls", "function_call"):
        if key in value and (calls := calls_in(value[key])):
            changed.pop(key, None)
            changed["tool_calls"] = [*calls]
            if not isinstance(changed.get("content"), str):
                changed.pop("content", None)
            break
    answered = next((found for key in _ANSWERED_BY if (found := call_id(value.get(key))) is not None), None)
    if answered is not None and "tool_calls" not in changed:
        changed.setdefault("role", "tool")
        changed["tool_call_id"] = answered
    if changed.get("role") == "tool" and not {"content", "parts", "tool_calls"} & changed.keys():
        changed["content"] = ""
    return changed


def _part_of(part: JsonValue) -> JsonValue:
    """A part of a message without the object around it that flattened keys made."""
    if isinstance(part, dict):
        if isinstance(content := part.get("message_content"), dict):
            return content
        is_call = isinstance(part.get("tool_call"), dict) or part.get("block_type") == "tool_call"
        if is_call and (call := call_of(part, is_certain=True)) is not None:
            return call
    return part


def calls_in(value: JsonValue) -> list[dict[str, JsonValue]]:
    """The calls in what stands under ``tool_calls`` and the like."""
    value = parsed(value)
    items = value if isinstance(value, list) else [value]
    return [
        call
        for item in map(parsed, items)
        if isinstance(item, dict) and (call := call_of(item, is_certain=True)) is not None
    ]


def call_of(item: dict[str, JsonValue], *, is_certain: bool) -> dict[str, JsonValue] | None:
    """A call as a part of a message, by the words on its members; None where it is none.

    Args:
        item: an object.
        is_certain: its key says that it is a call; else it needs an id, or a key that names a tool.
    """
    for wrapper in ("tool_call", "toolCall", "function", "functionCall", "toolUse"):
        inner = parsed(item.get(wrapper))
        if isinstance(inner, dict):
            item = {**item, **inner}
            is_certain = is_certain or wrapper != "function"
    name = arguments = identity = None
    for key, value in item.items():
        words = words_of(key)
        if words in _NAME_WORDS and isinstance(value, str):
            if len(words) > 1 or name is None:
                name = value
            is_certain = is_certain or len(words) > 1
        elif words in _ID_WORDS:
            identity = identity or call_id(value)
        elif words[-1:] and words[-1] in _ARGUMENT_WORDS and len(words) < 3:
            arguments = value if arguments is None else arguments
    if not name or not (is_certain or (identity is not None and arguments is not None)):
        return None
    return {"type": "tool_call", "id": identity, "name": name, "arguments": arguments}


def holds_work(messages: Iterable[Message], *, on_tool: bool, call_id: str | None, tool: str) -> bool:
    """Whether messages on a span are a model's: they hold other calls than its own, or are of another role than tool's.

    On a span that says it is a tool's, what the tool gave may be written as an assistant's.
    """
    own = ("tool", *ASSISTANT_ROLES)
    for message in messages:
        other = [call for call in message.calls if call.name != tool or call_id not in (None, call.call_id)]
        if other or (not message.calls and message.role not in (own if on_tool else own[:1])):
            return True
    return False


def text_alone(span: Span, slot: Slot) -> list[JsonValue]:
    """The message that a model's span took in or put out as a text alone, where one key holds a text for it."""
    found = {
        value
        for key, value in values_at_keys(span)
        if type(value) is str and value[:1] not in _NO_TEXT and is_key_of(key, slot) and not is_masked(value)
    }
    role = "user" if slot == "arguments" else "assistant"
    return [{"role": role, "content": text} for text in found] if len(found) == 1 else []


def values_at_keys(span: Span) -> Iterator[tuple[str, JsonValue]]:
    """The attributes of a span, and those of its events below their names."""
    yield from span.attributes.items()
    for event in span.events:
        yield from ((f"{event.name}.{key}", value) for key, value in event.attributes.items())


_NO_TEXT = ("", "{", "[", "<")


class WholeNode(Node):
    """The node of a model's span that was kept whole: its messages are read by shape where its dialect finds none."""

    __slots__ = ("_shown",)

    def __init__(self, span: Span, kind: SpanKind, dialect: Dialect, keys: Keys) -> None:
        super().__init__(span, kind, dialect, keys)
        self._shown: SpanMessages | None = None

    def inputs_of(self, part: Span) -> list[Message]:
        """As of any node, else by shape."""
        return super().inputs_of(part) or read_messages(self._messages(part).inputs)

    def outputs(self) -> list[Message]:
        """As of any node, else by shape."""
        if self._outputs is None:
            shown = super().outputs() or read_messages(self._messages(self.span).outputs)
            self._outputs = shown or read_messages(text_alone(self.span, "result"))
        return self._outputs

    def _messages(self, part: Span) -> SpanMessages:
        if any(event.name == part.scope for event in part.events):
            return NOTHING  # a distribution moved the content to an event (see `moved_content`)
        if part is not self.span:
            return messages_of(part)
        if self._shown is None:
            self._shown = messages_of(part)
        return self._shown


def _inputs(span: Span) -> list[Message]:
    return read_messages(messages_of(span).inputs)


MODEL_BY_SHAPE: Dialect = SHAPE._replace(inputs=_inputs)
"""Reads the messages that a model's span took in, as it came."""
