"""Stored suites looked up and changed, each change in one transaction: two people who add a case both have it added."""

from collections.abc import Callable
from dataclasses import replace

from sqlalchemy import Connection

from tracegrade.model.errors import TraceGradeError
from tracegrade.model.json_value import JsonValue
from tracegrade.store.documents import new_id
from tracegrade.store.open import changing_store
from tracegrade.suites.imported import SuiteError
from tracegrade.suites.store.suites import (
    StoredCase,
    StoredSuite,
    delete_suite,
    save_suite,
    stored_suite,
    suite_named,
    suites_called,
)
from tracegrade.suites.stored import Read, read_suite, replaced


class NoSuchSuite(TraceGradeError):
    """There is no such suite or case, or none any more."""


def known_suite(connection: Connection, tenant: str, id_: str) -> StoredSuite:
    """The suite with this id; raises `NoSuchSuite`."""
    if (found := stored_suite(connection, tenant, id_)) is None:
        raise NoSuchSuite(f"no suite {id_[:200]!r}, or none any more")
    return found


def suite_called(connection: Connection, tenant: str, id_or_name: str) -> StoredSuite:
    """The one suite with this id, or this name, or whose id alone begins so.

    Raises:
        NoSuchSuite: there is none.
        SuiteError: several have the name.
        NotFound: several ids begin so.
    """
    ids = suites_called(connection, tenant, id_or_name)
    if not ids and (named := suite_named(connection, tenant, id_or_name)) is not None:
        ids = [named]
    if not ids:
        raise NoSuchSuite(f"no suite {id_or_name[:200]!r} is stored; 'tracegrade suite list' shows those that are")
    if len(ids) > 1:
        raise SuiteError(f"{len(ids)} suites are called {id_or_name!r}; name one by its id: {', '.join(ids[:10])}")
    return known_suite(connection, tenant, ids[0])


def case_of(suite: StoredSuite, case_id: str) -> StoredCase:
    """The case of `suite` with this id; raises `NoSuchSuite`."""
    found = next((case for case in suite.cases if case.id == case_id), None)
    if found is None:
        raise NoSuchSuite(f"no case {case_id[:200]!r} in the suite {suite.name!r}, or none any more")
    return found


def add_suite(store_url: str, tenant: str, document: JsonValue, now_ns: int, *, strict: bool = False) -> Read:
    """Store the suite that `document` is as a new one; raises as `read_suite`."""
    read = read_suite(document, tenant, new_id(), now_ns, strict=strict)
    with changing_store(store_url) as connection:
        save_suite(connection, read.suite)
    return read


def replace_suite(store_url: str, tenant: str, id_: str, document: JsonValue, now_ns: int) -> Read:
    """Store the tools and cases that `document` is in place of those of a suite, which keeps its id.

    Raises:
        NoSuchSuite: there is none with this id.
        SuiteError: as `read_suite`.
    """
    with changing_store(store_url) as connection:
        read = replaced(known_suite(connection, tenant, id_), document, now_ns)
        save_suite(connection, read.suite)
    return read


def change_suite(
    store_url: str, tenant: str, id_: str, changed: Callable[[StoredSuite], StoredSuite]
) -> tuple[StoredSuite, StoredSuite]:
    """Store what `changed` makes of a suite; nothing if it raises.

    Returns:
        The suite as it was, and as it is now.

    Raises:
        NoSuchSuite: there is none with this id.
    """
    with changing_store(store_url) as connection:
        before = known_suite(connection, tenant, id_)
        after = changed(before)
        save_suite(connection, after)
    return before, after


def without_case(suite: StoredSuite, case_id: str, now_ns: int) -> StoredSuite:
    """`suite` without a case; raises `NoSuchSuite`."""
    left_out = case_of(suite, case_id)
    cases = [case for case in suite.cases if case is not left_out]
    return replace(suite, cases=cases, updated_ns=max(now_ns, suite.created_ns))


def remove_suite(store_url: str, tenant: str, id_: str) -> StoredSuite:
    """Delete a suite with its cases. Returns what was deleted; raises `NoSuchSuite`."""
    with changing_store(store_url) as connection:
        found = known_suite(connection, tenant, id_)
        delete_suite(connection, tenant, id_)
    return found
