"""Evals: what one request to run a suite stored, a run for each model, measured against the eval that is the baseline.

The eval of a job has the job's id; a run that no job made is an eval of its own, with the run's name as its id. The
best result of a tune that another tool reported is an eval, too, with the id of its entry and without runs. The
score of an eval is the mean of the scores of its complete runs. The baseline is the eval of the run that is the
experiment's baseline, and the best is the first with the highest score among evals and tunes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from sqlalchemy import Connection

from tracegrade.history.runs.experiments import (
    EntryStanding,
    ScoredRun,
    configuration_text,
    delta_of,
    entry_standings,
    new_bests,
    other_suite_note,
    scored_run,
    timeline,
)
from tracegrade.model.json_value import JsonValue
from tracegrade.store.runs import (
    PROMOTED,
    TUNES,
    Entry,
    Experiment,
    Run,
    promoted_entry,
    runs_of_eval,
    stored_experiment,
    stored_run,
    stored_runs,
)
from tracegrade.suites.models.settings import SEPARATOR
from tracegrade.suites.runs.cases import is_suite_run
from tracegrade.suites.store.jobs import Job, stored_job

_DIGITS = 4
_ASKED = ("models", "temperature", "tool_choice", "system_prompt", "repeat")


@dataclass(frozen=True, slots=True)
class Eval:
    """One eval; ``job`` is None for one that was made on the command line.

    ``entry`` is what another tool reported, ``about`` the suite of the experiment that it is in; None of all others.
    """

    id: str
    runs: Sequence[ScoredRun]
    job: Job | None
    entry: Entry | None = None
    about: str | None = None

    @property
    def score(self) -> float | None:
        """The mean of the scores of its complete runs, rounded to 4 digits; None without one."""
        if self.entry is not None:
            return self.entry.score
        known = [item.score for item in self.runs if item.run.state == "complete" and item.score is not None]
        return round(fmean(known), _DIGITS) if known else None

    @property
    def error(self) -> str | None:
        """What ended it, if it failed or a run of it did; None otherwise."""
        said = self.job.message if self.job is not None and self.job.state == "failed" else ""
        of_runs = (item.run.problem for item in self.runs if item.run.state == "failed")
        return said or next((problem for problem in of_runs if problem), None)

    @property
    def begun_ns(self) -> int:
        """When it was begun; of a job without runs, when it was submitted."""
        if self.entry is not None:
            return self.entry.at_ns
        if self.job is not None and not self.runs:
            return self.job.created_ns
        return min(item.run.begun_ns for item in self.runs)

    @property
    def models(self) -> list[JsonValue]:
        """What was asked, or is to be."""
        if self.job is not None:
            return [*self.job.request.get("models", ())]
        if self.entry is not None:
            return [*model_keys(self.entry.configuration)]
        return [item.run.selection["model"] for item in self.runs if "model" in item.run.selection]

    @property
    def system_prompt_hash(self) -> str:
        """Of one that no job made, the hash of its system prompt, which is not stored; "" where it had none."""
        return "" if not self.runs or self.job is not None else str(self.runs[0].run.selection.get("system_prompt", ""))

    @property
    def configuration(self) -> dict[str, JsonValue]:
        """How models were asked; of runs that asked none, their labels."""
        if self.job is not None:
            request = self.job.request
            return {key: request[key] for key in _ASKED if request.get(key) is not None}
        if self.entry is not None:
            return dict(self.entry.configuration)
        run = self.runs[0].run
        if not is_suite_run(run):
            return dict(run.labels)
        known = {key: run.selection[key] for key in _ASKED if key in run.selection and key != "system_prompt"}
        return {"models": self.models, **known}

    @property
    def suite(self) -> str | None:
        """The id of the stored suite that was run; None where it was a file, or no suite."""
        if self.job is not None:
            return self.job.request.get("suite")
        return self.runs[0].run.suite if self.runs else self.about


@dataclass(frozen=True, slots=True)
class EvalStanding:
    """An eval within its experiment; ``delta`` is its score less that of the baseline, None where one has none.

    One of another suite than the baseline's has no delta and is never best; ``delta_note`` says so.
    """

    eval: Eval
    delta: float | None
    is_baseline: bool
    is_best: bool
    delta_note: str | None = None

    @property
    def summary(self) -> str:
        """Its configuration in one line."""
        return configuration_text(self.eval.configuration)


@dataclass(frozen=True, slots=True)
class EvalTimeline:
    """An experiment with its evals and entries, each in the order of time; the last with ``is_best`` is the best.

    ``baseline`` is the eval that the others are measured against; it may be one of another experiment. ``about`` is the
    suite that the experiment is about.
    """

    experiment: Experiment
    evals: Sequence[EvalStanding]
    entries: Sequence[EntryStanding]
    baseline: Eval | None
    about: str | None = None

    @property
    def best(self) -> EvalStanding | EntryStanding | None:
        """The best eval or tune; None where none has a score."""
        return next((item for item in reversed(self.in_order) if item.is_best), None)

    @property
    def in_order(self) -> list[EvalStanding | EntryStanding]:
        """All evals and entries in the order of time."""
        return sorted([*self.evals, *self.entries], key=_time_of)

    def standing(self, id_: str) -> EvalStanding | None:
        """The eval with this id, also one that was reported; None without one."""
        reported = (
            EvalStanding(_reported(item.entry, self.about), item.delta, item.is_baseline, is_best=False)
            for item in self.entries
            if item.entry.kind == PROMOTED
        )
        return next((standing for standing in (*self.evals, *reported) if standing.eval.id == id_), None)


def eval_timeline(connection: Connection, experiment: Experiment) -> EvalTimeline:
    """The evals of `experiment`, and what other tools reported."""
    found = timeline(connection, experiment)
    evals = grouped(connection, experiment.tenant, [standing.scored for standing in found.standings])
    pinned = None if found.baseline is None else found.baseline.scored.run.name
    baseline = next((item for item in evals if pinned in {scored.run.name for scored in item.runs}), None)
    if baseline is None and pinned is not None:
        baseline = eval_of_run(connection, experiment.tenant, pinned)
    if found.reported is not None:
        baseline = known_eval(connection, experiment.tenant, found.reported.id)
    score = None if baseline is None else baseline.score
    notes = [None if baseline is None else other_suite_note(item.suite, baseline.suite) for item in evals]
    scores = [(item.begun_ns, item.score if note is None else None) for item, note in zip(evals, notes, strict=True)]
    entries = [standing.entry for standing in found.entries]
    tunes = [(entry.at_ns, entry.score) for entry in entries if entry.kind in TUNES]
    are_best = new_bests([*scores, *tunes])[: len(evals)]
    standings = [
        EvalStanding(item, delta_of(item.score, score) if note is None else None, item is baseline, is_best, note)
        for item, is_best, note in zip(evals, are_best, notes, strict=True)
    ]
    reported = entry_standings(entries, scores, score, experiment.baseline_entry)
    return EvalTimeline(experiment, standings, reported, baseline, suite_about(connection, experiment))


def grouped(connection: Connection, tenant: str, runs: Sequence[ScoredRun]) -> list[Eval]:
    """The evals that these runs of one tenant are, in the order in which they were begun."""
    evals: dict[str, list[ScoredRun]] = {}
    for scored in runs:
        evals.setdefault(_eval_id_of(scored.run), []).append(scored)
    found = [Eval(id_, own, stored_job(connection, tenant, id_)) for id_, own in evals.items()]
    return sorted(found, key=lambda item: item.begun_ns)


def known_eval(connection: Connection, tenant: str, id_: str) -> Eval | None:
    """The eval with this id, that of a job, of a run or of a reported entry; None where nothing is stored of it."""
    if found := runs_of_eval(connection, tenant, id_):
        return Eval(id_, [scored_run(connection, run) for run in found], stored_job(connection, tenant, id_))
    if (entry := promoted_entry(connection, tenant, id_)) is None:
        return None
    experiment = stored_experiment(connection, tenant, entry.experiment)
    return _reported(entry, None if experiment is None else suite_about(connection, experiment))


def experiment_of(item: Eval) -> str:
    """The name of the experiment that an eval with runs, or a reported one, is in."""
    return item.entry.experiment if item.entry is not None else item.runs[0].run.experiment


def eval_of_run(connection: Connection, tenant: str, name: str) -> Eval | None:
    """The eval that a run is part of; None where there is no such run."""
    run = stored_run(connection, tenant, name)
    return None if run is None else known_eval(connection, tenant, _eval_id_of(run))


def eval_without_runs(connection: Connection, job: Job, experiment: str) -> tuple[EvalTimeline, EvalStanding]:
    """The eval of a job that has stored nothing yet, with the timeline of its experiment, which may be new."""
    found = stored_experiment(connection, job.tenant, experiment)
    if found is None:
        timeline = EvalTimeline(Experiment(job.tenant, experiment, job.created_ns, None, 0, id=""), (), (), None)
    else:
        timeline = eval_timeline(connection, found)
    return timeline, EvalStanding(Eval(job.id, (), job), delta=None, is_baseline=False, is_best=False)


def suite_about(connection: Connection, experiment: Experiment) -> str | None:
    """The id of the stored suite that an experiment is about: its own, else that of its first eval of one.

    Evals are of models: what an agent of one's own did with a suite decides nothing.
    """
    if experiment.suite is not None:
        return experiment.suite
    for run in stored_runs(connection, experiment.tenant, experiment.name):
        job = None if run.job is None else stored_job(connection, experiment.tenant, run.job)
        if job is not None:
            return job.request.get("suite")
        if run.suite is not None and "tool_choice" in run.selection:
            return run.suite
    return None


def model_keys(configuration: Mapping[str, JsonValue]) -> list[str]:
    """The models that a configuration names, as other tools write them: `models`, or `model` for one."""
    written = configuration.get("models") or configuration.get("model") or []
    found = []
    for item in written if isinstance(written, list) else [written]:
        if isinstance(item, dict):
            item = SEPARATOR.join(str(item[key]) for key in ("provider_key", "model_id") if item.get(key))
        if isinstance(item, str) and item:
            found.append(item)
    return found


def _reported(entry: Entry, about: str | None) -> Eval:
    return Eval(entry.id, (), None, entry, about)


def _eval_id_of(run: Run) -> str:
    """The job that made a run, which the run itself says; of one that no job made, its own name."""
    return run.job or run.name


def _time_of(item: EvalStanding | EntryStanding) -> int:
    return item.eval.begun_ns if isinstance(item, EvalStanding) else item.entry.at_ns
