"""A span as one JSON value: attributes with dotted keys nested, JSON texts parsed, events under their names."""

import re
from collections.abc import Mapping

from tracegrade.extract.decode.reprs import read_repr
from tracegrade.extract.decode.values import decode
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span

OWN = ""
"""The member that holds the value of a key which is also the beginning of other keys."""

_MAX_LEVELS = 12
_LONGEST_NUMBER = 6
# A type written before the value: @ag.type=json:{"a": 1}
_TYPED = re.compile(r"@[\w.]+=\w+:")
# The repr of an object or a list of objects, in Python: Message(role='user', ...)
_REPR = re.compile(r"\[?[A-Z]\w*\(\w+=")


def document(span: Span) -> dict[str, JsonValue]:
    """The attributes of a span, and those of its events below their names.

    Of a key that is both a value and the beginning of others, the value is the member `OWN`. A part of keys that is
    numbers is a list, in order of the numbers. Texts are as they came: see `parsed`. Events of one name are one list.
    """
    found = nested(span.attributes)
    events: dict[str, list[JsonValue]] = {}
    for event in span.events:
        events.setdefault(event.name, []).append(_Nested(nested(event.attributes)))
    for name, shown in events.items():
        _put(found, name, shown[0] if len(shown) == 1 else [*shown])
    return found


def nested(attributes: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Attributes by key as an object of objects and lists."""
    found: dict[str, JsonValue] = {}
    for key, value in attributes.items():
        _put(found, key, value)
    return {key: _with_lists(value) for key, value in found.items()}


def _put(found: dict[str, JsonValue], key: str, value: JsonValue) -> None:
    *outer, last = key.split(".", _MAX_LEVELS)
    at = found
    for part in outer:
        inner = at.get(part)
        if not isinstance(inner, _Nested):
            inner = _Nested() if part not in at else _Nested({OWN: inner})
            at[part] = inner
        at = inner
    inner = at.get(last)
    if isinstance(inner, _Nested):
        if isinstance(value, dict):
            for member, item in value.items():
                inner.setdefault(member, item)
        else:
            inner[OWN] = value
    else:
        at[last] = value


class _Nested(dict[str, JsonValue]):
    """An object that was made of keys, and not sent as one."""


def is_flattened(value: JsonValue) -> bool:
    """Whether an object or list was made of keys."""
    return isinstance(value, _Nested | _NestedList)


class _NestedList(list[JsonValue]):
    """A list that was made of keys."""


def _with_lists(value: JsonValue) -> JsonValue:
    if not isinstance(value, _Nested):
        return value
    members = _Nested({key: _with_lists(item) for key, item in value.items()})
    numbers = [key for key in members if key.isdecimal() and len(key) <= _LONGEST_NUMBER]
    if numbers and len(numbers) == len(members) - (OWN in members):
        return _NestedList(members[key] for key in sorted(numbers, key=int))
    return members


def parsed(value: JsonValue) -> JsonValue:
    """The object or list that a text is the JSON or the Python of; any other value as it is."""
    if type(value) is not str:
        return value
    start = value.lstrip()[:1]
    if start in ("{", "[") or (start == '"' and value.lstrip()[1:2] in ("{", "[")):
        found = decode(value)
        if found.is_readable and isinstance(found.value, dict | list):
            return found.value
    if start == "@" and (type_ := type_before(value)):
        found = decode(value[len(type_) :])
        return found.value if found.is_readable else value
    if _REPR.match(value) and (object_ := read_repr(value)) is not None:
        return object_
    return value


def type_before(text: str) -> str:
    """The type that is written before a value, as ``@x.type=json:``; "" for none."""
    found = _TYPED.match(text) if text[:1] == "@" else None
    return found[0] if found is not None else ""


def own(value: JsonValue) -> JsonValue:
    """The value of a key itself, where it is also the beginning of others."""
    return value[OWN] if isinstance(value, dict) and OWN in value else value
