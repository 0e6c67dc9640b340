"""Lists flattened into attribute keys: ``{prefix}{number}.{rest}``, and the messages written so."""

from collections.abc import Mapping
from functools import lru_cache

from tracegrade import semconv as s
from tracegrade.extract.decode.values import call_id, decode
from tracegrade.extract.messages import read_message, say_empty
from tracegrade.extract.reading import Message, RequestedCall, ShownResult
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span

_MAX_LEVELS = 20
_CALL_MEMBERS = ("id", "name", "arguments")
# Longer ones number nothing; Python refuses to read those of more than 4300 digits.
_MAX_NUMBER_CHARS = 9
# Keys repeat: what one says is worked out once, for as many and as long ones as senders that are not hostile use.
_MAX_LEARNT_KEYS = 1 << 14
_LONGEST_LEARNT_KEY = 200


def members(fields: Mapping[str, JsonValue], prefix: str, inner: str = "") -> list[dict[str, JsonValue]]:
    """The members of a flattened list, each by the rest of its keys, in order of number; numbers may be missing.

    Args:
        fields: attributes, or a member of an outer list.
        prefix: the key up to the number.
        inner: with what the rest must begin; it is cut off.
    """
    start = len(prefix)
    by_number: dict[int, dict[str, JsonValue]] = {}
    for key in [key for key in fields if key.startswith(prefix)]:
        read = _place if len(key) <= _LONGEST_LEARNT_KEY else _read_place
        if (place := read(key, start, inner)) is not None:
            number, rest = place
            found = by_number.get(number)
            if found is None:
                found = by_number[number] = {}
            found[rest] = fields[key]
    return [by_number[number] for number in sorted(by_number)]


def unflatten(fields: Mapping[str, JsonValue], prefix: str) -> JsonValue:
    """The value that was written flat under `prefix`: one key a scalar, members and places between dots; None for none.

    Example: ``{"out.hits.0.id": 7, "out.count": 1}`` under "out" is ``{"hits": [{"id": 7}], "count": 1}``. Members that
    are numbered are a list, whose numbers may be missing. A value that is also the beginning of further keys is left
    out.
    """
    tree: dict[str, JsonValue] = {}
    start = len(prefix) + 1
    for key in [key for key in fields if key.startswith(prefix + ".")]:
        *above, last = key[start:].split(".", _MAX_LEVELS)
        at = tree
        for name in above:
            inner = at.get(name)
            if not isinstance(inner, dict):
                inner = at[name] = {}
            at = inner
        if not isinstance(at.get(last), dict):
            at[last] = fields[key]
    return _with_lists(tree) if tree else fields.get(prefix)


def _with_lists(value: JsonValue) -> JsonValue:
    if not isinstance(value, dict):
        return value
    if value and all(name.isdecimal() and len(name) <= _MAX_NUMBER_CHARS for name in value):
        return [_with_lists(value[name]) for name in sorted(value, key=int)]
    return {name: _with_lists(member) for name, member in value.items()}


def _read_place(key: str, start: int, inner: str) -> tuple[int, str] | None:
    """The number behind `start`, and what follows it and `inner`; None where either is missing."""
    number, _, rest = key[start:].partition(".")
    if not rest.startswith(inner) or not number.isdecimal() or len(number) > _MAX_NUMBER_CHARS:
        return None
    return int(number), rest[len(inner) :]


_place = lru_cache(_MAX_LEARNT_KEYS)(_read_place)


def read_flattened(attributes: Mapping[str, JsonValue], prefix: str, role: str | None = None) -> list[Message]:
    """The messages under `prefix`, as OpenLLMetry wrote them before v0.53, and LiteLLM.

    ``{i}.role``, ``{i}.content``, ``{i}.tool_call_id`` and ``{i}.tool_calls.{j}.id|name|arguments``. LiteLLM numbers
    the calls of one message: ``{j}.function_call.name|arguments``. `role` is that of all messages, where it is known.
    """
    bodies = [_body(fields) for fields in members(attributes, prefix)]
    numbered_calls: list[JsonValue] = [body["function_call"] for body in bodies if "function_call" in body]
    if numbered_calls:
        first = bodies[0] | {"tool_calls": numbered_calls}
        bodies = [first, *(body for body in bodies[1:] if "function_call" not in body)]
    if role is not None:
        bodies = [{**body, "role": role} for body in bodies]
    messages = [read_message(body, position) for position, body in enumerate(bodies)]
    if s.REDACTED not in attributes:  # a content that is not there was none
        say_empty(messages, bodies, lambda body: "content" in body)
    return messages


def _body(fields: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """A message in the shape of chat completions."""
    body: dict[str, JsonValue] = {key: fields[key] for key in ("role", "tool_call_id") if key in fields}
    content = fields.get("content")
    # Some versions write every content as JSON: a text in quotes, a list of blocks.
    if isinstance(content, str) and content[:1] in ('"', "["):
        decoded = decode(content)
        if decoded.status == "ok" and (isinstance(decoded.value, str) or _is_blocks(decoded.value)):
            content = decoded.value
    if content is not None:
        body["content"] = content
    if calls := members(fields, "tool_calls."):
        body["tool_calls"] = [
            {name: call.get(name, call.get(f"function.{name}")) for name in _CALL_MEMBERS} for call in calls
        ]
    elif "tool_calls" in fields:  # in one attribute, as JSON (Respan)
        body["tool_calls"] = fields["tool_calls"]
    if "function_call.name" in fields:
        body["function_call"] = {
            name: fields[key] for name in _CALL_MEMBERS if (key := f"function_call.{name}") in fields
        }
    return body


def _is_blocks(value: JsonValue) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) and "type" in item for item in value)


def read_nested(span: Span, prefix: str) -> list[Message]:
    """The messages under `prefix`, as OpenInference writes them: ``{i}.message.role`` and so on.

    In order of i; numbers may be missing.
    """
    # Empty arguments are left out, but so are attributes beyond a limit.
    left_out: JsonValue = {} if not span.dropped_attributes_count else None
    found = members(span.attributes, prefix, "message.")
    messages = [_nested_message(fields, position, left_out) for position, fields in enumerate(found)]
    if s.REDACTED not in span.attributes:  # a content that is not there was none
        say_empty(messages, found, lambda fields: any(key.startswith("content") for key in fields))
    return messages


def _nested_message(fields: dict[str, JsonValue], position: int, left_out: JsonValue) -> Message:
    role = fields.get("role")
    content = fields.get("content")
    if type(content) is str and type(role) is str and len(fields) == 2 and role != "tool":
        return Message(role, content)  # nearly all
    texts = [content] if isinstance(content, str) else []
    calls = _nested_calls(members(fields, "tool_calls."), position, left_out)
    contents = members(fields, "contents.") if not texts or not calls else []
    calls = calls or _nested_calls(contents, position, left_out)
    if not texts:
        texts = [text for block in contents if isinstance(text := block.get("message_content.text"), str)]
    if not calls and isinstance(name := fields.get("function_call_name"), str) and name:
        calls = (RequestedCall(name, None, fields.get("function_call_arguments_json"), f"{position}/0"),)
    results: tuple[ShownResult, ...] = ()
    if role == "tool" or "tool_call_id" in fields:
        shown: JsonValue = "\n".join(texts) if texts else content
        results = (ShownResult(call_id(fields.get("tool_call_id")), shown),)
        texts = []
    return Message(role if isinstance(role, str) else "", "\n".join(texts), calls, results)


def _nested_calls(items: list[dict[str, JsonValue]], position: int, left_out: JsonValue) -> tuple[RequestedCall, ...]:
    calls = []
    for index, item in enumerate(items):
        name = item.get("tool_call.function.name")
        if isinstance(name, str) and name:
            identity = call_id(item.get("tool_call.id"))
            arguments = item.get("tool_call.function.arguments", left_out)
            calls.append(RequestedCall(name, identity, arguments, f"{position}/{index}"))
    return tuple(calls)
