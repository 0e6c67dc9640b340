"""The rules in force."""

from collections.abc import Mapping
from typing import Any

from tracegrade.match.summary import rule_summary
from tracegrade.web.api.operation import Document, Operation, PathName, not_found
from tracegrade.web.sources import Sources


class RuleDocument(Document):
    """One rule in short; its hash is on every result."""

    rule: str
    category: str
    title: str
    level: str
    status: str
    scope: str
    evaluators: list[str]
    hash: str


class Rules(Document):
    """All rules in force."""

    items: list[RuleDocument]


class WholeRule(RuleDocument):
    """One rule with all that its file says, as JSON; ``tracegrade rules schema`` describes that."""

    definition: dict[str, Any]


def list_rules(sources: Sources, query: object, path: Mapping[str, str]) -> dict[str, Any]:
    """All rules in force."""
    rule_set = sources.rule_set()
    return {"items": [rule_summary(rule, rule_set.paths[rule.id]) for rule in rule_set.rules]}


def show_rule(sources: Sources, query: object, path: Mapping[str, str]) -> dict[str, Any]:
    """One rule."""
    rule_set = sources.rule_set()
    rule = rule_set.rule(path["rule_id"])
    if rule is None:
        raise not_found(f"rule {path['rule_id'][:200]!r} in force")
    definition = rule.model_dump(mode="json", exclude_defaults=True)
    return {**rule_summary(rule, rule_set.paths[rule.id]), "definition": definition}


OPERATIONS = (
    Operation("GET", "/rules", "listRules", "The rules in force", list_rules, Rules, needs_store=False),
    Operation(
        "GET",
        "/rules/{rule_id}",
        "showRule",
        "One rule",
        show_rule,
        WholeRule,
        path_types={"rule_id": PathName},
        needs_store=False,
    ),
)
