"""Chooses the value of a call where two witnesses show it: an execution's span, and what a model asked or was told.

What a span shows counts, unless it is an envelope around the value or the printed form of an object. That is seen in
the call, and not known by sender: the other witness shows the value, and the span shows it as one of its members.
"""

import json
import re
from collections.abc import Iterator

from tracegrade.extract.decode.reprs import read_repr
from tracegrade.extract.decode.values import Decoded, canonical, decode
from tracegrade.model.json_value import JsonValue

MAX_DEPTH = 4
"""How deep in an envelope the value may stand."""
_MAX_MEMBERS = 1000
_EMPTY: tuple[JsonValue, ...] = (None, "", [], {})
_MAX_REPR_CHARS = 100_000
_PRINTED = re.compile(r"[\[{\d-]|(?:None|True|False|null|true|false)\Z")
_OBJECT = re.compile(r" object at 0x|\A\[object \w+\]\Z")

# Members of which envelopes are made. A value without any of them is none, and costs no look at the other witness.
WRAPPERS = frozenset(
    {"arg", "args", "arguments", "body", "content", "contents", "data", "input", "inputs", "kwargs", "message"}
    | {"messages", "output", "outputs", "param", "parameters", "params", "payload", "request", "response", "result"}
    | {"results", "return", "returned", "text", "tool_input", "tool_output", "update", "value", "values", "_value"}
    | {"__default__", "default"}
)


def open_arguments(executed: Decoded, requested: Decoded) -> Decoded:
    """The arguments of an execution: without an envelope around those requested, and with those left out as null.

    Where all values are texts, of what was requested, they are what was requested: the sender prints each.

    Where the two differ otherwise, the execution's count: a tool may be given other arguments than a model asked for.
    """
    inside, asked = executed.value, requested.value
    if not isinstance(inside, dict) or not isinstance(asked, dict) or not requested.is_readable or inside == asked:
        return executed
    if inside.keys() == asked.keys() and all(_is_text_of(inside[name], value) for name, value in asked.items()):
        return Decoded(asked, executed.status)
    missing = {name for name, value in asked.items() if value is None and name not in inside}
    if missing and all(name in inside for name in asked if name not in missing):
        return Decoded({**inside, **dict.fromkeys(name for name in asked if name in missing)}, executed.status)
    only = lone_object(inside)
    if only == asked or (only and asked and all(name in only and only[name] == asked[name] for name in asked)):
        return Decoded(only, executed.status)  # a function may be given what it takes by default as well
    found = find_member(inside, asked)
    return Decoded(asked, executed.status) if found is not None else executed


def lone_object(arguments: dict[str, JsonValue]) -> dict[str, JsonValue] | None:
    """The object that is all of some arguments, under whatever name a function gives its only parameter; else None."""
    only = next(iter(arguments.values())) if len(arguments) == 1 else None
    return only if type(only) is dict else None


def may_be_printed(arguments: dict[str, JsonValue]) -> bool:
    """Whether all values are texts, and one of them may be that of a value which is none."""
    found = False
    for value in arguments.values():
        if type(value) is not str:
            return False
        found = found or _PRINTED.match(value) is not None
    return found


def is_flattened_form(shown: JsonValue, value: JsonValue) -> bool:
    """Whether what a span shows is an object as flattened keys have it: its null printed, what is empty left out."""
    if not isinstance(shown, dict) or not isinstance(value, dict) or not shown.keys() <= value.keys():
        return False
    return all(
        shown[name] == member or _is_text_of(shown[name], member) if name in shown else member in _EMPTY
        for name, member in value.items()
    )


def _is_text_of(shown: JsonValue, value: JsonValue) -> bool:
    """Whether a text is a requested text, or what JSON or Python writes for a value that is none."""
    if type(shown) is not str or type(value) is str:
        return shown == value and type(shown) is str
    if value is None or value is True or value is False:
        return shown in (str(value), json.dumps(value))
    return _same(shown, value)


def may_wrap(value: JsonValue) -> bool:
    """Whether a value may be an envelope, or the printed form of an object, so that another witness is worth asking."""
    if isinstance(value, dict):
        return not WRAPPERS.isdisjoint(value)
    if isinstance(value, list):
        return bool(value) and all(isinstance(item, dict) and not WRAPPERS.isdisjoint(item) for item in value)
    return isinstance(value, str) and (_OBJECT.search(value) is not None or _is_call(value))


def open_output(executed: Decoded, told: Decoded) -> Decoded:
    """The result of an execution: no envelope around what a model was told, nor the printed form of an object."""
    value = executed.value
    if isinstance(value, str):
        if _OBJECT.search(value):
            return told
        value = read_repr(value) if len(value) <= _MAX_REPR_CHARS else None
    if value is None or _same(value, told.value):
        return executed
    found = find_member(value, told.value)
    return Decoded(found.value, executed.status if found.status == "ok" else found.status) if found else executed


def begins_with(told: JsonValue, part: JsonValue) -> bool:
    """Whether what a model was told is a list or several lines, of which an execution shows the first."""
    if isinstance(told, list):
        return len(told) > 1 and _same(told[0], part)
    if not isinstance(told, str):
        return False
    if isinstance(part, str):
        return told.startswith(f"{part}\n")
    first, newline, _ = told.partition("\n")
    return bool(newline) and _same(first, part)


def find_member(envelope: JsonValue, witness: JsonValue) -> Decoded | None:
    """The member of an envelope that is equal to what another witness shows, None where there is none.

    A witness that any object may hold by chance (null, false, a small number, an empty text, list or object) is looked
    for below words of envelopes alone, and not beside a member that holds something.
    """
    if isinstance(envelope, list) and _is_joined(envelope, witness):
        return decode(witness)
    is_plain = witness is False or witness in _EMPTY or _is_small(witness)
    wanted = canonical(_normal(witness))
    for path_is_known, siblings_hold, value in _members(envelope):
        if is_plain and (not path_is_known or (siblings_hold and not value)):
            continue
        if isinstance(value, list) and _is_joined(value, witness):
            return decode(witness)
        if canonical(_normal(value)) == wanted:
            return decode(value) if value is not None else Decoded(None, "ok")
    return None


def _members(envelope: JsonValue) -> Iterator[tuple[bool, bool, JsonValue]]:
    """Members from the outside in: whether the path is of words of envelopes, whether others beside hold something."""
    level: list[tuple[bool, JsonValue]] = [(True, envelope)]
    seen = 0
    for _ in range(MAX_DEPTH):
        below: list[tuple[bool, JsonValue]] = []
        for known, value in level:  # grows by the items of lists, which are no deeper
            if isinstance(value, dict):
                holding = {key for key in value.keys() & WRAPPERS if value[key] not in _EMPTY}
                for key, item in value.items():
                    is_word = known and key in WRAPPERS
                    yield is_word, not holding <= {key}, item
                    below.append((is_word, item))
            elif isinstance(value, list):
                for item in value:
                    yield known, len(value) > 1, item
                level += [(known, item) for item in value if isinstance(item, dict | list)]
            seen += 1
            if seen > _MAX_MEMBERS:
                return
        level = below


def _is_joined(parts: list[JsonValue], witness: JsonValue) -> bool:
    """Whether the texts of text parts, joined, are the witness."""
    texts = []
    for part in parts:
        text = part.get("text", part.get("content")) if isinstance(part, dict) else None
        if not isinstance(text, str):
            return False
        texts.append(text)
    return bool(texts) and any(_same(glue.join(texts), witness) for glue in ("", "\n"))


def _same(one: JsonValue, other: JsonValue) -> bool:
    return canonical(_normal(one)) == canonical(_normal(other))


def _normal(value: JsonValue) -> JsonValue:
    """A value as it is compared: what a text stands for, if it is JSON or a literal."""
    return decode(value).value if isinstance(value, str) and value.strip() else value


def _is_small(value: JsonValue) -> bool:
    found = _normal(value)
    return isinstance(found, int | float) and not isinstance(found, bool) and abs(found) < 10


def _is_call(text: str) -> bool:
    """Whether a text looks like the printed form of an object: ``Name(member=...)``."""
    head, bracket, rest = text[:80].partition("(")
    return bool(bracket) and head.isidentifier() and head[:1].isupper() and "=" in rest and text.endswith(")")
