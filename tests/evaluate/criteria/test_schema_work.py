"""The visits that a schema takes are counted before it is used: schemas come from traces, too."""

from time import process_time
from typing import Any
from unittest import mock

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from build import each
from tracegrade.evaluate.criteria import schema_work
from tracegrade.evaluate.criteria.json_schema import JsonSchema, JsonSchemaError
from tracegrade.evaluate.criteria.schema_work import SchemaWork
from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.work import WORK_LIMIT, Work

REF = {"$ref": "#"}
TREE = {"properties": {"left": REF, "right": REF, "name": {"type": "string"}}}
DOUBLING = {"allOf": [{"items": REF}, {"items": REF}]}
CHAIN = {"$defs": {str(i): {"allOf": [{"$ref": f"#/$defs/{i + 1}"}] * 2} for i in range(40)}, "$ref": "#/$defs/0"}
CHAIN["$defs"]["40"] = {"type": "object"}


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


@each(
    ("schema", "value"),
    [
        (DOUBLING, nested(40)),
        (CHAIN, {}),
        ({"anyOf": [{"additionalProperties": REF}, {"patternProperties": {"": REF}}]}, {"a": nested(1)}),
        ({"prefixItems": [REF], "items": REF, "contains": REF}, nested(60)),
    ],
)
def test_what_would_take_forever_is_refused_at_once(schema: Any, value: Any) -> None:
    if "anyOf" in schema:
        for _ in range(40):
            value = {"a": value}
    started = process_time()
    with pytest.raises(EvaluatorError, match="steps") as error:
        JsonSchema(schema).is_valid(value, Work())
    assert error.value.type == "work_bound"
    assert process_time() - started < 1


SIXTEEN = {"properties": {letter: {} for letter in "abcdefghijklmnop"}}  # with itself 17 parts: 1 + 17 // 8 steps


@each(
    ("schema", "values_at_depth", "steps"),
    [
        ({}, [], 0),
        ({}, [1], 1),
        ({}, [1, 3], 4),  # what is reached above is reached by every value below as well: 1 + 3
        ({}, [2, 3, 4], 9),
        (SIXTEEN, [1], 3),
        (SIXTEEN, [1, 16], 51),  # 3 + 16 * 3
        ({"items": REF}, [1, 1, 1], 6),  # one visit more at each depth: 1 + 2 + 3
        (DOUBLING, [1, 1, 1], 11),  # twice as many more at each depth: 1 + 3 + 7
        ({"allOf": [{"$ref": "#/$defs/x"}] * 2, "$defs": {"x": SIXTEEN}}, [1], 7),  # 1 + 2 * 3
        ({"not": {"items": {"$ref": "#/$defs/x"}}, "$defs": {"x": SIXTEEN}}, [1, 2], 9),  # 1 + 2 * (1 + 3)
    ],
)
def test_steps_are_visits_of_values_times_the_parts_visited(
    schema: Any, values_at_depth: list[int], steps: int
) -> None:
    assert SchemaWork(schema).steps(values_at_depth) == steps


def test_counting_ends_where_there_are_too_many() -> None:
    assert 10**12 < SchemaWork(DOUBLING).steps([1] * 200) < 10**13  # and not 2**200


def test_everyday_schemas_are_not_refused() -> None:
    tree: Any = {"name": "leaf"}
    for _ in range(12):
        tree = {"left": tree, "name": "x"}
    work = Work()
    assert JsonSchema(TREE).is_valid(tree, work)
    # Of the two members one is for any one value: each level is visited once.
    assert WORK_LIMIT - work.left < 500
    union = {f"kind{i}": {"properties": {"kind": {"const": i}, "of": {"$ref": "#/$defs/any"}}} for i in range(8)}
    any_kind = {"anyOf": [{"$ref": f"#/$defs/kind{i}"} for i in range(8)]}
    value: Any = {"kind": 3}
    for _ in range(3):
        value = {"kind": 1, "of": value}
    assert JsonSchema({"$ref": "#/$defs/any", "$defs": {**union, "any": any_kind}}).is_valid(value, Work())
    rows = [{"sku": "x", "qty": 1, "tags": ["a", "b"]}] * 5000
    row = {"properties": {"sku": {"type": "string"}, "qty": {"type": "integer"}, "tags": {"items": {"type": "string"}}}}
    assert JsonSchema({"items": {"$ref": "#/$defs/row"}, "$defs": {"row": row}}).is_valid(rows, Work())


@each(
    ("schema", "said"),
    [
        (REF, "a part refers to itself without going into the value"),
        ({"anyOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"not": REF}}}, "refers to itself"),
        ({"items": {"$dynamicRef": "#x"}, "$defs": {"x": {"$dynamicAnchor": "x"}}}, r"\$dynamicRef cannot be followed"),
        ({"$ref": "#x", "$defs": {"x": {"$anchor": "x"}}}, "'#x' cannot be followed; expected a JSON Pointer"),
        ({"items": {"$id": "http://localhost/x", "items": REF}}, r"a part has an \$id of its own"),
    ],
)
def test_what_cannot_be_counted_is_no_schema_here(schema: Any, said: str) -> None:
    with pytest.raises(JsonSchemaError, match=said):
        JsonSchema(schema)


def test_pointers_are_followed_as_they_are_quoted() -> None:
    schema = {"$defs": {"a/b~c d": {"type": "integer"}}, "items": {"$ref": "#/$defs/a~1b~0c%20d"}}
    assert JsonSchema(schema).is_valid([1], Work())
    assert not JsonSchema(schema).is_valid(["x"], Work())
    assert SchemaWork({**schema, "prefixItems": [{"$ref": "#/prefixItems/1"}, {"items": REF}]}).steps([1, 1, 1]) > 3


parts = st.recursive(
    st.sampled_from([REF, {"$ref": "#/$defs/a"}, {"type": "object"}, True]),
    lambda inner: st.one_of(
        st.builds(lambda part: {"items": part}, inner),
        st.builds(lambda part: {"additionalProperties": part}, inner),
        st.builds(lambda one, other: {"allOf": [one, other]}, inner, inner),
        st.builds(lambda one, other: {"properties": {"a": one, "b": other}}, inner, inner),
        st.builds(lambda one, other: {"prefixItems": [one], "not": other}, inner, inner),
    ),
    max_leaves=6,
)
values = st.recursive(
    st.none(), lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner), max_leaves=8
)


@given(schema=parts, part=parts, value=values)
def test_as_valid_as_the_validator_says_or_refused(schema: Any, part: Any, value: Any) -> None:
    whole = {"items": schema, "properties": {"a": schema}, "$defs": {"a": {"items": part}}}
    try:
        found = JsonSchema(whole).is_valid(value, Work())
    except (JsonSchemaError, EvaluatorError):
        return
    assert found is jsonschema_rs.validator_for(whole).is_valid(value)


@given(st.lists(st.lists(st.integers(0, 5), max_size=3), max_size=8))
def test_steps_that_are_known_are_those_that_are_counted(shapes: list[list[int]]) -> None:
    with mock.patch.object(schema_work, "_MAX_KNOWN", 3):
        work = SchemaWork(TREE)
        for shape in [*shapes, *shapes]:
            assert work.steps(shape) == SchemaWork(TREE).steps(shape)
