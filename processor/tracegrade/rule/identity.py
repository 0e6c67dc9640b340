"""What makes a rule the same rule: what of it can change a judgement, in one form however it is written.

The form is made of the rule as it was read, so that quotes, the order of keys, aliases of keys, ``30s`` or ``0.5m`` and
values equal to the default make no difference. Values that stand for any JSON (expected arguments, outputs, schemas)
are taken as written: 1 and 1.0 are equal there, but not to a matcher of text, and a rule is rather taken for another
one than for the same.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tracegrade.document.validate import spellings
from tracegrade.model.json_value import JsonValue
from tracegrade.model.short_hash import short_hash
from tracegrade.rule.case import Case, CaseMatch
from tracegrade.rule.case import item_of as item_of_case
from tracegrade.rule.clauses import Clauses
from tracegrade.rule.evaluation_spec import EvaluationSpec, fields_of
from tracegrade.rule.patterns import Patterns


def content_hash(value: JsonValue) -> str:
    """16 hex digits over the canonical JSON of `value`: keys sorted, no spaces."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return short_hash(text.encode())


def judgement(
    *,
    id: str,
    scope: str,
    depth: int,
    match: Clauses,
    unless: Clauses | None,
    evaluate: Sequence[EvaluationSpec],
    when: JsonValue,
    then: Sequence[EvaluationSpec],
    cases: Sequence[Case],
    packages: Mapping[str, JsonValue],
    files: Mapping[str, JsonValue],
) -> dict[str, Any]:
    """What of a rule can change a judgement, as JSON; parts that say nothing are left out.

    `packages` and `files` are those that its evaluators use, with what stands for their content; all else is as in
    `rule.Rule`.
    """
    parts = {
        "id": id,
        "scope": scope,
        "depth": depth,
        "match": _clauses(match),
        "unless": _clauses(unless) if unless is not None else None,
        "evaluate": [_item(spec, spec.written) for spec in evaluate],
        "when": when,
        "then": [_item(spec, spec.written) for spec in then],
        "cases": [
            {"id": case.id, "match": _case_match(case.match), "item": _item(case.spec, item_of_case(case.spec.written))}
            for case in cases
        ],
        "packages": packages,
        "files": files,
    }
    return {name: part for name, part in parts.items() if part}


def _clauses(clauses: Clauses) -> dict[str, Any]:
    found: dict[str, Any] = {name: _patterns(patterns) for name, patterns in clauses.named()}
    if clauses.cel is not None:
        found["cel"] = clauses.cel.source.strip()
    return found


def _case_match(match: CaseMatch) -> dict[str, Any]:
    found: dict[str, Any] = {f"attributes.{name}": _patterns(patterns) for name, patterns in match.attributes.items()}
    if match.prompt is not None:
        found["prompt"] = _patterns(match.prompt)
        found["similarity"] = match.similarity
    return found


def _patterns(patterns: Patterns) -> list[Any]:
    """Any of them will do, in any order, once or twice; 1 is 1.0 here, and true is not 1."""
    exact = (item[1] if isinstance(item, tuple) else item for item in patterns.exact)
    numbers = (int(item) if isinstance(item, float) and item.is_integer() else item for item in exact)
    rest = [{"$glob": text} for text in patterns.globs] + [{"$regex": text} for text in patterns.regexes]
    texts = {json.dumps(item) for item in [*numbers, *rest]}
    return [json.loads(text) for text in sorted(texts)]


def _item(spec: EvaluationSpec, written: Mapping[str, Any]) -> dict[str, Any]:
    named = spec.evaluator.name if spec.file is None else spec.file.written
    head = {"evaluator": named, "name": spec.name, "threshold": spec.threshold}
    if written.get("matchers") is False:
        head["matchers"] = False
    models = fields_of(spec.evaluator)
    for part in (spec.criteria, spec.settings):
        own = {key: value for key, value in written.items() if models.get(key) is type(part)}
        head |= _fields(part, own)
    return head


def _fields(model: BaseModel, written: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `model` that are not as they are when left out."""
    names = _fields_by_key(type(model))
    found = {}
    for key, value in written.items():
        field = type(model).model_fields[names[key]]
        read = getattr(model, names[key])
        if not _is_default(field, read, value):
            found[names[key]] = _value(read, value)
    return found


def _value(read: Any, written: Any) -> Any:
    """What was read of `written`, as far as that is plain JSON; inside a criterion that was compiled, as written."""
    if isinstance(read, BaseModel):
        if isinstance(written, Mapping) and written.keys() <= _fields_by_key(type(read)).keys():
            return _fields(read, written)
        return written
    if isinstance(read, list) and isinstance(written, list) and len(read) == len(written):
        return [_value(*pair) for pair in zip(read, written, strict=True)]
    if isinstance(read, dict) and isinstance(written, Mapping) and read.keys() == written.keys():
        return {key: _value(value, written[key]) for key, value in read.items()}
    return read if read is None or isinstance(read, bool | int | float | str) else written


def _is_default(field: FieldInfo, read: Any, written: Any) -> bool:
    if field.is_required():
        return False
    default = field.get_default(call_default_factory=True, validated_data={})
    # Of a criterion that is compiled, the default is one of its own, which equals none but itself.
    return any(value == default and isinstance(value, bool) is isinstance(default, bool) for value in (read, written))


@cache
def _fields_by_key(model: type[BaseModel]) -> dict[str, str]:
    """Every key that a model takes, aliases included, and the field it stands for."""
    return {key: name for name, field in model.model_fields.items() for key in spellings(name, field)}
