"""Field types of criteria: what a model of expectations declares where any JSON value may stand.

Objects of ``$`` keys are matchers, unless the model is validated with ``context=matchers.LITERAL``, as criteria are
that were imported or given to ``tracegrade evaluate``.
"""

from collections.abc import Callable
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import PlainSerializer, PlainValidator, ValidationError, ValidationInfo, WithJsonSchema
from pydantic_core import InitErrorDetails

from tracegrade.evaluate.expected import Criterion, ExpectedObject, MatcherError
from tracegrade.evaluate.matchers import MATCHERS, compile_object
from tracegrade.model.json_value import JsonValue

Compiled = TypeVar("Compiled", bound=Criterion)


def compiled_by(compiler: Callable[[JsonValue, bool], Compiled]) -> PlainValidator:
    """A validator of a field that `compiler` compiles, given the value and whether matchers are on."""

    def validate(value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, Criterion):
            return value
        try:
            return compiler(value, bool((info.context or MATCHERS).get("matchers", True)))
        except MatcherError as error:
            # Reported as pydantic does, so that its path is kept behind the field's own.
            cause = {"error": ValueError(str(error))}
            detail = InitErrorDetails(type="value_error", loc=error.path, input=value, ctx=cause)
            raise ValidationError.from_exception_data("criteria", [detail]) from None

    return PlainValidator(validate)


as_written = PlainSerializer(lambda expected: expected.source)

ExpectedArguments: TypeAlias = Annotated[
    ExpectedObject,
    compiled_by(lambda value, matchers: compile_object(value, matchers=matchers)),
    as_written,
    WithJsonSchema({"type": "object"}),
]
