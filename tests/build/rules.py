"""Rules, without a file."""

from typing import Any

from tracegrade.rule.rule import Rule

_JUDGES = {"evaluate", "cases", "then"}


def rule(*evaluate: dict[str, Any], id: str = "a-rule", **fields: Any) -> Rule:
    """A rule of these evaluations, and other fields of its file; the order of tools where nothing says what it judges.

    Raises:
        ValidationError: as reading the file would.
    """
    written = {"id": id, **fields}
    if evaluate or not _JUDGES & fields.keys():
        written["evaluate"] = [*evaluate] or [{"evaluator": "tool-call-order", "tool_calls_order": ["create_order"]}]
    return Rule.model_validate(written)
