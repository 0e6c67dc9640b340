"""Experiments as clients of other systems for tool-calling evaluation use them: evals and tunes against a baseline."""

from datetime import UTC, datetime
from typing import Annotated, Any, TypeAlias
from urllib.parse import unquote

from fastapi import Body, Path
from pydantic import Field
from sqlalchemy import Connection

from tracegrade.history.runs.experiment_entries import report
from tracegrade.history.runs.experiments import EntryStanding, experiment_called, known_experiment
from tracegrade.history.runs.run_changes import delete_with_runs
from tracegrade.store.runs import Entry, Experiment, stored_experiments
from tracegrade.suites.runs.evals import Eval, EvalStanding, EvalTimeline, eval_timeline
from tracegrade.suites.runs.experiments import change_experiment, delete_experiment_alone, make_experiment, pin_eval
from tracegrade.suites.store.suites import suite_heads
from tracegrade.suites.web.api.experiment_documents import (
    BestDocument,
    DeletedExperiment,
    NewEntries,
    PinnedBaseline,
    SentBaseline,
    SentChange,
    SentEntry,
    SentExperiment,
    TimelineEntry,
    ToolExperiment,
    ToolExperiments,
    ToolTimeline,
)
from tracegrade.web.api.documents import ExactJson
from tracegrade.web.api.operations import Operations
from tracegrade.web.api.parameters import (
    ApiCall,
    OfTenant,
    Stretch,
    TenantQuery,
    in_tenant,
)
from tracegrade.web.masked import seen_by

# In one segment of the address as it was sent: `web.api.app` takes it apart before it is decoded.
ExperimentName: TypeAlias = Annotated[
    str,
    Path(description="Its id, or its name, percent-encoded", min_length=1, max_length=1000, pattern=r"^[^\n\x00]+$"),
]


class DeletionQuery(TenantQuery):
    """What is deleted."""

    runs: bool = Field(False, description="Delete its runs and their traces, too")
    force: bool = Field(False, description="Also what another experiment has pinned as its baseline")


router = Operations(503)


@router.operation("GET /experiments", "Experiments", ToolExperiments)
def list_tool_experiments(call: Annotated[ApiCall[Stretch], in_tenant(Stretch)]) -> ExactJson:
    """Experiments, in the order in which they were made."""
    since_ns, offset = call.query.place
    with call.sources.store() as connection:
        names = suite_names(connection, call.tenant)
        found = stored_experiments(
            connection, call.tenant, limit=call.query.limit + 1, since_ns=since_ns or 0, offset=offset
        )
        shown = [
            _document(seen_by(call.caller, eval_timeline(connection, item)), names)
            for item in found[: call.query.limit]
        ]
    return ExactJson({"experiments": shown, "next": call.query.next_after([item.begun_ns for item in found])})


@router.operation("POST /experiments", "Make an experiment", ToolExperiment, 404, 409, right="run", status=201)
def create_tool_experiment(call: OfTenant, sent: Annotated[SentExperiment, Body()]) -> ExactJson:
    """Makes an experiment, about a stored suite or none, which has no runs yet."""
    name = sent.name.strip()
    make_experiment(
        call.store_url,
        call.tenant,
        name,
        suite=sent.suite_id,
        description=sent.description,
        baseline=sent.baseline_eval_id,
    )
    return _timeline_answer(call, name, 201)


@router.operation(
    "PUT /experiments/{experiment_id}/baseline",
    "Pin the baseline of an experiment",
    PinnedBaseline,
    404,
    409,
    right="run",
)
def pin_tool_baseline(
    call: OfTenant, experiment_id: ExperimentName, sent: Annotated[SentBaseline, Body()]
) -> ExactJson:
    """Pins an eval as the reference point; null: the first complete one."""
    experiment = called(call, experiment_id)
    pin_eval(call.store_url, call.tenant, experiment.name, sent.eval_id)
    return ExactJson({"experiment_id": experiment.id, **baseline_of(_timeline(call, experiment.name))})


@router.operation("GET /experiments/{experiment_id}/timeline", "The timeline of an experiment", ToolTimeline, 404)
def show_tool_timeline(call: OfTenant, experiment_id: ExperimentName) -> ExactJson:
    """Every eval and every reported entry, in the order of time, against the baseline."""
    found = seen_by(call.caller, _timeline(call, called(call, experiment_id).name))
    baseline, best = found.baseline, found.best
    return ExactJson(
        {
            "experiment_id": found.experiment.id,
            "experiment_name": found.experiment.name,
            "baseline": None if baseline is None else {"eval_id": baseline.id, "score": baseline.score},
            "best": None if best is None else _best(best),
            "entries": [_entry(item) for item in found.in_order],
        }
    )


@router.operation(
    "POST /experiments/{experiment_id}/timeline",
    "Report what another tool found",
    NewEntries,
    404,
    409,
    right="run",
    status=201,
)
def report_to_tool_timeline(
    call: OfTenant, experiment_id: ExperimentName, sent: Annotated[SentEntry, Body()]
) -> ExactJson:
    """Adds the end of a tune, or of a judge, to the timeline; the best result of a tune is promoted to an eval."""
    name = called(call, experiment_id).name
    made = {entry.id for entry in report(call.store_url, call.tenant, name, sent.type, sent.score, sent.configuration)}
    found = seen_by(call.caller, _timeline(call, name))
    return ExactJson({"entries": [_entry(item) for item in found.entries if item.entry.id in made]}, 201)


@router.operation("GET /experiments/{experiment_id}", "One experiment", ToolExperiment, 404)
def show_tool_experiment(call: OfTenant, experiment_id: ExperimentName) -> ExactJson:
    """An experiment with its baseline and its best configuration."""
    return _timeline_answer(call, called(call, experiment_id).name)


@router.operation("PUT /experiments/{experiment_id}", "Change an experiment", ToolExperiment, 404, 409, right="run")
def update_tool_experiment(
    call: OfTenant, experiment_id: ExperimentName, sent: Annotated[SentChange, Body()]
) -> ExactJson:
    """Changes name and description; what is left out stays, and so does the id. Runs keep their names."""
    new_name = None if sent.name is None else sent.name.strip()
    name = change_experiment(
        call.store_url,
        call.tenant,
        called(call, experiment_id).name,
        new_name=new_name,
        description=sent.description,
    )
    return _timeline_answer(call, name)


@router.operation(
    "DELETE /experiments/{experiment_id}", "Delete an experiment", DeletedExperiment, 404, 409, right="admin"
)
def delete_tool_experiment(
    call: Annotated[ApiCall[DeletionQuery], in_tenant(DeletionQuery)], experiment_id: ExperimentName
) -> ExactJson:
    """Deletes an experiment with what other tools reported; its evals go into the own experiments of their suites.

    They keep their ids and the names of their runs. With `runs=true`, its runs and their traces are deleted. Without
    it, one that holds runs of no stored suite is refused. It is refused while a job or `replay` writes it, too.
    """
    name, url = called(call, experiment_id).name, call.store_url
    delete = delete_with_runs if call.query.runs else delete_experiment_alone
    done = delete(url, call.tenant, name, force=call.query.force)
    counts = {"runs_deleted": done.runs, "runs_kept": done.runs_kept, "evals_kept": done.evals_kept}
    return ExactJson({"deleted": 1, "traces_deleted": done.traces, **counts})


def called(call: ApiCall[Any], written: str) -> Experiment:
    """The experiment that an address names, by its id or its name; no name holds a percent sign.

    Raises:
        NotFound: there is none.
        WrongValue: it can be neither.
    """
    with call.sources.store() as connection:
        return experiment_called(connection, call.tenant, "experiment_id", unquote(written))


def _timeline_answer(call: ApiCall[Any], name: str, status: int = 200) -> ExactJson:
    with call.sources.store() as connection:
        found = eval_timeline(connection, known_experiment(connection, call.tenant, name))
        names = suite_names(connection, call.tenant)
    return ExactJson(_document(seen_by(call.caller, found), names), status)


def _timeline(call: ApiCall[Any], name: str) -> EvalTimeline:
    with call.sources.store() as connection:
        return eval_timeline(connection, known_experiment(connection, call.tenant, name))


def suite_names(connection: Connection, tenant: str) -> dict[str, str]:
    """The names of stored suites, by id."""
    return {head.id: head.name for head in suite_heads(connection, tenant)}


def time_in_json(time_ns: int) -> str:
    """A time as RFC 3339."""
    return datetime.fromtimestamp(time_ns / 1e9, UTC).isoformat(timespec="milliseconds")


def baseline_of(found: EvalTimeline) -> dict[str, Any]:
    """The eval that the others are measured against, and its score."""
    baseline = found.baseline
    return {
        "baseline_eval_id": None if baseline is None else baseline.id,
        "baseline_score": None if baseline is None else baseline.score,
    }


def _document(found: EvalTimeline, suite_names: dict[str, str]) -> dict[str, Any]:
    experiment, best = found.experiment, {} if found.best is None else _best(found.best)
    return ToolExperiment.json_of(
        experiment,
        experiment_id=experiment.id,
        description=experiment.description or "",
        suite_id=experiment.suite,
        suite_name=suite_names.get(experiment.suite or ""),
        created_ns=experiment.begun_ns,
        **baseline_of(found),
        pinned=experiment.baseline is not None or experiment.baseline_entry is not None,
        **{f"best_{name}": best.get(name) for name in BestDocument.model_fields},
        evals=[standing.eval.id for standing in found.evals],
    )


def _best(item: EvalStanding | EntryStanding) -> dict[str, Any]:
    entry = _entry(item)
    return {
        "score": entry["score"],
        "source": entry["type"],
        "source_id": entry["id"],
        "config": entry["configuration"],
    }


def _entry(item: EvalStanding | EntryStanding) -> dict[str, Any]:
    """What a timeline shows of an eval, or of what another tool reported."""
    own: dict[str, Any]
    if isinstance(item, EvalStanding):
        found: Eval | Entry = item.eval
        own = {"type": "eval", "at_ns": item.eval.begun_ns, "delta_note": item.delta_note, "promoted_from": None}
        own["runs"] = [scored.run.name for scored in item.eval.runs]
    else:
        found = item.entry
        own = {"type": found.kind, "at_ns": found.at_ns, "delta_note": None, "promoted_from": found.promoted_from}
        own["runs"] = []
    return TimelineEntry.json_of(
        item,
        id=found.id,
        timestamp=time_in_json(own["at_ns"]),
        score=found.score,
        config_summary=item.summary,
        configuration=found.configuration,
        **own,
    )
