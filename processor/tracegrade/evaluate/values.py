"""JSON values: when two are equal, how they are decoded, and how they are shown."""

import json
from collections.abc import Iterator
from typing import Never

from tracegrade.evaluate.work import CHARACTERS_PER_STEP, Work
from tracegrade.model.json_value import JsonValue

# Numbers of more digits are shown by their size: Python refuses to print them, and nobody reads them.
_MAX_DIGITS_SHOWN = 1000


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
    if _room_left(value, limit) >= 0:
        whole = _encode(value)
        return whole if len(whole) <= limit else whole[:limit] + "…"
    parts: list[str] = []
    length = 0
    levels = [_Level(iter([("", value)]), "")]
    while levels and length <= limit:
        level = levels[-1]
        item = next(level.items, None)
        if item is None:
            levels.pop()
            text = level.closing
        else:
            label, member = item
            text = level.separator + label + _opened(member, levels, limit)
            level.separator = ", "
        parts.append(text)
        length += len(text)
    whole = "".join(parts)
    return whole if len(whole) <= limit else whole[:limit] + "…"


def _room_left(value: JsonValue, room: int) -> int:
    """About how many of `room` characters the JSON text of `value` leaves; negative: too long, or no quick telling."""
    if room < 0:
        return room
    kind = type(value)
    if kind is str:
        return room - len(value) - 2  # type: ignore[arg-type]  # checked by kind: isinstance costs twice as much
    if kind is dict:
        for key, member in value.items():  # type: ignore[union-attr]
            if (room := _room_left(member, room - len(key) - 6)) < 0:
                break
        return room - 2
    if kind is list:
        for member in value:  # type: ignore[union-attr]
            if (room := _room_left(member, room - 2)) < 0:
                break
        return room - 2
    if kind is int:
        return room - 20 if -(2**63) <= value < 2**63 else -1  # type: ignore[operator]
    return room - 5


class _Level:
    """A container half written: what is left of it, and what stands before its next member."""

    __slots__ = ("closing", "items", "separator")

    def __init__(self, items: Iterator[tuple[str, JsonValue]], closing: str) -> None:
        self.items = items
        self.closing = closing
        self.separator = ""


def _opened(value: JsonValue, levels: list[_Level], limit: int) -> str:
    """The text that `value` begins with; the members of a container become the next level."""
    if isinstance(value, dict):
        members = value.items()
        levels.append(_Level(((f"{_text_excerpt(key, limit)}: ", member) for key, member in members), "}"))
        return "{"
    if isinstance(value, list):
        levels.append(_Level((("", member) for member in value), "]"))
        return "["
    return _text_excerpt(value, limit) if isinstance(value, str) else scalar_text(value)


def _text_excerpt(text: str, limit: int) -> str:
    return _encode(text[: limit + 1])


def scalar_text(value: bool | int | float | None) -> str:
    """The JSON text of a number, true, false or null."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > _MAX_DIGITS_SHOWN * 3:
        return f"an integer of {value.bit_length()} bits"
    return _encode(value)
