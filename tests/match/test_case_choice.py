"""Which case of a rule a subject meets, and what becomes of it."""

from typing import Any

import pytest

import build
from build import each
from build.extractions import ROOT, TOOL, extraction_of, span_of
from tracegrade.match.facts import LONG_PROMPT, UNREADABLE_PROMPT
from tracegrade.match.select import explain, match_trace
from tracegrade.model.agent_run import AgentRun
from tracegrade.model.extraction import Extraction
from tracegrade.rule.case import Case
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet

ORDER = {"evaluator": "tool-call-order", "tool_calls_order": ["create_order"]}


def case(case_id: str, **clauses: Any) -> dict[str, Any]:
    return {"id": case_id, "match": clauses, **ORDER}


def rule_of(*cases: dict[str, Any], **fields: Any) -> Rule:
    return build.rule(cases=list(cases), **fields)


def subject(prompt: str | None = "What's the weather in Paris?", **attributes: Any) -> Extraction:
    return extraction_of([AgentRun(ROOT, "support", prompt=prompt)], [span_of(ROOT, **attributes), span_of(TOOL, ROOT)])


def met(extraction: Extraction, *cases: dict[str, Any]) -> str | None:
    """The id of the case that the subject meets."""
    matches = list(match_trace(RuleSet([rule_of(*cases)]), extraction))
    [explained] = explain(rule_of(*cases), extraction)
    assert (explained.clause is None) == bool(matches)
    return matches[0].case.id if matches and isinstance(matches[0].case, Case) else None


FIRST = case("exact", prompt="What's the weather in Paris?")


@each(
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
        [found] = match_trace(RuleSet([rule_of(FIRST)]), subject(None))
        assert (found.not_evaluable, found.case) == (UNREADABLE_PROMPT.said, UNREADABLE_PROMPT)

    def test_attributes_tell_all_the_same(self) -> None:
        assert met(subject(None, tier="gold"), FIRST, case("attribute", attributes={"tier": "gold"})) == "attribute"

    def test_what_is_judged_beside_cases_is_judged(self) -> None:
        [found] = match_trace(RuleSet([rule_of(FIRST, evaluate=[{**ORDER, "name": "always"}])]), subject(None))
        assert (found.not_evaluable, found.case) == (None, UNREADABLE_PROMPT)


def test_no_case_met_is_not_matched_unless_there_is_more_to_judge() -> None:
    refund = case("refund", prompt="Refund me")
    assert [found.clause for found in explain(rule_of(refund), subject())] == ["cases"]
    [found] = match_trace(RuleSet([rule_of(refund, evaluate=[{**ORDER, "name": "always"}])]), subject())
    assert found.case is None


def test_a_long_prompt_is_not_sought_by_likeness() -> None:
    text = "word " * 3000
    assert met(subject(text), case("long", prompt=text + "more")) is None
    assert met(subject(text), case("long", prompt=text)) == "long"


EXAMPLE = [
    case("paris", prompt="What's the weather in Paris?"),
    case("anywhere", prompt={"$regex": "(?i)weather"}),
    case("vip", attributes={"tenant.tier": "gold"}),
]


@each(
    ("prompt", "attributes", "expected"),
    [
        ("What's  the weather in Paris?", {"tracegrade.case.id": "anywhere"}, "anywhere"),
        ("What's  the weather in Paris?", {"tenant.tier": "gold"}, "vip"),
        ("What's  the weather in Paris?", {}, "paris"),
        ("Weather in Rome?", {}, "anywhere"),
        ("What's the wether in Paris?", {}, "paris"),
        (None, {}, None),
    ],
)
def test_the_worked_example_of_the_module(prompt: str | None, attributes: dict[str, str], expected: str | None) -> None:
    assert met(subject(prompt, **attributes), *EXAMPLE) == expected


# An expression for which a search looks at 3,000 places for each byte.
HEAVY = {"$regex": "[ab]*a[ab]{990}c"}


def test_a_prompt_too_long_for_the_expression_of_a_case_is_not_said_to_meet_none() -> None:
    long = subject("ab" * 50_000)
    [found] = match_trace(RuleSet([rule_of(case("heavy", prompt=HEAVY))]), long)
    assert (found.case, found.not_evaluable) == (LONG_PROMPT, LONG_PROMPT.said)
    assert met(long, case("heavy", prompt=HEAVY), case("light", prompt={"$regex": "abab"})) == "light"
    assert met(subject("ab" * 500), case("heavy", prompt=HEAVY)) is None
