"""The document of a span: its attributes as one JSON value, with dotted keys nested and numbered parts as lists.

Dialects read what lies below one key of it (`below`, `numbered`); shape reads all of it, with the span's events.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

from tracegrade.extract.decode.reprs import read_repr
from tracegrade.extract.decode.values import decode
from tracegrade.extract.key_sets import ByKeys
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

_Path: TypeAlias = tuple[str, ...]


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
    made = _gathered(attributes, prefix, None)
    if not made:
        return None
    _make_lists(made, 1)
    found = made[()]
    return _in_order(found) if all(map(_is_number, found)) else found


def numbered(attributes: Mapping[str, JsonValue], prefix: str, inner: str = "") -> list[dict[str, JsonValue]]:
    """The objects of a list whose members lie flattened below `prefix`, in order of number; numbers may be missing.

    With `inner`, each of them is the member of this name of an item of the list.
    """
    made = _gathered(attributes, prefix, inner)
    if not made:
        return []
    numbers = sorted(made[()], key=int)
    if len(made) > len(numbers) + 1:  # few: most messages are a role and a text
        _make_lists(made, 2)
    return [made[number,] for number in numbers]


def _gathered(attributes: Mapping[str, JsonValue], prefix: str, inner: str | None) -> dict[_Path, dict[str, JsonValue]]:
    """The objects that keys below `prefix` make, by path, each after the one around it; {} where no key begins so.

    With `inner`, only what is numbered: see `_place`. A value that is also the beginning of further keys is left out.
    """
    made: dict[_Path, dict[str, JsonValue]] = {}
    start = len(prefix)
    for key in _KEYS_BELOW[prefix, *attributes]:
        read = _learnt_place if len(key) <= _LONGEST_LEARNT_KEY else _place
        if (place := read(key, start, inner)) is not None:
            path, name = place
            around = made.get(path)
            if around is None:
                around = _make(made, path)
            known = made.get((*path, name)) if name in around else None
            if known is None:
                around[name] = attributes[key]
            elif isinstance(value := attributes[key], dict):
                for member, item in value.items():
                    known.setdefault(member, item)
    return made


def _keys_below(names: tuple[str, ...]) -> tuple[str, ...]:
    """The keys that begin with the first of these names."""
    return tuple(key for key in names[1:] if key.startswith(names[0]))


_KEYS_BELOW = ByKeys(_keys_below)


def _make(made: dict[_Path, dict[str, JsonValue]], path: _Path) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {}
    if path:
        above = path[:-1]
        around = made.get(above)
        if around is None:
            around = _make(made, above)
        around[path[-1]] = found
    made[path] = found
    return found


def _make_lists(made: dict[_Path, dict[str, JsonValue]], levels: int) -> None:
    """Replace the objects that are at least so many levels deep, and whose members are numbers, by lists."""
    for path in reversed(made):
        found = made[path]
        # Of nearly all, the first member is no number; asked in C, as this is every object of every message.
        if len(path) >= levels and all(map(str.isdecimal, found)) and all(map(_is_number, found)):
            made[path[:-1]][path[-1]] = _in_order(found)


def _in_order(numbers: dict[str, JsonValue]) -> list[JsonValue]:
    return [numbers[number] for number in sorted(numbers, key=int)]


def _place(key: str, start: int, inner: str | None) -> tuple[_Path, str] | None:
    """The parts of `key` from `start` on, as the path of an object and the name of its member.

    With `inner`, the first is a number, which at least one part follows, after `inner` if that has a name; None for
    other keys.
    """
    parts = _parts(key[start:])
    if inner is not None:
        if not _is_number(parts[0]):
            return None
        parts[0] = str(int(parts[0]))
        if inner:
            if parts[1:2] != [inner]:
                return None
            del parts[1]
        if len(parts) < 2:
            return None
    return tuple(parts[:-1]), parts[-1]


_learnt_place = lru_cache(_MAX_LEARNT_KEYS)(_place)


def _parts(key: str) -> list[str]:
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
