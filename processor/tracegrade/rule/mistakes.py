"""Mistakes as pydantic reports them, for validators that look deeper into a value than pydantic does."""

from collections.abc import Iterable, Mapping

from pydantic import BaseModel, ValidationError
from pydantic_core import InitErrorDetails

from tracegrade.document.problem import WrongWord
from tracegrade.document.validate import message_of


def mistake(message: str, *location: str | int, written: str = "") -> InitErrorDetails:
    """A mistake at `location` inside the value being validated, in words for the author of the file.

    `written` is the part of a text there that is wrong; "" for all of it.
    """
    error = WrongWord(message, written) if written else ValueError(message)
    return InitErrorDetails(type="value_error", loc=location, input=None, ctx={"error": error})


def refuse(mistakes: Iterable[InitErrorDetails]) -> ValidationError:
    """The error to raise from a validator; pydantic puts the value's own location in front of each mistake."""
    return ValidationError.from_exception_data("rule", list(mistakes))


def refuse_what_went(value: object, went: Mapping[str, str]) -> object:
    """`value`, for a validator that runs before all others, unless it names fields that an earlier version had.

    Raises:
        ValidationError: it names one; `went` says what to write instead, by the field's name.
    """
    if isinstance(value, dict) and (named := [name for name in went if name in value]):
        raise refuse([mistake(went[name], name) for name in named])
    return value


def mistakes_of(error: ValidationError, model: type[BaseModel]) -> list[InitErrorDetails]:
    """The mistakes that `model` found in a part of the value, to be reported together with one's own."""
    return [mistake(message_of(item, model), *item["loc"]) for item in error.errors(include_url=False)]
