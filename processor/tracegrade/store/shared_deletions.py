"""PostgreSQL's table of deletions that every data folder with judges carries out, where Kafka is the journal.

What was received is then in no data folder, and the traces of a deletion may be with any judge: open, or judged and not
stored yet. So whoever is asked for a deletion notes here which traces it means, and all others read it.
"""

from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy import Connection, select, text

from tracegrade.store.schema import shared_deletions

_ID_BYTES = 16
_INSERT = (
    "INSERT INTO shared_deletions (id, requested_ns, tenant, trace_ids) "
    "VALUES (:id, :requested_ns, :tenant, :trace_ids) ON CONFLICT DO NOTHING"
)


class SharedDeletion(NamedTuple):
    """One deletion: the traces `trace_ids` of `tenant`, None for all tenants; asked for at ``requested_ns``."""

    id: str
    requested_ns: int
    tenant: str | None
    trace_ids: frozenset[bytes]


def share(connection: Connection, deletions: Collection[SharedDeletion], *, forget_before_ns: int) -> None:
    """Note `deletions`, where they are not noted yet, and forget what was asked for before a time."""
    connection.execute(shared_deletions.delete().where(shared_deletions.c.requested_ns < forget_before_ns))
    rows = [{**each._asdict(), "trace_ids": b"".join(sorted(each.trace_ids))} for each in deletions if each.trace_ids]
    if rows:
        connection.execute(text(_INSERT), rows)


def shared_ids(connection: Connection) -> set[str]:
    """The ids of all that are noted."""
    return set(connection.execute(select(shared_deletions.c.id)).scalars())


def shared(connection: Connection, ids: Collection[str]) -> list[SharedDeletion]:
    """Those of these ids that are noted, the oldest first."""
    query = select(shared_deletions).where(shared_deletions.c.id.in_(ids)).order_by(shared_deletions.c.requested_ns)
    found = connection.execute(query).mappings()
    return [
        SharedDeletion(row["id"], row["requested_ns"], row["tenant"], _ids(bytes(row["trace_ids"]))) for row in found
    ]


def _ids(written: bytes) -> frozenset[bytes]:
    return frozenset(written[at : at + _ID_BYTES] for at in range(0, len(written), _ID_BYTES))
