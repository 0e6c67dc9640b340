"""Experiments about stored suites: made by people or by the first eval of a suite, changed, deleted without their runs.

An eval of a stored suite goes into an experiment about this suite, so that deltas compare one suite.
A suite has an experiment of its *own*, for evals that name none. It is found by the suite's id, whatever either is
called later.
"""

import time
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import count

from sqlalchemy import Connection

from tracegrade.history.runs.experiments import known_experiment
from tracegrade.history.runs.recorded_run import check_experiment
from tracegrade.history.runs.run_changes import Deletion, check_deletable, check_measurable
from tracegrade.model.errors import NotFound, NotPossible, WrongValue
from tracegrade.store.open import changing_store
from tracegrade.store.runs import (
    Experiment,
    forget_experiment,
    move_runs,
    own_experiment,
    pin_baseline,
    rename_experiment,
    save_experiment,
    stored_experiment,
    stored_run,
    stored_runs,
)
from tracegrade.suites.imported import rule_id_of
from tracegrade.suites.keeping import known_suite
from tracegrade.suites.runs.evals import known_eval, suite_about
from tracegrade.suites.store.jobs import UNFINISHED, Job, move_jobs, stored_job, stored_jobs
from tracegrade.suites.store.suites import StoredSuite, stored_suite

_LONGEST_BASE = 80


class OtherSuite(NotPossible):
    """An eval of one suite does not go into an experiment about another; the message says which, and what to do."""


def experiment_for(connection: Connection, suite: StoredSuite, name: str | None, now_ns: int) -> Experiment:
    """The experiment that an eval goes into, which is about its suite from now on.

    Args:
        connection: in the transaction that queues the eval, or just before its runs are begun.
        suite: what is run.
        name: the experiment's, which may be new; None: the suite's own, which is made where there is none.
        now_ns: when a new one is made.

    Raises:
        OtherSuite: the experiment is about another suite.
        WrongValue: the name cannot be one.
    """
    if name is None:
        return _experiment_of_suite(connection, suite, now_ns)
    check_experiment(connection, suite.tenant, "experiment", name)
    found = stored_experiment(connection, suite.tenant, name) or Experiment(suite.tenant, name, now_ns, None, 0)
    about = suite_about(connection, found)
    if about not in (None, suite.id):
        raise OtherSuite(
            f"the experiment {name!r} is about the suite {_called(connection, suite.tenant, str(about))}, and an eval "
            f"of {suite.id} ({suite.name!r}) cannot be measured in it; choose another experiment, or leave it out. To "
            f"change that suite instead, import with suite_id, or by 'suite import --replace {about}': it keeps its id"
        )
    return _about(connection, found, suite, own=found.own)


def _experiment_of_suite(connection: Connection, suite: StoredSuite, now_ns: int) -> Experiment:
    if (found := own_experiment(connection, suite.tenant, suite.id)) is not None:
        return found
    for name in _possible_names(suite):
        found = stored_experiment(connection, suite.tenant, name)
        if found is not None and suite_about(connection, found) == suite.id:
            return _about(connection, found, suite, own=True)
        if found is None and _is_free(connection, suite.tenant, name):
            return _about(connection, Experiment(suite.tenant, name, now_ns, None, 0), suite, own=True)
    raise AssertionError("names do not end")


def _about(connection: Connection, experiment: Experiment, suite: StoredSuite, *, own: bool) -> Experiment:
    about = replace(experiment, suite=suite.id, own=own)
    save_experiment(connection, about)
    return about


def _possible_names(suite: StoredSuite) -> Iterator[str]:
    """What a suite's own experiment may be called: as the suite, or also with its id."""
    name = rule_id_of(suite.name)
    yield name
    with_id = f"{name[:_LONGEST_BASE].rstrip('-')}-{suite.id}"
    yield with_id
    yield from (f"{with_id}-{number}" for number in count(2))


def _is_free(connection: Connection, tenant: str, name: str) -> bool:
    try:
        check_experiment(connection, tenant, "experiment", name)
    except WrongValue:
        return False
    return True


def _called(connection: Connection, tenant: str, id_: str) -> str:
    """A suite by its id, and its name while it is stored."""
    found = stored_suite(connection, tenant, id_)
    return f"{id_} (deleted)" if found is None else f"{id_} ({found.name!r})"


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


LONGEST_DESCRIPTION = 10_000


def make_experiment(
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


def change_experiment(
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
