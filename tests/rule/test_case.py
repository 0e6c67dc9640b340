"""Cases as they are read from a rule file."""

from typing import Any

import pytest
from pydantic import ValidationError

import build
from build import each
from tracegrade.rule.rule import Rule

ORDER = {"evaluator": "tool-call-order", "tool_calls_order": ["create_order"]}


CASE = {"id": "a", "expected_tool": "x"}


def rule_of(*cases: dict[str, Any], **fields: Any) -> Rule:
    return build.rule(cases=list(cases), **fields)


def test_a_case_is_a_tool_case_unless_it_says_otherwise() -> None:
    paris = {"id": "paris", "expected_tool": "get_weather", "expected_params": {"city": "Paris"}}
    later = {"id": "later", "evaluator": "multi-turn", "expected_tool": "get_weather"}
    cases = rule_of(paris, later).cases
    assert cases is not None
    assert [found.spec.evaluator.name for found in cases.all] == ["tool-case", "multi-turn"]


def test_an_item_of_its_own_has_all_fields_of_its_evaluator() -> None:
    item = {"evaluator": "trajectory", "match": "exact", "args": "ignore", "tool_calls": ["create_order"]}
    [apart] = rule_of({"id": "apart", "match": {"prompt": "Hello"}, "evaluate": item}).cases.all  # type: ignore[union-attr]
    assert apart.match.prompt is not None
    assert (apart.spec.settings.match, apart.spec.settings.args, apart.spec.case) == ("exact", "ignore", "apart")
    [default] = rule_of({"id": "default", "evaluate": {"expected_tool": "a"}}).cases.all  # type: ignore[union-attr]
    assert default.spec.evaluator.name == "tool-case"


@each(
    ("rule", "is_suite"),
    [
        (
            rule_of({"id": "a", "expected_tool": "x"}, {"id": "b", "evaluator": "multi-turn", "expected_tool": "x"}),
            True,
        ),
        (rule_of({"id": "a", "expected_tool": "x"}, {"id": "b", "evaluate": ORDER}), False),
        (rule_of({"id": "a", "expected_tool": "x"}, evaluate=[ORDER]), False),
        (Rule.model_validate({"id": "one", "evaluate": [{"evaluator": "tool-case", "expected_tool": "x"}]}), False),
    ],
)
def test_a_suite_has_cases_alone_that_are_scored_overall(rule: Rule, is_suite: bool) -> None:
    assert rule.is_suite is is_suite


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ({"evaluate": ORDER, "threshold": 0.5}, "'threshold' is beside 'evaluate'; an item is written in one place"),
        ({"evaluate": [ORDER]}, "expected an item such as {evaluator: ...}, found "),
        ({"evaluate": {**ORDER, "tool_calls": []}}, "unknown key 'tool_calls'"),
    ],
)
def test_mistakes_in_an_item_of_its_own_are_named(case: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as error:
        rule_of({"id": "wrong", **case})
    assert message in str(error.value)
    assert error.value.errors()[0]["loc"][:2] == ("cases", 0)
