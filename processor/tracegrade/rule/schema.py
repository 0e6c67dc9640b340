"""The JSON Schema of a rule file, for editors."""

import json
from functools import cache
from typing import Any, get_args

from tracegrade.document.file_model import write_durations
from tracegrade.evaluate.criteria.compile import LITERALLY
from tracegrade.evaluate.criteria.field_types import VERBATIM
from tracegrade.evaluate.criteria.registry import MATCHERS_BY_WORD
from tracegrade.evaluate.registry import EVALUATORS
from tracegrade.rule.evaluator_file import FILE_FORM
from tracegrade.rule.rule import Rule

DRAFT = "https://json-schema.org/draft/2020-12/schema"

_VALUE = "Value"
_TO_VALUE = {"$ref": f"#/$defs/{_VALUE}"}
_PLAIN_KEY = "^([^$]|$)"
# What stands behind these words has `$` keys of its own, or is taken as it is.
_AS_IT_IS = {"$schema", "$from", LITERALLY}
_TYPES: dict[str, dict[str, Any]] = {
    "$regex": {"type": "string"},
    "$glob": {"type": "string"},
    "$one_of": {"type": "array"},
}


def rule_schema() -> dict[str, Any]:
    """The schema (draft 2020-12) that every rule file fits; loading checks more than a schema can say."""
    schema = Rule.model_json_schema(by_alias=False)
    write_durations(schema)
    schema["$defs"][_VALUE] = _value()
    for key in ("evaluate", "then", "cases"):
        schema["properties"][key]["items"] |= _matchers_known()
    return {"$schema": DRAFT} | schema | {"allOf": [{"properties": {"when": _TO_VALUE}}]}


@cache
def rule_schema_text() -> str:
    """`rule_schema` as it is shown and written; made once a process, of the evaluators that are loaded by then."""
    return json.dumps(rule_schema(), indent=2, ensure_ascii=False)


def _value() -> dict[str, Any]:
    """Any JSON value in which objects of ``$`` keys are matchers, with nothing beside them and no others."""
    words = {
        word: {"description": f"{matcher.argument}: {matcher.summary}", **_TYPES.get(word, {})}
        | ({} if word in _AS_IT_IS else _TO_VALUE)
        for word, matcher in MATCHERS_BY_WORD.items()
    }
    return {
        "title": "a value, or a matcher",
        "properties": words | {LITERALLY: {"description": "A value that is taken as it is."}},
        "patternProperties": {_PLAIN_KEY: _TO_VALUE},
        "additionalProperties": False,
        "anyOf": [{"propertyNames": {"pattern": "^[$]"}}, {"propertyNames": {"pattern": _PLAIN_KEY}}],
        "items": _TO_VALUE,
    }


def _matchers_known() -> dict[str, Any]:
    """That an item's values hold known matchers alone, unless it says that they are literal, or is code's to read."""
    literal = {"properties": {"matchers": {"const": False}}, "required": ["matchers"]}
    of_a_file = {"properties": {"evaluator": {"pattern": f"^{FILE_FORM}$"}}, "required": ["evaluator"]}
    models = [model for evaluator in EVALUATORS.values() for model in (evaluator.Criteria, evaluator.Settings)]
    verbatim = {
        name
        for model in models
        for name, field in model.model_fields.items()
        if VERBATIM in field.metadata or _holds_verbatim(field.annotation)
    }
    return {
        "if": {"anyOf": [literal, of_a_file]},
        "else": {"properties": dict.fromkeys(sorted(verbatim), True), "additionalProperties": _TO_VALUE},
    }


def _holds_verbatim(annotation: Any) -> bool:
    return VERBATIM in getattr(annotation, "__metadata__", ()) or any(map(_holds_verbatim, get_args(annotation)))
