"""The tool that a span is of, by its keys and its name."""

import re
from collections.abc import Collection, Iterable, Mapping

from tracegrade.extract.decode.values import is_masked
from tracegrade.extract.document import own
from tracegrade.extract.shape.kinds import is_tool_kind, is_tool_name_key
from tracegrade.extract.shape.values import Field
from tracegrade.extract.shape.words import read_segment, words_of
from tracegrade.model.json_value import JsonValue

# What a span's name has beside the tool's.
FRAME = frozenset(
    {"tool", "call", "calls", "function", "execute", "executing", "execution", "invoke", "invoking", "run", "running"}
    | {"handle", "task", "step"}
)
_NEVER = FRAME | {"model", "agent", "acall", "ainvoke", "arun", "__call__"}
_IDENTIFIER = re.compile(r"[^\W\d][\w\-./:]*\Z")
_SENTENCE = re.compile(
    r"""(?ix) \s*
    (?: (?:execut(?:e|ing)|call(?:ing)?|invok(?:e|ing)|run(?:ning)?|handl(?:e|ing)) [\s_]+
        (?:the\s+)? (?:tool|function) (?:[\s_]+call)? \s* [:\-]? \s+
      | (?:tool|function) (?:[\s_]+(?:call|execution|run|use|invocation))? \s* (?:: \s* | \s-\s+)
    )
    ['"`]? (?P<name> [^\W\d][\w\-.]* ) ['"`]? (?:\(\))? \s* \Z"""
)
_METHODS = (".__call__", ".acall", ".call", ".invoke", ".ainvoke", ".run", ".arun", "._run", ".try_run", ".execute")
_SEPARATOR = re.compile(r"[\s.:/>|]+|\s-\s|\(\)")
_QUOTES = "'\"`"
_PLACE = re.compile(r"\{[^{}]*\}")
_NAME_GOES_ON = re.compile(r"\w")
_CLASS = re.compile(r"[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*\Z")


def with_places_filled(span_name: str, attributes: Mapping[str, JsonValue]) -> str:
    """A span's name with the values of the attributes that it has places for, as in ``run tool {tool.name}``."""
    if "{" not in span_name:
        return span_name
    return _PLACE.sub(lambda place: _value_for(place[0], attributes), span_name)


def _value_for(place: str, attributes: Mapping[str, JsonValue]) -> str:
    value = attributes.get(place[1:-1].removesuffix("!r"))
    return value if isinstance(value, str) else place


def sentence_name(name: str) -> str:
    """X of a span named "execute tool X", "tool: X" and the like, "" for others."""
    found = _SENTENCE.match(name) if " " in name or ":" in name else None
    if found is None or not _NEVER.isdisjoint((found["name"].lower(),)):
        return ""
    return without_method(found["name"])


def key_name(fields: Iterable[Field], *, is_alone: bool) -> str:
    """The tool that a key names, "" for none; with `is_alone`, also a key that is just ``tool`` or ``function``."""
    best: tuple[int, str] | None = None
    for path, value in fields:
        text = own(value)
        if type(text) is not str or not text or "\n" in text or is_masked(text):
            continue
        if is_tool_name_key(path) and _IDENTIFIER.match(text := _plain(text)) and not is_code(text):
            is_just_tool = words_of(path[-1])[-1:] != ("name",)
            if is_just_tool and not is_alone:
                continue
            rank = len(path) + 10 * is_just_tool
            if best is None or rank < best[0]:
                best = rank, text
    return best[1] if best is not None else ""


def bare_name(fields: Iterable[Field], beside: Collection[tuple[str, ...]]) -> str:
    """What just ``name`` says under a prefix where a kind says tool, or the name of an entity; "" for none."""
    for path, value in fields:
        text = own(value)
        if type(text) is str and text and "\n" not in text and not is_masked(text) and _is_bare(path, beside):
            return _plain(text)
        if isinstance(value, list):
            for item in value:
                found = item.get("name") if isinstance(item, dict) and _is_tool_entity(item) else None
                if isinstance(found, str) and found:
                    return found
    return ""


def _is_tool_entity(item: dict[str, JsonValue]) -> bool:
    """Whether an item of a list is of a type that says tool."""
    kind = own(item.get("type", item.get("kind")))
    return isinstance(kind, str) and is_tool_kind(words_of(kind))


def _is_bare(path: tuple[str, ...], beside: Collection[tuple[str, ...]]) -> bool:
    if any(read_segment(part).is_kind or not _FOREIGN.isdisjoint(words_of(part)) for part in path):
        return False
    if path[-1].lower() == "name" and path[:-1] in beside:
        return True
    last = words_of(path[-1]) if len(path) < 2 or path[-1] != "name" else (*words_of(path[-2])[-1:], "name")
    return last[-2:] in (("entity", "name"), ("event", "name")) and bool(beside)


def _plain(text: str) -> str:
    """A name without the quotes that MLflow and others write around every text."""
    return text[1:-1] if len(text) > 2 and text[0] == text[-1] and text[0] in _QUOTES else text


def agent_in(span_name: str) -> str:
    """A span's name without the words around an agent's; "" where what is left is no identifier, or code."""
    found = _AGENT_SENTENCE.match(span_name)
    name = without_method(found["name"] if found is not None else span_name)
    if name.count(".") > 1 or is_class(name.rpartition(".")[2]):  # a module's path
        return ""
    return name if _IDENTIFIER.match(name) and not is_class(name) and name.lower() not in _NEVER else ""


_AGENT_SENTENCE = re.compile(
    r"""(?ix) \s* (?:(?:invok(?:e|ing)|run(?:ning)?|call(?:ing)?|execut(?:e|ing)) [\s_]+)?
    agent (?:[\s_]+(?:run|call|invocation|execution))? (?: \s*:\s* | \s-\s | \s+ )
    ['"`]? (?P<name> [^\W\d][\w\-]* ) ['"`]? \s* \Z"""
)


def name_in(span_name: str) -> str:
    """A span's name without the words around the tool's; "" where what is left is no identifier."""
    name = span_name.strip()
    while True:
        first = _SEPARATOR.search(name)
        if first is None or (not first.start() and not name[first.end() :]):
            break
        head, rest = name[: first.start()], name[first.end() :]
        if not rest:
            name = head
        elif _is_frame(head) or not head:
            name = rest
        else:
            break
    while (last := _last_part(name)) is not None:
        name = last
    name = without_method(name.strip(" -:").strip(_QUOTES))
    return name if _IDENTIFIER.match(name) and name.lower() not in _NEVER else ""


def _last_part(name: str) -> str | None:
    """A name less a last part that only frames it, None where it has none."""
    places = [found for found in _SEPARATOR.finditer(name) if found.start()]
    if not places:
        return None
    head, last = name[: places[-1].start()], name[places[-1].end() :]
    return head if _is_frame(last) or not last else None


def _is_frame(part: str) -> bool:
    words = words_of(part)
    return part == "-" or (bool(words) and FRAME.issuperset(words))


def without_method(name: str) -> str:
    """A name less the method that was called."""
    for method in _METHODS:
        if name.endswith(method) and len(name) > len(method):
            return name[: -len(method)]
    return name


def is_class(name: str) -> bool:
    """Whether a name looks like a class's, or is that of a method of Python."""
    return name.startswith("__") or _CLASS.match(name) is not None


def may_be_class(name: str) -> bool:
    """Whether a tool's name looks like that of a class, which a tool may have, too."""
    return "A" <= name[:1] <= "Z" and _CLASS.match(name) is not None


def is_any_tools_class(name: str) -> bool:
    """Whether a name is that of a class which any tool may be of, and so says nothing of this one."""
    return "A" <= name[:1] <= "Z" and _CLASS.match(name) is not None and _TOOL_CLASS.issuperset(words_of(name))


_TOOL_CLASS = frozenset({"tool", "dynamic", "structured", "function", "base"})


def is_code(name: str) -> bool:
    """Whether a name is the path of a class or of a method in a module, and so no tool's."""
    return name.count(".") > 1 and any(map(is_class, name.split(".")))


def named_among(names: Collection[str], span_name: str) -> str:
    """The name among `names` that stands in a span's name, where nothing but words around it is beside; else ""."""
    if span_name in names:
        return span_name
    found = ""
    for name in names:
        if len(name) > len(found) and (place := span_name.find(name)) >= 0 and _frames(span_name, place, len(name)):
            found = name
    return found


def _frames(span_name: str, place: int, length: int) -> bool:
    """Whether what is around this part of a span's name is words around a tool's, a class path or punctuation."""
    before, after = span_name[:place], span_name[place + length :]
    if _NAME_GOES_ON.match(before[-1:]) or _NAME_GOES_ON.match(after[:1]):
        return False
    if after.split("(")[0].strip() not in ("", *_METHODS) and not _is_frame_text(after):
        return False
    return _is_frame_text(before) or _is_class_path(before)


def _is_frame_text(text: str) -> bool:
    return FRAME.issuperset(words_of(text))


def _is_class_path(text: str) -> bool:
    """Whether this is a path of names that ends at a dot, as ``package.Class.``."""
    *_, last = text.split(" ")
    return last.endswith(".") and _is_frame_text(text[: -len(last)])


def texts_in(fields: Iterable[Field]) -> list[tuple[tuple[str, ...], str]]:
    """The keys whose whole value may be a tool's name, with it."""
    found = []
    for path, value in fields:
        text = own(value)
        if type(text) is str and text and len(text) <= 128:
            words = words_of(path[-1])
            if words[-1:] and words[-1] in _NAMING and not any(not _FOREIGN.isdisjoint(words_of(p)) for p in path):
                found.append((path, _plain(text)))
    return found


_NAMING = frozenset({"tool", "function", "name", "entity", "task"})
_FOREIGN = frozenset(
    {"model", "agent", "metadata", "message", "messages", "prompt", "prompts", "completion", "request", "workflow"}
    | {"server", "service", "provider", "user", "resource", "host", "method", "event", "scope", "library", "crew"}
)


def is_word(text: str) -> bool:
    """Whether a text is one word without dots."""
    return _WORD_ALONE.match(text) is not None


_WORD_ALONE = re.compile(r"[^\W\d][\w\-]*\Z")


def is_framed(span_name: str) -> bool:
    """Whether a span's name has nothing but words around a tool's name and class paths, and places for values."""
    span_name = _PLACE.sub("", span_name)
    return _is_frame_text(span_name) or _is_frame_text(span_name.rpartition(".")[2])
