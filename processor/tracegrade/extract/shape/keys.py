"""Which spans decoding keeps whole, with all attributes and events, so that they can be read by shape.

That is decided by a span's set of keys and its name alone: a trace then has the same spans live and in replay.
"""

import re
from collections.abc import Container, Iterable, Sequence
from functools import lru_cache

from tracegrade.extract.shape.kinds import TAGS, is_kind_key, is_tool_name_key
from tracegrade.extract.shape.names import is_word
from tracegrade.extract.shape.values import is_id
from tracegrade.extract.shape.words import FORMS, WRAPPERS, Slot, read_segment, slot_within, words_of
from tracegrade.semconv import LOGFIRE_TEMPLATE

MAX_KEYS = 128
# Spans that a dialect knows and that have more keys hold flattened messages, which it reads.
MAX_KNOWN_KEYS = 64
MAX_BYTES = 256 * 1024
MAX_LOOKED_AT = 16 * 1024  # characters of a text, for the words of such work

# Attributes of what is no agent's work: these spans are read by shape only where they have a call's id.
FOREIGN = ("http.", "url.", "db.", "messaging.", "rpc.", "graphql.", "faas.", "mcp.", "jsonrpc.", "cicd.", "jenkins.")
_MODEL = frozenset({"model", "tokens", "llm"})
_TOOL = frozenset({"tool", "function", "toolcall"})
_ANYBODYS = frozenset({"span.type", "operation.name", "operation.id", "logfire.msg"})
_TOOL_NAMES = frozenset({"tool.name", "gen_ai.tool.name"})
_OF_TOOL = frozenset({"arguments", "result"})
AGENT_NAMES = (("agent", "name"), ("agent", "role"))
_OTHER_AGENTS = frozenset({"last", "previous", "parent", "next", "caller", "target", "source"})
_CONTENT = frozenset({"messages", "message", "prompt", "prompts", "completion", "completions", "choices", "content"})


def may_hold_message(text: str) -> bool:
    """Whether a text may be JSON with a message or a call in it."""
    return _MAY_BE_STRUCTURE.match(text) is not None and _OF_MESSAGES.search(text) is not None


def may_hold_work(text: str) -> bool:
    """Whether a text may be JSON of what a model or a tool did: with a message, a call, or the kind of its span."""
    return text[:1] in _OPENS_JSON and _OF_WORK.search(text, 0, MAX_LOOKED_AT) is not None


def says_message(wire: bytes) -> bool:
    """Whether the bytes of a value may be those of a message or a call."""
    return _OF_MESSAGES_AS_BYTES.search(wire) is not None


@lru_cache(maxsize=10_000)
def names_call(key: str) -> bool:
    """Whether a key of a log record names a tool."""
    return is_tool_name_key(tuple(key.split("."))) and key != "function"


@lru_cache(maxsize=10_000)
def names_agent(key: str) -> bool:
    """Whether a key names the agent at work, and not one before or above it."""
    words = words_of(key)
    return words[-2:] in AGENT_NAMES and _OTHER_AGENTS.isdisjoint(words)


# JSON, JSON in quotes, a typed text, and the repr of an object.
_MAY_BE_STRUCTURE = re.compile(r'\s*(?:[\[{"@]|[A-Z]\w*\()')
_OF_MESSAGES = re.compile(
    r"""\b(?:role|parts|(?:custom_)?tool_?calls?|toolCalls?|(?:server_|mcp_)?tool_?use|mcp_call|toolUse|tool_?results?"""
    r"""|toolResult|tool_?name|toolName|tool\.name|function|function_call|functionCall|functionResponse|lc_kwargs|kwargs)\b"""
)
_OPENS_JSON = frozenset("{[")
_OF_WORK = re.compile(f'{_OF_MESSAGES.pattern}|(?i:["_ ]tool|llm|model)')
_OF_MESSAGES_AS_BYTES = re.compile(_OF_MESSAGES.pattern.encode())


def is_known(marks: Iterable[str], keys: Iterable[str]) -> bool:
    """Whether a dialect knows a span of these keys surely, by those of them that are `marks` of dialects.

    Marks without a sender's prefix are written by others, too, and so is a tool's name beside a key of a sender that
    says of what kind its span is. Logfire writes a template on all that programs send through it.
    """
    own = [mark for mark in marks if "." in mark and mark not in _ANYBODYS]
    if own == [LOGFIRE_TEMPLATE]:
        return not any(is_tool_name_key(tuple(key.split("."))) for key in keys)
    if not own or not _TOOL_NAMES.issuperset(own):
        return bool(own)
    return not any(is_kind_key(tuple(key.split("."))) for key in keys)


def may_be_read(keys: Sequence[str], *, is_marked: bool) -> bool:
    """Whether a span with these attribute keys, which no dialect knows, is kept whole whatever its name is.

    With `is_marked`, it has a key by which a dialect knows spans, though others write it, too.
    """
    return not keys or any(map(_is_telling, keys)) or (not is_marked and any(map(_is_of_model, keys)))


def _is_of_model(key: str) -> bool:
    return not _MODEL.isdisjoint(word for part in key.split(".") for word in words_of(part))


def may_be_filled(marks: Iterable[str], keys: Sequence[str], kept: Iterable[str]) -> bool:
    """Whether a span that a dialect knows is kept whole, as it may show what the dialect does not find.

    Values, messages or calls stand under keys that no dialect reads, and under none that one reads; or the span names a
    tool, and whoever named it wrote messages alone for its values: other senders' keys are of other dialects. So are
    keys without a prefix where all marks are those of the conventions.

    Args:
        marks: those of the span's keys that are marks of dialects.
        keys: those of a span.
        kept: those of them that are kept in any case.
    """
    is_conventional = all(mark.startswith("gen_ai.") for mark in marks)
    kept = tuple(key for key in kept if "." in key) if is_conventional else tuple(kept)
    known = _held(kept)
    if not known.issuperset(_held(keys)):
        return True
    if "messages" not in known:
        return False
    senders = {key.partition(".")[0] for key in keys if is_tool_name_key(tuple(key.split(".")))}
    return bool(senders) and not _OF_TOOL.issubset(_held(key for key in kept if key.partition(".")[0] in senders))


def shows_content(keys: Iterable[str]) -> bool:
    """Whether values of a call, or messages, stand under some of these keys."""
    return any(_held_by(key) is not None for key in keys)


def function_key(keys: Sequence[str], kept: Container[str]) -> str | None:
    """The key of a sender's own under which the kind of a span stands, where the sender names a function beside it.

    Another convention's word for the span, which a dialect reads, may say less: a chain may be a function, and this one
    a tool. None without such keys.

    Args:
        keys: those of a span.
        kept: those of them that dialects read.
    """
    own = [tuple(key.split(".")) for key in keys if key not in kept]
    senders = {path[0] for path in own if len(path) > 1 and path[-2:] == ("function", "name")}
    kinds = (path for path in own if path[0] in senders and path[0] not in _NO_SENDERS and path[-1] == "kind")
    return next((".".join(path) for path in kinds), None)


_NO_SENDERS = frozenset({"code", "faas", "llm", "gen_ai"})


def is_foreign(keys: Iterable[str]) -> bool:
    """Whether a span of these keys is one of another kind of work, and has no call's id."""
    return any(key.startswith(FOREIGN) for key in keys) and not any(map(_is_id, keys))


def names_tool(span_name: str) -> bool:
    """Whether a span's name has the word tool or function."""
    return not _TOOL.isdisjoint(words_of(span_name))


def may_be_asked_for(span_name: str) -> bool:
    """Whether the name of a span with one key, perhaps its sender's own, may be a tool's: one word, or it says tool."""
    return is_word(span_name) or names_tool(span_name)


def _is_id(key: str) -> bool:
    return is_id(tuple(key.split(".")))


def _is_telling(key: str) -> bool:
    """Whether a key may say that its span is of a tool or a model, or hold what either took or gave."""
    path = tuple(key.split("."))
    words = {word for part in path for word in words_of(part)}
    if not _TOOL.isdisjoint(words) or not _CONTENT.isdisjoint(words_of(path[-1])[-1:]):
        return True
    return (
        key == TAGS or is_kind_key(path) or is_tool_name_key(path) or names_agent(key) or slot_within(path) is not None
    )


def _held(keys: Iterable[str]) -> set[str]:
    """What values of a call stand under these keys."""
    return {held for key in keys if (held := _held_by(key)) is not None}


def _read_held(key: str) -> str | None:
    path = key.split(".")
    last = words_of(path[-1])[-1:]
    if not _CONTENT.isdisjoint(last):
        if not all(read_segment(part).is_searched for part in path):
            return None
        return "messages" if last == ("messages",) else "content"
    if words_of(key)[-2:] in _TOOL_LISTS:
        return None
    at = slot_within(path)
    return at[0] if at is not None and at[0] != "error" and FORMS.isdisjoint(words_of(path[-1])) else None


# What a model was told that it may call is no content: nothing in it was said.
_TOOL_LISTS = (("tool", "names"), ("function", "names"), ("request", "tools"), ("request", "functions"))
_learnt_held = lru_cache(1 << 14)(_read_held)


def _held_by(key: str) -> str | None:
    return _learnt_held(key) if len(key) <= _LONGEST_LEARNT else _read_held(key)


_LONGEST_LEARNT = 256


@lru_cache(maxsize=10_000)
def slot_at(key: str) -> Slot | None:
    """What an attribute with this key is, or is a part of, on the span of a tool; None for anything else."""
    at = slot_within(key.split("."))
    return at[0] if at is not None else None


@lru_cache(maxsize=10_000)
def is_key_of(key: str, slot: Slot) -> bool:
    """Whether a key is one for arguments or a result, and says nothing about it: not an id, a type or a count."""
    path = key.split(".")
    at = slot_within(path)
    if at is None or at[0] != slot:
        return False
    return all(WRAPPERS.issuperset(words_of(part)) or read_segment(part).slot == slot for part in path[at[1] + 1 :])


def names_below_slot(key: str) -> tuple[str, ...]:
    """The names of members below the part of a key that says that arguments or a result lie flattened there."""
    path = key.split(".")
    at = slot_within(path)
    return tuple(path[at[1] + 1 :]) if at is not None else ()


def may_name_argument(key: str) -> bool:
    """Whether a key of a tool's span may be the name of an argument: one word that says nothing of the span itself."""
    return key.isidentifier() and slot_at(key) is None and not is_structure_by_shape(key)


@lru_cache(maxsize=10_000)
def is_structure_by_shape(key: str) -> bool:
    """Whether a key says what its span is, which tool it is of, or by which id a model asked for it."""
    path = tuple(key.split("."))
    return is_kind_key(path) or is_tool_name_key(path) or is_id(path)


@lru_cache(maxsize=10_000)
def is_content_key(key: str) -> bool:
    """Whether what a model took in or put out stands under a key."""
    return _held_by(key) is not None


@lru_cache(maxsize=10_000)
def is_finish_reason(key: str) -> bool:
    """Whether a key says why a model ended."""
    return words_of(key)[-2:] in _REASONS


_REASONS = (("finish", "reason"), ("finish", "reasons"), ("stop", "reason"), ("finish", "type"))
