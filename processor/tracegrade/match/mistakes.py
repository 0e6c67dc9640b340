"""Mistakes as pydantic reports them, for validators that look deeper into a value than pydantic does."""

from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError
from pydantic_core import InitErrorDetails


def mistake(message: str, *location: str | int) -> InitErrorDetails:
    """A mistake at `location` inside the value being validated, in words for whoever wrote the file."""
    return InitErrorDetails(type="value_error", loc=location, input=None, ctx={"error": ValueError(message)})


def refuse(mistakes: Iterable[InitErrorDetails]) -> ValidationError:
    """The error to raise from a validator; pydantic puts the value's own location in front of each mistake."""
    return ValidationError.from_exception_data("rule", list(mistakes))


def mistakes_of(error: ValidationError) -> list[InitErrorDetails]:
    """The mistakes that another model found, to be reported together with one's own."""
    return [_repeated(item) for item in error.errors(include_url=False)]


def _repeated(item: Any) -> InitErrorDetails:
    return InitErrorDetails(type=item["type"], loc=item["loc"], input=item["input"], ctx=item.get("ctx", {}))
