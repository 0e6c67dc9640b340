"""The deletion of an experiment without its runs, which go into the own experiments of their suites."""

import time
from dataclasses import replace

from tracegrade.history.runs.experiments import known_experiment
from tracegrade.history.runs.run_changes import Deletion, check_deletable
from tracegrade.model.errors import NotPossible
from tracegrade.store.open import changing_store
from tracegrade.store.runs import (
    forget_experiment,
    move_runs,
    save_experiment,
    stored_runs,
)
from tracegrade.suites.runs.experiment import experiment_for
from tracegrade.suites.store.jobs import move_jobs
from tracegrade.suites.store.suites import StoredSuite, stored_suite


def delete_experiment_alone(store_url: str, tenant: str, name: str, *, force: bool = False) -> Deletion:
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
        check_deletable(connection, tenant, name, runs, (), force)
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
