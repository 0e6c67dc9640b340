"""A reference call, as the evaluators that come from Ragas write it: a name and its arguments, none and null alike."""

from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, Field, WithJsonSchema

from tracegrade.evaluate.criteria.field_types import ExpectedArguments
from tracegrade.evaluate.criteria.parameters import ParameterModel

NullableArguments: TypeAlias = Annotated[
    ExpectedArguments,
    BeforeValidator(lambda args: {} if args is None else args),
    WithJsonSchema({"type": ["object", "null"]}),
]


class ReferenceCall(ParameterModel):
    """One call and its arguments; none and null are the same."""

    name: Annotated[str, Field(description="The tool.")]
    args: Annotated[
        NullableArguments, Field(default={}, validate_default=True, description="Values or matchers, by name.")
    ]
