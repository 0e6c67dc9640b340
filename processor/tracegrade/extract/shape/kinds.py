"""What spans say that they are, by their kind words, and the names of models and tools on them."""

from collections.abc import Iterable
from typing import NamedTuple

from tracegrade.extract.document import own
from tracegrade.extract.shape.values import Field
from tracegrade.extract.shape.words import names_tools, read_segment, words_of
from tracegrade.model.json_value import JsonValue

_LONGEST_KIND = 60
_NO_TOOL = frozenset(
    {"definition", "definitions", "schema", "list", "tools", "choice", "set", "kit", "registry", "search", "message"}
    | {"prompt", "blocked", "wait", "init", "install", "error"}
)
TAGS = "tags"
_OF_A_RUN = frozenset({"tool", "run", "call", "execute", "execution", "invoke"})
# Words that are written without a separator.
_JOINED = frozenset(
    {"toolcall", "toolexecution", "toolrun", "tooluse", "executetool", "calltool", "runtool", "invoketool"}
)
_FUNCTION_CALLS = frozenset({("function", "call"), ("functioncall",), ("call", "function"), ("execute", "function")})
# What the conventions say of where a program runs, and not of what it does.
_NO_WORK = frozenset(
    {"terminal", "os", "host", "process", "telemetry", "device", "browser", "network", "server", "service", "cloud"}
    | {"container", "k8s", "user_agent", "thread", "deployment", "app", "webengine", "peer", "net"}
)
_NO_KIND_OF = frozenset({"error", "exception", "response", "finish", "message"})
_MODEL = frozenset({"llm", "model", "inference", "generation", "chat"})
_SESSION = frozenset({"session"})  # around many model calls
_FLOW = frozenset({"workflow", "chain", "trace"})
_OTHERS = frozenset(
    {"evaluator", "evaluation", "guardrail", "guardrails", "retriever", "retrieval", "embedding", "embeddings"}
    | {"reranker", "rerank", "chain", "workflow", "prompt", "memory", "tools", "definition", "definitions", "usage"}
)


class Kinds(NamedTuple):
    """What the kind words of a span say: a tool, a function (which may be one), a model, an agent, or something else.

    ``is_task`` is the word task, which says little. ``beside`` are the prefixes of the keys that say tool or function,
    ``beside_agent`` of those that say agent, ``beside_flow`` of those that say workflow, chain or trace,
    ``beside_model`` of those that say model of an entity in a list.
    """

    is_tool: bool = False
    is_function: bool = False
    is_model: bool = False
    is_agent: bool = False
    is_chain: bool = False
    is_other: bool = False
    is_task: bool = False
    beside: frozenset[tuple[str, ...]] = frozenset()
    beside_agent: frozenset[tuple[str, ...]] = frozenset()
    beside_flow: frozenset[tuple[str, ...]] = frozenset()
    beside_model: frozenset[tuple[str, ...]] = frozenset()


def kinds_of(found: Iterable[Field]) -> Kinds:
    """The kinds that the fields of a span say.

    What a span says of itself to be a tool or a model is so whatever the entities that it lists are.
    """
    by_path = [(field.path, words) for field in found if (words := _kind_words(field)) is not None]
    if not by_path:
        return NO_KINDS
    said = [words for path, words in by_path if not any(map(str.isdigit, path))]
    if not any(is_tool_kind(words) or _is_model(words) for words in said):
        said = [words for _, words in by_path]
    tool = any(is_tool_kind(words) for words in said)
    return Kinds(
        tool,
        any(map(_is_function, said)),
        any(map(_is_model, said)),
        any("agent" in words for words in said),
        any("chain" in words for words in said),
        any(not _OTHERS.isdisjoint(words) or "tool" in words for words in said) and not tool,
        any("task" in words for words in said) and not tool,
        _beside(path for path, words in by_path if is_tool_kind(words) or _is_function(words)),
        frozenset(path[:-1] for path, words in by_path if "agent" in words),
        frozenset(path[:-1] for path, words in by_path if not _FLOW.isdisjoint(words)),
        frozenset(path[:-1] for path, words in by_path if words[:1] == ("model",) and "".join(path[-2:-1]).isdigit()),
    )


NO_KINDS = Kinds()


def _beside(kinds: Iterable[tuple[str, ...]]) -> frozenset[tuple[str, ...]]:
    """The prefixes of keys that say more of what these say the kind of: for the kind of a span, its sender's, too."""
    found = {path[:-1] for path in kinds}
    return frozenset(found | {prefix[:-1] for prefix in found if len(prefix) > 1 and prefix[-1] == "span"})


OF_TOOL = "tool"
"""The first part of keys of what is said of a tool; a model named there is the one that asked for it."""


def _kind_words(field: Field) -> tuple[str, ...] | None:
    value = own(field.value)
    if field.path[-1] == TAGS:
        return _tagged(value)
    if type(value) is not str or not value or len(value) > _LONGEST_KIND:
        return None
    return words_of(value) if is_kind_key(field.path) else None


def _tagged(value: JsonValue) -> tuple[str, ...] | None:
    """The words of a tag that says that a tool is run, and nothing else: people tag spans with words of their own."""
    tags = value if isinstance(value, list) else [value]
    said = (words_of(tag) for tag in tags if isinstance(tag, str) and len(tag) <= _LONGEST_KIND)
    return next((words for words in said if "tool" in words and len(words) > 1 and _OF_A_RUN.issuperset(words)), None)


def is_kind_key(path: tuple[str, ...]) -> bool:
    """Whether a key says of what kind its span is; also ``operation.name`` and the like."""
    if path[0] in _NO_WORK:
        return False
    last = read_segment(path[-1])
    if last.is_kind:
        return all(_NO_KIND_OF.isdisjoint(words_of(part)) for part in path[:-1])
    if last.words[-2:] == ("operation", "id"):
        return True
    if last.words[-1:] != ("name",):
        return False
    if len(last.words) > 1:
        return read_segment(path[-1][: -len("name")]).is_kind and "error" not in last.words
    return len(path) > 1 and read_segment(path[-2]).is_kind


def is_tool_kind(words: tuple[str, ...]) -> bool:
    """Whether the words of a kind say tool."""
    return ("tool" in words and _NO_TOOL.isdisjoint(words)) or not _JOINED.isdisjoint(words)


def _is_model(words: tuple[str, ...]) -> bool:
    return not _MODEL.isdisjoint(words) and _SESSION.isdisjoint(words)


def _is_function(words: tuple[str, ...]) -> bool:
    return words == ("function",) or words in _FUNCTION_CALLS


def is_tool_name_key(path: tuple[str, ...]) -> bool:
    """Whether a key holds a tool's name: its last words are tool name or function name, or just tool, function."""
    if "code" in path[:-1] or path[-1].startswith("code."):  # of the program's own functions, by the conventions
        return False
    if read_segment(path[-1]).names_tool:
        return True
    return len(path) > 1 and path[-1].strip("_") == "name" and names_tools(words_of(path[-2]))


def names_model(path: tuple[str, ...], value: JsonValue) -> bool:
    """Whether a field holds a model's name."""
    if type(value) is not str or not value or path[0] == OF_TOOL:
        return False
    words = words_of(path[-1])
    if words[-1:] == ("name",) and len(words) == 1 and len(path) > 1:
        words = (*words_of(path[-2]), "name")
    return words[-1:] == ("model",) or words[-2:] in (("model", "name"), ("model", "id"))


def counts_tokens(path: tuple[str, ...], value: JsonValue) -> bool:
    """Whether a field holds a number of tokens."""
    if type(value) is not int:
        return False
    words = [word for part in path[-3:] for word in words_of(part)]
    return ("tokens" in words or ("token" in words and "count" in words)) and "max" not in words
