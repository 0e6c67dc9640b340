from typing import Any

import pytest

from build import call, each, score
from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.registry import EVALUATORS

ORDER = {"city": "Paris", "total": 10, "lines": [{"sku": "A1"}], "note": None}


def args_score(score: Any, values: Any, **changed: Any) -> float:
    criteria = {"tool_calls": [{"name": "order", "args": ORDER}], "values": values}
    return score("tool-call-args", criteria, [("order", {**ORDER, **changed})]).score


@each(
    ("values", "changed", "expected"),
    [
        ("exact", {}, 1),
        ("exact", {"city": "paris"}, 0),
        ("case_insensitive", {"city": "paris", "lines": [{"sku": "a1"}]}, 1),
        ("case_insensitive", {"total": 11}, 0),
        ("numeric_tolerance", {"total": 10.005}, 1),
        ("numeric_tolerance", {"city": "paris"}, 0),  # no number is compared exactly
        ({"$numeric_tolerance": {"epsilon": 2}}, {"total": "11"}, 1),
        ("contains", {"city": "to Paris", "total": 210, "lines": [{"sku": "xA1"}]}, 1),
        ("similarity", {"city": "Pariss"}, 1),  # 1 - 1/6
        ({"$similarity": {"at_least": 0.9}}, {"city": "Pariss"}, 0),
        ("glob", {"city": "Paris"}, 1),
        ({"order.city": "case_insensitive"}, {"city": "PARIS"}, 1),
        ({"order.city": "case_insensitive"}, {"lines": [{"sku": "a1"}]}, 0),
        ({"order.lines": "case_insensitive"}, {"lines": [{"sku": "a1"}]}, 1),
        ({"order.lines[0].sku": "case_insensitive"}, {"lines": [{"sku": "a1"}]}, 1),
        ({"*": "case_insensitive", "order.city": "exact"}, {"lines": [{"sku": "a1"}]}, 1),
        ({"*": "case_insensitive", "order.city": "exact"}, {"city": "paris"}, 0),
        ({"*": "exact", "order": "case_insensitive"}, {"city": "paris"}, 1),
    ],
)
def test_values_are_compared_as_said(values: Any, changed: dict[str, Any], expected: float) -> None:
    assert args_score(score, values, **changed) == expected


def test_a_matcher_stays_what_it_is() -> None:
    criteria = {"tool_calls": [{"name": "a", "args": {"x": {"$regex": "^B"}}}], "values": "case_insensitive"}
    assert score("tool-call-args", criteria, [("a", {"x": "b"})]).score == 0


def test_outputs_and_references_are_compared_as_said() -> None:
    outputs = {"tool_outputs": [{"name": "a", "output": "Done"}], "values": "case_insensitive"}
    assert score("tool-call-output", outputs, [call("a", {}, output="DONE")]).score == 1
    references = {"reference_tool_calls": [{"name": "a", "args": {"x": "B"}}], "values": {"a.x": "case_insensitive"}}
    assert score("tool-call-accuracy", references, [("a", {"x": "b"})]).score == 1


def test_data_that_flows_into_an_output_is_known_to_the_gate() -> None:
    output = EVALUATORS["tool-call-output"]
    criteria = output.read_criteria({"tool_outputs": [{"name": "a", "output": {"id": {"$from": "b.output.id"}}}]})
    assert [flow.sources[0].text for flow in criteria.flows] == ["b.output.id"]


@each(
    ("values", "message"),
    [
        ("fuzzy", r"values: no way to compare values 'fuzzy'; expected one of"),
        ({"$gte": {}}, "values: no way to compare values 'gte'"),
        ({"order.city": "contain"}, "no way to compare values 'contain'; did you mean 'contains'"),
        ({"$regex": {"flags": "i"}}, "expected options of 'regex': none"),
        ({"$similarity": {"epsilon": 1}}, "expected options of 'similarity': at_least"),
        ({"$similarity": {"at_least": 80}}, "a number from 0 to 1, found 80"),
        ({"ordr.city": "contains"}, "no expected call is 'ordr.city'"),
        ({"orders": "contains"}, "no expected call is 'orders'"),
        (5, "no way to compare values 5"),
    ],
)
def test_a_wrong_word_is_refused(values: Any, message: str) -> None:
    with pytest.raises(EvaluatorError, match=message) as error:
        args_score(score, values)
    assert error.value.type == "invalid_criteria"


def test_a_wrong_expression_is_refused_when_it_is_a_value() -> None:
    criteria = {"tool_calls": [{"name": "a", "args": {"x": "("}}], "values": "regex"}
    with pytest.raises(EvaluatorError, match="RE2 refuses the regular expression"):
        score("tool-call-args", criteria, [])
