"""Jobs that write runs: what they write is not deleted or renamed meanwhile."""

from collections.abc import Collection

from sqlalchemy import Connection

from tracegrade.model.errors import NotPossible
from tracegrade.store.runs import stored_runs
from tracegrade.suites.store.jobs import UNFINISHED, Job, stored_jobs


def check_unwritten(
    connection: Connection, tenant: str, what: str, runs: Collection[str], experiment: str | None
) -> None:
    """Check that `runs` can be deleted, and with them the `experiment` that holds them all, if it is given.

    Raises:
        NotPossible: a job that has not ended writes `what`.
    """
    if (job := _job_of(connection, tenant, runs, experiment)) is not None:
        cancel = f"wait for its end, or cancel it: tracegrade jobs cancel {job.id}"
        raise NotPossible(f"{what} cannot be deleted now: job {job.id}, which is {job.state}, writes it; {cancel}")


def job_writing(connection: Connection, tenant: str, experiment: str) -> Job | None:
    """A job that has not ended and writes runs of this experiment, or will; None when there is none."""
    runs = {run.name for run in stored_runs(connection, tenant, experiment)}
    return _job_of(connection, tenant, runs, experiment)


def _job_of(connection: Connection, tenant: str, runs: Collection[str], experiment: str | None) -> Job | None:
    for job in stored_jobs(connection, tenant, UNFINISHED):
        if not set(runs).isdisjoint(job.runs) or (experiment and job.request.get("experiment") == experiment):
            return job
    return None
