"""Rules as they were written, by the hash that results carry."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Connection, Select, func, insert, select

from tracegrade.match.rule import Rule
from tracegrade.store.schema import rule_texts
from tracegrade.yaml_text import dumped, parse


@dataclass(frozen=True, slots=True)
class RuleText:
    """One content of a rule as YAML, without comments, and when it was first in force, ns since 1970 UTC."""

    rule_id: str
    rule_hash: str
    first_seen_ns: int
    text: str


def save_rule_texts(connection: Connection, rules: Iterable[Rule], now_ns: int) -> None:
    """Store those of `rules` that are not stored yet; now is when they were first in force."""
    known = set(connection.execute(select(rule_texts.c.rule_hash)).scalars())
    rows = [
        {"rule_hash": rule.hash, "rule_id": rule.id, "first_seen_ns": now_ns, "text": dumped(rule.written)}
        for rule in rules
        if rule.hash not in known
    ]
    if rows:
        connection.execute(insert(rule_texts), rows)


def rule_versions(connection: Connection, rule_id: str) -> list[RuleText]:
    """Every stored content of a rule, the latest first."""
    query = select(rule_texts).where(rule_texts.c.rule_id == rule_id)
    return _texts(connection, query.order_by(rule_texts.c.first_seen_ns.desc(), rule_texts.c.rule_hash))


def rules_of(connection: Connection, hashes: Iterable[str]) -> dict[str, Rule]:
    """The rules of these hashes, as far as they are stored and this version can read them."""
    found = {}
    for item in _texts(connection, select(rule_texts).where(rule_texts.c.rule_hash.in_(list(hashes)))):
        with suppress(ValidationError):  # its evaluator was of a package that is not installed any more
            found[item.rule_hash] = Rule.model_validate(parse(item.text, item.rule_id).value)
    return found


def changes_of(connection: Connection) -> dict[str, int]:
    """When each rule's latest content was first in force, by rule id."""
    query = select(rule_texts.c.rule_id, func.max(rule_texts.c.first_seen_ns)).group_by(rule_texts.c.rule_id)
    return {rule_id: first_seen_ns for rule_id, first_seen_ns in connection.execute(query)}


def _texts(connection: Connection, query: Select[Any]) -> list[RuleText]:
    return [RuleText(row.rule_id, row.rule_hash, row.first_seen_ns, row.text) for row in connection.execute(query)]
