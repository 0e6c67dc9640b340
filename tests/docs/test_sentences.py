"""The sentences of docs/guides/constraints.md: what they are about, and that each is judged as it says."""

from typing import Any

import yaml
from generator.sentences import SENTENCES, judge, mistake_in_rule

from build import each

LINES = [each for agent in ("refund", "coding") for each in SENTENCES[agent]]
RULES = [each for agent in ("refund-more", "coding-more") for each in SENTENCES[agent]]


def test_there_are_ten_lines_for_each_agent_and_a_rule_for_each_further_word() -> None:
    assert [len(SENTENCES[agent]) for agent in ("refund", "coding")] == [10, 10]
    for agent in ("refund-more", "coding-more"):
        text = "".join(each["rule"] for each in SENTENCES[agent])
        for word in ("condition", "when:", "then:", "exact-match, expected_output: {$from:", "grounded-answer"):
            assert word in text, (agent, word)


@each("each", LINES, ids=lambda each: each["says"])
def test_a_line_is_kept_and_broken_as_it_says(each: dict[str, Any]) -> None:
    outcomes = [judge(each["constraint"], each[key])["outcome"] for key in ("kept", "broken")]
    assert outcomes == ["pass", "fail"]


@each("each", RULES, ids=lambda each: each["says"])
def test_a_rule_is_kept_and_broken_as_it_says(each: dict[str, Any]) -> None:
    assert mistake_in_rule(each) is None


def test_a_rule_that_is_judged_otherwise_is_told_of() -> None:
    (first, *_) = RULES
    wrong = mistake_in_rule({**first, "kept": first["broken"]})
    assert wrong is not None
    assert "kept" in wrong
    assert yaml.safe_load(first["rule"])["evaluate"]
