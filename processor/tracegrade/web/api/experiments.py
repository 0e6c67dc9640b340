"""Experiments and their runs, as `replay --experiment` stores them."""

from typing import Annotated, Any

from pydantic import Field

from tracegrade.history.runs.experiments import Standing, Timeline, known_experiment, known_run, timeline
from tracegrade.history.runs.run_changes import (
    LONGEST_VALUE,
    MOST_LABELS,
    delete_stored_run,
    delete_with_runs,
    label,
    pin,
)
from tracegrade.part import needed
from tracegrade.store.runs import State, stored_experiments
from tracegrade.web.api.documents import Document, ExactJson, SentDocument, SentId
from tracegrade.web.api.operations import Operations
from tracegrade.web.api.parameters import (
    ApiCall,
    ForcedQuery,
    Name,
    OfForced,
    OfTenant,
    PathName,
    TenantQuery,
    in_tenant,
)
from tracegrade.web.masked import seen_by

router = Operations(503)


class RunsQuery(TenantQuery):
    """Which runs."""

    experiment: Name = Field(description="Only of this experiment")


class ExperimentDocument(Document):
    """One experiment; `runs` in the order in which they were begun."""

    tenant: str
    experiment: str
    begun_ns: int
    baseline: str | None = Field(description="The run that the others are measured against")
    baseline_entry: str | None = Field(description="The reported eval that is pinned in place of a run")
    best: str | None = Field(description="The first run with the highest score")
    pinned: bool = Field(description="Whether the baseline is pinned; else it is the first complete run with a score")
    baseline_note: str | None = Field(description="What became of the baseline that was pinned, if it was deleted")
    runs: list[str]


class Experiments(Document):
    """In the order in which they were begun."""

    items: list[ExperimentDocument]


class RunRuleDocument(Document):
    """What one rule found in a run; `hash` is null where the run does not say it."""

    hash: str | None
    pass_rate: float | None
    mean_overall: float | None = Field(description="Of a suite, the mean overall score of its cases")
    passed: int = Field(alias="pass")
    fail: int
    not_evaluable: int
    error: int
    incomplete: int


class StoredRunDocument(Document):
    """One run: how it did within its experiment, and what it was made of."""

    tenant: str
    run: str
    experiment: str
    state: State
    problem: str
    gate: str | None
    begun_ns: int
    written_ns: int
    traces: int
    traces_kept: bool = Field(description="false when retention has deleted its traces; what was counted stays")
    score: float | None = Field(description="The mean of the scores of its rules, rounded to 4 digits")
    rules: dict[str, RunRuleDocument]
    rule_set_hash: str
    judgement_hash: str
    settings_hash: str
    labels: dict[str, str]
    releases: list[str]
    prompt_hash: str | None
    prompt_count: int
    source: str
    selection: dict[str, Any]
    tracegrade: str
    git_revision: str | None
    delta: float | None = Field(description="The score less that of the baseline")
    delta_note: str | None = Field(description="Why there is no delta where the baseline is of another stored suite")
    is_baseline: bool
    is_best: bool = Field(description="Whether it was better than every run before it")
    other_rules: list[str] = Field(description="Rules that judged otherwise than in the baseline, or one of the two")


class Runs(Document):
    """In the order in which they were begun."""

    items: list[StoredRunDocument]


class ExperimentChange(SentDocument):
    """What is to be changed of an experiment."""

    baseline: SentId | None = Field(description="The run to pin; null: the first complete run with a score")


class RunChange(SentDocument):
    """What is to be changed of a run."""

    labels: dict[str, Annotated[str, Field(max_length=LONGEST_VALUE)]] = Field(
        description="In place of those it has", max_length=MOST_LABELS
    )


class DeletedRuns(Document):
    """What was deleted."""

    deleted: int = Field(description="How many stored traces and sessions")


class DeletedExperiment(DeletedRuns):
    """What was deleted of an experiment, and what was kept."""

    runs_deleted: int
    runs_kept: int


class DeletionQuery(ForcedQuery):
    """What is deleted."""

    keep_runs: bool = Field(False, description="Keep its runs, in the own experiments of their suites")


@router.operation("GET /experiments", "Experiments", Experiments)
def list_experiments(call: OfTenant) -> ExactJson:
    """Every experiment, as `tracegrade experiments list` shows them."""
    with call.sources.store() as connection:
        found = [timeline(connection, item) for item in stored_experiments(connection, call.tenant)]
    return ExactJson({"items": [seen_by(call.caller, item).to_json() for item in found]})


@router.operation("GET /experiments/{experiment:path}", "One experiment", ExperimentDocument, 404)
def show_experiment(call: OfTenant, experiment: PathName) -> ExactJson:
    """One experiment: its runs, which is the baseline, and which the best."""
    return ExactJson(seen_by(call.caller, _timeline(call, experiment)).to_json())


@router.operation(
    "PATCH /experiments/{experiment:path}",
    "Pin the baseline of an experiment",
    ExperimentDocument,
    404,
    409,
    right="run",
)
def change_experiment(call: OfTenant, experiment: PathName, change: ExperimentChange) -> ExactJson:
    """Pins a run as the baseline, which must be complete and have a score; or pins none."""
    pin(call.store_url, call.tenant, experiment, change.baseline)
    return ExactJson(seen_by(call.caller, _timeline(call, experiment)).to_json())


@router.operation(
    "DELETE /experiments/{experiment:path}",
    "Delete an experiment with all its runs",
    DeletedExperiment,
    404,
    409,
    right="admin",
)
def delete_experiment(
    call: Annotated[ApiCall[DeletionQuery], in_tenant(DeletionQuery)], experiment: PathName
) -> ExactJson:
    """Deletes an experiment with everything that is stored of its runs; what was judged live stays.

    With `keep_runs=true`, its runs go into the own experiments of their suites instead, and one that holds runs of no
    stored suite is refused. It is refused while a job or `replay` writes it, too.
    """
    delete = needed("suites", "delete_experiment_alone", "keep_runs") if call.query.keep_runs else delete_with_runs
    done = delete(call.store_url, call.tenant, experiment, force=call.query.force)
    return ExactJson({"deleted": done.traces, "runs_deleted": done.runs, "runs_kept": done.runs_kept})


@router.operation("GET /runs", "The runs of an experiment", Runs, 404)
def list_runs(call: Annotated[ApiCall[RunsQuery], in_tenant(RunsQuery)]) -> ExactJson:
    """Every run of an experiment against its baseline, as `tracegrade experiments timeline` shows them."""
    found = seen_by(call.caller, _timeline(call, call.query.experiment))
    return ExactJson({"items": [standing.to_json() for standing in found.standings]})


@router.operation("GET /runs/{run:path}", "One run", StoredRunDocument, 404)
def show_run(call: OfTenant, run: PathName) -> ExactJson:
    """One run: every rule, and how it stands in its experiment."""
    return ExactJson(seen_by(call.caller, _standing(call, run)).to_json())


@router.operation("PATCH /runs/{run:path}", "Change the labels of a run", StoredRunDocument, 404, 409, right="run")
def change_run(call: OfTenant, run: PathName, change: RunChange) -> ExactJson:
    """Gives a complete run other labels."""
    label(call.store_url, call.tenant, run, change.labels)
    return ExactJson(seen_by(call.caller, _standing(call, run)).to_json())


@router.operation("DELETE /runs/{run:path}", "Delete a run", DeletedRuns, 404, 409, right="admin")
def delete_run(call: OfForced, run: PathName) -> ExactJson:
    """Deletes a run with everything that is stored of it; what was judged live stays. Not while it is written."""
    return ExactJson({"deleted": delete_stored_run(call.store_url, call.tenant, run, force=call.query.force)})


def _timeline(call: ApiCall[Any], experiment: str) -> Timeline:
    with call.sources.store() as connection:
        return timeline(connection, known_experiment(connection, call.tenant, experiment))


def _standing(call: ApiCall[Any], name: str) -> Standing:
    with call.sources.store() as connection:
        run = known_run(connection, call.tenant, name)
        found = timeline(connection, known_experiment(connection, call.tenant, run.experiment))
    return found.standing(name)
