"""Which spans decoding keeps whole, with all attributes and events, so that they can be read by shape.

That is decided by a span's set of keys and its name alone: a trace then has the same spans live and in replay.
"""

from collections.abc import Collection, Iterable
from functools import lru_cache

from tracegrade.extract.shape.kinds import is_kind_key, is_tool_name_key
from tracegrade.extract.shape.values import is_id
from tracegrade.extract.shape.words import Slot, read_segment, words_of

MAX_KEYS = 128
MAX_BYTES = 256 * 1024

# Attributes of what is no agent's work: these spans are read by shape only where they have a call's id.
FOREIGN = ("http.", "url.", "db.", "messaging.", "rpc.", "graphql.", "faas.", "mcp.", "jsonrpc.", "cicd.", "jenkins.")
_MODEL = frozenset({"model", "tokens", "llm"})
_TOOL = frozenset({"tool", "function", "toolcall"})
_ANYBODYS = frozenset({"span.type", "operation.name", "operation.id", "logfire.msg"})
_OF_TOOL = frozenset({"arguments", "result"})
_CONTENT = frozenset({"messages", "message", "prompt", "prompts", "completion", "completions", "choices", "content"})


MESSAGE_WORDS = frozenset({"role", "content", "parts", "tool_calls", "message", "messages", "choices"})


def may_hold_message(text: str) -> bool:
    """Whether a text may be JSON with a message or a call in it."""
    return text[:1] in ("{", "[") and any(f'"{word}"' in text for word in _WORDS_OF_WORK)


_WORDS_OF_WORK = ("role", "parts", "tool_calls", "toolCalls", "tool_call_id", "tool_name", "function", "tool_use_id")


def is_anybodys(mark: str) -> bool:
    """Whether a key by which a dialect knows its spans is one that others write, too: without a sender's prefix."""
    return "." not in mark or mark in _ANYBODYS


def is_kept_whole(keys: Collection[str], kept: Collection[str], *, is_known: bool) -> bool:
    """Whether a span with these attribute keys is kept whole, whatever its name is.

    Args:
        keys: those of a span, no more than `MAX_KEYS`, and not `is_foreign`.
        kept: those of them that are kept in any case.
        is_known: whether a dialect knows the span by a key with its sender's prefix. Then it is kept whole only where
            values, messages or calls stand under keys that no dialect reads, and under none that one reads.
    """
    if not is_known:
        return not keys or any(map(_is_telling, keys))
    known, further = _held(kept), _held(key for key in keys if key not in kept)
    if not known.issuperset(further):
        return True
    # A tool's values may also stand in messages, which dialects read of models alone.
    return (
        "messages" in known
        and not known.issuperset(_OF_TOOL)
        and any(is_tool_name_key(tuple(key.split("."))) for key in keys)
    )


def is_foreign(keys: Iterable[str]) -> bool:
    """Whether a span of these keys is one of another kind of work, and has no call's id."""
    return any(key.startswith(FOREIGN) for key in keys) and not any(map(_is_id, keys))


def names_tool(span_name: str) -> bool:
    """Whether a span's name has the word tool or function."""
    return not _TOOL.isdisjoint(words_of(span_name))


def _is_id(key: str) -> bool:
    return is_id(tuple(key.split(".")))


def _is_telling(key: str) -> bool:
    """Whether a key may say that its span is of a tool or a model, or hold what one took or gave."""
    path = tuple(key.split("."))
    words = {word for part in path for word in words_of(part)}
    if not _MODEL.isdisjoint(words) or not _TOOL.isdisjoint(words) or not _CONTENT.isdisjoint(words):
        return True
    return is_kind_key(path) or is_tool_name_key(path) or any(read_segment(part).slot is not None for part in path)


def _held(keys: Iterable[str]) -> set[str]:
    """What values of a call stand under these keys."""
    found: set[str] = set()
    for key in keys:
        path = key.split(".")
        if not all(read_segment(part).is_searched for part in path):
            continue
        if not _CONTENT.isdisjoint(words_of(path[-1])):
            found.add("messages")
            continue
        slot = next((slot for part in path if (slot := read_segment(part).slot) is not None), None)
        if slot is not None and slot != "error":
            found.add(slot)
    return found


@lru_cache(maxsize=10_000)
def slot_at(key: str) -> Slot | None:
    """What an attribute with this key is, or is a part of, on the span of a tool; None for anything else."""
    path = key.split(".")
    if not all(read_segment(part).is_searched for part in path):
        return None
    return next((slot for part in path if (slot := read_segment(part).slot) is not None), None)


def names_below_slot(key: str) -> tuple[str, ...]:
    """The names of members below the part of a key that says that arguments or a result lie flattened there."""
    path = key.split(".")
    place = next((place for place, part in enumerate(path) if read_segment(part).slot is not None), len(path))
    return tuple(path[place + 1 :])


@lru_cache(maxsize=10_000)
def is_structure_by_shape(key: str) -> bool:
    """Whether a key says what its span is, which tool it is of, or by which id a model asked for it."""
    path = tuple(key.split("."))
    return is_kind_key(path) or is_tool_name_key(path) or is_id(path)
