"""Queue a job, cancel it, queue it again, or delete it; a worker is told that there is something to do."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from sqlalchemy import Connection

from tracegrade.config import Config
from tracegrade.history.runs.experiments import known_experiment
from tracegrade.history.runs.recorded_run import deleted_run
from tracegrade.history.runs.run_changes import check_unpinned, delete_stored_run
from tracegrade.model.errors import NotFound, NotPossible
from tracegrade.model.json_value import JsonValue
from tracegrade.model.short_hash import short_hash
from tracegrade.pipeline.data_folder import DataFolder
from tracegrade.rule.reading import RuleReading
from tracegrade.store.documents import new_id
from tracegrade.store.open import changing_store
from tracegrade.store.runs import stored_run
from tracegrade.suites.jobs.suite_request import SuiteRequest, WrongRequest, known_models, suite_request
from tracegrade.suites.keeping import known_suite
from tracegrade.suites.models.settings import chosen_models
from tracegrade.suites.runs.evals import EvalStanding, EvalTimeline, eval_timeline, model_keys, suite_about
from tracegrade.suites.runs.experiments import experiment_for
from tracegrade.suites.store.jobs import (
    UNFINISHED,
    WAITING,
    Job,
    add_job,
    cancel_job,
    delete_job,
    resume_job,
    stored_job,
    stored_jobs,
)
from tracegrade.suites.store.suites import StoredSuite, stored_suite
from tracegrade.suites.stored import unset_needs

MOST_UNITS = 100_000
"""What one job may ask: its cases, by each model, so often as they are repeated."""

MOST_WAITING = 100
"""Jobs of one token that wait; beyond them none is queued."""


def submit(config: Config, tenant: str, owner: str, asked: SuiteRequest) -> Job:
    """Queue the run of a stored suite.

    Args:
        config: the settings: the store, the file of models.
        tenant: whose suite, and whose job.
        owner: stands for the token that asks, for the limits; empty without one.
        asked: what is to be run; models may be named by their ids alone, where one provider alone has them.

    Returns:
        The job as it was stored, with each model by its key.

    Raises:
        WrongRequest: a system prompt for a model that is not asked, or too many runs of cases.
        NotPossible: no such suite, one without cases or with one that needs what is not set, or too many jobs wait.
        WrongValue: a model is not in the file of models, or the name of the experiment cannot be one.
        OtherSuite: the experiment is about another suite.
        TraceGradeError: the file of models cannot be read, or the store cannot be written.
    """
    targets = chosen_models(known_models(config), asked.models, "models")
    keys = [target.key for target in targets]
    if isinstance(asked.system_prompt, dict) and (others := asked.system_prompt.keys() - set(keys)):
        raise WrongRequest(f"system_prompt: {min(others)!r} is not asked; expected one of {', '.join(keys)}")
    now_ns = time.time_ns()
    with changing_store(config.store_url) as connection:
        suite = stored_suite(connection, tenant, asked.suite)
        if suite is None:
            raise NotPossible(f"there is no suite {asked.suite!r}; 'tracegrade suite list' shows which there are")
        if not suite.cases:
            raise NotPossible(f"the suite {suite.name!r} has no cases; add one first")
        if unset := unset_needs(suite.cases, config.rules.reading):
            raise NotPossible(f"the suite {suite.name!r} cannot be run: {unset[0]}")
        units = len(suite.cases) * asked.repeat * len(keys)
        if units > MOST_UNITS:
            parts = f"{len(suite.cases)} cases, {len(keys)} models, repeat {asked.repeat}"
            raise WrongRequest(f"expected at most {MOST_UNITS} runs of cases in a job, found {units}: {parts}")
        most = config.quotas.of(tenant).jobs
        if most is not None and len(stored_jobs(connection, tenant, UNFINISHED)) >= most:
            raise NotPossible(
                f"{most} jobs of tenant {tenant!r} wait or run, the most that its quota allows; cancel one, or wait"
            )
        waiting = sum(found.owner == owner for found in stored_jobs(connection, None, WAITING))
        if waiting >= MOST_WAITING:
            raise NotPossible(f"{waiting} jobs wait already, the most there may be; cancel one, or wait")
        experiment = experiment_for(connection, suite, asked.experiment, now_ns)
        request = asked.model_copy(update={"models": keys, "experiment": experiment.name}).model_dump(mode="json")
        job = Job(tenant=tenant, id=new_id(), owner=owner, request=request, created_ns=now_ns)
        add_job(connection, job, suite_id=suite.id, suite_name=suite.name, models=[*keys])
    DataFolder(config.data_path).note_jobs_wait()
    return job


def cancel(config: Config, tenant: str, id_: str) -> Job:
    """Cancel a job that waits or runs; its worker ends requests under way within a second.

    Returns:
        The job as it stands now; one that has ended stays as it is.

    Raises:
        NotFound: there is none.
    """
    with changing_store(config.store_url) as connection:
        known_job(connection, tenant, id_)
        cancel_job(connection, tenant, id_, time.time_ns())
        return known_job(connection, tenant, id_)


def resume(config: Config, tenant: str, id_: str) -> Job:
    """Queue a job again that failed or was cancelled: it goes on with what it has not stored.

    Returns:
        The job as it stands now; one that waits, runs or was interrupted goes on by itself.

    Raises:
        NotFound: there is none.
        NotPossible: it is done, its suite or a run of it was deleted, or a case needs what is not set.
        OtherSuite: its experiment is about another suite by now.
    """
    with changing_store(config.store_url) as connection:
        job = known_job(connection, tenant, id_)
        if job.state == "done":
            raise NotPossible(f"job {id_} is done: nothing is left to do")
        if job.state not in UNFINISHED:
            suite = _check_goes_on(connection, job, config.rules.reading)
            if not job.runs:  # its experiment may have been deleted, or taken by another suite
                experiment_for(connection, suite, job.request.get("experiment"), time.time_ns())
        resume_job(connection, tenant, id_, time.time_ns())
        job = known_job(connection, tenant, id_)
    DataFolder(config.data_path).note_jobs_wait()
    return job


def _check_goes_on(connection: Connection, job: Job, reading: RuleReading) -> StoredSuite:
    """Refuse what would fail as soon as a worker has it; gives its suite."""
    suite = str(job.request.get("suite"))
    gone = deleted_run(connection, job.tenant, job.runs)
    stored = stored_suite(connection, job.tenant, suite)
    if gone is None and stored is not None:
        if unset := unset_needs(stored.cases, reading):
            raise NotPossible(f"job {job.id} cannot go on: {unset[0]}")
        return stored
    what = f"its suite {suite}" if gone is None else f"what it had stored, run {gone},"
    raise NotPossible(f"job {job.id} cannot go on: {what} was deleted; submit a new one")


def known_job(connection: Connection, tenant: str, id_: str) -> Job:
    """The job with this id; raises `NotFound`."""
    job = stored_job(connection, tenant, id_)
    if job is None:
        raise NotFound(f"there is no job {id_!r}; 'tracegrade jobs list' shows which there are")
    return job


def delete_with_runs(store_url: str, tenant: str, id_: str, *, force: bool = False) -> int:
    """Delete a job that has ended, its events, runs and traces; where it is interrupted, again does the rest.

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


_ASKED = ("temperature", "tool_choice", "system_prompt", "repeat")


def best_request(connection: Connection, tenant: str, experiment: str, models: Sequence[str] = ()) -> SuiteRequest:
    """What is asked of a job that runs the best configuration.

    Args:
        connection: to the store.
        tenant: whose.
        experiment: its name.
        models: to be asked in place of those of the configuration.

    Raises:
        NotFound: there is no such experiment.
        NoSuchSuite: its suite was deleted.
        NotPossible: it has no best, or that cannot be run: no stored suite, no models, or a configuration that is none.
    """
    found = eval_timeline(connection, known_experiment(connection, tenant, experiment))
    if found.best is None:
        raise NotPossible(f"{experiment} has no best configuration: nothing of it has a score")
    suite_id = suite_about(connection, found.experiment)
    if suite_id is None:
        raise NotPossible(f"{experiment} is about no stored suite: nothing can be run")
    suite = known_suite(connection, tenant, suite_id)
    best = found.best
    if isinstance(best, EvalStanding):
        given: Mapping[str, JsonValue] = best.eval.configuration
        own = short_hash(suite.system_prompt.encode()) if suite.system_prompt else ""
        if best.eval.job is None and best.eval.system_prompt_hash != own:
            raise NotPossible(
                f"the best of {experiment}, {best.eval.id}, was asked with another system prompt than the suite has, "
                "which is not stored: submit an eval with it"
            )
    else:
        given = best.entry.configuration
    chosen = list(models) or model_keys(given) or _models_of(found)
    if not chosen:
        raise NotPossible(f"the best configuration of {experiment} names no models: send some")
    asked = {key: given[key] for key in _ASKED if given.get(key) is not None}
    prompts = asked.get("system_prompt")
    if isinstance(prompts, dict):  # of models that are not asked now, too
        asked["system_prompt"] = {key: text for key, text in prompts.items() if key in chosen}
    return suite_request({**asked, "suite": suite.id, "models": chosen, "experiment": experiment})


def _models_of(found: EvalTimeline) -> list[str]:
    """The models of the best eval, of the evals alone."""
    evals = [item.eval for item in found.evals if item.eval.score is not None and item.delta_note is None]
    best = max(evals, key=lambda item: item.score or 0.0, default=None)
    return [] if best is None else [str(model) for model in best.models]
