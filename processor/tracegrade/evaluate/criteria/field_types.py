"""Field types of criteria: what a model of expectations declares where any JSON value may stand.

Objects of ``$`` keys are matchers, unless the model is validated with ``context=compile.LITERAL``, as criteria are
that were imported or given to ``tracegrade evaluate``.

A field's type says whether matchers are honoured in it: those that `compiled_by` reads honour them, `VERBATIM` ones
have ``$`` keys of their own, and in all others a matcher is refused, since it would be taken as it is.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, TypeAlias, TypeVar, get_args

from pydantic import BaseModel, PlainSerializer, PlainValidator, ValidationError, ValidationInfo, WithJsonSchema
from pydantic_core import InitErrorDetails

from tracegrade.evaluate.criteria.compile import LITERALLY, compile_object, takes_matchers
from tracegrade.evaluate.criteria.expected import Criterion, ExpectedObject, MatcherError, Path
from tracegrade.evaluate.criteria.registry import MATCHERS_BY_WORD
from tracegrade.model.json_value import JsonValue

Compiled = TypeVar("Compiled", bound=Criterion)


@dataclass(frozen=True, slots=True)
class Compiler(PlainValidator):
    """A validator that makes criteria of values, matchers and all."""


@dataclass(frozen=True, slots=True)
class Verbatim:
    """Marks a type of field in which ``$`` keys are its own, as in JSON Schema."""


VERBATIM = Verbatim()


def compiled_by(compiler: Callable[[JsonValue, bool], Compiled]) -> Compiler:
    """A validator of a field that `compiler` compiles, given the value and whether matchers are on."""

    def validate(value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, Criterion):
            return value
        try:
            return compiler(value, takes_matchers(info.context))
        except MatcherError as error:
            # Reported as pydantic does, so that its path is kept behind the field's own.
            cause = {"error": ValueError(str(error))}
            detail = InitErrorDetails(type="value_error", loc=error.path, input=value, ctx=cause)
            raise ValidationError.from_exception_data("criteria", [detail]) from None

    return Compiler(validate)


def refuse_unread_matchers(model: type[BaseModel], value: dict[str, Any]) -> None:
    """Refuse matchers in fields that take everything as it is written.

    Args:
        model: whose fields they are; those that hold models of their own are theirs to check.
        value: what the fields are to be made of.

    Raises:
        ValidationError: each matcher at its place.
    """
    fields = _literal_fields(model)
    found = [
        InitErrorDetails(type="value_error", loc=(key, *path), input=None, ctx={"error": ValueError(_unread(word))})
        for key, member in value.items()
        if key in fields
        for path, word in _matchers_in(member, ())
    ]
    if found:
        raise ValidationError.from_exception_data("criteria", found)


def _unread(word: str) -> str:
    if word == LITERALLY:
        return f"found {{{word}: ...}} where everything is taken as it is written; write the value alone"
    return f"found {{{word}: ...}} where no matcher is read; write the value itself, or use another field or evaluator"


def _matchers_in(value: object, path: Path) -> Iterator[tuple[Path, str]]:
    """Where matchers stand in a JSON value, and their first words."""
    if isinstance(value, dict):
        words = [key for key in value if key == LITERALLY or key in MATCHERS_BY_WORD]
        if words and len(words) == len(value):
            yield path, words[0]
            return
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        yield from _matchers_in(member, (*path, key))


@cache
def _literal_fields(model: type[BaseModel]) -> frozenset[str]:
    """The names, aliases included, of the fields in which nothing reads a matcher."""
    names: set[str] = set()
    for name, field in model.model_fields.items():
        if not reads_matchers(field.annotation, field.metadata):
            choices = getattr(field.validation_alias, "choices", [field.validation_alias])
            names |= {name, *(choice for choice in choices if isinstance(choice, str))}
    return frozenset(names)


def reads_matchers(annotation: Any, metadata: Any = ()) -> bool:
    """Whether a type of field, or one inside of it, says what ``$`` keys in it are."""
    if any(isinstance(item, Compiler | Verbatim) for item in metadata):
        return True
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return True
    inner = get_args(annotation)
    return any(reads_matchers(option, getattr(annotation, "__metadata__", ())) for option in inner)


as_written = PlainSerializer(lambda expected: expected.source)

ExpectedArguments: TypeAlias = Annotated[
    ExpectedObject,
    compiled_by(lambda value, matchers: compile_object(value, matchers=matchers)),
    as_written,
    WithJsonSchema({"type": "object"}),
]
