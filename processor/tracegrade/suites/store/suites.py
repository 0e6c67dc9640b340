"""Suites that people keep in the store: their tools, and their cases in order, by tenant and id.

Every function names the tenant: whoever asks sees and changes that tenant's suites alone. What a case may say is the
matter of `tracegrade.suites`.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from tracegrade.model.json_value import JsonValue
from tracegrade.store.documents import put, records
from tracegrade.store.named import id_named
from tracegrade.store.schema import experiments
from tracegrade.suites.store.tables import suite_cases, suites

_TOGETHER = 500  # rows of one statement


@dataclass(frozen=True, slots=True)
class StoredCase:
    """One case: ``body`` is the test case as a suite's file has it, without its id."""

    id: str
    body: dict[str, JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSuite:
    """One suite; each field is the column of ``suites`` that has its name. Times are ns since 1970 UTC."""

    tenant: str
    id: str
    name: str
    description: str = ""
    system_prompt: str = ""
    tools: Sequence[dict[str, JsonValue]] = ()
    cases: Sequence[StoredCase] = ()
    created_ns: int
    updated_ns: int


@dataclass(frozen=True, slots=True)
class SuiteHead:
    """A suite without its content, for lists."""

    id: str
    name: str
    description: str
    tool_count: int
    test_case_count: int
    created_ns: int
    updated_ns: int

    def to_json(self) -> dict[str, Any]:
        """The documented JSON object."""
        return asdict(self)


def suite_heads(connection: Connection, tenant: str) -> list[SuiteHead]:
    """All suites, the one that was made last first."""
    own = select(suite_cases.c.suite, func.count()).where(suite_cases.c.tenant == tenant)
    cases = {suite: number for suite, number in connection.execute(own.group_by(suite_cases.c.suite))}
    query = select(suites).where(suites.c.tenant == tenant).order_by(suites.c.created_ns.desc(), suites.c.id)
    return [
        SuiteHead(
            row.id, row.name, row.description, len(row.tools), cases.get(row.id, 0), row.created_ns, row.updated_ns
        )
        for row in connection.execute(query)
    ]


def stored_suite(connection: Connection, tenant: str, id_: str) -> StoredSuite | None:
    """The suite with this id, with its cases in order; None when there is none."""
    row = connection.execute(select(suites).where(*_is_suite(tenant, id_))).first()
    if row is None:
        return None
    query = select(suite_cases.c.id, suite_cases.c.body).where(*_of_suite(tenant, id_))
    cases = records(connection, StoredCase, query.order_by(suite_cases.c.place))
    return StoredSuite(**row._mapping, cases=cases)


def suites_called(connection: Connection, tenant: str, id_or_name: str) -> list[str]:
    """The ids of the suites that are meant: of the one with this id, else of all with this name, oldest first."""
    if connection.execute(select(suites.c.id).where(*_is_suite(tenant, id_or_name))).first() is not None:
        return [id_or_name]
    query = select(suites.c.id).where(suites.c.tenant == tenant, suites.c.name == id_or_name)
    return list(connection.execute(query.order_by(suites.c.created_ns, suites.c.id)).scalars())


def suite_named(connection: Connection, tenant: str, written: str) -> str | None:
    """The id of the suite that has it, or whose id alone begins so; None where none does. Raises `NotFound`."""
    return id_named(connection, suites.c.id, written, "suite", suites.c.tenant == tenant)


def save_suite(connection: Connection, suite: StoredSuite) -> None:
    """Store `suite` with all its cases, in place of what was stored of it."""
    values: dict[str, Any] = {
        "tenant": suite.tenant,
        "id": suite.id,
        "name": suite.name,
        "description": suite.description,
        "system_prompt": suite.system_prompt,
        "tools": list(suite.tools),
        "created_ns": suite.created_ns,
        "updated_ns": suite.updated_ns,
    }
    if put(connection, suites, values):
        connection.execute(delete(suite_cases).where(*_of_suite(suite.tenant, suite.id)))
    rows = [
        {"tenant": suite.tenant, "suite": suite.id, "id": case.id, "place": place, "body": case.body}
        for place, case in enumerate(suite.cases)
    ]
    for first in range(0, len(rows), _TOGETHER):
        connection.execute(insert(suite_cases), rows[first : first + _TOGETHER])


def delete_suite(connection: Connection, tenant: str, id_: str) -> bool:
    """Delete a suite with its cases; experiments about it stay, as those of none. False when there is none."""
    connection.execute(delete(suite_cases).where(*_of_suite(tenant, id_)))
    about = (experiments.c.tenant == tenant, experiments.c.suite == id_)
    connection.execute(update(experiments).where(*about).values(suite=None, own=False))
    return bool(connection.execute(delete(suites).where(*_is_suite(tenant, id_))).rowcount)


def _is_suite(tenant: str, id_: str) -> tuple[Any, Any]:
    return suites.c.tenant == tenant, suites.c.id == id_


def _of_suite(tenant: str, id_: str) -> tuple[Any, Any]:
    return suite_cases.c.tenant == tenant, suite_cases.c.suite == id_
