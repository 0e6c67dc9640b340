"""The base of criteria and settings: how what a rule says to an evaluator is read."""

from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import (
    AliasChoices,
    AliasGenerator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    model_validator,
)
from pydantic.alias_generators import to_camel

from tracegrade.document.file_model import FileModel
from tracegrade.evaluate import timeline
from tracegrade.evaluate.criteria.compile import takes_matchers
from tracegrade.evaluate.criteria.data_flow import FromMatcher
from tracegrade.evaluate.criteria.expected import Criterion, every_part
from tracegrade.evaluate.criteria.field_types import refuse_unread_matchers
from tracegrade.evaluate.criteria.matcher import Matcher
from tracegrade.evaluate.criteria.semantic import Model
from tracegrade.evaluate.criteria.text_matchers import SemanticMatcher


def _also_camel(name: str) -> str | AliasChoices:
    camel = to_camel(name)
    return name if camel == name else AliasChoices(name, camel)


class ParameterModel(FileModel):
    """Base of criteria and settings: snake_case names, camelCase taken as well."""

    model_config = ConfigDict(alias_generator=AliasGenerator(validation_alias=_also_camel))

    @model_validator(mode="before")
    @classmethod
    def _refuse_unread_matchers(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, dict) and takes_matchers(info.context):
            refuse_unread_matchers(cls, value)
        return value

    @cached_property
    def flows(self) -> list[FromMatcher]:
        """The criteria inside that expect a value from elsewhere in the run."""
        return [
            part for expected in _expected_in(self) for part in every_part(expected) if isinstance(part, FromMatcher)
        ]

    @cached_property
    def is_literal(self) -> bool:
        """Whether no criterion inside is a matcher, written as one or by the words of ``values``."""
        return not any(isinstance(part, Matcher) for expected in _expected_in(self) for part in every_part(expected))

    @property
    def meaning(self) -> Model | None:
        """The model of text embeddings that a criterion inside asks, if one does."""
        return next(
            (
                part.model
                for expected in _expected_in(self)
                for part in every_part(expected)
                if isinstance(part, SemanticMatcher)
            ),
            None,
        )


class NotedSettings(ParameterModel):
    """Base of settings that come with a name and a note to people; in rules, the rule's own title is that."""

    description: Annotated[str | None, Field(description="A note to people; nothing is judged by it.")] = None
    name: Annotated[str | None, Field(description="A name for people; nothing is judged by it.")] = None


Parameters = TypeVar("Parameters", bound=ParameterModel)

# What is expected where an evaluation gives no criteria.
DefaultCriteria: TypeAlias = Annotated[
    Parameters | None, Field(description="What is expected where no criteria are given; a rule gives the criteria.")
]

# The same in all evaluators that read the order of calls.
Concurrency: TypeAlias = Annotated[
    timeline.Concurrency,
    Field(description="Calls made together take their best order, or the order of their starts."),
]


def _expected_in(value: object) -> Iterator[Criterion]:
    """Every compiled criterion among the fields of a model, at any depth."""
    if isinstance(value, Criterion):
        yield value
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _expected_in(getattr(value, name))
    elif isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _expected_in(item)
