"""The document of a span: its attributes as one JSON value, with dotted keys nested and numbered parts as lists.

Dialects read what lies below one key of it (`below`, `numbered`); shape reads all of it, with the span's events.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

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
# One of them within an object or a list.
_INNER_REPR = re.compile(r"[ \[(][A-Z]\w*\(\w+=")

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

    Of a value that is also the beginning of further keys, the members are added if it is an object.

    Example: ``{"out.hits.0.id": 7, "out.count": 1}`` below "out." is ``{"hits": [{"id": 7}], "count": 1}``.
    """
    form = _BELOW[prefix, *attributes]
    return _filled(form, attributes) if form is not None else None


def numbered(attributes: Mapping[str, JsonValue], prefix: str, inner: str = "") -> list[dict[str, JsonValue]]:
    """The objects of a list whose members lie flattened below `prefix`, in order of number; numbers may be missing.

    With `inner`, each of them is the member of this name of an item of the list.
    """
    form = _ITEMS_BELOW[prefix, inner, *attributes]
    return _filled(form, attributes) if form is not None else []


class _Nested(dict[str, JsonValue]):
    """An object that was made of keys, and not sent as one."""


class _NestedList(list[JsonValue]):
    """A list that was made of keys."""


class _Form(NamedTuple):
    """What keys make without their values: objects (size None) and lists, of which the first holds all others.

    ``places`` say what is where: in which object or list, under which name or number, a part, by its number, or the
    value of a key. ``own`` are keys of what has members by other keys.
    """

    sizes: list[int | None]
    places: list[tuple[int, str | int, int | str]]
    own: list[tuple[int, str]]


def _filled(form: _Form, attributes: Mapping[str, JsonValue]) -> Any:
    made: Any = [{} if size is None else [None] * size for size in form.sizes]
    for around, place, what in form.places:
        made[around][place] = attributes[what] if type(what) is str else made[what]
    for around, key in form.own:
        if isinstance(value := attributes[key], dict) and isinstance(found := made[around], dict):
            for name, member in value.items():
                found.setdefault(name, member)
    return made[0]


def _form_of(names: tuple[str, ...], inner: str | None) -> _Form | None:
    """Of the keys that begin with the first of these names; None where there are none.

    With `inner`, only what is numbered: see `_place`.
    """
    prefix, *keys = names
    start = len(prefix)
    made: dict[_Path, dict[str, str | _Path]] = {}
    own: list[tuple[_Path, str]] = []
    for key in keys:
        if key.startswith(prefix):
            read = _learnt_place if len(key) <= _LONGEST_LEARNT_KEY else _place
            if (place := read(key, start, inner)) is not None:
                path, name = place
                members = made[path] if path in made else _add_object(made, path)
                if type(members.get(name)) is tuple:
                    own.append(((*path, name), key))
                else:
                    members[name] = key
    if not made:
        return None
    numbers = {path: number for number, path in enumerate(made)}
    form = _Form([], [], [(numbers[path], key) for path, key in own])
    for path, members in made.items():
        _add(form, members, numbers, is_item=inner is not None and len(path) == 1)
    return form


def _add_object(made: dict[_Path, dict[str, str | _Path]], path: _Path) -> dict[str, str | _Path]:
    """Make an object, after the one around it."""
    if path:
        above = path[:-1]
        (made[above] if above in made else _add_object(made, above))[path[-1]] = path
    members: dict[str, str | _Path] = {}
    made[path] = members
    return members


def _add(form: _Form, members: dict[str, str | _Path], numbers: dict[_Path, int], *, is_item: bool) -> None:
    """Add an object, or a list where all members are numbers and it is no item of `numbered`."""
    at = len(form.sizes)
    named: list[tuple[str | int, str | _Path]] = [*members.items()]
    # Of nearly all, the first member is no number; asked in C, as this is every object of every message.
    is_list = not is_item and all(map(str.isdecimal, members)) and all(map(_is_number, members))
    if is_list:
        named = [*enumerate(members[name] for name in sorted(members, key=int))]
    form.sizes.append(len(named) if is_list else None)
    form.places.extend((at, place, what if isinstance(what, str) else numbers[what]) for place, what in named)


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


# What keys make is worked out once: filling it in takes a tenth of the time.
_BELOW = ByKeys(lambda names: _form_of(names, None))
_ITEMS_BELOW = ByKeys(lambda names: _form_of((names[0], *names[2:]), names[1]))


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
        if _INNER_REPR.search(value) is not None and isinstance(object_ := read_repr(value), dict | list):
            return object_
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
