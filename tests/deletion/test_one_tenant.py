"""A deletion for one tenant leaves what others have under the same ids as it was."""

from pathlib import Path

import pytest
from sqlalchemy import select

from build.served_folder import ServedFolder, id_of, secret_trace
from tracegrade.assemble.closed_traces import DELETED, ClosedTraces
from tracegrade.deletion.request import Choice, Deletion, Deletions
from tracegrade.model.tenant_mark import MarkedOf, tenant_mark
from tracegrade.serve.offline import run_deletion_offline
from tracegrade.store.open import reading_store
from tracegrade.store.schema import traces

OWN, OTHERS = "what-acme-says", "what-globex-says"
SESSION, USER = "one-conversation", "one-user"


@pytest.fixture
def kept(tmp_path: Path) -> ServedFolder:
    """The same trace, session and user at two tenants."""
    kept = ServedFolder(tmp_path)
    kept.receive(secret_trace(1, OWN, SESSION, USER), tenant="acme")
    kept.receive(secret_trace(1, OTHERS, SESSION, USER), tenant="globex")
    return kept


def carry_out(kept: ServedFolder, choice: Choice, *trace_ids: bytes) -> Deletion:
    return run_deletion_offline(kept.config, Deletions(kept.folder).request(choice, frozenset(trace_ids)))


def stored(kept: ServedFolder) -> list[str]:
    """Whose traces and sessions are stored."""
    with reading_store(kept.config.store_url) as connection:
        return sorted(connection.execute(select(traces.c.tenant)).scalars())


@pytest.mark.parametrize(
    ("choice", "trace_ids"),
    [
        (Choice(tenant="acme"), [id_of(1)]),
        (Choice(session=SESSION, tenant="acme"), []),
        (Choice(user=USER, tenant="acme"), []),
        (Choice(before_ns=10**18, tenant="acme"), []),
    ],
    ids=["id", "session", "user", "time"],
)
def test_only_what_is_the_tenants_goes(kept: ServedFolder, choice: Choice, trace_ids: list[bytes]) -> None:
    assert kept.files_with(OWN.encode())
    assert stored(kept) == ["acme", "acme", "globex", "globex"]
    before = len(kept.files_with(OTHERS.encode()))
    done = carry_out(kept, choice, *trace_ids)
    assert (done.state, done.trace_count, done.deleted.spans, done.deleted.traces) == ("done", 1, 3, 1)
    assert done.deleted.sessions == 1
    assert kept.files_with(OWN.encode()) == []
    assert len(kept.files_with(OTHERS.encode())) == before > 0
    assert stored(kept) == ["globex", "globex"]
    assert kept.replayed()


def test_without_a_tenant_it_goes_from_all(kept: ServedFolder) -> None:
    done = carry_out(kept, Choice(), id_of(1))
    assert done.deleted.traces == 2
    assert kept.files_with(OWN.encode(), OTHERS.encode()) == []


def test_late_spans_are_known_by_their_tenant_too(kept: ServedFolder) -> None:
    carry_out(kept, Choice(tenant="acme"), id_of(1))
    deletions = Deletions(kept.folder)
    closed = ClosedTraces(deleted=deletions.tombstones())
    found = closed.find([("acme", id_of(1)), ("globex", id_of(1))])
    assert {key: trace.cut_by for key, trace in found.items()} == {("acme", id_of(1)): DELETED}
    assert closed.came_deleted == {("acme", id_of(1))}


def test_a_deletion_is_told_by_its_tenant_when_it_is_done(kept: ServedFolder) -> None:
    done = carry_out(kept, Choice(tenant="acme"), id_of(1))
    found = Deletions(kept.folder).find(done.id)
    assert found is not None
    assert (found.choice, found.trace_ids) == (Choice(tenant="acme"), frozenset())


def test_a_mark_is_of_one_tenant_and_one_trace() -> None:
    marks = {tenant_mark("acme", id_of(1)), id_of(2)}
    assert id_of(1) in MarkedOf(marks, "acme")
    assert id_of(1) not in MarkedOf(marks, "globex")
    assert id_of(2) in MarkedOf(marks, "globex")
    assert tenant_mark("ab", b"c" * 16) != tenant_mark("a", b"bc" * 8)
