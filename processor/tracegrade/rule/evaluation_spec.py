"""One item of a rule's ``evaluate``: which evaluator, what score passes, and the evaluator's own fields, flat."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any, NamedTuple, TypeAlias

from pydantic import (
    BaseModel,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    PlainValidator,
    ValidationError,
    ValidationInfo,
)
from pydantic_core import InitErrorDetails

from tracegrade.display import json_text
from tracegrade.document.file_model import FileModel
from tracegrade.document.problem import did_you_mean
from tracegrade.document.validate import spellings
from tracegrade.evaluate.criteria.compile import LITERAL, MATCHERS
from tracegrade.evaluate.evaluator import Evaluator, ExpectedCalls
from tracegrade.evaluate.registry import evaluators
from tracegrade.model.errors import WrongValue
from tracegrade.rule.evaluator_file import (
    CODE,
    FILE_FORM,
    NOT_FROM_A_FILE,
    EvaluatorFile,
    FindFile,
    StillRunning,
    Unread,
    bug_text,
    ending,
    names_a_file,
)
from tracegrade.rule.mistakes import mistake, mistakes_of, refuse

# A rule's criteria always stand in the rule: a default for them would say nothing; its title describes it. (The
# settings' ``name``, which the evaluators show to people, gives way to the item's own.)
_NOT_IN_RULES = frozenset({"default_evaluation_criteria", "description"})


@dataclass(frozen=True, slots=True)
class EvaluationSpec:
    """The evaluation of one name.

    ``criteria`` and ``settings`` are instances of the evaluator's own models; ``written`` is the item as it stands in
    the file. ``case`` is the id of the case that it belongs to, if any, ``file`` the file beside the rule that the
    evaluator stands in, if it does.
    """

    evaluator: Evaluator[Any, Any]
    name: str
    threshold: float
    criteria: Any
    settings: Any
    written: Mapping[str, Any]
    case: str | None = None
    file: EvaluatorFile | None = None

    def read(self, key: str) -> Any:
        """What the evaluator's models read of a key of the item; None for a key that every item may have."""
        for part in (self.criteria, self.settings):
            for name, field in type(part).model_fields.items():
                if key in spellings(name, field):
                    return getattr(part, name)
        return None


class ItemHead(FileModel):
    """The fields that every item has, whatever its evaluator."""

    evaluator: str = Field(description="The evaluator's id, or a file beside the rule such as ./amounts.py.")
    name: str = Field(
        default="",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$",
        max_length=100,
        description="Names the evaluation in results and tests, unique in its rule; the evaluator's id if omitted.",
    )
    threshold: float = Field(default=1.0, ge=0, le=1, description="The least score that passes.")
    matchers: bool = Field(default=True, description="Whether objects of $ keys are matchers; else they are literal.")


def find_file_of(info: ValidationInfo) -> FindFile | None:
    """What reads the files that a rule names, where it may name any."""
    found: FindFile | None = (info.context or {}).get(CODE)
    return found


def read_item(value: Any, find_file: FindFile | None = None) -> EvaluationSpec:
    """Read one item; every mistake in it is reported, each at its key.

    Args:
        value: the item.
        find_file: reads the file that it may name in place of an evaluator; without it, none may be named.

    Raises:
        ValidationError: of `mistakes.mistake`s.
        ValueError: it is no item at all.
    """
    if isinstance(value, EvaluationSpec):
        return value
    if not isinstance(value, dict):
        raise ValueError(f"expected an object such as {{evaluator: tool-call-order, ...}}, found {value!r}")
    if "evaluator" not in value:
        raise ValueError("key 'evaluator' is missing; 'tracegrade rules list --evaluators' shows all")
    named = value["evaluator"]
    if isinstance(named, str) and names_a_file(named):
        return _read_with_file(named, value, find_file)
    evaluator = evaluators().get(named) if isinstance(named, str) else None
    if evaluator is None:
        raise refuse([mistake(_no_evaluator(named), "evaluator")])
    return _read_with(evaluator, value)


def _read_with_file(named: str, value: dict[str, Any], find_file: FindFile | None) -> EvaluationSpec:
    if find_file is None:
        raise refuse([mistake(NOT_FROM_A_FILE.format(written=named), "evaluator")])
    try:
        file = find_file(named)
    except WrongValue as error:
        raise refuse([mistake(str(error), "evaluator")]) from None
    try:
        with ending(file.place):
            read = _read_with(file.evaluator, value)
            said_of_it = _SaidOfCriteria.of(read)
            wrong = said_of_it.mistake
    except ValidationError:
        raise
    except (Exception, SystemExit, StillRunning) as bug:  # in its models, or in what says something of them
        raise refuse([mistake(f"{file.where(bug)}: {bug_text(bug)}", "evaluator")]) from None
    if wrong is not None:
        raise refuse([mistake(f"{file.written}: {wrong}", "evaluator")])
    return replace(read, evaluator=said_of_it.kept_in(file.evaluator), file=file)


class _SaidOfCriteria(NamedTuple):
    """What an evaluator says of the criteria of one item: asked when the rule is read, and not when it is shown."""

    attributes: frozenset[str]
    sentences: Sequence[str]
    expected_calls: ExpectedCalls | None

    @classmethod
    def of(cls, spec: EvaluationSpec) -> "_SaidOfCriteria":
        evaluator, criteria, settings = spec.evaluator, spec.criteria, spec.settings
        return cls(
            evaluator.attributes_of(criteria),
            evaluator.sentences(criteria, settings),
            evaluator.expected_calls(criteria, settings),
        )

    @property
    def mistake(self) -> str | None:
        """Why it cannot be used."""
        attributes, sentences, expected = self
        if not isinstance(attributes, frozenset) or not all(isinstance(key, str) and key for key in attributes):
            return f"attributes_of: expected a frozenset of non-empty texts, found {attributes!r}"
        if not isinstance(sentences, list | tuple) or not all(isinstance(sentence, str) for sentence in sentences):
            return f"sentences: expected a list of texts, found {sentences!r}"
        if expected is not None and not isinstance(expected, ExpectedCalls):
            return f"expected_calls: expected {ExpectedCalls.__module__}.ExpectedCalls or None, found {expected!r}"
        return None

    def kept_in(self, evaluator: Evaluator[Any, Any]) -> Evaluator[Any, Any]:
        """The evaluator, saying so of these criteria without being asked again."""
        return replace(
            evaluator,
            attributes_of=lambda criteria: self.attributes,
            sentences=lambda criteria, settings: self.sentences,
            expected_calls=lambda criteria, settings: self.expected_calls,
        )


def _no_evaluator(name: object) -> str:
    hint = did_you_mean(name, evaluators()) if isinstance(name, str) else ""
    return f"no evaluator {name!r}{hint} ('tracegrade rules list --evaluators' shows all)"


def _read_with(evaluator: Evaluator[Any, Any], value: dict[str, Any]) -> EvaluationSpec:
    fields = fields_of(evaluator)
    mistakes: list[InitErrorDetails] = []
    parts: dict[type[BaseModel], dict[str, Any]] = {ItemHead: {}, evaluator.Criteria: {}, evaluator.Settings: {}}
    for key, member in value.items():
        if evaluator.Criteria is Unread and key not in fields:
            continue
        if key in fields:
            parts[fields[key]][key] = member
        else:
            mistakes.append(mistake(f"unknown key {key!r}{did_you_mean(key, field_names(evaluator))}", key))
    read: list[Any] = []
    for model, part in parts.items():
        try:
            read.append(model.model_validate(part, context=LITERAL if value.get("matchers") is False else MATCHERS))
        except ValidationError as error:
            mistakes.extend(mistakes_of(error, model))
    if mistakes:
        raise refuse(mistakes)
    head, criteria, settings = read
    if (why := evaluator.never_scores(criteria, settings)) is not None:
        raise refuse([mistake(f"{evaluator.name}: {why}", "evaluator")])
    return EvaluationSpec(evaluator, head.name or evaluator.name, head.threshold, criteria, settings, value)


def fields_of(evaluator: Evaluator[Any, Any]) -> dict[str, type[BaseModel]]:
    """Every key that an item of this evaluator may hold, aliases included, and the model it belongs to."""
    settings: type[BaseModel] = evaluator.Settings
    criteria: type[BaseModel] = evaluator.Criteria
    return _fields_of(settings, criteria)


@cache  # by the models, not by the name, which evaluators of two files may share
def _fields_of(settings: type[BaseModel], criteria: type[BaseModel]) -> dict[str, type[BaseModel]]:
    return {
        key: model
        for model in (settings, criteria, ItemHead)
        for field in model.model_fields
        if field not in _NOT_IN_RULES
        for key in spellings(field, model.model_fields[field])
    }


def field_names(evaluator: Evaluator[Any, Any]) -> list[str]:
    """The keys that an item of this evaluator may hold, in snake_case."""
    models = (ItemHead, evaluator.Criteria, evaluator.Settings)
    return list(dict.fromkeys(name for model in models for name in model.model_fields if name not in _NOT_IN_RULES))


def field_meanings(evaluator: Evaluator[Any, Any]) -> list[tuple[str, str, str]]:
    """Each key that an item of this evaluator may hold, its default as one would write it, and what it means."""
    found: dict[str, tuple[str, str, str]] = {}
    for model in (ItemHead, evaluator.Criteria, evaluator.Settings):
        for name, field in model.model_fields.items():
            if name in _NOT_IN_RULES or name in found:
                continue
            default = field.get_default(call_default_factory=True) if not field.is_required() else None
            written = "needed" if field.is_required() else "none" if default in (None, "") else json_text(default)
            found[name] = (name, written, field.description or "")
    return list(found.values())


def _read_item(value: Any, info: ValidationInfo) -> EvaluationSpec:
    return read_item(value, find_file_of(info))


class _ItemSchema:
    """Writes the JSON Schema of an item for editors: one shape for each evaluator."""

    def __get_pydantic_json_schema__(self, _: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"oneOf": item_shapes(handler)}


def item_shapes(handler: GetJsonSchemaHandler) -> list[dict[str, Any]]:
    """The JSON Schema of an item of each evaluator."""
    return [*(_shape(evaluator, handler) for evaluator in evaluators().values()), _shape_of_a_file(handler)]


def _shape_of_a_file(handler: GetJsonSchemaHandler) -> dict[str, Any]:
    """An item that names a file, whose fields nobody knows who does not run it."""
    head = handler.resolve_ref_schema(handler(ItemHead.__pydantic_core_schema__))
    named = {"type": "string", "pattern": f"^{FILE_FORM}$"}
    return {
        "title": "a file beside the rule",
        "description": "The evaluator in a file of Python; runs only with rules.allow_code. Other fields are its own.",
        "type": "object",
        "properties": {**head["properties"], "evaluator": named},
        "required": ["evaluator"],
    }


def _shape(evaluator: Evaluator[Any, Any], handler: GetJsonSchemaHandler) -> dict[str, Any]:
    models = (ItemHead, evaluator.Criteria, evaluator.Settings)
    schemas = [handler.resolve_ref_schema(handler(model.__pydantic_core_schema__)) for model in models]
    properties: dict[str, Any] = {"evaluator": {"const": evaluator.name}}
    for schema in schemas:
        fields = schema["properties"].items()
        properties |= {name: field for name, field in fields if name not in properties and name not in _NOT_IN_RULES}
    return {
        "title": evaluator.name,
        "description": evaluator.summary,
        "type": "object",
        "properties": properties,
        "required": [name for schema in schemas for name in schema.get("required", ())],
        "additionalProperties": False,
    }


EvaluationItem: TypeAlias = Annotated[
    EvaluationSpec, PlainValidator(_read_item), PlainSerializer(lambda spec: spec.written), _ItemSchema()
]
