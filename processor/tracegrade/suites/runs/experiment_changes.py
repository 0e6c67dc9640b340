"""Experiments that people make and change: before their first run, with a stored suite and a description."""

import time
from dataclasses import replace

from sqlalchemy import Connection

from tracegrade.history.runs.experiments import known_experiment
from tracegrade.history.runs.recorded_run import check_experiment
from tracegrade.history.runs.run_changes import check_measurable
from tracegrade.model.errors import NotFound, NotPossible, WrongValue
from tracegrade.store.open import changing_store
from tracegrade.store.runs import (
    Experiment,
    pin_baseline,
    rename_experiment,
    save_experiment,
    stored_experiment,
    stored_run,
    stored_runs,
)
from tracegrade.suites.keeping import known_suite
from tracegrade.suites.runs.evals import known_eval, suite_about
from tracegrade.suites.runs.writing import job_writing
from tracegrade.suites.store.jobs import move_jobs, stored_job

LONGEST_DESCRIPTION = 10_000


def make(
    store_url: str, tenant: str, name: str, *, suite: str | None, description: str = "", baseline: str | None = None
) -> Experiment:
    """Make an experiment, which has no runs yet.

    Args:
        store_url: the store.
        tenant: whose.
        name: its name, which no experiment and no run has.
        suite: the id of the stored suite that it is about; None: of none.
        description: what it is for.
        baseline: the id of an eval that is there already, to be its baseline.

    Raises:
        WrongValue: the name cannot be one, or the description is too long.
        NotPossible: the name is taken, or the baseline cannot be one.
        NoSuchSuite: there is no such suite.
        NotFound: there is no such eval.
    """
    with changing_store(store_url) as connection:
        _check_free(connection, tenant, name)
        _check_description(description)
        if suite is not None:
            known_suite(connection, tenant, suite)
        made = Experiment(tenant, name, time.time_ns(), None, 0, suite, description)
        if baseline is not None:
            run, entry = _baseline(connection, made, baseline)
            made = replace(made, baseline=run, baseline_entry=entry)
        save_experiment(connection, made)
    return made


def change(
    store_url: str, tenant: str, name: str, *, new_name: str | None = None, description: str | None = None
) -> str:
    """Give an experiment another name or description; None leaves it. Returns its name from now on.

    Raises:
        NotFound: there is no such experiment.
        WrongValue: the new name cannot be one, or the description is too long.
        NotPossible: the new name is taken, or runs are being written.
    """
    with changing_store(store_url) as connection:
        experiment = known_experiment(connection, tenant, name)
        if description is not None:
            _check_description(description)
            save_experiment(connection, replace(experiment, description=description))
        if new_name is None or new_name == name:
            return name
        _check_free(connection, tenant, new_name)
        for run in stored_runs(connection, tenant, name):
            if run.state != "complete":
                raise NotPossible(f"{name} cannot be renamed now: run {run.name} of it is {run.state}")
        if (job := job_writing(connection, tenant, name)) is not None:
            raise NotPossible(f"{name} cannot be renamed now: job {job.id} writes runs of it")
        rename_experiment(connection, tenant, name, new_name)
        move_jobs(connection, tenant, name, new_name)
        return new_name


def pin_eval(store_url: str, tenant: str, name: str, eval_id: str | None) -> None:
    """Pin an eval as the baseline of an experiment, of which it need not be; None pins none.

    Raises:
        NotFound: there is no such experiment, or no such eval.
        NotPossible: the eval has no complete run with a score, or is of another suite.
    """
    with changing_store(store_url) as connection:
        experiment = known_experiment(connection, tenant, name)
        run, entry = (None, None) if eval_id is None else _baseline(connection, experiment, eval_id)
        pin_baseline(connection, tenant, name, run, entry)


def _baseline(connection: Connection, experiment: Experiment, eval_id: str) -> tuple[str | None, str | None]:
    """The run that stands for an eval as a baseline, its first complete one with a score; or the entry that it is."""
    found = known_eval(connection, experiment.tenant, eval_id)
    if found is None:
        job = stored_job(connection, experiment.tenant, eval_id)
        if job is None:
            raise NotFound(f"no eval {eval_id[:200]!r}, or none any more")
        why = f" ({job.message})" if job.message else ""
        raise NotPossible(f"eval {job.id} is {job.state}{why} and stored nothing: nothing can be measured against it")
    about = suite_about(connection, experiment)
    if about is not None and found.suite is not None and found.suite != about:
        other = f"eval {eval_id} is of the suite {found.suite}, and {experiment.name} is about {about}"
        raise NotPossible(f"{other}: nothing can be measured against it")
    if found.entry is not None:
        return None, found.entry.id
    able = (item for item in found.runs if item.run.state == "complete" and item.score is not None)
    scored = next(able, found.runs[0])
    check_measurable(scored)
    return scored.run.name, None


def _check_free(connection: Connection, tenant: str, name: str) -> None:
    """Check that `name` can be that of a new experiment: one name is never that of a run and of an experiment."""
    if stored_experiment(connection, tenant, name) is not None:
        raise NotPossible(f"name: there is an experiment {name!r} already; choose another")
    if stored_run(connection, tenant, name) is not None:
        raise NotPossible(f"name: {name!r} is the name of a run; choose another")
    check_experiment(connection, tenant, "name", name)


def _check_description(text: str) -> None:
    if len(text) > LONGEST_DESCRIPTION or "\0" in text:
        raise WrongValue(f"description: expected at most {LONGEST_DESCRIPTION} characters, none of them NUL")
