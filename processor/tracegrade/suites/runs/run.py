"""A suite run with models and agents: every run of a case is judged as a trace, and stored in the run of its target.

A *target* is a model, or an agent of one's own. One run of an experiment for each, so that a timeline has one score a
target and `compare` takes two of them. What was stored is not asked again: the trace id of a unit follows from its run,
its case and its repetition. The traces go from the suite to the judge in this process, and never through the receivers
of `serve`: they are not live, not sent on, and raise no alert.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from itertools import chain
from typing import Protocol

from sqlalchemy import Connection, select

from tracegrade.assemble.closed_traces import ClosedTraces
from tracegrade.assemble.settings import TracesSettings, without_bounds
from tracegrade.history.runs.recorded_run import RecordedRun, stored_result_of
from tracegrade.journal.record import Encoding, Record
from tracegrade.model.errors import TraceGradeError
from tracegrade.model.short_hash import short_hash
from tracegrade.model.signal import Signal
from tracegrade.model.trace_result import TraceResult
from tracegrade.pipeline.record_judge import Mode, RecordJudge
from tracegrade.pipeline.watched_judge import Watchdog
from tracegrade.semconv import SUITE_ATTRIBUTES
from tracegrade.store.read import stored_traces
from tracegrade.store.runs import stored_run
from tracegrade.store.schema import traces
from tracegrade.suites.agents.target import AgentTarget
from tracegrade.suites.conversation import Ran, run_case
from tracegrade.suites.models.asking import AskedModel, ToolChoice
from tracegrade.suites.models.client import ModelClient
from tracegrade.suites.models.settings import Target
from tracegrade.suites.recording import check_sdk
from tracegrade.suites.running import Done, Plan, PlanDone, Unit, UnitDone, run_plans
from tracegrade.suites.runs.results import AnyTarget, CaseResult, case_result, result_in_run
from tracegrade.suites.suite import Suite


@dataclass(frozen=True, slots=True)
class Asking:
    """How all targets of a run are asked; of agents, only ``repeat`` counts.

    ``system_prompts`` are by the model's key, in place of the suite's own.
    """

    temperature: float = 0.0
    tool_choice: ToolChoice = "required"
    repeat: int = 1
    max_parallel: int | None = None
    system_prompts: Mapping[str, str] = field(default_factory=dict)

    def system_prompt(self, suite: Suite, target: Target) -> str:
        """What this model is told before each prompt."""
        return self.system_prompts.get(target.key, suite.system_prompt)

    def selection(self, suite: Suite, target: AnyTarget) -> dict[str, object]:
        """What has to be the same for a run to go on."""
        if isinstance(target, AgentTarget):
            return {"suite": suite.name, "suite_hash": suite.hash, **target.asked_by, "repeat": self.repeat}
        prompt = self.system_prompt(suite, target)
        return {
            "suite": suite.name,
            "suite_hash": suite.hash,
            "model": target.key,
            "temperature": self.temperature,
            "tool_choice": self.tool_choice,
            "system_prompt": short_hash(prompt.encode()) if prompt else "",
            "repeat": self.repeat,
        }


@dataclass(slots=True)
class TargetRun:
    """The run of one target: the ``total`` of its units, those ``stored`` before, and its ``problem`` at the end."""

    target: AnyTarget
    recording: RecordedRun
    stored: int = 0
    total: int = 0
    problem: TraceGradeError | None = None

    @property
    def name(self) -> str:
        """The name of the run."""
        return self.recording.name


def trace_id_of(run: RecordedRun, unit: Unit) -> bytes:
    """The trace id of a unit; that of a run which was deleted and begun again under its name is another."""
    return unit_trace_id(run.name, run.begun_ns, unit.case.id, unit.repetition)


def unit_trace_id(run: str, begun_ns: int, case: str, repetition: int) -> bytes:
    """The trace id of one run of a case, in a run that was begun then."""
    parts = (run, str(begun_ns), case, str(repetition))
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return blake2b(text.encode(), digest_size=16).digest()


def stored_unit(connection: Connection, tenant: str, run: str, case: str, repetition: int) -> CaseResult | None:
    """What is stored of one run of a case; None where nothing is, or nothing any more."""
    begun = stored_run(connection, tenant, run)
    if begun is None:
        return None
    found = stored_traces(connection, unit_trace_id(run, begun.begun_ns, case, repetition), run=run)
    own = next((result for result in found if result.trace.tenant == tenant), None)
    return None if own is None else result_in_run(own, begun)


class Watch(Protocol):
    """Somebody who is told how a suite's run goes, and has a say in what is stored."""

    def stored(self, connection: Connection, run: TargetRun, results: Sequence[CaseResult]) -> None:
        """`results` of `run` are being stored, in this transaction; when this raises, they are not."""
        ...

    def ended(self, run: TargetRun) -> None:
        """All units of `run` are stored, or it has a ``problem``."""
        ...


class _Nobody:
    def stored(self, connection: Connection, run: TargetRun, results: Sequence[CaseResult]) -> None:
        pass

    def ended(self, run: TargetRun) -> None:
        pass


def run_suite(
    suite: Suite,
    runs: Sequence[TargetRun],
    asking: Asking,
    settings: TracesSettings,
    settings_hash: str,
    connect: Callable[[], AbstractContextManager[Connection]],
    stop: threading.Event,
    watch: Watch | None = None,
    says: Callable[[str], object] = lambda text: None,
) -> Iterator[CaseResult]:
    """Run every unit that is not stored; gives the result of each, stored.

    Args:
        suite: what is run, and the rules that judge it.
        runs: begun, one a target; each is complete at the end, or failed with its ``problem``.
        asking: how targets are asked.
        settings: of ``traces``.
        settings_hash: stored with each result.
        connect: a connection to the store of `runs`.
        stop: set to end the run at once; runs that are not complete stay so.
        watch: told how it goes.
        says: told what people have to know meanwhile, such as where spans of an agent are received.

    Raises:
        TraceGradeError: the spans of an agent cannot be received where they should be.
        SuiteError: the environment turns the SDK off.
        StoreError: the store cannot be written.
    """
    check_sdk()
    watch = watch or _Nobody()
    by_plan = {run.name: (run, CaseJudge(suite, settings, run.recording, settings_hash)) for run in runs}
    with ExitStack() as stack:
        lanes = _Lanes(suite, asking, stop, says, stack)
        with connect() as connection:
            plans = [lanes.plan(run, _left(connection, suite, run, asking.repeat)) for run in runs]
        stack.callback(stop.set)  # before all else is closed
        for batch in run_plans(plans, stop):
            of_runs: dict[str, list[Done]] = {}
            for done in batch:
                of_runs.setdefault(done.plan.name, []).append(done)
            for name, of_run in of_runs.items():
                run, judge = by_plan[name]
                found = [judge.judged(done.ran) for done in of_run if isinstance(done, UnitDone)]
                if found:
                    cases = [case_result(result, suite.rule.id, run.target) for result in found]
                    run.recording.add_now(found, partial(watch.stored, run=run, results=cases))
                    yield from cases
                if isinstance(of_run[-1], PlanDone):
                    _end(run, of_run[-1].problem)
                    watch.ended(run)


_FREE = nullcontext()


class _Lanes:
    """How the units of each target are run; models of one provider share what asks it."""

    def __init__(
        self, suite: Suite, asking: Asking, stop: threading.Event, says: Callable[[str], object], stack: ExitStack
    ) -> None:
        self._suite = suite
        self._asking = asking
        self._stop = stop
        self._says = says
        self._stack = stack
        self._slots = threading.BoundedSemaphore(asking.max_parallel) if asking.max_parallel else None
        self._clients: dict[str, ModelClient] = {}

    def plan(self, run: TargetRun, units: Sequence[Unit]) -> Plan:
        """What is to be done for `run`; what it needs is closed with the stack."""
        target = run.target
        if isinstance(target, AgentTarget):
            return self._of_agent(run, target, units)
        return self._of_model(run, target, units)

    def _of_agent(self, run: TargetRun, target: AgentTarget, units: Sequence[Unit]) -> Plan:
        from tracegrade.suites.agents.agent import Agent  # its servers take long to load

        def run_unit(unit: Unit) -> Ran:
            return agent.run(unit, run.name, trace_id_of(run.recording, unit))

        agent = Agent(target, self._stop, says=self._says)
        if units:
            self._stack.enter_context(agent)
        return Plan(run.name, f"agent {target.key}", target.at_a_time, units, run_unit)

    def _of_model(self, run: TargetRun, target: Target, units: Sequence[Unit]) -> Plan:
        if (client := self._clients.get(target.provider_name)) is None:
            client = self._clients[target.provider_name] = ModelClient(target.provider, self._stop)
            self._stack.callback(client.close)
        asking, suite = self._asking, self._suite
        system_prompt = asking.system_prompt(suite, target)
        model = AskedModel(target, client, asking.tool_choice, asking.temperature, lambda: self._slots or _FREE)

        def run_unit(unit: Unit) -> Ran:
            return run_case(suite, unit.case, model, system_prompt, trace_id_of(run.recording, unit), unit.repetition)

        return Plan(run.name, target.provider_name, target.provider.at_a_time, units, run_unit)


def _left(connection: Connection, suite: Suite, run: TargetRun, repeat: int) -> list[Unit]:
    """The units of a run that are not stored; all repetitions of the first case, then those of the next."""
    query = select(traces.c.trace_id).where(traces.c.tenant == run.recording.tenant, traces.c.run == run.name)
    known = {bytes(trace_id) for trace_id in connection.execute(query).scalars()}
    units = [Unit(case, number) for case in suite.cases for number in range(1, repeat + 1)]
    left = [unit for unit in units if trace_id_of(run.recording, unit) not in known]
    run.total, run.stored = len(units), len(units) - len(left)
    return left


def _end(run: TargetRun, problem: TraceGradeError | None) -> None:
    run.problem = problem
    if problem is None:
        run.recording.complete()
    else:
        run.recording.fail(problem)


class CaseJudge:
    """Judges runs of cases, each a whole trace, with the judge's own objects."""

    def __init__(self, suite: Suite, settings: TracesSettings, run: RecordedRun, settings_hash: str) -> None:
        self._rule_set = suite.rule_set
        self._run = run.name
        self._tenant = run.tenant
        self._settings_hash = settings_hash
        self._settings = without_bounds(settings)
        self._settings.keep(settings.kept_attributes | SUITE_ATTRIBUTES)

    def judged(self, ran: Ran) -> TraceResult:
        """What is stored of one run of a case; where the model gave no answer, every rule's outcome is an error."""
        aside = {(ran.trace_id.hex(), rule.id): f"no_answer: {ran.problem}" for rule in self._rule_set.rules}
        watchdog = Watchdog(aside if ran.problem else {})
        mode = Mode(self._run, decodes_all=True)
        judge = RecordJudge(self._settings, self._rule_set, ClosedTraces(), mode, watchdog=watchdog)
        records = [Record(0, 1, 0, self._tenant, Signal.TRACES, Encoding.PROTOBUF, ran.spans, ran.payload)]
        if ran.log_records:
            records.append(Record(1, 2, 0, self._tenant, Signal.LOGS, Encoding.PROTOBUF, ran.log_records, ran.logs))
        found = [*chain.from_iterable(map(judge.read, records)), *judge.end()]
        return stored_result_of(found[0], self._run, self._settings_hash)
