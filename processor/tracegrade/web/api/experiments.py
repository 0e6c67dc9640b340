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
    ApiCaller,
    ApiSources,
    ForcedQuery,
    Name,
    OfForced,
    OfTenant,
    PathName,
    TenantQuery,
    in_tenant,
)
from tracegrade.web.masked import seen_by
from tracegrade.web.sources import Sources

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
def list_experiments(sources: ApiSources, caller: ApiCaller, query: OfTenant) -> ExactJson:
    """Every experiment, as `tracegrade experiments list` shows them."""
    with sources.store() as connection:
        found = [timeline(connection, item) for item in stored_experiments(connection, query.tenant)]
    return ExactJson({"items": [seen_by(caller, item).to_json() for item in found]})


@router.operation("GET /experiments/{experiment:path}", "One experiment", ExperimentDocument, 404)
def show_experiment(sources: ApiSources, caller: ApiCaller, experiment: PathName, query: OfTenant) -> ExactJson:
    """One experiment: its runs, which is the baseline, and which the best."""
    return ExactJson(seen_by(caller, _timeline(sources, query.tenant, experiment)).to_json())


@router.operation(
    "PATCH /experiments/{experiment:path}",
    "Pin the baseline of an experiment",
    ExperimentDocument,
    404,
    409,
    right="run",
)
def change_experiment(
    sources: ApiSources, caller: ApiCaller, experiment: PathName, query: OfTenant, change: ExperimentChange
) -> ExactJson:
    """Pins a run as the baseline, which must be complete and have a score; or pins none."""
    pin(sources.config.store_url, query.tenant, experiment, change.baseline)
    return ExactJson(seen_by(caller, _timeline(sources, query.tenant, experiment)).to_json())


@router.operation(
    "DELETE /experiments/{experiment:path}",
    "Delete an experiment with all its runs",
    DeletedExperiment,
    404,
    409,
    right="admin",
)
def delete_experiment(
    sources: ApiSources, experiment: PathName, query: Annotated[DeletionQuery, in_tenant(DeletionQuery)]
) -> ExactJson:
    """Deletes an experiment with everything that is stored of its runs; what was judged live stays.

    With `keep_runs=true`, its runs go into the own experiments of their suites instead, and one that holds runs of no
    stored suite is refused. It is refused while a job or `replay` writes it, too.
    """
    delete = needed("suites", "delete_experiment_alone", "keep_runs") if query.keep_runs else delete_with_runs
    done = delete(sources.config.store_url, query.tenant, experiment, force=query.force)
    return ExactJson({"deleted": done.traces, "runs_deleted": done.runs, "runs_kept": done.runs_kept})


@router.operation("GET /runs", "The runs of an experiment", Runs, 404)
def list_runs(sources: ApiSources, caller: ApiCaller, query: Annotated[RunsQuery, in_tenant(RunsQuery)]) -> ExactJson:
    """Every run of an experiment against its baseline, as `tracegrade experiments timeline` shows them."""
    found = seen_by(caller, _timeline(sources, query.tenant, query.experiment))
    return ExactJson({"items": [standing.to_json() for standing in found.standings]})


@router.operation("GET /runs/{run:path}", "One run", StoredRunDocument, 404)
def show_run(sources: ApiSources, caller: ApiCaller, run: PathName, query: OfTenant) -> ExactJson:
    """One run: every rule, and how it stands in its experiment."""
    return ExactJson(seen_by(caller, _standing(sources, query.tenant, run)).to_json())


@router.operation("PATCH /runs/{run:path}", "Change the labels of a run", StoredRunDocument, 404, 409, right="run")
def change_run(sources: ApiSources, caller: ApiCaller, run: PathName, query: OfTenant, change: RunChange) -> ExactJson:
    """Gives a complete run other labels."""
    label(sources.config.store_url, query.tenant, run, change.labels)
    return ExactJson(seen_by(caller, _standing(sources, query.tenant, run)).to_json())


@router.operation("DELETE /runs/{run:path}", "Delete a run", DeletedRuns, 404, 409, right="admin")
def delete_run(sources: ApiSources, run: PathName, query: OfForced) -> ExactJson:
    """Deletes a run with everything that is stored of it; what was judged live stays. Not while it is written."""
    return ExactJson({"deleted": delete_stored_run(sources.config.store_url, query.tenant, run, force=query.force)})


def _timeline(sources: Sources, tenant: str, experiment: str) -> Timeline:
    with sources.store() as connection:
        return timeline(connection, known_experiment(connection, tenant, experiment))


def _standing(sources: Sources, tenant: str, name: str) -> Standing:
    with sources.store() as connection:
        run = known_run(connection, tenant, name)
        found = timeline(connection, known_experiment(connection, tenant, run.experiment))
    return found.standing(name)
