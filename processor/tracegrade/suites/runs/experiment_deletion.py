"""The deletion of an experiment: with its runs, or without; they go into the own experiments of their suites then."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from tracegrade.history.runs.experiments import known_experiment
from tracegrade.history.runs.run_changes import check_unpinned, check_unwritten
from tracegrade.model.errors import NotPossible
from tracegrade.store.open import changing_store, open_store
from tracegrade.store.runs import (
    Run,
    delete_experiment,
    forget_experiment,
    move_runs,
    save_experiment,
    stored_entries,
    stored_runs,
)
from tracegrade.suites.runs.experiment import experiment_for
from tracegrade.suites.store.jobs import move_jobs
from tracegrade.suites.store.suites import StoredSuite, stored_suite


@dataclass(frozen=True, slots=True)
class Deletion:
    """How many runs were deleted, with how many traces and sessions, and how many runs and evals were kept."""

    runs: int = 0
    traces: int = 0
    runs_kept: int = 0
    evals_kept: int = 0


def delete_with_runs(store_url: str, tenant: str, name: str, *, force: bool = False) -> Deletion:
    """Delete an experiment with its entries, its runs and their traces; where it is interrupted, again does the rest.

    Raises:
        NotFound: there is no such experiment.
        NotPossible: a run of it is being written; or, without `force`, another experiment has one pinned.
    """
    engine = open_store(store_url)
    try:
        with engine.connect() as connection:
            known_experiment(connection, tenant, name)
            runs = stored_runs(connection, tenant, name)
            _check(connection, tenant, name, runs, () if force else runs, force)
        return Deletion(runs=len(runs), traces=delete_experiment(engine, tenant, name))
    finally:
        engine.dispose()


def delete_without_runs(store_url: str, tenant: str, name: str, *, force: bool = False) -> Deletion:
    """Delete an experiment with its entries; its runs of stored suites go into the own experiments of these suites.

    They keep their names, and evals their ids.

    Raises:
        NotFound: there is no such experiment.
        NotPossible: it holds other runs, or one that is being written; or, without `force`, another experiment has an
            entry of it pinned.
    """
    now_ns = time.time_ns()
    with changing_store(store_url) as connection:
        deleted = known_experiment(connection, tenant, name)
        runs = stored_runs(connection, tenant, name)
        _check(connection, tenant, name, runs, (), force)
        suites: dict[str, StoredSuite] = {}
        for id_ in {run.suite for run in runs if run.suite is not None}:
            if (suite := stored_suite(connection, tenant, id_)) is not None:
                suites[id_] = suite
        if others := [run.name for run in runs if run.suite not in suites]:
            raise NotPossible(
                f"{name} holds {len(others)} runs of no stored suite, such as {others[0]}, which can be kept nowhere "
                "else; delete it with its runs: ?runs=true, or without --keep-runs"
            )
        forget_experiment(connection, tenant, name)
        for id_, suite in suites.items():
            own = experiment_for(connection, suite, None, now_ns)
            if own.name == name:  # numbers of runs are not used again
                save_experiment(connection, replace(own, last_number=deleted.last_number))
            move_runs(connection, tenant, [run.name for run in runs if run.suite == id_], own.name)
            move_jobs(connection, tenant, name, own.name, suite=id_)
    return Deletion(runs_kept=len(runs), evals_kept=len({run.job or run.name for run in runs}))


def _check(
    connection: Connection, tenant: str, name: str, runs: Sequence[Run], deleted: Sequence[Run], force: bool
) -> None:
    """Check that nothing writes an experiment, and that no other has what is deleted of it pinned."""
    check_unwritten(connection, tenant, f"experiment {name}", runs, name)
    if not force:
        entries = [entry.id for entry in stored_entries(connection, tenant, name)]
        check_unpinned(connection, tenant, [run.name for run in deleted], entries, but=name)
