"""The rules in force."""

from collections.abc import Mapping
from typing import Any

from tracegrade.match.summary import rule_summary
from tracegrade.store.open import StoreError
from tracegrade.store.rule_texts import rule_versions
from tracegrade.web.api.operation import Document, Operation, PathName, not_found
from tracegrade.web.sources import Sources


class RuleDocument(Document):
    """One rule in short; its hash, of what it judges, is on every result, that of its text stands for all it says."""

    rule: str
    category: str
    title: str
    level: str
    status: str
    scope: str
    evaluators: list[str]
    hash: str
    text_hash: str


class RuleVersion(Document):
    """A text of a rule, and since when it is or was in force, ns since 1970 UTC."""

    text_hash: str
    rule_hash: str
    since_ns: int


class Rules(Document):
    """All rules in force."""

    items: list[RuleDocument]


class WholeRule(RuleDocument):
    """One rule with all that its file says, as JSON; ``tracegrade rules schema`` describes that.

    Its versions are the texts that are stored, the latest first; none where there is no store yet.
    """

    definition: dict[str, Any]
    versions: list[RuleVersion]


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
    summary = rule_summary(rule, rule_set.paths[rule.id])
    return {**summary, "definition": definition, "versions": _versions(sources, rule.id)}


def _versions(sources: Sources, rule_id: str) -> list[dict[str, Any]]:
    try:
        with sources.store() as connection:
            found = rule_versions(connection, rule_id)
    except StoreError:  # its rules can be read before anything was judged
        return []
    return [{"text_hash": item.text_hash, "rule_hash": item.rule_hash, "since_ns": item.since_ns} for item in found]


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
