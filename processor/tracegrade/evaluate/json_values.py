"""JSON values: when two are equal, how they are decoded, and how they are shown."""

import json
from collections.abc import Callable, Hashable, Sequence
from json.encoder import encode_basestring
from typing import Any, Never

import orjson

from tracegrade.evaluate.work import CHARACTERS_PER_STEP, Work
from tracegrade.model.json_value import JsonValue

# Numbers of more digits are shown by their size: Python refuses to print them, and they are not readable.
_MAX_DIGITS_SHOWN = 1000
_EVERYDAY = 10**15
_NAMES = {None: "null", True: "true", False: "false"}
# Comparing by ``==`` is left to the machine: a value costs about as much as this many characters, at any such depth.
_CHARACTERS_PER_VALUE = 32
_DEEPEST_PLAIN = 64
_STEPS_OF_A_NUMBER = 4  # to give one to a value, for each that is inside, and once more for each list or object

_encode = json.JSONEncoder(ensure_ascii=False).encode


def json_equal(left: JsonValue, right: JsonValue, work: Work) -> bool:
    """Whether two values are the same JSON value.

    1 equals 1.0, true is not 1, "1" is not 1, integers are exact at any size (2**53 + 1 is not 2.0**53), member order
    does not matter, list order does, texts are compared as they are. Any depth: no recursion.

    Raises:
        EvaluatorError: ``work_bound``.
    """
    pairs = [(left, right)]
    while pairs:
        a, b = pairs.pop()
        work.spend()
        if isinstance(a, dict):
            if not isinstance(b, dict) or len(a) != len(b) or a.keys() != b.keys():
                return False
            pairs.extend((value, b[key]) for key, value in a.items())
        elif isinstance(a, list):
            if not isinstance(b, list) or len(a) != len(b):
                return False
            pairs.extend(zip(a, b, strict=True))
        elif not _scalars_equal(a, b, work):
            return False
    return True


class Identities:
    """Numbers for values: two values have the same one exactly when they are the same JSON value, see `json_equal`."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[Hashable, int] = {}

    def of(self, value: JsonValue, work: Work) -> int:
        """The number of `value`; as much work as it is large, at any depth: no recursion.

        Raises:
            EvaluatorError: ``work_bound``.
        """
        done: list[int] = []
        todo: list[tuple[JsonValue, bool]] = [(value, False)]
        while todo:
            item, inside_done = todo.pop()
            work.spend(_STEPS_OF_A_NUMBER + (len(item) // CHARACTERS_PER_STEP if isinstance(item, str) else 0))
            if not isinstance(item, dict | list):
                done.append(self._number((isinstance(item, bool), item)))
            elif not inside_done:
                todo.append((item, True))
                todo.extend((inner, False) for inner in (item.values() if isinstance(item, dict) else item))
            else:
                # The last is done first, so the numbers stand in reverse.
                start = len(done) - len(item)
                inside = done[start:][::-1]
                del done[start:]
                whole = frozenset(zip(item, inside, strict=True)) if isinstance(item, dict) else tuple(inside)
                done.append(self._number((type(item), whole)))
        return done[0]

    def _number(self, key: Hashable) -> int:
        return self._known.setdefault(key, len(self._known))


class PlainComparison:
    """Comparing with one value by ``==``, much the quicker way; it is right but where true and 1, false and 0 stand.

    ``steps`` is its work, ``confusable`` the places of those inside the value, and whether true or false is there.
    """

    __slots__ = ("confusable", "steps", "value")

    def __init__(self, value: JsonValue, steps: int, confusable: Sequence[tuple[Sequence[str | int], bool]]) -> None:
        self.value = value
        self.steps = steps
        self.confusable = confusable

    def equals(self, other: JsonValue) -> bool:
        """Whether the value is `other`, as `json_equal` says; `steps` are not counted."""
        return self.value == other and (not self.confusable or self.has_kinds_of(other))

    def has_kinds_of(self, other: Any) -> bool:
        """Whether true and false stand in `other`, which equals the value by ``==``, where they stand in the value."""
        for path, is_bool in self.confusable:
            part = other
            for step in path:
                part = part[step]
            if isinstance(part, bool) is not is_bool:
                return False
        return True


def plain_comparison(value: JsonValue) -> PlainComparison | None:
    """How something is compared with `value` by ``==``; None when it is nested deeper than is left to the machine."""
    size = 0
    confusable: list[tuple[tuple[str | int, ...], bool]] = []
    level: list[tuple[tuple[str | int, ...], JsonValue]] = [((), value)]
    for _ in range(_DEEPEST_PLAIN):
        below: list[tuple[tuple[str | int, ...], JsonValue]] = []
        for path, item in level:
            size += _CHARACTERS_PER_VALUE
            if isinstance(item, str):
                size += len(item)
            elif isinstance(item, dict):
                below.extend(((*path, key), member) for key, member in item.items())
            elif isinstance(item, list):
                below.extend(((*path, place), member) for place, member in enumerate(item))
            elif item is not None and item in (0, 1):
                confusable.append((path, isinstance(item, bool)))
        if not below:
            return PlainComparison(value, 1 + size // CHARACTERS_PER_STEP + len(confusable), confusable)
        level = below
    return None


def _scalars_equal(a: JsonValue, b: JsonValue, work: Work) -> bool:
    if isinstance(a, str):
        if not isinstance(b, str) or len(a) != len(b):
            return False
        work.spend(len(a) // CHARACTERS_PER_STEP)
        return a == b
    if a is None or isinstance(a, bool) or isinstance(b, bool):
        return a is b
    return isinstance(b, int | float) and a == b


def decoded_container(text: str) -> dict[str, JsonValue] | list[JsonValue] | None:
    """The object or list that `text` is the JSON of; None for any other text, scalars included."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    value = decoded(text)
    return value if isinstance(value, dict | list) else None


def decoded(text: str) -> JsonValue:
    """The value that `text` is the JSON of, `text` itself when it is not JSON."""
    try:
        value: JsonValue = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return text
    return value


def _refuse_constant(name: str) -> Never:
    raise ValueError(f"{name} is not JSON")


def excerpt(value: JsonValue, limit: int = 400) -> str:
    """The JSON text of `value`, cut with an ellipsis after `limit` characters; costs no more, at any size and depth."""
    parts: list[str] = []
    # Every level writes a character at least, so the recursion goes no deeper than the limit.
    _write(value, limit, parts.append)
    text = "".join(parts)
    return text if len(text) <= limit else text[:limit] + "…"


def written(value: object) -> bytes | None:
    """The JSON of a value, quickly, members in their order; None for integers of more than 64 bits and odd texts."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return None


_LONGEST_TEXT = 100_000


def json_text(value: JsonValue) -> str:
    """A text as it is, any other value as its JSON text; of more than 100,000 characters those."""
    return value if isinstance(value, str) else excerpt(value, _LONGEST_TEXT)


def _write(value: JsonValue, room: int, add: Callable[[str], None]) -> int:
    """Write the JSON text of `value` until more than `room` characters are; what is left of them, negative if none."""
    if isinstance(value, dict):
        opening = "{"
        for key, member in value.items():
            label = f"{opening}{encode_basestring(key if len(key) <= room else key[: room + 1])}: "
            opening = ", "
            if isinstance(member, dict | list):
                add(label)
                room -= len(label)
                if room < 0 or (room := _write(member, room, add)) < 0:
                    return room
            else:
                text = label + _scalar_within(member, room)
                add(text)
                if (room := room - len(text)) < 0:
                    return room
        text = "}" if value else "{}"
    elif isinstance(value, list):
        opening = "["
        for item in value:
            add(opening)
            room -= len(opening)
            if room < 0 or (room := _write(item, room, add)) < 0:
                return room
            opening = ", "
        text = "]" if value else "[]"
    else:
        text = _scalar_within(value, room)
    add(text)
    return room - len(text)


def _scalar_within(value: str | bool | int | float | None, room: int) -> str:
    """The JSON text of a scalar; of a text no more than is seen of it in that room."""
    if isinstance(value, str):
        return encode_basestring(value if len(value) <= room else value[: room + 1])
    if type(value) is int and -_EVERYDAY < value < _EVERYDAY:  # `scalar_text`, for what numbers mostly are
        return str(value)
    return scalar_text(value)


def scalar_text(value: bool | int | float | None) -> str:
    """The JSON text of a number, true, false or null."""
    if value is None or isinstance(value, bool):
        return _NAMES[value]
    if isinstance(value, int):
        bits = value.bit_length()
        return str(value) if bits <= _MAX_DIGITS_SHOWN * 3 else f"an integer of {bits} bits"
    return _encode(value)
