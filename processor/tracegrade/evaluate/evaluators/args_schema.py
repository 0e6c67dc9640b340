"""args-schema: are the arguments of calls valid by the tools' JSON Schemas?

The share of calls with valid arguments; only calls whose tool has a schema count. The rule's schema comes first, by
name or under ``*`` for all other tools; else it is the one that the model was told, where the trace has the tool
definitions. References inside a schema are followed, none is ever fetched. A trace without calls is 1; one whose calls
have no schema is not scored, unless ``unknown_tools: invalid``, which takes a call of a tool without schema as one that
was made up.
"""

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeAlias

import orjson
from pydantic import Field, PlainSerializer, PlainValidator, WithJsonSchema

from tracegrade.display import count
from tracegrade.evaluate.call_facts import names
from tracegrade.evaluate.criteria.field_types import VERBATIM
from tracegrade.evaluate.criteria.json_schema import JsonSchema, JsonSchemaError
from tracegrade.evaluate.criteria.parameters import ParameterModel
from tracegrade.evaluate.evaluator import Evaluator, share_of_calls
from tracegrade.evaluate.evidence import Evidence, Score
from tracegrade.evaluate.unknown import arguments_or_unknown, with_unknown
from tracegrade.evaluate.wording import detailed, listed
from tracegrade.evaluate.work import Work
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tri import Unknown

ANY_TOOL = "*"
_MAX_ERRORS = 20  # listed per evaluation
_MAX_ERRORS_OF_CALL = 5
_REMEMBERED = 1024  # compiled schemas of traces
_LONGEST_REMEMBERED = 16 * 1024


def _read_schema(value: Any) -> JsonSchema:
    return value if isinstance(value, JsonSchema) else JsonSchema(value)


Schema: TypeAlias = Annotated[
    JsonSchema,
    PlainValidator(_read_schema),
    PlainSerializer(lambda schema: schema.source),
    WithJsonSchema({"type": ["object", "boolean"]}),
    VERBATIM,
]


class Criteria(ParameterModel):
    """What is expected."""

    schemas: dict[str, Schema] = Field(
        default_factory=dict, description="JSON Schemas of arguments, by tool; '*': any other."
    )


class Settings(ParameterModel):
    """Which schemas count."""

    from_trace: Annotated[
        bool, Field(description="Tools that the rule has no schema for: the trace's definitions.")
    ] = True
    unknown_tools: Annotated[
        Literal["skip", "invalid"], Field(description="What calls of tools without any schema are.")
    ] = "skip"


def _schemas(evidence: Evidence, criteria: Criteria, settings: Settings) -> Mapping[str, JsonSchema]:
    if (any_other := criteria.schemas.get(ANY_TOOL)) is not None:
        return {**dict.fromkeys(evidence.once(names), any_other), **criteria.schemas}
    if not settings.from_trace or evidence.trace_context is None:
        return criteria.schemas
    return {**evidence.once(_defined), **criteria.schemas}


def _defined(evidence: Evidence) -> dict[str, JsonSchema]:
    """The schemas of the tools that were called, as the trace has them."""
    if evidence.trace_context is None:
        return {}
    definitions = evidence.trace_context.tool_definitions()
    compiled = {
        name: _compiled(text) if len(text) <= _LONGEST_REMEMBERED else _compiled.__wrapped__(text)
        for name in dict.fromkeys(evidence.once(names))
        if isinstance(definition := definitions.get(name), dict)
        for text in (_schema_key(definition),)
    }
    return {name: schema for name, schema in compiled.items() if schema is not None}


def _schema_key(definition: JsonValue) -> bytes | str:
    """A definition as what its schema is remembered by."""
    try:
        return orjson.dumps(definition, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # integers of more than 64 bits, odd texts
        return json.dumps(definition, sort_keys=True)


@lru_cache(maxsize=_REMEMBERED)
def _compiled(text: bytes | str) -> JsonSchema | None:
    """A schema of a trace; None when it is none, as a sender's mistake is not the agent's."""
    try:
        return JsonSchema(json.loads(text))
    except JsonSchemaError:
        return None


def _score(evidence: Evidence, criteria: Criteria, settings: Settings) -> Score:
    made = evidence.once(names)
    if not made:
        return Score(1.0, {}, "No call was made, so there are no arguments to check.")
    schemas = _schemas(evidence, criteria, settings)
    unknown = [name for name in made if name not in schemas]
    work = Work(evidence=evidence)
    actual = evidence.once(arguments_or_unknown)
    judged = invalid = maybe = 0
    invalid_names: list[str] = []
    errors: list[JsonValue] = []
    for position, name in enumerate(made):
        if name not in schemas:
            continue
        judged += 1
        work.position = position
        given = actual[position]
        is_valid, may_be = work.ends(given if isinstance(given, Unknown) else schemas[name].is_valid(given, work))
        if is_valid:
            continue
        invalid += 1
        maybe += int(may_be)
        invalid_names.append(name)
        if len(errors) < _MAX_ERRORS and not isinstance(given, Unknown):
            errors.extend(_errors(schemas[name], name, position, given, work))
    if settings.unknown_tools == "invalid":
        judged += len(unknown)
        invalid += len(unknown)
        invalid_names += unknown
    details: dict[str, JsonValue] = {
        "valid": judged - invalid,
        "judged": judged,
        "without_schema": detailed(list(dict.fromkeys(unknown))),
        "errors": errors[:_MAX_ERRORS],
    }
    if not judged:
        return Score(None, details, f"No schema is known for the called tools: {listed(unknown)}.")
    valid = judged - invalid
    # A schema for any tool says what no tool may be given; one of a tool says what that tool takes.
    is_of_any = ANY_TOOL in criteria.schemas
    calls = f"{invalid} of {count(judged, 'call')}" if invalid else count(judged, "call")
    if invalid:
        said = "contain something forbidden" if is_of_any else "do not fit the schema of the tool"
        text = f"The arguments of {calls} {said}: {listed(invalid_names)}."
    else:
        said = "contain nothing forbidden" if is_of_any else "fit the schema of the tool"
        text = f"The arguments of {calls} {said}."
    return with_unknown(Score(valid / judged, details, text), work.unknown, (valid + maybe) / judged)


def _errors(
    schema: JsonSchema, name: str, position: int, args: dict[str, JsonValue], work: Work
) -> Iterable[JsonValue]:
    for number, (path, message) in enumerate(schema.errors(args, work)):
        if number == _MAX_ERRORS_OF_CALL:
            return
        yield {"call": name, "position": position, "path": [*path], "error": message}


EVALUATOR = Evaluator(
    name="args-schema",
    summary="Are the arguments of calls valid by the tools' JSON Schemas?",
    Criteria=Criteria,
    Settings=Settings,
    score=_score,
    asks=frozenset({"arguments"}),
    with_further_calls=share_of_calls,
    never_scores=lambda criteria, settings: (
        None if criteria.schemas or settings.from_trace else "there are no schemas, and from_trace is off"
    ),
)
