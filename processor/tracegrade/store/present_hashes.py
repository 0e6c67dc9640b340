"""The hash that a rule has now, for every hash that its results carry.

Results that were stored before version 0008 carry the hash of the rule's text, which ``rule_texts`` keeps beside the
rule's own. In a module of its own, because code that only shows stored results needs no rules.
"""

from collections.abc import Collection

from sqlalchemy import Connection, select

from tracegrade.store.schema import rule_texts


def present_hashes(connection: Connection, hashes: Collection[str]) -> dict[str, str]:
    """The present hash for each of `hashes`, which results carry; the same hash where no other is known."""
    query = select(rule_texts.c.text_hash, rule_texts.c.rule_hash).where(rule_texts.c.text_hash.in_(list(hashes)))
    known = {text_hash: rule_hash for text_hash, rule_hash in connection.execute(query)}
    return {found: known.get(found, found) for found in hashes}


def present_hash(connection: Connection, rule_hash: str) -> str:
    """The present hash of one rule; see `present_hashes`."""
    return present_hashes(connection, [rule_hash])[rule_hash]


def earlier_hashes(connection: Connection, hashes: Collection[str]) -> dict[str, str]:
    """The earlier hashes of the rules with these present `hashes`, each with its present hash."""
    query = select(rule_texts.c.text_hash, rule_texts.c.rule_hash).where(rule_texts.c.rule_hash.in_(list(hashes)))
    return {text_hash: rule_hash for text_hash, rule_hash in connection.execute(query)}
