from dataclasses import replace

import pytest

from build import rule
from tracegrade.rule.rule_set import RuleSet


def test_the_hash_does_not_depend_on_the_order_in_which_rules_were_read() -> None:
    assert RuleSet([rule(id="a"), rule(id="b")]).hash == RuleSet([rule(id="b"), rule(id="a")]).hash


def test_the_hash_changes_with_any_rule() -> None:
    sets = [[], [rule(id="a")], [rule(id="b")], [rule(id="a"), rule(id="b")], [rule(id="a", level="low")]]
    assert len({RuleSet(rules).hash for rules in sets}) == len(sets)


ALWAYS_READ = RuleSet([]).attributes_read


def test_what_resources_and_uses_of_tokens_are_called_is_always_read() -> None:
    assert {"service.name", "service.version", "gen_ai.usage.input_tokens"} <= ALWAYS_READ


def test_attributes_of_all_clauses_are_read() -> None:
    rules = [
        rule(id="a", match={"attributes": {"tenant.tier": "gold"}}),
        rule(id="b", unless={"attributes": {"test": True}}),
    ]
    assert RuleSet(rules).attributes_read - ALWAYS_READ == {"tenant.tier", "test"}


@pytest.mark.parametrize("place", ["evaluate", "cases"])
def test_attributes_that_only_an_evaluator_reads_are_read(place: str) -> None:
    item = {"id": "x", "match": {"prompt": "x"}} if place == "cases" else {}
    one = rule(id="a", **{place: [{**item, "evaluator": "budget", "max_tokens": 9}]})
    for spec in one.specs:
        object.__setattr__(spec, "evaluator", replace(spec.evaluator, attributes=frozenset({"queue.wait"})))
    assert "queue.wait" in RuleSet([one]).attributes_read


def test_a_rule_is_found_by_its_id() -> None:
    rule_set = RuleSet([rule(id="a"), rule(id="b")])
    assert len(rule_set) == 2
    found = rule_set.rule("b")
    assert found is not None
    assert found.id == "b"
    assert rule_set.rule("c") is None
