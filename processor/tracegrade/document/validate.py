"""Documents checked against a pydantic model: every mistake with its line and column.

Turns pydantic's errors into ``file:line:column: key.path: message``. What reads and writes YAML is `yaml_text`: the
evaluators, whose parameters these models are, do without.
"""

from collections.abc import Mapping
from typing import Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from tracegrade.document.document import Document
from tracegrade.document.duration import duration_text
from tracegrade.document.problem import FileError, Location, Problem, WrongWord, did_you_mean

Model = TypeVar("Model", bound=BaseModel)


def validate(
    document: Document, model: type[Model], location: Location = (), *, context: Mapping[str, Any] | None = None
) -> Model:
    """Check the document's value (or its part at `location`) against `model`; its validators are given the `context`.

    Raises:
        FileError: with one problem for each error that pydantic found, in file order.
    """
    value: Any = document.value
    for part in location:
        value = value[part]
    try:
        return model.model_validate({} if value is None and not location else value, context=context)
    except ValidationError as error:
        raise FileError(problems(document, error, model, location)) from None


def problems(document: Document, error: ValidationError, model: type[BaseModel], base: Location = ()) -> list[Problem]:
    """All of pydantic's errors as problems of the file, in file order, in words for the author of the file."""
    found = []
    for item in error.errors(include_url=False):
        # Without the union tags and the missing tail that pydantic adds.
        part = document.part((*base, *item["loc"]))
        if isinstance(part.value, str):  # 10s, where the bound was broken by the 10.0 that it stands for
            item["input"] = part.value
        if isinstance(cause := item.get("ctx", {}).get("error"), WrongWord):
            part = document.part_at(part, cause.written)
        found.append(document.problem_at(part, message_of(item, model)))
    return sorted(set(found))


def message_of(item: Any, model: type[BaseModel]) -> str:
    """One of `ValidationError.errors()` of `model`, in words for the author of the file."""
    kind = item["type"]
    last = item["loc"][-1] if item["loc"] else ""
    if kind == "extra_forbidden":
        known = _keys_at(model, item["loc"][:-1])
        meant = did_you_mean(str(last), known)
        return f"unknown key {last!r}" + (meant or (f"; expected one of {', '.join(known)}" if known else ""))
    if kind == "missing":
        return f"key {last!r} is missing"
    message = item["msg"]
    for prefix in ("Value error, ", "Assertion failed, "):
        message = message.removeprefix(prefix)
    if kind == "value_error":
        return str(message)
    shown = _found_text(item.get("input"))
    if kind in _DURATIONS and isinstance(item.get("input"), str):
        # Only durations are texts and have bounds in numbers, of seconds.
        text = f"expected a duration {_DURATIONS[kind]} {duration_text(next(iter(item['ctx'].values())))}"
    elif expectation := _EXPECTATIONS.get(kind):
        text = "expected " + expectation.format_map(item.get("ctx", {}))
    else:
        text = (message[0].lower() + message[1:]).replace("input should be", "expected")
    return f"{text}, found {shown[:120]}"


def _found_text(found: object) -> str:
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

_DURATIONS = {
    "greater_than": "above",
    "greater_than_equal": "of at least",
    "less_than": "below",
    "less_than_equal": "of at most",
}


def _keys_at(model: type[BaseModel], location: Location) -> list[str]:
    """The keys that `model` takes at `location`; [] where that is not a plain model."""
    annotation: Any = model
    for part in location:
        annotation = _annotation_at(annotation, part)
    return list(dict.fromkeys(key for found in _models_in(annotation) for key in _keys(found)))


def _annotation_at(annotation: Any, part: str | int) -> Any:
    """The type of member `part` of a value of type `annotation`; the tag of a union leads to the union itself."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        fields = annotation.model_fields.items()
        return next((field.annotation for name, field in fields if part in spellings(name, field)), None)
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
    return [spellings(name, field)[0] for name, field in model.model_fields.items()]


def spellings(name: str, field: FieldInfo) -> list[str]:
    """The keys that stand for a field in a file: its aliases first, where it has any."""
    alias = field.validation_alias
    choices = [choice for choice in getattr(alias, "choices", [alias]) if isinstance(choice, str)]
    return list(dict.fromkeys([*choices, name]))
