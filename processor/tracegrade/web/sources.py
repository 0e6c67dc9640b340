"""The sources that the page reads."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection
from starlette.requests import HTTPConnection

from tracegrade.access.log import Access
from tracegrade.config import Config
from tracegrade.rule.rule_set import RuleSet
from tracegrade.web.rights import token_of


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of everything shown; each call gives the present state.

    ``rule_set`` gives the rules in force; for a tenant, without those of others. ``opened`` gives a connection to the
    store that only reads, and raises `StoreError` while there is no store: for None all of it, for a tenant its part.
    ``published`` gives the roles' metrics, of one moment; [] while nothing was published. ``is_stopping`` says that
    long answers should end. ``tenant`` is whose data is shown; None: every tenant's. ``note`` takes what the access log
    is to say; None: there is none.
    """

    opened: Callable[[str | None], AbstractContextManager[Connection]]
    rule_set: Callable[[], RuleSet]
    published: Callable[[], list[dict[str, Any]]]
    config: Config
    is_stopping: Callable[[], bool] = lambda: False
    tenant: str | None = None
    note: Callable[[Access], None] | None = None

    def store(self) -> AbstractContextManager[Connection]:
        """A connection that only reads, and shows what is the tenant's. Raises as ``opened``."""
        return self.opened(self.tenant)

    def snapshots(self) -> list[dict[str, Any]]:
        """The roles' metrics, which are of all tenants together: [] for one of them."""
        return self.published() if self.tenant is None else []


def sources_of(connection: HTTPConnection) -> Sources:
    """The sources of the app that answers a request or WebSocket, as far as its caller may see them."""
    sources: Sources = connection.app.state.sources
    if (tenant := token_of(connection).tenant) is None:
        return sources
    return replace(sources, tenant=tenant, rule_set=lambda: sources.rule_set().seen_by(tenant))
