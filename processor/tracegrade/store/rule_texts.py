"""The texts of rules: since when each was in force, and the hash of its rule.

A rule's hash changes with what it judges, the hash of its text with everything in its file: when only a title is
corrected, several texts have the same rule hash.
"""

import json
import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Connection, Select, insert, select

from tracegrade.document.yaml_text import dumped, parse
from tracegrade.evaluate.criteria.semantic import NOT_LOADED, comparing_by
from tracegrade.plugins.installed import load_plugins
from tracegrade.rule.evaluator_file import CODE, EvaluatorFile, not_run, one_form
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.schema import rule_sets, rule_texts

_OF_CODE = re.compile(r"^# (\S+\.py): ([0-9a-f]{16})(?: reads (\[.*\]))?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class RuleText:
    """One text of a rule as YAML, without comments, and since when it was in force, ns since 1970 UTC."""

    rule_id: str
    rule_hash: str
    text_hash: str
    since_ns: int
    text: str


def save_rule_texts(connection: Connection, rule_set: RuleSet, now_ns: int) -> None:
    """Store the texts of `rule_set`, which is in force from now on; texts that are already in force stay."""
    latest = {item.rule_id: item for item in _texts(connection, select(rule_texts).order_by(rule_texts.c.since_ns))}
    rows = []
    for rule in rule_set.rules:
        before = latest.get(rule.id)
        if before is not None and (before.text_hash, before.rule_hash) == (rule.text_hash, rule.hash):
            continue
        since_ns = now_ns if before is None else max(now_ns, before.since_ns + 1)  # clocks may be set back
        hashes = {"text_hash": rule.text_hash, "rule_hash": rule.hash}
        rows.append({"rule_id": rule.id, "since_ns": since_ns, **hashes, "text": _text_of(rule)})
    if rows:
        connection.execute(insert(rule_texts), rows)
    if connection.execute(select(rule_sets.c.hash).where(rule_sets.c.hash == rule_set.hash)).first() is None:
        connection.execute(insert(rule_sets).values(hash=rule_set.hash, judgement_hash=rule_set.judgement_hash))


def _text_of(rule: Rule) -> str:
    """What its file says; and of each file of code, a comment with the hash of its content and what it reads."""
    read: dict[str, frozenset[str]] = {}
    for spec in rule.specs:
        if spec.file is not None:
            found = spec.evaluator.attributes | spec.evaluator.attributes_of(spec.criteria)
            read[spec.file.written] = found.union(read.get(spec.file.written, ()))
    lines = [
        f"# {file}: {rule.code[file]}" + (f" reads {json.dumps(sorted(attributes))}" if attributes else "")
        for file, attributes in sorted(read.items())
    ]
    return dumped(rule.written) + "".join(f"{line}\n" for line in lines)


def _rule_of(item: RuleText) -> Rule:
    """The rule with this text, which shows and counts; no file that it names is run, so such a rule never judges.

    Raises:
        ValidationError: this version cannot read it.
    """
    beside = {
        file: not_run(file, digest, frozenset(json.loads(attributes or "[]")))
        for file, digest, attributes in _OF_CODE.findall(item.text)
    }

    def find(named: str) -> EvaluatorFile:
        file = one_form(named)
        return beside.get(file) or not_run(file)

    with comparing_by(NOT_LOADED):
        return Rule.model_validate(parse(item.text, item.rule_id).value, context={CODE: find})


def judges_alike(connection: Connection, stored_hash: str, rule_set: RuleSet) -> bool:
    """Whether the rule set named by a stored trace judges like `rule_set`; False when it is not known."""
    if stored_hash == rule_set.hash:
        return True
    query = select(rule_sets.c.judgement_hash).where(rule_sets.c.hash == stored_hash)
    return connection.execute(query).scalar() == rule_set.judgement_hash


def rule_versions(connection: Connection, rule_id: str, tenant: str | None = None) -> list[RuleText]:
    """Every stored text of a rule, the latest first; for a `tenant`, without those that were of others."""
    query = select(rule_texts).where(rule_texts.c.rule_id == rule_id)
    texts = _texts(connection, query.order_by(rule_texts.c.since_ns.desc()))
    return texts if tenant is None else [item for item in texts if _is_of(item, tenant)]


def _is_of(item: RuleText, tenant: str) -> bool:
    try:
        return _rule_of(item).is_of(tenant)
    except ValidationError:  # its evaluator is of a package that is no longer installed: whose it is cannot be told
        return False


def rules_of(connection: Connection, hashes: Collection[str]) -> dict[str, Rule]:
    """The rules with these hashes, each in its latest text, if this version can read it."""
    load_plugins()
    query = select(rule_texts).where(rule_texts.c.rule_hash.in_(list(hashes)))
    found: dict[str, Rule] = {}
    for item in _texts(connection, query.order_by(rule_texts.c.since_ns)):
        with suppress(ValidationError):  # its evaluator is of a package that is no longer installed
            found[item.rule_hash] = _rule_of(item)
    return found


def rule_sets_so_far(connection: Connection) -> Iterator[RuleSet]:
    """The rules that were in force together, the latest first, as far as this version can read their texts.

    When a rule was removed is not stored: it is there as if it had stayed.
    """
    load_plugins()
    texts = _texts(connection, select(rule_texts).order_by(rule_texts.c.since_ns))
    in_force: dict[str, Rule] = {}
    found: list[RuleSet] = []
    for _, begun in groupby(texts, key=lambda item: item.since_ns):
        for item in begun:
            with suppress(ValidationError):  # its evaluator is of a package that is no longer installed
                in_force[item.rule_id] = _rule_of(item)
        found.append(RuleSet(in_force.values()))
    yield from reversed(found)


def judgements(connection: Connection) -> dict[str, tuple[str, int]]:
    """The hash that each rule has now, and since when, by rule id; editing only its text changes neither."""
    query = select(rule_texts.c.rule_id, rule_texts.c.rule_hash, rule_texts.c.since_ns)
    found: dict[str, tuple[str, int]] = {}
    for rule_id, rule_hash, since_ns in connection.execute(query.order_by(rule_texts.c.since_ns)):
        if rule_id not in found or found[rule_id][0] != rule_hash:
            found[rule_id] = (rule_hash, since_ns)
    return found


def _texts(connection: Connection, query: Select[Any]) -> list[RuleText]:
    return [
        RuleText(row.rule_id, row.rule_hash, row.text_hash, row.since_ns, row.text) for row in connection.execute(query)
    ]
