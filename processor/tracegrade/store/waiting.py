"""Alerts that cannot tell yet whether anything is wrong, as they are stored."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

from sqlalchemy import Connection, delete, insert, select

from tracegrade.store.schema import waiting_alerts

Reason: TypeAlias = Literal["no_baseline", "too_few"]


@dataclass(frozen=True, slots=True)
class WaitingAlert:
    """One alert of a rule, in words, at one agent, about which nothing can be told.

    ``reason``: "no_baseline" when there is nothing to compare with yet, "too_few" when there are too few results.
    ``since_ns``: since when, ns since 1970 UTC.
    """

    rule_id: str
    alert: str
    tenant: str
    service: str
    agent: str
    reason: Reason
    since_ns: int

    @property
    def text(self) -> str:
        """The reason in words."""
        return "no baseline yet" if self.reason == "no_baseline" else "too few results yet"


def stored_waiting(connection: Connection) -> list[WaitingAlert]:
    """All of them, by rule, then by service and agent."""
    found = [WaitingAlert(**row._asdict()) for row in connection.execute(select(waiting_alerts))]
    return sorted(found, key=order_of)


def save_waiting(connection: Connection, waiting: Sequence[WaitingAlert]) -> None:
    """Store these in place of all that were stored."""
    connection.execute(delete(waiting_alerts))
    if waiting:
        connection.execute(insert(waiting_alerts), [asdict(one) for one in waiting])


def order_of(waiting: WaitingAlert) -> tuple[str, ...]:
    """The order in which they are listed."""
    return waiting.rule_id, waiting.service, waiting.agent, waiting.alert, waiting.tenant
