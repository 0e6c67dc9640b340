"""A rule in one row: what the command line, the page and the API list."""

from pathlib import Path

from tracegrade.model.json_value import JsonValue
from tracegrade.rule.rule import Rule


def rule_summary(rule: Rule, path: str) -> dict[str, JsonValue]:
    """The rule of the file at `path`, in JSON terms; `category` is the folder around the rule's own, "" without."""
    file = Path(path)
    return {
        "rule": rule.id,
        "category": file.parent.parent.name if file.parent.name == rule.id else "",
        "title": rule.title,
        "level": rule.level,
        "status": rule.status,
        "scope": rule.scope,
        "evaluators": [*dict.fromkeys(spec.evaluator.name for spec in rule.specs)],
        "hash": rule.hash,
        "text_hash": rule.text_hash,
    }
