"""The document of a span: its attributes as one JSON value, with dotted keys nested and numbered parts as lists.

Dialects read what lies below one key of it (`below`, `numbered`); shape reads all of it, with the span's events.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from tracegrade.extract.decode.reprs import read_repr
from tracegrade.extract.decode.values import decode
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span

OWN = ""
"""The member that holds the value of a key which is also the beginning of other keys."""

_NAMELESS = "record"
_MAX_LEVELS = 20
# Keys repeat: the parts of one are worked out once, for as many and as long ones as senders that are not hostile use.
_MAX_LEARNT_KEYS = 1 << 14
_LONGEST_LEARNT_KEY = 200
# Longer ones number nothing; Python refuses to read those of more than 4300 digits.
_LONGEST_NUMBER = 9
# A type written before the value: @ag.type=json:{"a": 1}
_TYPED = re.compile(r"@[\w.]+=\w+:")
# The repr of an object or a list of objects, in Python: Message(role='user', ...)
_REPR = re.compile(r"\[?[A-Z]\w*\(\w+=")


def document(span: Span) -> dict[str, JsonValue]:
    """The attributes of a span, and those of its events below their names.

    Of a key that is both a value and the beginning of others, the value is the member `OWN`. A part of keys that is
    numbers is a list, in order of the numbers. Texts are as they came: see `parsed`. Events of one name are one list;
    those without a name, of log records, are ``record``.
    """
    found = nested(span.attributes)
    events: dict[str, list[JsonValue]] = {}
    for event in span.events:
        events.setdefault(event.name, []).append(_Nested(nested(event.attributes)))
    for name, shown in events.items():
        _put(found, _parts(name or _NAMELESS), shown[0] if len(shown) == 1 else [*shown])
    return found


def nested(attributes: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Attributes by key as an object of objects and lists."""
    found: dict[str, JsonValue] = {}
    for key, value in attributes.items():
        _put(found, _parts(key), value)
    return {key: _with_lists(value) for key, value in found.items()}


def below(attributes: Mapping[str, JsonValue], prefix: str) -> JsonValue:
    """The value whose members lie flattened below `prefix`, which ends in a dot; None where none does.

    A value that is also the beginning of further keys is left out.

    Example: ``{"out.hits.0.id": 7, "out.count": 1}`` below "out." is ``{"hits": [{"id": 7}], "count": 1}``.
    """
    found = _Nested()
    for key in [key for key in attributes if key.startswith(prefix)]:
        _put(found, _parts(key[len(prefix) :]), attributes[key])
    return _sent(found) if found else None


def numbered(attributes: Mapping[str, JsonValue], prefix: str, inner: str = "") -> list[dict[str, JsonValue]]:
    """The objects of a list whose members lie flattened below `prefix`, in order of number; numbers may be missing.

    With `inner`, each of them is the member of this name of an item of the list.
    """
    keys = [key for key in attributes if key.startswith(prefix)]
    if not keys:
        return []
    found: dict[int, dict[str, JsonValue]] = {}
    with_members: set[int] = set()
    start = len(prefix)
    for key in keys:
        read = _learnt_place if len(key) <= _LONGEST_LEARNT_KEY else _place
        if (place := read(key, start, inner)) is not None:
            number, parts = place
            item = found.get(number)
            if item is None:
                item = found[number] = {}
            if len(parts) == 1 and parts[0] not in item:
                item[parts[0]] = attributes[key]
            else:
                _put(item, parts, attributes[key])
                with_members.add(number)
    for number in with_members:  # few: most messages are a role and a text
        item = found[number]
        for name, member in item.items():
            if type(member) is _Nested:
                item[name] = _sent(member)
    return [found[number] for number in sorted(found)]


def _place(key: str, start: int, inner: str) -> tuple[int, tuple[str, ...]] | None:
    """The number behind `start`, and the parts that follow it and `inner`; None where these are missing."""
    number, *parts = _parts(key[start:])
    if inner and parts[:1] == [inner]:
        del parts[0]
    elif inner:
        return None
    if not parts or not _is_number(number):
        return None
    return int(number), tuple(parts)


_learnt_place = lru_cache(_MAX_LEARNT_KEYS)(_place)


def _parts(key: str) -> Sequence[str]:
    return key.split(".", _MAX_LEVELS)


def _put(found: dict[str, JsonValue], parts: Sequence[str], value: JsonValue) -> None:
    at = found
    last = parts[-1]
    for part in parts[:-1]:
        inner = at.get(part)
        if type(inner) is not _Nested:
            inner = at[part] = _Nested() if part not in at else _Nested({OWN: inner})
        at = inner
    inner = at.get(last)
    if type(inner) is not _Nested:
        at[last] = value
    elif isinstance(value, dict):
        for member, item in value.items():
            inner.setdefault(member, item)
    else:
        inner[OWN] = value


class _Nested(dict[str, JsonValue]):
    """An object that was made of keys, and not sent as one."""


class _NestedList(list[JsonValue]):
    """A list that was made of keys."""


def is_flattened(value: JsonValue) -> bool:
    """Whether an object or list was made of keys."""
    return isinstance(value, _Nested | _NestedList)


def _is_number(part: str) -> bool:
    return part.isdecimal() and len(part) <= _LONGEST_NUMBER


def _with_lists(value: JsonValue) -> JsonValue:
    """A value made of keys, with its numbered parts as lists."""
    if type(value) is not _Nested:
        return value
    for key, member in value.items():
        if type(member) is _Nested:
            value[key] = _with_lists(member)
    numbers = [key for key in value if _is_number(key)]
    if numbers and len(numbers) == len(value) - (OWN in value):
        return _NestedList(value[key] for key in sorted(numbers, key=int))
    return value


def _sent(value: JsonValue) -> JsonValue:
    """A value made of keys as it would be if it had been sent as one: for those who do not ask where it comes from."""
    if type(value) is not _Nested:
        return value
    members = {key: _sent(member) if type(member) is _Nested else member for key, member in value.items() if key != OWN}
    if members and all(map(_is_number, members)):
        return [members[key] for key in sorted(members, key=int)]
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
