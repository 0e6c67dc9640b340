"""YAML files of ours: read once, checked against a pydantic model, every mistake with its line and column.

Takes YAML 1.2 core types (``on`` and ``0o14`` stay what they look like), refuses duplicate keys, aliases, merges and
deep nesting, and turns pydantic's errors into ``file:line:column: key.path: message``.
"""

import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Never, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, ValidationError, WithJsonSchema
from pydantic.fields import FieldInfo
from yamlcore import CoreLoader

try:
    from yamlcore import CCoreLoader as _Loader
except ImportError:  # PyYAML without libyaml: the same language, slower
    _Loader = CoreLoader

from tracegrade.model.errors import TraceGradeError
from tracegrade.model.json_value import JsonValue

Location = tuple[str | int, ...]

_PLAIN_COLLECTIONS = frozenset({"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"})

MAX_NESTING = 64
MAX_NODES = 200_000
_HARMLESS_LENGTH = 16_384  # a text this short cannot nest deep enough to exhaust the C stack


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in one file; ``line`` and ``column`` count from 1."""

    path: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.message}"


class FileError(TraceGradeError):
    """One or more mistakes in YAML files; ``str()`` gives one ``file:line:column: message`` a line."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(map(str, self.problems)))


class FileModel(BaseModel):
    """Base of everything a YAML file may hold: frozen, unknown keys refused, no guessing between types."""

    # Deferred: of the many models there are, one process uses few.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=True, defer_build=True)


_UNITS_NS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_UNITS_NS["d"] = 24 * _UNITS_NS["h"]
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h|d))+")
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h|d)")


def duration_s(value: object) -> float:
    """Seconds from a text like ``500ms``, ``30s``, ``1h30m`` or ``7d`` (the collector's form, and days)."""
    if isinstance(value, float):
        return value  # a default, already in seconds
    if isinstance(value, str) and _DURATION.fullmatch(value):
        return sum(float(number) * _UNITS_NS[unit] for number, unit in _DURATION_PART.findall(value)) / 1e9
    raise ValueError(f"expected a duration such as '30s', '500ms' or '1h30m', found {value!r}")


def duration_text(seconds: float) -> str:
    """The shortest whole-unit text of a duration, ``90s`` for 90.0."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        if seconds >= size and seconds % size == 0:
            return f"{int(seconds // size)}{unit}"
    return f"{seconds * 1000:g}ms" if seconds else "0s"


Duration = Annotated[
    float,
    BeforeValidator(duration_s),
    PlainSerializer(duration_text, return_type=str),
    WithJsonSchema({"type": "string", "pattern": f"^{_DURATION.pattern}$", "examples": ["30s", "500ms", "1h30m"]}),
]


def write_durations(part: Any) -> None:
    """Write the defaults in a JSON Schema as one would write them in a file."""
    if isinstance(part, list):
        for item in part:
            write_durations(item)
    elif isinstance(part, dict):
        types = [option.get("type") for option in (part, *part.get("anyOf", ()))]
        if "string" in types and isinstance(default := part.get("default"), float):
            part["default"] = duration_text(default)
        for item in part.values():
            write_durations(item)


class Document:
    """One parsed YAML file: its value, and where each part of it stands."""

    def __init__(self, path: str, value: JsonValue, marks: Mapping[Location, tuple[int, int]]) -> None:
        self.path = path
        self.value = value
        self._marks = marks

    def position(self, location: Location) -> tuple[int, int]:
        """Line and column (from 1) of the deepest part of `location` that the file holds."""
        known = tuple(part for part in location)
        while known and known not in self._marks:
            known = known[:-1]
        return self._marks.get(known, (1, 1))

    def problem(self, location: Location, message: str) -> Problem:
        """A `Problem` at `location`, its message led by the dotted path of the key."""
        line, column = self.position(location)
        path = dotted(location)
        return Problem(self.path, line, column, f"{path}: {message}" if path else message)


def dotted(location: Location) -> str:
    """``("a", 0, "b")`` as ``a[0].b``."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else str(part))
    return text


def parse(text: str, path: str, *, expand_env: bool = False, environment: Mapping[str, str] | None = None) -> Document:
    """Parse one YAML document.

    Args:
        text: the file's content.
        path: named in errors.
        expand_env: replace ``${env:NAME}`` and ``${env:NAME:-default}`` (``$$`` is a literal dollar). A value that is
            one whole reference is typed as YAML after the replacement; inside a longer text it stays text.
        environment: where names are looked up, `os.environ` when omitted.

    Raises:
        FileError: not YAML, duplicate keys, aliases, merge keys, keys that are not text, too deep or too large, an
            unset environment variable without a default.
    """
    loader = _Loader(text)
    try:
        if len(text) > _HARMLESS_LENGTH:
            _refuse_deep_nesting(text, path)
        node = loader.get_single_node()
        composer = _Composer(
            loader, path, dict(environment if environment is not None else os.environ) if expand_env else None
        )
        marks: dict[Location, tuple[int, int]] = {}
        value = composer.build(node, (), marks, 0) if node is not None else None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        # At the end of the file libyaml points behind it; people look for the last thing they wrote.
        position = min(mark.index, len(text.rstrip())) if mark else 0
        line, column = _line_and_column(text, position)
        reason = error.problem or error.context or ""
        if reason.startswith("but ") and error.context:  # the second half of a sentence
            reason = f"{error.context} {reason}"
        raise FileError([Problem(path, line, column, f"not YAML: {reason}")]) from None
    except yaml.reader.ReaderError as error:
        line, column = _line_and_column(text, error.position)
        raise FileError([Problem(path, line, column, f"not YAML: {error.reason}")]) from None
    except RecursionError:
        raise FileError([Problem(path, 1, 1, f"nested more than {MAX_NESTING} deep")]) from None
    finally:
        loader.dispose()
    return Document(path, value, marks)


def _refuse_deep_nesting(text: str, path: str) -> None:
    """Refuse what would exhaust the stack: libyaml builds nodes by recursion, in C, where no Python limit holds."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_NESTING + 1:  # the outermost stands at depth 0
                mark: Any = event.start_mark
                raise FileError([Problem(path, mark.line + 1, mark.column + 1, f"nested more than {MAX_NESTING} deep")])
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _line_and_column(text: str, position: int) -> tuple[int, int]:
    before = text[:position]
    return before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1


def read(path: Path, *, expand_env: bool = False) -> Document:
    """`parse` the file at `path`; raises FileError also when it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise FileError([Problem(str(path), 1, 1, f"cannot be read: {error.strerror or error}")]) from None
    except UnicodeDecodeError as error:
        raise FileError([Problem(str(path), 1, 1, f"not UTF-8 at byte {error.start}")]) from None
    return parse(text, str(path), expand_env=expand_env)


class _Dumper(yaml.SafeDumper):
    """Writes what `read` reads as it was: texts in quotes unless they are plain words, no aliases."""

    def ignore_aliases(self, data: object) -> bool:
        return True


_PLAIN_WORDS = re.compile(r"[A-Za-z][A-Za-z0-9_-]*( [A-Za-z][A-Za-z0-9_-]*)*")
_NO_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


def _write_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    is_plain = _PLAIN_WORDS.fullmatch(text) is not None and text.lower() not in _NO_WORDS
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if is_plain else '"')


_Dumper.add_representer(str, _write_text)


def dumped(value: object) -> str:
    """`value` as the text of a YAML file that `read` reads as the same value; members in their order."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


class _Composer:
    """Builds the plain value of a node tree and notes where every part stands."""

    def __init__(self, loader: Any, path: str, environment: Mapping[str, str] | None) -> None:
        self._loader = loader
        self._path = path
        self._environment = environment
        self._seen: set[int] = set()

    def build(self, node: Any, location: Location, marks: dict[Location, tuple[int, int]], depth: int) -> JsonValue:
        if id(node) in self._seen:
            self._refuse(node, "an alias (*name) is not allowed here; write the value out")
        if depth > MAX_NESTING:
            self._refuse(node, f"nested more than {MAX_NESTING} deep")
        self._seen.add(id(node))
        if len(self._seen) > MAX_NODES:
            self._refuse(node, f"more than {MAX_NODES} values in one file")
        marks.setdefault(location, (node.start_mark.line + 1, node.start_mark.column + 1))
        if not isinstance(node, yaml.ScalarNode) and node.tag not in _PLAIN_COLLECTIONS:
            self._refuse(node, f"expected a plain object or list, found the tag {node.tag!r}; remove it")
        if isinstance(node, yaml.MappingNode):
            return self._build_mapping(node, location, marks, depth)
        if isinstance(node, yaml.SequenceNode):
            return [self.build(item, (*location, i), marks, depth + 1) for i, item in enumerate(node.value)]
        return self._build_scalar(node)

    def _build_mapping(
        self, node: Any, location: Location, marks: dict[Location, tuple[int, int]], depth: int
    ) -> JsonValue:
        value: dict[str, JsonValue] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag != "tag:yaml.org,2002:str":
                found = repr(key_node.value) if isinstance(key_node, yaml.ScalarNode) else f"a {key_node.id}"
                self._refuse(key_node, f"expected a text as key, found {found}; quote it")
            key = key_node.value
            if key in value:
                self._refuse(key_node, f"duplicate key {key!r}")
            # Errors point at the key: that is what people look for.
            marks[(*location, key)] = (key_node.start_mark.line + 1, key_node.start_mark.column + 1)
            value[key] = self.build(value_node, (*location, key), marks, depth + 1)
        return value

    def _build_scalar(self, node: Any) -> JsonValue:
        if self._environment is not None and "$" in node.value:
            text, whole = expand(node.value, self._environment, lambda message: self._refuse(node, message))
            if whole and not node.style:  # libyaml says '', PyYAML None for a plain scalar
                tag = self._loader.resolve(yaml.ScalarNode, text, (True, False))
                node = yaml.ScalarNode(tag, text, node.start_mark, node.end_mark)
            else:
                return text
        try:
            value: Any = self._loader.construct_object(node)
        except (ValueError, yaml.YAMLError):
            self._refuse(node, f"cannot read {node.value[:80]!r} as {node.tag.rpartition(':')[2]}")
        if value is not None and not isinstance(value, bool | int | float | str):
            self._refuse(node, f"values of type {type(value).__name__} are not allowed; quote it")
        if isinstance(value, float) and not math.isfinite(value):
            self._refuse(node, f"expected a finite number, found {node.value[:80]!r}; quote it if it is a text")
        return value

    def _refuse(self, node: Any, message: str) -> Never:
        mark = node.start_mark
        raise FileError([Problem(self._path, mark.line + 1, mark.column + 1, message)])


_REFERENCE = re.compile(r"\$\$|\$\{env:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|\$\{([^}]*)\}")


def expand(text: str, environment: Mapping[str, str], refuse: Any) -> tuple[str, bool]:
    """`text` with its environment references replaced, and whether all of it was one reference."""
    whole = (match := _REFERENCE.fullmatch(text)) is not None and match.group() != "$$"

    def replace(match: re.Match[str]) -> str:
        if match.group() == "$$":
            return "$"
        name, default, other = match.groups()
        if name is None:
            refuse(f"expected ${{env:NAME}} or ${{env:NAME:-default}}, found '${{{other}}}'; write $$ for a dollar")
        found = environment.get(name, default)
        if found is None:
            refuse(f"environment variable {name} is not set; set it, or give a default: ${{env:{name}:-default}}")
        return str(found)

    return _REFERENCE.sub(replace, text), whole


Model = TypeVar("Model", bound=BaseModel)


def validate(document: Document, model: type[Model], location: Location = ()) -> Model:
    """Check the document's value (or its part at `location`) against `model`.

    Raises:
        FileError: with one problem for each error that pydantic found, in file order.
    """
    value: Any = document.value
    for part in location:
        value = value[part]
    try:
        return model.model_validate({} if value is None and not location else value)
    except ValidationError as error:
        raise FileError(problems(document, error, model, location)) from None


def problems(document: Document, error: ValidationError, model: type[BaseModel], base: Location = ()) -> list[Problem]:
    """All of pydantic's errors as problems of the file, in file order, in words for whoever wrote the file."""
    found = []
    for item in error.errors(include_url=False):
        location, written = _in_document(document, (*base, *item["loc"]))
        if isinstance(written, str):  # 10s, where the bound was broken by the 10.0 that it stands for
            item["input"] = written
        found.append(document.problem(location, message_of(item, model)))
    return sorted(set(found), key=lambda problem: (problem.line, problem.column, problem.message))


def _in_document(document: Document, location: Location) -> tuple[Location, JsonValue]:
    """`location` without the union tags and the missing tail that pydantic adds, and what stands there."""
    value: JsonValue = document.value
    known: list[str | int] = []
    for part in location:
        if isinstance(value, dict) and isinstance(part, str) and part in value:
            value = value[part]
            known.append(part)
        if isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
            known.append(part)
    return tuple(known), value


def message_of(item: Any, model: type[BaseModel]) -> str:
    """One of `ValidationError.errors()` of `model`, in words for whoever wrote the file."""
    kind = item["type"]
    last = item["loc"][-1] if item["loc"] else ""
    if kind == "extra_forbidden":
        return f"unknown key {last!r}" + did_you_mean(str(last), _keys_at(model, item["loc"][:-1]))
    if kind == "missing":
        return f"key {last!r} is missing"
    message = item["msg"]
    for prefix in ("Value error, ", "Assertion failed, "):
        message = message.removeprefix(prefix)
    if kind == "value_error":
        return str(message)
    shown = _shown(item.get("input"))
    if expectation := _EXPECTATIONS.get(kind):
        text = "expected " + expectation.format_map(item.get("ctx", {}))
    else:
        text = (message[0].lower() + message[1:]).replace("input should be", "expected")
    return f"{text}, found {shown[:120]}"


def _shown(found: object) -> str:
    if isinstance(found, list):
        return f"a list of {len(found)}" if found else "an empty list"
    if isinstance(found, dict):
        return "an object" if found else "an empty object"
    return "nothing" if found is None else repr(found)


# What was expected, by pydantic's name of the mistake; where one is not here, pydantic's own words do.
_EXPECTATIONS = {
    "bool_type": "true or false",
    "dict_type": "an object",
    "float_type": "a number",
    "greater_than": "a number above {gt:g}",
    "greater_than_equal": "a number of at least {ge:g}",
    "int_type": "a whole number",
    "less_than": "a number below {lt:g}",
    "less_than_equal": "a number of at most {le:g}",
    "list_type": "a list",
    "literal_error": "{expected}",
    "model_type": "an object",
    "string_pattern_mismatch": "a text of the form {pattern}",
    "string_too_long": "a text of at most {max_length} characters",
    "string_too_short": "a text of at least {min_length} characters",
    "string_type": "a text",
    "too_long": "a list of at most {max_length}",
    "too_short": "a list of at least {min_length}",
}


def _keys_at(model: type[BaseModel], location: Location) -> list[str]:
    """The keys that `model` takes at `location`; [] where that is not a plain model."""
    annotation: Any = model
    for part in location:
        annotation = _annotation_at(annotation, part)
    return [key for found in _models_in(annotation) for key in _keys(found)]


def _annotation_at(annotation: Any, part: str | int) -> Any:
    """The type of member `part` of a value of type `annotation`; the tag of a union leads to the union itself."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        fields = annotation.model_fields.items()
        return next((field.annotation for name, field in fields if part in _names(name, field)), None)
    kind, inner = get_origin(annotation), get_args(annotation)
    if kind is dict or kind is Mapping:
        return inner[1]
    if kind in (list, tuple):
        return inner[0]
    found = [member for option in inner if (member := _annotation_at(option, part)) is not None]
    return Union[tuple(found)] if found else annotation if inner else None  # noqa: UP007 - as many as there are


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for inner in get_args(annotation) for found in _models_in(inner)]


def _keys(model: type[BaseModel]) -> list[str]:
    return [_names(name, field)[0] for name, field in model.model_fields.items()]


def _names(name: str, field: FieldInfo) -> list[str]:
    """How a file may call a field: its alias first, where it has one."""
    return [field.alias, name] if field.alias else [name]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?`` when one of `known` is near `name`, else the list of them when it is short."""
    names = sorted(known)
    if close := get_close_matches(name, names, n=1, cutoff=0.6):
        return f"; did you mean {close[0]!r}?"
    return f"; expected one of {', '.join(names)}" if 0 < len(names) <= 12 else ""
