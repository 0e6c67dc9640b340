"""Words of attribute keys, and what a key says that its value is."""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

Slot: TypeAlias = Literal["arguments", "result", "error"]

# Keys and names repeat; longer ones and more of them are worked out again each time.
_MAX_LEARNT = 1 << 14
_LONGEST_LEARNT = 128
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

_ARGUMENTS = frozenset(
    {"arguments", "args", "parameters", "params", "param", "input", "inputs", "kwargs", "request", "payload"}
)
_RESULT = frozenset({"output", "outputs", "result", "results", "response", "return", "returned", "value"})
_ERROR = frozenset({"error", "exception", "outcome", "success"})
_SLOTS: dict[str, Slot] = {
    **dict.fromkeys(_ARGUMENTS, "arguments"),
    **dict.fromkeys(_RESULT, "result"),
    **dict.fromkeys(_ERROR, "error"),
}
# How a value is written, or where in an envelope it stands: behind a word of `_SLOTS` they are a part of its name.
WRAPPERS = frozenset(
    {"value", "json", "text", "str", "string", "content", "data", "body", "raw", "payload", "dict", "message"}
)
# Members that say how the value beside them is written.
FORMS = frozenset({"mime", "mimetype", "type", "format", "encoding", "length", "size", "truncated"})
# Below these no value of a call is looked for.
_NOT_SEARCHED = frozenset(
    {
        *("schema", "definition", "definitions", "declaration", "declarations", "expected", "reference", "metadata"),
        *("usage", "history", "state", "details", "example", "examples", "target", "header", "headers", "instructions"),
        *("description", "tokens", "token", "cost"),
    }
)
_NOT_SEARCHED_PAIRS = frozenset(
    {("llm", "request"), ("llm", "response"), ("additional", "kwargs"), ("model", "parameters"), ("model", "request")}
)
_KIND = frozenset({"kind", "type", "node", "operation", "op", "category"})
_NO_KIND = frozenset({"error", "exception", "response", "finish", "mime", "content", "choice", "output", "media"})
_ID_OWNERS = frozenset({"call", "tool", "use"})


class KeyWords(NamedTuple):
    """The words of a key segment, and which of them decides."""

    words: tuple[str, ...]
    slot: Slot | None
    is_searched: bool
    names_tool: bool
    is_kind: bool
    is_id: bool
    is_request_id: bool


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _WORD.findall(text))


_learnt_words = lru_cache(_MAX_LEARNT)(_words)


def words_of(text: str) -> tuple[str, ...]:
    """The words of a key or name, in lower case: it is split where it has no letter or digit, and at capitals."""
    return _learnt_words(text) if len(text) <= _LONGEST_LEARNT else _words(text)


def slot_within(path: Sequence[str]) -> tuple[Slot, int] | None:
    """What a value at this path is or is a part of, by the outermost word for it, and the place of this word.

    What is said about a request or a response, such as its model, is no part of what it holds.
    """
    for place, part in enumerate(path):
        said = read_segment(part)
        if not said.is_searched:
            return None
        if said.slot is not None:
            is_about = said.words[-1] in _EXCHANGES and any(map(is_about_exchange, path[place + 1 :]))
            return None if is_about else (said.slot, place)
    return None


_EXCHANGES = frozenset({"request", "response"})
_ABOUT_EXCHANGES = frozenset(
    {"id", "model", "status", "code", "finish", "stop", "reason", "reasons", "tokens", "temperature", "top", "stream"}
    | {"streaming", "seed", "count", "method", "version", "duration", "time", "timestamp", "headers", "provider"}
    | {"penalty", "sequences", "length", "size", "mime", "format", "encoding", "type", "service", "tier", "name"}
    | {"effort", "ms", "seconds"}
)


def is_exchange(part: str) -> bool:
    """Whether a part of a key is a request or a response."""
    return read_segment(part).words[-1:] in (("request",), ("response",))


def is_about_exchange(member: str) -> bool:
    """Whether a member of a request or response says something about it, and is not what it holds."""
    return not _ABOUT_EXCHANGES.isdisjoint(words_of(member))


def names_tools(words: tuple[str, ...]) -> bool:
    """Whether words before ``name`` end in tool or function, or in a call of one."""
    return words[-1:] in _TOOLS or (words[-1:] == ("call",) and words[-2:-1] in _TOOLS)


_TOOLS = (("tool",), ("function",))


def names_session(key: str) -> bool:
    """Whether a key, under any prefix, names a session."""
    return words_of(key)[-2:] in _SESSIONS


_SESSIONS = (("session", "id"), ("conversation", "id"), ("thread", "id"))


def _key_words(segment: str) -> KeyWords:
    words = words_of(segment)
    if not words:
        return KeyWords((), None, True, False, False, False, False)
    last = words[-1]
    is_searched = _NOT_SEARCHED.isdisjoint(words) and not any(pair in _NOT_SEARCHED_PAIRS for pair in pairwise(words))
    slot: Slot | None = None
    if last in _ERROR:
        slot = "error"
    elif last in _SLOTS or last in WRAPPERS:
        slot = next((_SLOTS[word] for word in words if word in _SLOTS), None)
    return KeyWords(
        words,
        slot if is_searched else None,
        is_searched,
        words in (("tool",), ("function",)) or (words[-1:] == ("name",) and names_tools(words[:-1])),
        last in _KIND and _NO_KIND.isdisjoint(words),
        last == "id" and len(words) > 1 and words[-2] in _ID_OWNERS,
        words[-2:] == ("request", "id"),
    )


_learnt = lru_cache(_MAX_LEARNT)(_key_words)


def read_segment(segment: str) -> KeyWords:
    """What one part of a key, between dots, says."""
    return _learnt(segment) if len(segment) <= _LONGEST_LEARNT else _key_words(segment)
