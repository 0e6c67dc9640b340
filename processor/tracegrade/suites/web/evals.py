"""Evals as pages show them: a job that runs a suite, and how the runs that it wrote stand in their experiments."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from tracegrade.access.caller import Caller
from tracegrade.config import Config
from tracegrade.history.runs.experiments import Standing, Timeline, timeline
from tracegrade.model.errors import TraceGradeError
from tracegrade.rule.prices import Price
from tracegrade.store.runs import Run, stored_experiment, stored_run, stored_runs
from tracegrade.suites.models.settings import Target, load_models
from tracegrade.suites.runs.cases import (
    MOST_RESULTS,
    CaseGroup,
    SuiteRun,
    in_order,
    is_suite_run,
    suite_run_of,
)
from tracegrade.suites.settings import suites_settings
from tracegrade.suites.store.jobs import Job, stored_jobs
from tracegrade.suites.store.suites import suite_heads
from tracegrade.web.masked import seen_by


@dataclass(frozen=True, slots=True)
class KnownModels:
    """The models of the file that the setting ``suites.models`` names; ``problem`` says why there are none."""

    path: str
    targets: Sequence[Target] = ()
    problem: str = ""

    @property
    def keys(self) -> list[str]:
        """Their names, ``provider::model``."""
        return [target.key for target in self.targets]

    @property
    def prices(self) -> Mapping[str, Price | None]:
        """What tokens of each cost, by its key."""
        return {target.key: target.price for target in self.targets}


def known_models(config: Config) -> KnownModels:
    """The models that can be asked now; the file is read each time, so that a change counts at once."""
    path = suites_settings(config).models
    try:
        return KnownModels(path, load_models(Path(path), config.traces.prices))
    except TraceGradeError as error:
        return KnownModels(path, problem=str(error))


def price_of(config: Config, run: Run) -> Price | None:
    """What tokens of the model of a run of a suite cost now, if the file of models says it."""
    return known_models(config).prices.get(str(run.selection.get("model")))


@dataclass(frozen=True, slots=True)
class Eval:
    """A job with the name of its suite, and the standing of each run that it wrote and that is stored."""

    job: Job
    state: str
    suite_name: str
    standings: Sequence[Standing]

    @property
    def experiments(self) -> list[str]:
        """The experiments of its runs: one, unless somebody renamed it meanwhile."""
        return list(dict.fromkeys(standing.scored.run.experiment for standing in self.standings))


def evals_of(connection: Connection, tenant: str, jobs: Iterable[Job], now_ns: int) -> list[Eval]:
    """Each of these jobs of a tenant with what became of it."""
    names = {head.id: head.name for head in suite_heads(connection, tenant)}
    timelines: dict[str, Timeline | None] = {}
    found = []
    for job in jobs:
        standings = [
            standing for name in job.runs if (standing := _standing(connection, tenant, name, timelines)) is not None
        ]
        id_ = str(job.request.get("suite", ""))
        suite = names.get(id_) or next((str(item.scored.run.selection.get("suite")) for item in standings), id_)
        found.append(Eval(job, job.state_at(now_ns), suite, standings))
    return found


def _standing(connection: Connection, tenant: str, name: str, timelines: dict[str, Timeline | None]) -> Standing | None:
    run = stored_run(connection, tenant, name)
    if run is None:
        return None
    if run.experiment not in timelines:
        experiment = stored_experiment(connection, tenant, run.experiment)
        timelines[run.experiment] = None if experiment is None else timeline(connection, experiment)
    found = timelines[run.experiment]
    return None if found is None else found.standing(name)


def runs_without_job(connection: Connection, tenant: str, most: int) -> list[Standing]:
    """How the last runs of suites stand that no job wrote, but ``suite run``; the newest first."""
    of_jobs = {name for job in stored_jobs(connection, tenant) for name in job.runs}
    own = [run for run in stored_runs(connection, tenant) if is_suite_run(run) and run.name not in of_jobs]
    timelines: dict[str, Timeline | None] = {}
    found = (_standing(connection, tenant, run.name, timelines) for run in reversed(own[-most:]))
    return [standing for standing in found if standing is not None]


@dataclass(frozen=True, slots=True)
class ModelResult:
    """What a model did in an eval; ``suite_run`` is None while nothing of it is stored."""

    model: str
    standing: Standing | None
    suite_run: SuiteRun | None


@dataclass(frozen=True, slots=True)
class Results:
    """What is stored of an eval so far: each model's averages, and each case beside the models in their order."""

    models: Sequence[ModelResult] = ()
    cases: Sequence[tuple[CaseGroup, Sequence[CaseGroup | None]]] = ()
    hints: Mapping[str, Sequence[str]] = field(default_factory=dict)
    too_many: bool = False


def results_of(connection: Connection, item: Eval, prices: Mapping[str, Price | None], caller: Caller) -> Results:
    """What is stored of `item`; `prices` are by model."""
    by_model: dict[str, Standing] = {
        str(standing.scored.run.selection.get("model")): standing for standing in item.standings
    }
    if sum(standing.scored.traces for standing in item.standings) > MOST_RESULTS:
        models = [ModelResult(key, by_model.get(key), None) for key in _models(item.job.request, by_model)]
        return Results(models, too_many=True)
    found = []
    for key in _models(item.job.request, by_model):
        standing = by_model.get(key)
        run = None if standing is None or not is_suite_run(standing.scored.run) else standing.scored.run
        suite_run = None if run is None else suite_run_of(connection, run, prices.get(key))
        found.append(ModelResult(key, standing, None if suite_run is None else seen_by(caller, suite_run)))
    groups = [{group.case: group for group in item.suite_run.cases} if item.suite_run else {} for item in found]
    cases = sorted({case for of_model in groups for case in of_model}, key=in_order)
    rows = []
    for case in cases:
        of_case = [of_model.get(case) for of_model in groups]
        rows.append((next(group for group in of_case if group is not None), of_case))
    hints = {item.model: item.suite_run.hints for item in found if item.suite_run and item.suite_run.hints}
    return Results(found, rows, hints)


def _models(request: Mapping[str, Any], by_model: Mapping[str, Standing]) -> list[str]:
    return list(dict.fromkeys([*map(str, request.get("models", ())), *by_model]))
