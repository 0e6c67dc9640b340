import asyncio
from pathlib import Path

import pytest

from serve.delivering.test_store_upkeep import upkeep
from tracegrade.serve.delivering import store_upkeep
from tracegrade.store.open import open_store, reading
from tracegrade.suites.store.jobs import Job, add_job, cancel_job, events_after
from waiting import eventually_in_loop


def test_what_happened_in_a_job_is_deleted_a_week_after_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_upkeep, "RETENTION_EVERY_S", 0.01)
    engine = open_store(f"sqlite:///{tmp_path / 'tracegrade.db'}")
    old, open_still = (Job(tenant="default", id=name, request={}, created_ns=1) for name in ("old", "open"))
    with engine.begin() as connection:
        for job in (old, open_still):
            add_job(connection, job)
        cancel_job(connection, "default", "old", 2)

    def numbers(job: Job) -> int:
        with reading(engine) as connection:
            return len(events_after(connection, "default", job.id, 0))

    async def run() -> None:
        stop = asyncio.Event()
        keeping = asyncio.create_task(upkeep(engine, stop).delete_old_traces(3600.0, {}))
        await eventually_in_loop(lambda: not numbers(old), "the events to be deleted")
        stop.set()
        await keeping

    assert (numbers(old), numbers(open_still)) == (2, 1)
    asyncio.run(run())
    assert (numbers(old), numbers(open_still)) == (0, 1)
    engine.dispose()
