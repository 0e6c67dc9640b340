"""The families of rules: each has a correction of its own, so that ready-made rules do not weaken a user's own ones.

The ready-made rules are in force unless others are named, and many of them never fail. Among them, a rule of one's own
would need several times as much evidence.
"""

from typing import Literal, TypeAlias

from tracegrade.rule.load import ready_made_hash

Family: TypeAlias = Literal["own", "ready-made"]

FAMILIES: tuple[Family, ...] = ("own", "ready-made")


def family_of(rule_id: str, rule_hash: str) -> Family:
    """The family of a rule: a copy of a ready-made rule that judges otherwise is one's own."""
    return "ready-made" if ready_made_hash(rule_id) == rule_hash else "own"
