"""What other tools found in an experiment, and reported: entries of its timeline, by tenant and experiment.

Every function names the tenant: whoever asks sees and changes that tenant's entries alone. Deleting an experiment
deletes its entries.
"""

import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

from sqlalchemy import Connection, func, insert, select

from tracegrade.model.json_value import JsonValue
from tracegrade.store.schema import experiment_entries

ReportedKind: TypeAlias = Literal["param_tune", "prompt_tune", "judge"]
Kind: TypeAlias = Literal["param_tune", "prompt_tune", "judge", "eval"]

TUNES: tuple[Kind, ...] = ("param_tune", "prompt_tune")
PROMOTED: Kind = "eval"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry; each field is the column of ``experiment_entries`` that has its name. Times are ns since 1970 UTC.

    ``configuration`` gave the ``score``, 0 to 1. An `eval` is the best result of the tune ``promoted_from``.
    """

    tenant: str
    experiment: str
    id: str
    kind: Kind
    at_ns: int
    score: float | None
    configuration: Mapping[str, JsonValue]
    promoted_from: str | None = None


def new_entry_id() -> str:
    """An id for an entry: 12 hex digits."""
    return secrets.token_hex(6)


def stored_entries(connection: Connection, tenant: str, experiment: str) -> list[Entry]:
    """The entries of an experiment in the order in which they were reported; one that was promoted after its tune."""
    known = experiment_entries.c
    query = select(experiment_entries).where(known.tenant == tenant, known.experiment == experiment)
    found = [Entry(**row._mapping) for row in connection.execute(query)]
    return sorted(found, key=lambda entry: (entry.at_ns, entry.promoted_from or entry.id, entry.promoted_from or ""))


def promoted_entry(connection: Connection, tenant: str, id_: str) -> Entry | None:
    """The `eval` with this id that was promoted from a tune."""
    known = experiment_entries.c
    query = select(experiment_entries).where(known.tenant == tenant, known.id == id_, known.kind == PROMOTED)
    row = connection.execute(query).first()
    return None if row is None else Entry(**row._mapping)


def entry_count(connection: Connection, tenant: str, experiment: str) -> int:
    """How many entries an experiment has."""
    known = experiment_entries.c
    query = select(func.count()).where(known.tenant == tenant, known.experiment == experiment)
    return int(connection.execute(query).scalar_one())


def add_entry(connection: Connection, entry: Entry) -> None:
    """Store an entry."""
    connection.execute(insert(experiment_entries).values(**asdict(entry)))
