"""One of several processes on a PostgreSQL leads, and another one soon after it is killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Engine, text

from build.engines import POSTGRESQL, needs_postgresql
from tracegrade.store import several_processes
from tracegrade.store.open import open_store
from tracegrade.store.several_processes import Leader
from waiting import eventually

_LEADS_FOR_EVER = f"""
import asyncio
from tracegrade.store.several_processes import Leader
from tracegrade.store.open import open_store
found = Leader(open_store({POSTGRESQL!r}))
found.look()
print(found.leads, flush=True)
asyncio.run(found.run(asyncio.Event()))
"""


@contextmanager
def another_process() -> Iterator[subprocess.Popen[str]]:
    """One that takes part, and has said on its output whether it leads."""
    process = subprocess.Popen([sys.executable, "-c", _LEADS_FOR_EVER], stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_the_one_process_on_a_sqlite_leads(sqlite: Engine) -> None:
    found = Leader(sqlite)
    assert found.leads
    found.look()
    assert found.leads


@needs_postgresql
def test_when_the_leader_is_killed_another_process_leads(postgresql: Engine) -> None:
    with another_process() as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        found = Leader(postgresql)
        found.look()
        assert not found.leads
        os.kill(process.pid, signal.SIGKILL)

        def leads() -> bool:
            found.look()
            return found.leads

        eventually(leads, "the lock of the killed one")
    found.resign()


@needs_postgresql
def test_who_resigns_lets_another_one_lead(postgresql: Engine) -> None:
    other = open_store(POSTGRESQL)
    first, second = Leader(postgresql), Leader(other)
    for each in (first, second, first, second):
        each.look()
    assert (first.leads, second.leads) == (True, False)
    first.resign()
    second.look()
    assert (first.leads, second.leads) == (False, True)
    second.resign()
    other.dispose()


@needs_postgresql
def test_who_loses_its_connection_leads_no_more_and_may_lead_again(postgresql: Engine) -> None:
    found = Leader(postgresql)
    found.look()
    assert found.leads
    with postgresql.connect() as connection:
        ended = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()"
        assert connection.execute(text(ended)).scalars().all() == [True]
    found.look()
    assert not found.leads
    found.look()
    assert found.leads
    found.resign()


@needs_postgresql
def test_who_cannot_look_for_long_leads_no_more(postgresql: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Leader(postgresql)
    found.look()
    monkeypatch.setattr(several_processes, "_TRUSTED_S", 0.0)
    assert not found.leads
    found.resign()
