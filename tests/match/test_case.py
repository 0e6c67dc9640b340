"""Which case of a rule a subject meets, and what becomes of it."""

from typing import Any

import pytest
from pydantic import ValidationError

from match.test_select import ROOT, TOOL, extraction_of, span_of
from tracegrade.match.rule import Rule
from tracegrade.match.rule_set import RuleSet
from tracegrade.match.select import UNREADABLE_PROMPT, explain, match
from tracegrade.model.agent_run import AgentRun
from tracegrade.model.extraction import Extraction

ORDER = {"evaluator": "tool-call-order", "tool_calls_order": ["create_order"]}


def case(case_id: str, **clauses: Any) -> dict[str, Any]:
    return {"id": case_id, "match": clauses, **ORDER}


def rule_of(*cases: dict[str, Any], **fields: Any) -> Rule:
    return Rule.model_validate({"id": "one", "cases": list(cases), **fields})


def subject(prompt: str | None = "What's the weather in Paris?", **attributes: Any) -> Extraction:
    return extraction_of([AgentRun(ROOT, "support", prompt=prompt)], [span_of(ROOT, **attributes), span_of(TOOL, ROOT)])


def met(extraction: Extraction, *cases: dict[str, Any]) -> str | None:
    """The id of the case that the subject meets."""
    matches = match(RuleSet([rule_of(*cases)]), extraction)
    [explained] = explain(rule_of(*cases), extraction)
    assert (explained.clause is None) == bool(matches)
    return matches[0].case.id if matches and matches[0].case is not None else None


FIRST = case("exact", prompt="What's the weather in Paris?")


@pytest.mark.parametrize(
    ("cases", "expected"),
    [
        ([FIRST], "exact"),
        ([case("other", prompt="Refund me"), FIRST], "exact"),
        ([FIRST, case("twin", prompt="What's the weather in Paris?")], "exact"),  # of equals the first
        ([case("spaced", prompt=" What's  the weather\nin Paris?")], "spaced"),
        ([case("listed", prompt=["Hello", "What's the weather in Paris?"])], "listed"),
        ([case("regex", prompt={"$regex": "(?i)PARIS"}), FIRST], "exact"),
        ([case("none", prompt={"$regex": "London"}), case("regex", prompt={"$regex": "Paris"})], "regex"),
        ([case("fuzzy", prompt="whats the weather in paris"), case("regex", prompt={"$regex": "Paris"})], "regex"),
        ([case("fuzzy", prompt="whats the weather in paris")], "fuzzy"),  # 2 edits of 28
        ([case("far", prompt="whats the weather in rome")], None),
        ([case("far", prompt="whats the weather in rome", similarity=0.7)], "far"),
        (
            [
                case("far", prompt="whats the weather in rome", similarity=0.7),
                case("near", prompt="whats the weather in paris"),
            ],
            "near",
        ),
        ([case("same", prompt="whats the weather in paris", similarity=1)], None),
        ([case("attribute", attributes={"tier": "gold"}), FIRST], "attribute"),
        ([case("attribute", attributes={"tier": "silver"}), FIRST], "exact"),
        ([case("both", prompt="What's the weather in Paris?", attributes={"tier": "silver"})], None),
        ([case("both", prompt={"$regex": "Paris"}, attributes={"tier": "g*"})], "both"),
        ([case("unnamed")], None),
    ],
)
def test_a_subject_meets_one_case(cases: list[dict[str, Any]], expected: str | None) -> None:
    assert met(subject(tier="gold"), *cases) == expected


@pytest.mark.parametrize("attribute", ["tracegrade.case.id", "test.case.name"])
def test_an_id_says_which_case_is_meant(attribute: str) -> None:
    cases = [FIRST, case("named")]
    assert met(subject(**{attribute: "named"}), *cases) == "named"
    assert met(subject(**{attribute: "another"}), *cases) is None
    assert attribute in RuleSet([rule_of(*cases)]).attributes_read


class TestWithoutAReadablePrompt:
    def test_which_case_is_met_cannot_be_told(self) -> None:
        [found] = match(RuleSet([rule_of(FIRST)]), subject(None))
        assert (found.not_evaluable, found.case) == (UNREADABLE_PROMPT, None)

    def test_attributes_tell_all_the_same(self) -> None:
        assert met(subject(None, tier="gold"), FIRST, case("attribute", attributes={"tier": "gold"})) == "attribute"

    def test_what_is_judged_beside_cases_is_judged(self) -> None:
        [found] = match(RuleSet([rule_of(FIRST, evaluate=[{**ORDER, "name": "always"}])]), subject(None))
        assert (found.not_evaluable, found.no_case) == (None, UNREADABLE_PROMPT)


def test_no_case_met_is_not_matched_unless_there_is_more_to_judge() -> None:
    refund = case("refund", prompt="Refund me")
    assert [found.clause for found in explain(rule_of(refund), subject())] == ["cases"]
    [found] = match(RuleSet([rule_of(refund, evaluate=[{**ORDER, "name": "always"}])]), subject())
    assert (found.case, found.no_case) == (None, None)


def test_a_long_prompt_is_not_sought_by_likeness() -> None:
    text = "word " * 3000
    assert met(subject(text), case("long", prompt=text + "more")) is None
    assert met(subject(text), case("long", prompt=text)) == "long"


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


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ({"evaluate": ORDER, "threshold": 0.5}, "'threshold' stands beside 'evaluate'; an item stands at one place"),
        ({"evaluate": [ORDER]}, "expected an item such as {evaluator: ...}, found "),
        ({"evaluate": {**ORDER, "tool_calls": []}}, "unknown key 'tool_calls'"),
    ],
)
def test_mistakes_in_an_item_of_its_own_are_named(case: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as error:
        rule_of({"id": "wrong", **case})
    assert message in str(error.value)
    assert error.value.errors()[0]["loc"][:2] == ("cases", 0)
