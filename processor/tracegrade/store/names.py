"""Bounds the names by which results are counted: those of agents, services and releases, for each tenant.

Senders choose these names, and may put an id into one. Each further name would be series of its own: rows that are
stored for all time, and that every chart and alert adds up. Beyond the bound, results are counted under `OTHER`; their
rows keep the names that they came with.
"""

from collections.abc import Iterator
from typing import NamedTuple

from sqlalchemy import Connection, func, select

from tracegrade import semconv
from tracegrade.codec.json_text import storable
from tracegrade.store.schema import DAY_MINUTES, WHOLE_RUN, counts, series
from tracegrade.telemetry.series_bound import MAX_NAMES, OTHER

SERVICE, RELEASE, AGENT = semconv.SERVICE_NAME, semconv.SERVICE_VERSION, semconv.AGENT_NAME
_COLUMNS = {SERVICE: series.c.service, RELEASE: series.c.release, AGENT: series.c.agent}
_ALWAYS = frozenset(("", OTHER))


class Beyond(NamedTuple):
    """An attribute with more names than are counted: whose, which ``service`` sent such a name last, and that name."""

    tenant: str
    attribute: str
    service: str
    name: str


class TenantNames:
    """The names of one tenant that are counted by themselves, by attribute."""

    def __init__(self, tenant: str, most: int) -> None:
        self._tenant = tenant
        self._most = most + len(_ALWAYS)
        self.known = {attribute: set(_ALWAYS) for attribute in _COLUMNS}
        self.beyond: dict[str, Beyond] = {}

    def counted(self, attribute: str, name: str, service: str) -> str:
        """The name to count `name` by, which is `OTHER` where there are too many; `service` is the sender's."""
        name = storable(name)
        known = self.known[attribute]
        if name in known:
            return name
        if len(known) < self._most:
            known.add(name)
            return name
        self.beyond[attribute] = Beyond(self._tenant, attribute, service, name)
        return OTHER


class CountedNames:
    """The counted names of all tenants: those that the store has counts of, and those that came since."""

    def __init__(self, most: int = MAX_NAMES) -> None:
        """Of each tenant, count at most so many names of each attribute."""
        self._most = most
        self._tenants: dict[str, TenantNames] = {}

    def of(self, tenant: str) -> TenantNames:
        """The names of one tenant."""
        found = self._tenants.get(tenant)
        if found is None:
            found = self._tenants[tenant] = TenantNames(tenant, self._most)
        return found

    def load(self, connection: Connection) -> None:
        """Begin with the names that have counts: those of which retention has deleted all make room for others."""
        self._tenants.clear()
        counted = select(counts.c.series).where(counts.c.minutes.in_((DAY_MINUTES, WHOLE_RUN)))
        self._add(connection, series.c.number.in_(counted))

    def add_after(self, connection: Connection, number: int) -> None:
        """Add the names of the series after `number`, which other processes have stored."""
        self._add(connection, series.c.number > number)

    def take_beyond(self) -> Iterator[Beyond]:
        """The attributes of which names did not fit since the last call."""
        for names in self._tenants.values():
            yield from names.beyond.values()
            names.beyond.clear()

    def _add(self, connection: Connection, which: object) -> None:
        query = select(series.c.tenant, *_COLUMNS.values()).where(which).distinct()  # type: ignore[arg-type]
        for tenant, *names in connection.execute(query):
            known = self.of(tenant).known
            for attribute, name in zip(_COLUMNS, names, strict=True):
                if name is not None:
                    known[attribute].add(name)


def last_number(connection: Connection) -> int:
    """The highest number of a series; 0 without any."""
    found: int = connection.execute(select(func.coalesce(func.max(series.c.number), 0))).scalar_one()
    return found
