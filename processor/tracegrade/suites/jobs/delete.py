"""Delete a job that has ended, with its runs and their traces."""

from contextlib import suppress

from tracegrade.history.runs.run_changes import check_unpinned, delete_stored_run
from tracegrade.model.errors import NotFound, NotPossible
from tracegrade.store.open import changing_store
from tracegrade.store.runs import stored_run
from tracegrade.suites.store.jobs import UNFINISHED, delete_job, stored_job


def delete_with_runs(store_url: str, tenant: str, id_: str, *, force: bool = False) -> int:
    """Delete a job, its events, its runs and their traces; where it is interrupted, deleting it again does the rest.

    Returns:
        How many traces went.

    Raises:
        NotFound: there is none.
        NotPossible: it is not finished; or, without `force`, another experiment has a run of it pinned as its baseline.
        StoreError: the store cannot be written.
    """
    with changing_store(store_url) as connection:
        job = stored_job(connection, tenant, id_)
    if job is None:
        raise NotFound(f"there is no job {id_!r}; 'tracegrade jobs list' shows which there are")
    if job.state in UNFINISHED:
        raise NotPossible(f"job {id_} is {job.state}: cancel it before you delete it")
    if not force:
        with changing_store(store_url) as connection:
            for run in job.runs:
                if (found := stored_run(connection, tenant, run)) is not None:
                    check_unpinned(connection, tenant, job.runs, (), but=found.experiment)
    deleted = 0
    for run in job.runs:
        with suppress(NotFound):  # deleted before
            deleted += delete_stored_run(store_url, tenant, run, force=force)
    # At the end, as it names the runs. If it was queued meanwhile, it fails: what it had stored is gone.
    with changing_store(store_url) as connection:
        current = stored_job(connection, tenant, id_)
        if current is not None and current.state in UNFINISHED:
            raise NotPossible(f"job {id_} was queued again meanwhile: cancel it before you delete it")
        delete_job(connection, tenant, id_)
    return deleted
