"""The ``cases`` of a rule: many expectations in one rule, of which a subject meets at most one.

A case is an item as under ``evaluate`` (`tool-case` unless it names another evaluator) with an ``id``, and a ``match``
that says whom it is for. Where the evaluator has a ``match`` of its own, its item stands under ``evaluate``.
`match.case_choice` says which one a subject meets.

``attributes`` beside a ``prompt`` must hold as well. A case without ``match`` is found by its id alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeAlias

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

from tracegrade.document.file_model import FileModel
from tracegrade.rule.evaluation_spec import EvaluationSpec, find_file_of, item_shapes, read_item
from tracegrade.rule.evaluator_file import FindFile
from tracegrade.rule.mistakes import mistake, mistakes_of, refuse
from tracegrade.rule.patterns import AttributeValues, Patterns, Prompts

CASE_ID_ATTRIBUTES = ("tracegrade.case.id", "test.case.name")
DEFAULT_EVALUATOR = "tool-case"


class CaseMatch(FileModel):
    """Whom a case is for."""

    prompt: Prompts = Field(default=None, description="The run's prompt: text, {$regex: ...} or a list of them.")
    attributes: dict[str, AttributeValues] = Field(default={}, description="As in the rule's match.")
    similarity: float = Field(default=0.9, gt=0, le=1, description="How like a prompt must be; 1: only the same.")


# Under this key, the item stands by itself.
_ITEM = "evaluate"


class _Head(FileModel):
    """The fields of a case beside those of its evaluation."""

    id: str = Field(min_length=1, max_length=200, description="Names the case in results, unique in its rule.")
    match: CaseMatch = Field(default=CaseMatch(), description="Whom the case is for.")


@dataclass(frozen=True, slots=True)
class Case:
    """One case; ``spec`` is what is evaluated for who meets it."""

    id: str
    match: CaseMatch
    spec: EvaluationSpec


class Cases:
    """The cases of one rule, as `match.case_choice` looks them up; each of the tables in file order.

    Attributes:
        all: every case.
        unchosen: stands for all cases where it is unknown which one is met.
        attributes_read: the attributes that say which is met.
        by_id: all.
        by_attributes: those found by ``attributes`` alone.
        by_prompt: by each exact prompt, normalised.
        by_regex: those that ask for prompts by expressions.
    """

    def __init__(self, cases: Sequence[Case]) -> None:
        self.all = cases
        self.unchosen = replace(cases[0].spec, case=None)
        self.attributes_read = frozenset(CASE_ID_ATTRIBUTES).union(*(case.match.attributes for case in cases))
        self.by_id = {case.id: case for case in cases}
        self.by_attributes = [case for case in cases if case.match.attributes and case.match.prompt is None]
        self.by_prompt: dict[str, list[Case]] = {}
        self.by_regex: list[tuple[Case, Patterns]] = []
        for case in cases:
            if (prompt := case.match.prompt) is None:
                continue
            for text in prompt.exact:
                self.by_prompt.setdefault(str(text), []).append(case)
            if prompt.regexes:
                self.by_regex.append((case, prompt))


def _cases_of(value: Any, info: ValidationInfo) -> Cases:
    if isinstance(value, Cases):
        return value
    if not isinstance(value, list) or not value:
        raise ValueError(f"expected a list of at least one case, found {value!r}")
    cases: list[Case] = []
    mistakes: list[InitErrorDetails] = []
    for position, item in enumerate(value):
        try:
            case = _read_case(item, find_file_of(info))
            if any(case.id == other.id for other in cases):
                raise refuse([mistake(f"two cases are called {case.id!r}", "id")])
            cases.append(case)
        except ValidationError as error:
            mistakes += [mistake(_message(detail), position, *detail["loc"]) for detail in error.errors()]
        except ValueError as error:
            mistakes.append(mistake(str(error), position))
    if mistakes:
        raise refuse(mistakes)
    return Cases(cases)


def _read_case(item: Any, find_file: FindFile | None) -> Case:
    if not isinstance(item, dict):
        raise ValueError(f"expected an object such as {{id: ..., match: {{prompt: ...}}, ...}}, found {item!r}")
    mistakes: list[InitErrorDetails] = []
    head, spec = _Head.model_construct(id=""), None
    try:
        head = _Head.model_validate({key: item[key] for key in _Head.model_fields if key in item})
    except ValidationError as error:
        mistakes += mistakes_of(error, _Head)
    rest = _without_head(item)
    inside: tuple[str, ...] = ()
    if _ITEM in rest:
        inside, own = (_ITEM,), rest.pop(_ITEM)
        mistakes += [mistake(f"{key!r} is beside {_ITEM!r}; an item is written in one place", key) for key in rest]
        if not isinstance(own, dict):
            raise refuse([*mistakes, mistake(f"expected an item such as {{evaluator: ...}}, found {own!r}", _ITEM)])
        rest = own
    try:
        spec = read_item({"evaluator": DEFAULT_EVALUATOR, **rest}, find_file)
    except ValidationError as error:
        mistakes += [mistake(_message(detail), *inside, *detail["loc"]) for detail in error.errors()]
    if mistakes or spec is None:
        raise refuse(mistakes)
    return Case(head.id, head.match, replace(spec, case=head.id, written=item))


def _without_head(item: Mapping[str, Any]) -> dict[str, Any]:
    return {key: member for key, member in item.items() if key not in _Head.model_fields}


def item_of(written: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of a case as it stands in its file, the item that is evaluated."""
    rest = _without_head(written)
    item: Mapping[str, Any] = rest.get(_ITEM, rest)
    return item


def _message(detail: Any) -> str:
    return str(detail["ctx"]["error"])


class _CasesSchema:
    """Writes the JSON Schema of cases for editors: the items of ``evaluate``, with an id and a match."""

    def __get_pydantic_json_schema__(self, _: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        head = _properties(_Head, handler)
        shapes = item_shapes(handler)
        for shape in shapes:
            shape["properties"] |= head
            shape["required"] = [
                "id",
                *(name for name in shape["required"] if name != "evaluator" or shape["title"] != DEFAULT_EVALUATOR),
            ]
        apart = {
            "title": "an item of its own",
            "type": "object",
            "properties": head | {_ITEM: {"type": "object", "description": "An item as under the rule's evaluate."}},
            "required": ["id", _ITEM],
            "additionalProperties": False,
        }
        return {"type": "array", "minItems": 1, "items": {"anyOf": [*shapes, apart]}}


def _properties(model: type[BaseModel], handler: GetJsonSchemaHandler) -> dict[str, Any]:
    properties: dict[str, Any] = handler.resolve_ref_schema(handler(model.__pydantic_core_schema__))["properties"]
    return properties


CaseList: TypeAlias = Annotated[
    Cases | None,
    PlainValidator(_cases_of),
    PlainSerializer(lambda cases: cases and [case.spec.written for case in cases.all]),
    _CasesSchema(),
]
