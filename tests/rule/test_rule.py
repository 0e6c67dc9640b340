from typing import Any

import pytest

from build import each
from tracegrade.document.validate import validate
from tracegrade.document.yaml_text import parse
from tracegrade.rule.rule import Rule

RULE = """\
id: checkout-order
title: Orders are validated, checked, then created
status: stable
level: high
scope: agent
match:
  service: shop-*
  agent: support
  tools: [create_order]
  prompt: {$regex: "(?i)order"}
  attributes: {tenant.tier: gold}
unless: {environment: staging}
sample: 1.0
evaluate:
  - {evaluator: tool-call-order, tool_calls_order: [validate_user, check_inventory, create_order], threshold: 0.9}
  - evaluator: tool-call-args
    name: arguments
    subset: true
    tool_calls:
      - {name: create_order, args: {user_id: 123, note: {$regex: "^gift"}}}
  - {evaluator: tool-call-output, tool_outputs: [{name: create_order, output: {status: ok}}]}
  - {evaluator: tool-call-accuracy, mode: flexible, argument_match_threshold: 0.8, reference_tool_calls: [{name: a}]}
alert:
  - {below: 0.95, of: pass_rate, over: 1h, min_samples: 30}
  - {below: 0.5, of: arguments, over: 7d}
false_positives:
  - The user was validated in an earlier trace
"""


def rule_of(text: str) -> Rule:
    return validate(parse(text, "rule.yaml"), Rule)


def minimal(**fields: Any) -> Rule:
    return Rule.model_validate(
        {"id": "one", "evaluate": [{"evaluator": "tool-call-order", "tool_calls_order": ["a"]}], **fields}
    )


def test_a_full_rule_is_read() -> None:
    rule = rule_of(RULE)
    assert [name for name, _ in rule.match_clauses] == ["service", "agent", "tools", "attributes.tenant.tier", "prompt"]
    assert [name for name, _ in rule.unless_clauses] == ["environment"]
    assert [alert.over for alert in rule.alert] == [3600.0, 604800.0]


def test_an_item_is_split_into_the_criteria_and_settings_of_its_evaluator() -> None:
    order, arguments, _, accuracy = rule_of(RULE).evaluate
    assert (order.evaluator.name, order.name, order.threshold) == ("tool-call-order", "tool-call-order", 0.9)
    assert order.criteria.tool_calls_order == ["validate_user", "check_inventory", "create_order"]
    assert (arguments.name, arguments.settings.subset, arguments.settings.strict) == ("arguments", True, False)
    assert accuracy.settings.argument_match_threshold == 0.8
    assert isinstance(arguments.criteria, arguments.evaluator.Criteria)
    assert isinstance(arguments.settings, arguments.evaluator.Settings)


def test_the_seeds_own_spelling_of_a_key_is_taken() -> None:
    rule = minimal(evaluate=[{"evaluator": "tool-call-order", "toolCallsOrder": ["a"]}])
    assert rule.evaluate[0].criteria.tool_calls_order == ["a"]


def test_what_is_left_out_has_its_default() -> None:
    rule = minimal()
    assert (rule.status, rule.level, rule.scope, rule.incomplete, rule.sample.share) == (
        "stable",
        "medium",
        "agent",
        "leave_out",
        1.0,
    )
    assert rule.match_clauses == rule.unless_clauses == ()
    assert rule.evaluate[0].threshold == 1.0


@each(
    "same",
    [
        RULE.replace("level: high\n", "").replace("status: stable\n", "level: high\nstatus: stable\n"),
        RULE.replace("{environment: staging}", "{environment: staging}  # never there"),
        RULE.replace("title: Orders are", "title:   'Orders are").replace("then created", "then created'"),
        "# a comment\n" + RULE,
        RULE.replace("tools: [create_order]", "tools:\n  - create_order"),
    ],
    ids=["order of keys", "comment", "quotes", "lines", "block style"],
)
def test_formatting_does_not_change_the_hash(same: str) -> None:
    assert rule_of(same).hash == rule_of(RULE).hash


@each(
    "other",
    [
        RULE.replace("scope: agent", "scope: trace"),
        RULE.replace("threshold: 0.9", "threshold: 0.8"),
        RULE.replace("user_id: 123", "user_id: '123'"),
        RULE.replace("[validate_user, check_inventory,", "[check_inventory, validate_user,"),
    ],
    ids=["scope", "threshold", "type of a value", "order of a list"],
)
def test_content_changes_the_hash(other: str) -> None:
    assert rule_of(other).hash != rule_of(RULE).hash


def test_the_hash_is_the_same_everywhere() -> None:
    # Results carry it: a change here makes every stored result look like another rule's.
    assert minimal().hash == "3e75db7569d4f470"
    assert len(rule_of(RULE).hash) == 16


def test_a_validated_rule_passes_through_unchanged() -> None:
    rule = minimal()
    assert Rule.model_validate(rule) is rule


def test_a_rule_is_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        minimal().level = "low"  # type: ignore[misc]
