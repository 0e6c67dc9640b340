"""JSON Schema, compiled: all drafts, nothing is ever fetched, and patterns are linear in the text.

References inside the schema are followed; one that leads out of it is refused while the schema is compiled. Formats
(``date``, ``email``) are notes to people, as the specification has it since draft 2019-09, and reject nothing.
"""

from collections.abc import Iterator

from tracegrade.evaluate.criteria.schema_work import SchemaWork, UncountableError
from tracegrade.evaluate.work import Work
from tracegrade.model.json_value import JsonValue
from tracegrade.model.stand_ins import holds_unknown
from tracegrade.model.tri import Tri

_DEEPEST = 200  # of a value: the validator goes down by recursion, in native code
_MAX_MESSAGE = 200
_STEPS_OF_A_CHECK = 6  # of the smallest value


class JsonSchemaError(ValueError):
    """What was given is no JSON Schema that can be used."""


class JsonSchema:
    """One compiled schema; ``source`` is the schema as written.

    Raises:
        JsonSchemaError: no schema, an unknown draft, a pattern with look-around, a reference that leads out of it, or
            whose visits cannot be counted, see `schema_work`.
    """

    __slots__ = ("_validator", "_work", "source")

    def __init__(self, source: JsonValue) -> None:
        import jsonschema_rs  # for the rules that use it

        self.source = source
        if not isinstance(source, dict | bool):
            raise JsonSchemaError("expected a JSON Schema: an object, true or false")
        try:
            self._validator = jsonschema_rs.validator_for(
                source, offline=True, validate_formats=False, pattern_options=jsonschema_rs.RegexOptions()
            )
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
            reason = getattr(error, "message", None) or str(error)
            raise JsonSchemaError(f"no JSON Schema: {reason.partition(chr(10))[0][:_MAX_MESSAGE]}") from None
        try:
            self._work = SchemaWork(source)
        except UncountableError as error:
            raise JsonSchemaError(f"a JSON Schema whose cost is not bounded: {error}") from None

    def is_valid(self, value: JsonValue, work: Work) -> Tri:
        """Whether `value` is as the schema says; one that is nested more than 200 deep is not.

        Raises:
            EvaluatorError: ``work_bound``.
        """
        if self._is_too_deep(value, work):
            return False
        if work.redacted and holds_unknown(value):
            value = _asked_for(self.source, value)
            if holds_unknown(value):  # a schema may say anything of it, also what it must not be
                return work.unknown_value(value)
        try:
            return bool(self._validator.is_valid(value))
        except UnicodeEncodeError:
            return bool(self._validator.is_valid(_encodable(value)))

    def errors(self, value: JsonValue, work: Work) -> Iterator[tuple[list[str | int], str]]:
        """Where `value` is not as the schema says, and what the validator says of it (with values).

        Raises:
            EvaluatorError: ``work_bound``.
        """
        if self._is_too_deep(value, work):
            yield [], f"nested more than {_DEEPEST} deep"
            return
        for error in self._validator.iter_errors(_encodable(value)):
            yield list(error.instance_path), error.message[:_MAX_MESSAGE]

    def _is_too_deep(self, value: JsonValue, work: Work) -> bool:
        """Whether `value` is nested too deep to be validated; counts the work of validating it."""
        sizes = _values_at_depth(value)
        work.spend(_STEPS_OF_A_CHECK + sum(sizes))
        if len(sizes) > _DEEPEST:
            return True
        work.spend(self._work.steps(sizes))
        return False


# Beside these a schema may ask for a member in other ways than by its name.
_BY_NAME = frozenset({"type", "properties", "required", "additionalProperties", "title", "description", "$schema"})


def _asked_for(schema: JsonValue, value: JsonValue) -> JsonValue:
    """`value` with true in place of members that `schema` does not ask for: that they are there is all that counts."""
    if not isinstance(schema, dict) or not isinstance(value, dict) or not schema.keys() <= _BY_NAME:
        return value
    properties = schema.get("properties", {})
    if not isinstance(properties, dict) or not isinstance(schema.get("additionalProperties", True), bool):
        return value
    return {key: _asked_for(properties[key], one) if key in properties else True for key, one in value.items()}


def _values_at_depth(value: JsonValue) -> list[int]:
    """How many values stand at each depth, `value` itself at the first; no recursion."""
    sizes: list[int] = []
    level: list[JsonValue] = [value]
    while level and len(sizes) <= _DEEPEST:
        sizes.append(len(level))
        below: list[JsonValue] = []
        for item in level:
            if isinstance(item, dict):
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
        level = below
    return sizes


def _encodable(value: JsonValue) -> JsonValue:
    """`value` with lone surrogates, which have no UTF-8, replaced."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {key.encode("utf-8", "replace").decode(): _encodable(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_encodable(item) for item in value]
    return value
