"""The arguments, result, error and call id of a tool's execution, by the words on the keys of its span."""

from collections.abc import Iterator
from typing import NamedTuple

from tracegrade.extract.decode.unwrap import properties
from tracegrade.extract.decode.values import call_id
from tracegrade.extract.document import OWN, is_flattened, own, parsed
from tracegrade.extract.shape.words import FORMS, WRAPPERS, Slot, is_about_exchange, is_exchange, read_segment, words_of
from tracegrade.model.json_value import JsonValue

_MAX_DEPTH = 8
_MAX_FIELDS = 1000
_OF_CALL = frozenset({"tool", "function", "call"})
_VERDICTS = frozenset({"outcome", "success"})
_FAILED = frozenset({"error", "failed", "failure"})
_NO_ERROR = ("", "null", "None", "none", "false", "False")
_DEFAULT = frozenset({"default"})
_MEDIA_TYPE = (("mime", "type"), ("content", "type"))
_ROLES = frozenset({"user", "human", "assistant", "tool"})


class Field(NamedTuple):
    """A value of a document, with the parts of its key."""

    path: tuple[str, ...]
    value: JsonValue


class Values(NamedTuple):
    """What a span says of one execution; None where it does not, and ``error`` is what went wrong.

    ``request_id`` is the id of a call only where a model asked for a call with it.
    """

    arguments: JsonValue = None
    result: JsonValue = None
    error: JsonValue = None
    call_id: str | None = None
    request_id: str | None = None


def fields(document: dict[str, JsonValue]) -> Iterator[Field]:
    """The members of a document at any depth, outer ones first, and those of objects that are texts in it.

    Not those below lists, nor what is not to be searched. What holds a value of a call is entered only where it was
    made of keys.
    """
    level: list[tuple[tuple[str, ...], dict[str, JsonValue]]] = [((), document)]
    left = _MAX_FIELDS
    for _ in range(_MAX_DEPTH):
        below: list[tuple[tuple[str, ...], dict[str, JsonValue]]] = []
        for path, members in level:
            for key, value in members.items():
                if key == OWN:
                    continue
                left -= 1
                if left < 0:
                    return
                inner = (*path, key)
                yield Field(inner, value)
                if not _is_entered(inner):
                    continue
                if type(value) is str and value[:1] == "{" and slot_of(inner) is None and not _is_below_slot(inner):
                    value = parsed(value)
                if isinstance(value, dict):
                    below.append((inner, value))
        level = below


def _is_entered(path: tuple[str, ...]) -> bool:
    said = read_segment(path[-1])
    if not said.is_searched:
        return False
    return len(path) < 2 or _pair(path) not in (("llm", "request"), ("llm", "response"), ("additional", "kwargs"))


def _pair(path: tuple[str, ...]) -> tuple[str, str]:
    one, other = words_of(path[-2]), words_of(path[-1])
    return (one[-1] if one else "", other[0] if other else "")


def _is_below_slot(path: tuple[str, ...]) -> bool:
    return any(read_segment(part).slot is not None for part in path[:-1])


def slot_of(path: tuple[str, ...]) -> Slot | None:
    """What a value at this path is, by the outermost part that says so; None for a part of an outer value, too."""
    found = read_segment(path[-1]).slot
    if found is None or _is_below_slot(path):
        return None
    return found if len(path) < 2 or _is_entered(path) else None


def holds_value(path: tuple[str, ...], value: JsonValue) -> bool:
    """Whether a value at this path is the arguments or the result of a call, and not only what is said about them."""
    is_value = slot_of(path) in ("arguments", "result")
    return is_value and (not is_flattened(value) or _value_as_sent(value, path) is not None)


def values_of(document: dict[str, JsonValue]) -> Values:
    """The values of one execution; of several for one slot the one whose key speaks of a call, then the shortest."""
    best: dict[Slot, tuple[tuple[bool, int], JsonValue]] = {}
    bare: list[JsonValue] = []
    identity: tuple[tuple[bool, int], str] | None = None
    request_id: str | None = None
    for path, value in fields(document):
        if is_id(path) and (found := call_id(own(value))) is not None:
            rank = (not _speaks_of_call(path), len(path))
            if identity is None or rank < identity[0]:
                identity = rank, found
        elif request_id is None and read_segment(path[-1]).is_request_id:
            request_id = call_id(own(value))
        slot = slot_of(path)
        if slot is None:
            continue
        shown = _value_as_sent(value, path)
        if shown is None or (slot == "arguments" and properties(parsed(shown)) is not None):
            continue
        if slot == "error":
            if not _says_failed(path, shown):
                continue
            shown = True if words_of(path[-1])[-1] in _VERDICTS else shown
        if words_of(path[-1]) == ("value",):
            bare.append(shown)
            continue
        rank = (not _speaks_of_call(path), len(path))
        if slot not in best or rank < best[slot][0]:
            best[slot] = rank, shown
    if len(bare) == 1 and "result" not in best:  # of several, nothing says which
        best["result"] = (True, 0), bare[0]
    arguments, result, error = (best[slot][1] if slot in best else None for slot in _SLOTS)
    arguments = _given_by_name(arguments)
    return Values(arguments, result, error, identity[1] if identity is not None else None, request_id)


def _given_by_name(arguments: JsonValue) -> JsonValue:
    """Arguments that were sent as a list of objects, each of which names one, as one object; others as they are."""
    items = parsed(arguments)
    if not isinstance(items, list) or not items:
        return arguments
    named: dict[str, JsonValue] = {}
    for item in items:
        if not isinstance(item, dict) or len(item) != 1:
            return arguments
        ((name, value),) = item.items()
        if name in named or not name.isidentifier() or name in _ROLES or read_segment(name).is_id:
            return arguments
        named[name] = value
    return named


def is_id(path: tuple[str, ...]) -> bool:
    """Whether a key ends in call id, tool id or use id, and is not the id of an agent's call."""
    last = path[-1]
    is_split = last.lower() == "id" and len(path) > 1 and words_of(path[-2])[-1:] in (("call",), ("tool",), ("use",))
    if not is_split and not read_segment(last).is_id:
        return False
    return [word for part in path[-3:] for word in words_of(part)][-3:-2] != ["agent"]


_SLOTS: tuple[Slot, ...] = ("arguments", "result", "error")


def _speaks_of_call(path: tuple[str, ...]) -> bool:
    return any(not _OF_CALL.isdisjoint(words_of(part)) for part in path)


def _value_as_sent(value: JsonValue, path: tuple[str, ...]) -> JsonValue:
    """A value as it was sent; what lies flattened below a key is one object, or what its only member holds."""
    if not is_flattened(value):
        return _untyped(_without_media_type(value))
    if isinstance(value, list):
        return [_member(item) for item in value]
    assert isinstance(value, dict)
    if OWN in value:
        return _untyped(value[OWN])
    if is_exchange(path[-1]):
        value = {key: member for key, member in value.items() if not is_about_exchange(key)}
    content = [key for key in value if FORMS.isdisjoint(words_of(key))]
    if not content:
        return None
    if len(content) == 1 and _is_all(content[0], value[content[0]], path):
        return _value_as_sent(value[content[0]], path)
    return {key: _member(member) for key, member in value.items() if key != OWN}


def _without_media_type(value: JsonValue) -> JsonValue:
    """The ``value`` of an object that has nothing else but its media type; every other value as it is."""
    found = parsed(value) if isinstance(value, str) and value[:1] == "{" else value
    if not isinstance(found, dict) or len(found) != 2 or "value" not in found:
        return value
    return found["value"] if any(words_of(key) in _MEDIA_TYPE for key in found) else value


def _is_wrapper(key: str, path: tuple[str, ...]) -> bool:
    words = words_of(key)
    if len(words) != 1:
        return False
    return words[0] in WRAPPERS or words[0] in _DEFAULT or read_segment(key).slot == read_segment(path[-1]).slot


def _is_all(key: str, value: JsonValue, path: tuple[str, ...]) -> bool:
    """Whether the only member of a value is the whole of it, under a word for how it is written or who said it."""
    return _is_wrapper(key, path) or _is_plain(key, value) or (key in _ROLES and isinstance(parsed(own(value)), dict))


def _is_plain(key: str, value: JsonValue) -> bool:
    """Whether a key for messages holds none, but what a tool took or gave."""
    return words_of(key) == ("messages",) and not isinstance(parsed(own(value)), list)


def _member(value: JsonValue) -> JsonValue:
    """A flattened member: what is no scalar was sent as text."""
    if isinstance(value, dict) and is_flattened(value):
        return {key: _member(item) for key, item in value.items() if key != OWN}
    if isinstance(value, list) and is_flattened(value):
        return [_member(item) for item in value]
    return parsed(value)


def _untyped(value: JsonValue) -> JsonValue:
    return parsed(value) if isinstance(value, str) and value.startswith("@") else value


def _says_failed(path: tuple[str, ...], value: JsonValue) -> bool:
    verdict = words_of(path[-1])[-1]
    if verdict == "success":
        return value is False or value == "false"
    if verdict == "outcome":
        return isinstance(value, str) and value.lower() in _FAILED
    if isinstance(value, str):
        return value not in _NO_ERROR
    return bool(value)
