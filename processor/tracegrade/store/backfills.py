"""Which rules ``rules backtest --store`` judged by afterwards; its results are of the run ``backfill``."""

from dataclasses import dataclass

from sqlalchemy import Connection, select

from tracegrade.store.documents import records
from tracegrade.store.schema import backfills


@dataclass(frozen=True, slots=True)
class Backfill:
    """One row of ``backfills``: times are ns since 1970 UTC, ``subjects`` is how many were judged.

    It is not ``complete`` while it is being stored, or when that broke off.
    """

    tenant: str
    rule_id: str
    rule_hash: str
    made_ns: int
    since_ns: int
    until_ns: int
    subjects: int
    complete: bool


def stored_backfills(connection: Connection, rule_id: str, tenant: str | None = None) -> list[Backfill]:
    """The backfills of a rule, by tenant."""
    query = select(backfills).where(backfills.c.rule_id == rule_id).order_by(backfills.c.tenant)
    if tenant is not None:
        query = query.where(backfills.c.tenant == tenant)
    return records(connection, Backfill, query)
