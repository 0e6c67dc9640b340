"""Runs of suites as clients of other systems for tool-calling evaluation start, cancel, list and delete them."""

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar
from urllib.parse import unquote

from fastapi import Body
from pydantic import Field
from sqlalchemy import Connection

from tracegrade.history.runs.experiment_entries import delete_promoted
from tracegrade.history.runs.experiments import experiment_called, known_experiment
from tracegrade.history.runs.run_changes import delete_stored_run
from tracegrade.model.errors import NotFound
from tracegrade.store.runs import State
from tracegrade.suites.imported import rule_id_of
from tracegrade.suites.jobs.submit import best_request, cancel, delete_with_runs, submit
from tracegrade.suites.jobs.suite_job import scores_of
from tracegrade.suites.jobs.suite_request import suite_request
from tracegrade.suites.keeping import known_suite
from tracegrade.suites.models.settings import chosen_models
from tracegrade.suites.runs.cases import MOST_RESULTS, SuiteRun, is_suite_run, suite_run_of
from tracegrade.suites.runs.evals import (
    Eval,
    EvalStanding,
    EvalTimeline,
    eval_timeline,
    eval_without_runs,
    experiment_of,
    known_eval,
)
from tracegrade.suites.runs.results import CaseResult
from tracegrade.suites.store.evals import EvalFilter, eval_keys
from tracegrade.suites.store.jobs import STATES, Job, stored_job
from tracegrade.suites.web.api.eval_documents import (
    BestJob,
    DeletedEval,
    EvalDocument,
    EvalResult,
    EvalRunDocument,
    Evals,
    SentBest,
    SentCancel,
    SentEval,
    SentModels,
    SubmittedEval,
    SubmittedJob,
    WholeEval,
)
from tracegrade.suites.web.api.experiments import ExperimentName, baseline_of, suite_names, time_in_json
from tracegrade.suites.web.api.jobs import Word, word_of
from tracegrade.suites.web.evals import known_models
from tracegrade.suites.web.job_events import values_of
from tracegrade.web.api.documents import ExactJson
from tracegrade.web.api.operations import Operations
from tracegrade.web.api.parameters import (
    ApiCall,
    Name,
    Null,
    OfForced,
    OfTenant,
    PathName,
    Stretch,
    Time,
    in_tenant,
)
from tracegrade.web.masked import seen_by
from tracegrade.web.problem import Refusal
from tracegrade.web.sources import Sources

router = Operations(503)

Found = TypeVar("Found")

_WORDS: dict[State, Word] = {"complete": "done", "failed": "failed", "incomplete": "running", "deleting": "running"}
_WITHOUT_VALUES = dict.fromkeys(EvalResult.model_fields)


class HistoryQuery(Stretch):
    """Which evals."""

    suite_id: Name | Null = Field(None, description="Only of this stored suite")
    experiment_id: Name | Null = Field(None, description="Only of this experiment, by its id or name")
    model: Name | Null = Field(None, description="Only with this model, `provider_key::model_id`")
    status: Word | Null = Field(None, description="Only with this status")
    since: Time | Null = Field(None, description="Only begun at this time or later")
    until: Time | Null = Field(None, description="Only begun before this time")


@router.operation("POST /tool-eval", "Run an eval", SubmittedEval, 404, 409, right="run", status=202)
def run_tool_eval(call: OfTenant, sent: Annotated[SentEval, Body()]) -> ExactJson:
    """Queues the run of a suite with models; what happens is told by `/api/v1/jobs/{job_id}/events` and `/ws`.

    It goes into the experiment `experiment_id`, which is about one suite, else into the suite's own.
    """
    if not sent.keys:
        raise Refusal(400, "invalid-parameter", "Wrong parameter", "models: expected at least one, found none")
    _check_targets(call.sources, sent)
    asked = sent.model_dump(exclude={"suite_id", "experiment_id", "targets"})
    asked |= {"suite": sent.suite_id, "models": sent.keys}
    with call.sources.store() as connection:
        known_suite(connection, call.tenant, sent.suite_id)
        if sent.experiment_id is not None:
            asked["experiment"] = _named(connection, call.tenant, sent.experiment_id)
    job = submit(call.sources.config, call.tenant, call.caller.owner, suite_request(asked))
    return ExactJson(_submitted(call.sources, job), 202)


@router.operation("POST /tool-eval/cancel", "Cancel an eval", SubmittedJob, 404, right="run")
def cancel_tool_eval(call: OfTenant, sent: Annotated[SentCancel, Body()]) -> ExactJson:
    """Cancels a job that waits or runs; one that has ended stays as it is, and so does what is stored."""
    job = cancel(call.sources.config, call.tenant, sent.job_id)
    return ExactJson({"job_id": job.id, "status": word_of(job.state)})


@router.operation("GET /tool-eval/history", "Evals", Evals, 404)
def list_tool_evals(call: Annotated[ApiCall[HistoryQuery], in_tenant(HistoryQuery)]) -> ExactJson:
    """Every eval of a suite, by jobs and by `suite run`; the one submitted last comes first.

    Those that have stored nothing yet are among them, and the best results of tunes that other tools reported.
    """
    until_ns, offset = call.query.place
    timelines: dict[str, EvalTimeline] = {}
    found = []
    with call.sources.store() as connection:
        names = suite_names(connection, call.tenant)
        keys = eval_keys(
            connection, _filter(connection, call.query), call.query.limit + 1, until_ns=until_ns, offset=offset
        )
        for key in keys[: call.query.limit]:
            if (pair := _eval_in_timeline(connection, call.tenant, key.id, names, timelines)) is not None:
                found.append(pair)
    shown = [_head(timeline, seen_by(call.caller, standing), names) for timeline, standing in found]
    return ExactJson({"runs": shown, "next": call.query.next_after([key.at_ns for key in keys])})


@router.operation("GET /tool-eval/history/{eval_id:path}", "One eval", WholeEval, 404)
def show_tool_eval(call: OfTenant, eval_id: PathName) -> ExactJson:
    """One eval with the averages of each model and the results of each case."""
    values = call.caller.may("read-values")
    prices = known_models(call.sources.config).prices
    with call.sources.store() as connection:
        names = suite_names(connection, call.tenant)
        timeline, standing = _known(_eval_in_timeline(connection, call.tenant, eval_id, names), eval_id)
        standing = seen_by(call.caller, standing)
        of_models: list[SuiteRun] = []
        for scored in standing.eval.runs:
            price = prices.get(str(scored.run.selection.get("model")))
            if scored.traces <= MOST_RESULTS and is_suite_run(scored.run):
                suite_run = suite_run_of(connection, scored.run, price)
                of_models += [] if suite_run is None else [suite_run]
    results = [item for suite_run in of_models for group in suite_run.cases for item in group.results]
    return ExactJson(
        {
            **_head(timeline, standing, names),
            "summary": [suite_run.summary.to_json() for suite_run in of_models],
            "results": [_result(item, values) for item in results],
            "hints": {suite_run.summary.model: [*suite_run.hints] for suite_run in of_models if suite_run.hints},
        }
    )


@router.operation("DELETE /tool-eval/history/{eval_id:path}", "Delete an eval", DeletedEval, 404, 409, right="admin")
def delete_tool_eval(call: OfForced, eval_id: PathName) -> ExactJson:
    """Deletes an eval that has ended: its job, its runs and their traces."""
    url = call.store_url
    with call.sources.store() as connection:
        job = stored_job(connection, call.tenant, eval_id)
        found = None if job is not None else _known(known_eval(connection, call.tenant, eval_id), eval_id)
    traces = 0
    if found is not None and found.entry is not None:
        delete_promoted(url, found.entry, force=call.query.force)
    elif job is not None:
        traces = delete_with_runs(url, call.tenant, eval_id, force=call.query.force)
    elif found is not None:
        traces = sum(
            delete_stored_run(url, call.tenant, scored.run.name, force=call.query.force) for scored in found.runs
        )
    return ExactJson({"deleted": 1, "traces_deleted": traces})


@router.operation(
    "POST /experiments/{experiment_id}/run-best",
    "Run the best configuration of an experiment",
    BestJob,
    404,
    409,
    right="run",
    status=202,
)
def run_best_of_tool_experiment(
    call: OfTenant, experiment_id: ExperimentName, sent: Annotated[SentBest | None, Body()] = None
) -> ExactJson:
    """Queues a run of the experiment's suite with its best configuration, with other models if they are sent."""
    models = [] if sent is None else sent.keys
    if sent is not None:
        _check_targets(call.sources, sent)
    with call.sources.store() as connection:
        experiment = experiment_called(connection, call.tenant, "experiment_id", unquote(experiment_id))
        asked = best_request(connection, call.tenant, experiment.name, models)
    job = submit(call.sources.config, call.tenant, call.caller.owner, asked)
    request_seen = seen_by(call.caller, job).request
    used = {key: value for key, value in request_seen.items() if value not in (None, {}) and key != "experiment"}
    return ExactJson({**_submitted(call.sources, job), "config_used": used}, 202)


def _named(connection: Connection, tenant: str, id_or_name: str) -> str:
    """The name of the experiment that a caller sent the id or the name of; raises `NotFound`."""
    try:
        return experiment_called(connection, tenant, "experiment_id", id_or_name).name
    except NotFound:
        raise NotFound(
            f"experiment_id: no experiment {id_or_name[:200]!r}; 'POST /api/experiments' makes one"
        ) from None


def _submitted(sources: Sources, job: Job) -> dict[str, Any]:
    """A job that was queued, and what its eval will be measured against."""
    with sources.store() as connection:
        found = eval_timeline(connection, known_experiment(connection, job.tenant, job.request["experiment"]))
    return {
        "job_id": job.id,
        "status": word_of(job.state),
        "experiment_id": found.experiment.id,
        "baseline_eval_id": baseline_of(found)["baseline_eval_id"],
    }


def _filter(connection: Connection, query: HistoryQuery) -> EvalFilter:
    """What the query asks for, in words of the store; raises `NotFound` for an experiment that is not there."""
    word, experiment = query.status, query.experiment_id
    return EvalFilter(
        query.tenant,
        suite=query.suite_id,
        experiment=None if experiment is None else _named(connection, query.tenant, experiment),
        model=query.model,
        job_states=None if word is None else [state for state in STATES if word_of(state) == word],
        run_states=None if word is None else [state for state, known in _WORDS.items() if known == word],
        reported=word in (None, "done"),
        since_ns=query.since,
        until_ns=query.until,
    )


def _eval_in_timeline(
    connection: Connection,
    tenant: str,
    eval_id: str,
    names: Mapping[str, str],
    timelines: dict[str, EvalTimeline] | None = None,
) -> tuple[EvalTimeline, EvalStanding] | None:
    """An eval, and the timeline of its experiment, which is kept in `timelines`; None where there is no such eval."""
    timelines = {} if timelines is None else timelines
    found = known_eval(connection, tenant, eval_id)
    if found is None:
        job = stored_job(connection, tenant, eval_id)
        return None if job is None or job.runs else _without_runs(connection, job, names)
    name = experiment_of(found)
    if name not in timelines:
        timelines[name] = eval_timeline(connection, known_experiment(connection, tenant, name))
    standing = timelines[name].standing(eval_id)
    return None if standing is None else (timelines[name], standing)


def _without_runs(connection: Connection, job: Job, names: Mapping[str, str]) -> tuple[EvalTimeline, EvalStanding]:
    """The eval of a job that has stored nothing; without an experiment, it gets that of the suite's name."""
    suite = str(job.request.get("suite"))
    return eval_without_runs(connection, job, job.request.get("experiment") or rule_id_of(names.get(suite, suite)))


def _known(found: Found | None, eval_id: str) -> Found:
    if found is None:
        raise NotFound(f"no eval {eval_id[:200]!r}, or none any more")
    return found


def _head(timeline: EvalTimeline, standing: EvalStanding, names: Mapping[str, str]) -> dict[str, Any]:
    item, experiment = standing.eval, timeline.experiment
    rule = item.runs[0].run.selection.get("suite", "") if item.runs else ""
    called = names.get(item.suite or "", rule)  # of a file, as its rule
    return EvalDocument.json_of(
        item,
        eval_id=item.id,
        job_id=None if item.job is None else item.job.id,
        status=_status(item),
        reported=item.entry is not None,
        suite_id=item.suite,
        suite_name=str(called),
        experiment_id=experiment.id or None,
        models=[str(model) for model in item.models],
        avg_score=item.score,
        delta=standing.delta,
        delta_note=standing.delta_note,
        **baseline_of(timeline),
        is_baseline=standing.is_baseline,
        timestamp=time_in_json(item.begun_ns),
        runs=[
            EvalRunDocument.json_of(
                scored, run=scored.run.name, model=scored.run.selection.get("model"), state=scored.run.state
            )
            for scored in item.runs
        ],
    )


def _status(item: Eval) -> Word:
    if item.entry is not None:
        return "done"
    if item.job is not None:
        return word_of(item.job.state)
    words = {_WORDS[scored.run.state] for scored in item.runs}
    return next(word for word in ("running", "failed", "done") if word in words)


def _result(item: CaseResult, values: bool) -> dict[str, Any]:
    return {
        **_WITHOUT_VALUES,
        "model": item.model,
        **scores_of(item),
        "latency_ms": round(item.latency_s * 1000),
        "input_tokens": item.input_tokens,
        "output_tokens": item.output_tokens,
        "cost": item.cost,
        **(values_of(item) if values else {}),
    }


def _check_targets(sources: Sources, sent: SentModels) -> None:
    """Refuse a target that is in no file of models, by its place; what `models` names is refused when it is submitted.

    Raises:
        WrongValue: naming the target.
    """
    known = known_models(sources.config)
    for place, target in enumerate(sent.targets if not known.problem else ()):
        chosen_models(known.targets, [target.key], f"targets.{place}: provider_key, model_id")
