"""YAML files of ours: checked against a pydantic model, every mistake with its line and column.

Turns pydantic's errors into ``file:line:column: key.path: message``. What reads and writes YAML is `yaml_text`: the
evaluators, whose parameters these models are, do without.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, ValidationError, WithJsonSchema
from pydantic.fields import FieldInfo

from tracegrade.document.duration import DURATION, duration_s, duration_text
from tracegrade.model.errors import TraceGradeError
from tracegrade.model.json_value import JsonValue

Location = tuple[str | int, ...]


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


Duration = Annotated[
    float,
    BeforeValidator(duration_s),
    PlainSerializer(duration_text, return_type=str),
    WithJsonSchema({"type": "string", "pattern": f"^{DURATION.pattern}$", "examples": ["30s", "500ms", "1h30m"]}),
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

    def rename_key(self, mapping: Location, old: str, new: str) -> Problem | None:
        """Read the key `old` of the mapping at `mapping` as `new`, which is what it is called now.

        Returns:
            A warning that names both; None when the file does not hold `old` there.

        Raises:
            FileError: the file holds both keys.
        """
        holder: JsonValue = self.value
        for part in mapping:
            try:
                holder = holder[part]  # type: ignore[index]
            except (KeyError, IndexError, TypeError):
                return None
        if not isinstance(holder, dict) or old not in holder:
            return None
        if new in holder:
            raise FileError(
                [self.problem((*mapping, old), f"is the old name of {new!r}, and both are there; keep one")]
            )
        warning = self.problem((*mapping, old), f"is now called {new!r}; the old name still works, please rename it")
        holder[new] = holder.pop(old)
        depth = len(mapping)
        self._marks = {
            (*mapping, new, *place[depth + 1 :]) if place[: depth + 1] == (*mapping, old) else place: mark
            for place, mark in self._marks.items()
        }
        return warning

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
