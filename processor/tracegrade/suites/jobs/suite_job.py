"""The run of a stored suite as a job: a run of an experiment for each model, and events of all that happens.

What a case gave, its events and the job's progress are stored in one transaction, and only while the job is still that
of this claim: no case is told of twice, and none that is stored is left out.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TypeAlias

from sqlalchemy import Connection, Engine

from tracegrade.config import Config
from tracegrade.deletion.request import Deletions
from tracegrade.document.problem import UnsetError
from tracegrade.history.runs.experiments import known_experiment, known_run
from tracegrade.history.runs.new_run import new_run
from tracegrade.history.runs.recorded_run import RecordedRun, broken_off, deleted_run, what_differs
from tracegrade.model.errors import TraceGradeError
from tracegrade.model.json_value import JsonValue
from tracegrade.store.open import one_at_a_time, reading
from tracegrade.store.runs import Run, stored_run
from tracegrade.suites.jobs.suite_request import known_models, suite_request
from tracegrade.suites.models.settings import Target, to_ask
from tracegrade.suites.runs.evals import eval_timeline
from tracegrade.suites.runs.experiments import experiment_for
from tracegrade.suites.runs.results import CHAIN_NUMBERS, CaseResult, stored_results, summary_of
from tracegrade.suites.runs.run import Asking, TargetRun, run_suite
from tracegrade.suites.settings import suites_settings
from tracegrade.suites.store.jobs import Job, State, add_events, note
from tracegrade.suites.store.suites import StoredSuite, stored_suite
from tracegrade.suites.stored import runnable_suite
from tracegrade.suites.suite import Suite

Told: TypeAlias = tuple[str, Mapping[str, JsonValue]]
"""The name of an event, and its fields."""


class JobLost(Exception):
    """The job was cancelled or deleted, or another claim has it."""


@dataclass(frozen=True, slots=True)
class _Planned:
    """The run of one model: as it would be begun, and what is stored of it."""

    target: Target
    asked: Run
    name: str | None
    is_complete: bool


class SuiteJob:
    """One claimed job, run by one thread."""

    def __init__(self, job: Job, claim_name: str, engine: Engine, config: Config) -> None:
        """Nothing is read yet.

        Args:
            job: as it was claimed.
            claim_name: who has it.
            engine: opened for writing.
            config: the settings.
        """
        self.job = job
        self._claim = claim_name
        self._engine = engine
        self._config = config
        self._stopped = threading.Event()
        self._stop_run = threading.Event()  # the run sets it itself when it ends
        self._suite_name = ""
        self._experiment = ""
        self._runs = list(job.runs)
        self._results: dict[str, list[CaseResult]] = {}
        self._cases: list[str] = []
        self._rule_id = ""
        self._done = 0
        self._total = 0
        self._percentage = -1

    def run(self) -> None:
        """Run it to its end, which is stored; or until it is stopped.

        Raises:
            JobLost: it is no longer this claim's.
            TraceGradeError: it cannot be done, or a model could not be asked; what it had stored was deleted
                meanwhile; the models or the suite cannot be read, or the store cannot be written.
        """
        self._request = suite_request(self.job.request)
        targets = self._targets()
        suite = self._suite()
        self._cases, self._rule_id = [case.id for case in suite.cases], suite.rule.id
        asking = self._asking(targets)
        planned = [self._planned(suite, target, asking) for target in targets]
        self._total = len(suite.cases) * asking.repeat * len(targets)
        self._done = sum(item.is_complete for item in planned) * len(suite.cases) * asking.repeat
        self._tell(
            [
                (
                    "tool_eval_init",
                    {
                        "eval_id": self.job.id,
                        "targets": [target.key for target in targets],
                        "total": self._total,
                        "current": self.job.done,
                        "suite_id": self._request.suite,
                        "suite_name": self._suite_name,
                    },
                )
            ],
            total=self._total,
        )
        problems = self._run_those_left(suite, asking, planned)
        if self._stopped.is_set():
            return
        if problems:
            raise TraceGradeError("; ".join(problems))
        self._complete()

    def stop(self) -> None:
        """End it at once, because it was cancelled, or the worker ends; called from any thread."""
        self._stopped.set()
        self._stop_run.set()

    def end(self, state: State, message: str = "") -> None:
        """Note that it ended this way, or was interrupted; raises `JobLost`."""
        events: list[Told] = [("job_failed", {"error": message})] if state == "failed" else []
        ended_ns = None if state == "interrupted" else time.time_ns()
        self._tell(events, state=state, message=message, worker="", ended_ns=ended_ns)

    def stored(self, connection: Connection, run: TargetRun, results: Sequence[CaseResult]) -> None:
        """Note with what is stored of `run` what came of it; raises `JobLost`."""
        if run.name not in self._results:
            self._results[run.name] = []
            self._done += run.stored
        events: list[Told] = []
        for result in results:
            self._done += 1
            where: dict[str, JsonValue] = {"model": run.target.key, "current": self._done, "total": self._total}
            events.append(("tool_eval_progress", {**where, "case_id": result.case}))
            events.append(("tool_eval_result", {**where, **scores_of(result)}))
        percentage = 100 * self._done // self._total
        if percentage != self._percentage:
            self._percentage = percentage
            detail = f"{run.target.key}: {self._done} of {self._total}"
            events.append(("job_progress", {"percentage": percentage, "detail": detail}))
        self._results[run.name] += results
        self._runs += [run.name] if run.name not in self._runs else []
        self._write(connection, events, done=self._done, runs=self._runs)

    def ended(self, run: TargetRun) -> None:
        """Tell the averages of a model; raises `JobLost`."""
        if run.problem is not None:
            return
        results = self._results.get(run.name, [])
        if len(results) < run.total:  # some were stored before
            with reading(self._engine) as connection:
                results = stored_results(connection, self.job.tenant, run.name, self._rule_id, run.target, self._cases)
        summary = summary_of(run.name, run.target.key, results).to_json()
        del summary["notes"]  # they quote what a model said
        self._tell([("tool_eval_summary", {**summary, "avg_score": summary["overall"]})])

    def _targets(self) -> list[Target]:
        try:
            known = {target.key: target for target in known_models(self._config)}
            for key in self._request.models:
                if key not in known:
                    raise TraceGradeError(f"the model {key} is no longer in {suites_settings(self._config).models}")
            return [*to_ask([known[key] for key in self._request.models])]
        except UnsetError as error:
            where = "in the environment of 'tracegrade serve', which runs jobs"
            raise TraceGradeError(f"{error.problems[0]}; {where}") from None

    def _suite(self) -> Suite:
        with reading(self._engine) as connection:
            stored = stored_suite(connection, self.job.tenant, self._request.suite)
        if stored is None:
            raise TraceGradeError(f"its suite {self._request.suite} was deleted")
        self._suite_name = stored.name
        self._experiment = self._experiment_for(stored)
        return runnable_suite(stored, (), self._config.rules.reading)

    def _experiment_for(self, suite: StoredSuite) -> str:
        """The experiment of its runs; a job that an earlier version queued need not name it."""
        if self._request.experiment is not None:
            return self._request.experiment
        with self._engine.begin() as connection:
            one_at_a_time(connection)
            if self._runs and (begun := stored_run(connection, self.job.tenant, self._runs[0])) is not None:
                return begun.experiment
            return experiment_for(connection, suite, None, time.time_ns()).name

    def _asking(self, targets: Sequence[Target]) -> Asking:
        request = self._request
        prompts = request.system_prompts([target.key for target in targets])
        return Asking(request.temperature, request.tool_choice, request.repeat, request.max_parallel, prompts)

    def _planned(self, suite: Suite, target: Target, asking: Asking) -> _Planned:
        """The run of one model.

        Raises:
            TraceGradeError: it has stored something that was deleted, or is not of this suite any more.
        """
        request, tenant = self._request, self.job.tenant
        selection = {**asking.selection(suite, target), "job": self.job.id}
        labels = {"model": target.key, **request.labels}
        asked = new_run(tenant, self._experiment, labels, suite.source, selection, suite.rule_set, self._config)
        with reading(self._engine) as connection:
            if (gone := deleted_run(connection, tenant, self._runs)) is not None:
                raise TraceGradeError(f"what it had stored, run {gone}, was deleted")
            for name in self._runs:
                begun = known_run(connection, tenant, name)
                if begun.selection.get("model") != target.key:
                    continue
                if others := what_differs(begun, asked):
                    raise TraceGradeError(
                        f"run {name} cannot go on, since these changed after it began: {', '.join(others)}"
                    )
                return _Planned(target, asked, name, begun.state == "complete")
            return _Planned(target, asked, broken_off(connection, asked), is_complete=False)

    def _run_those_left(self, suite: Suite, asking: Asking, planned: Sequence[_Planned]) -> list[str]:
        """Run what is not complete; gives what went wrong with models."""
        tombstones = Deletions(self._config.data_path).tombstones
        with ExitStack() as stack:
            runs = []
            for item in planned:
                if not item.is_complete:
                    recording = RecordedRun(self._engine, item.asked, item.name, deleted=tombstones)
                    runs.append(TargetRun(item.target, stack.enter_context(recording)))
            if not runs:
                return []
            try:
                for _ in run_suite(
                    suite,
                    runs,
                    asking,
                    self._config.traces,
                    self._config.settings_hash,
                    lambda: reading(self._engine),
                    self._stop_run,
                    self,
                ):
                    pass
            finally:
                if self._stopped.is_set():
                    for run in runs:
                        run.recording.forget_if_empty()
        return [f"{run.target.key}: {run.problem}" for run in runs if run.problem is not None]

    def _complete(self) -> None:
        """Note that all is stored, with how it stands in its experiment."""
        with reading(self._engine) as connection:
            found = eval_timeline(connection, known_experiment(connection, self.job.tenant, self._experiment))
        standing = found.standing(self.job.id)
        done: Told = (
            "tool_eval_complete",
            {
                "eval_id": self.job.id,
                "experiment": self._experiment,
                "runs": [*self._runs],
                "avg_score": None if standing is None else standing.eval.score,
                "baseline_eval_id": None if found.baseline is None else found.baseline.id,
                "baseline_score": None if found.baseline is None else found.baseline.score,
                "delta": None if standing is None else standing.delta,
                "delta_note": None if standing is None else standing.delta_note,
            },
        )
        completed: Told = "job_completed", {"result_ref": self.job.id}
        self._tell([done, completed], state="done", worker="", ended_ns=time.time_ns(), done=self._total)

    def _tell(self, events: Sequence[Told], **changed: object) -> None:
        """Store events and change the job, in a transaction of its own; raises `JobLost`."""
        with self._engine.begin() as connection:
            one_at_a_time(connection)
            self._write(connection, events, **changed)

    def _write(self, connection: Connection, events: Sequence[Told], **changed: object) -> None:
        now_ns = time.time_ns()
        if not note(connection, self.job, self._claim, now_ns, **changed):
            raise JobLost
        add_events(connection, self.job.tenant, self.job.id, events, now_ns)


def scores_of(result: CaseResult) -> dict[str, JsonValue]:
    """What an event says of a result: scores, and nothing that the model said."""
    turns: dict[str, JsonValue] = {name: result.number(name) for name in CHAIN_NUMBERS}
    return {
        "run": result.run,
        "case_id": result.case,
        "repetition": result.repetition,
        "outcome": result.outcome,
        "tool_selection_score": result.number("tool_selection"),
        "param_accuracy": result.number("param_accuracy"),
        "overall_score": result.score,
        "multi_turn": turns if result.number("completion") is not None else None,
    }
