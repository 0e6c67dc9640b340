"""An agent while a suite is run against it: the listener for its spans, and how one unit is run."""

import os
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from hashlib import blake2b
from threading import Event
from typing import Any, Self

from tracegrade.display import count
from tracegrade.receive.listener import Listener
from tracegrade.suites.agents.arrivals import Arrivals
from tracegrade.suites.agents.command import Commands, Ended, environment_of, traceparent
from tracegrade.suites.agents.endpoint import Endpoint
from tracegrade.suites.agents.target import AgentTarget
from tracegrade.suites.agents.unit_trace import Asked, problem_of, unit_trace
from tracegrade.suites.conversation import Ran
from tracegrade.suites.running import Unit

# Between the last span of a command that has ended, and of an endpoint, whose exporter sends batches every so often.
_QUIET_AFTER_END_S = 0.2
_QUIET_AFTER_ANSWER_S = 1.0


class Agent:
    """Runs units while it is entered; used by several threads."""

    def __init__(
        self,
        target: AgentTarget,
        stop: Event,
        *,
        says: Callable[[str], object] = lambda text: None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """Listen to nothing yet.

        Args:
            target: the agent.
            stop: set to end all that is under way.
            says: told where spans are received.
            environment: of commands, before what a unit adds.
        """
        self.target = target
        self.arrivals = Arrivals(may_be_unnamed=bool(target.command))
        self._listener = Listener(self.arrivals.take, target.listen)
        self._stop = stop
        self._says = says
        self._environment = environment
        self._commands = Commands(target.command, target.timeout_s, stop)
        self._endpoint = (
            Endpoint(target.url, target.headers, target.timeout_s, target.at_a_time, stop) if target.url else None
        )
        self._open = ExitStack()

    def __enter__(self) -> Self:
        """Raises `TraceGradeError` when the address to listen on cannot be used."""
        self._open.enter_context(self._listener)
        if self._endpoint is not None:
            self._open.callback(self._endpoint.close)
            self._says(f"Receiving spans at {self.address}, gRPC and HTTP: the agent's exporter has to point there.")
        self._open.callback(self._commands.close)
        return self

    def __exit__(self, *raised: object) -> None:
        self._open.close()
        if number := self.arrivals.late_spans:
            self._says(
                f"{count(number, 'span')} of {self.target.key} came after their case had ended, and were left out: a "
                "longer --agent-spans-within waits for them, or the agent sends too late."
            )

    @property
    def address(self) -> str:
        """Where spans are received."""
        return self._listener.endpoint

    def run(self, unit: Unit, run: str, trace_id: bytes) -> Ran:
        """Run one unit of the run `run`; its trace will be `trace_id`.

        Raises:
            TraceGradeError: no unit can be run.
            Stopped: the run ended meanwhile.
        """
        root_id = blake2b(trace_id, digest_size=8).digest()
        self.arrivals.begin(trace_id, unit.case.id, root_id)
        try:
            begun_ns = time.time_ns()
            ended = self._asked(unit, run, trace_id, root_id)
            ended_ns = time.time_ns()
            quiet_s = _QUIET_AFTER_END_S if self._endpoint is None else _QUIET_AFTER_ANSWER_S
            within_s = quiet_s if ended.problem else self.target.spans_within_s  # what came is kept all the same
            self.arrivals.wait(trace_id, quiet_s, within_s, self._stop)
        finally:
            arrived = self.arrivals.end(trace_id)
        if not ended.problem:
            problem, error_type = problem_of(arrived, f"{self.address} within {self.target.spans_within_s:g} s")
            hint = f": {self._hint()}" if error_type == "no_spans" else ""
            ended = replace(ended, problem=problem + hint, error_type=error_type)
        asked = Asked(trace_id, root_id, unit.case, unit.repetition, begun_ns, ended_ns, ended)
        return unit_trace(self.target.key, asked, arrived)

    def _asked(self, unit: Unit, run: str, trace_id: bytes, root_id: bytes) -> Ended:
        case = unit.case
        if self._endpoint is not None:
            body: dict[str, Any] = {"prompt": case.prompt, "case": case.id}
            if case.mocks is not None:
                body["messages"] = [{"role": "user", "content": case.prompt}]
            return self._endpoint.ask(body, traceparent(trace_id, root_id))
        environment = environment_of(self.address, case.id, run, unit.repetition, trace_id, root_id, self._environment)
        return self._commands.run(case.prompt, environment)

    def _hint(self) -> str:
        """Why no span may have come."""
        if refused := self._listener.refused():
            return "refused were " + ", ".join(f"{number} ({reason})" for reason, number in refused.items())
        if number := self.arrivals.unnamed_spans:
            how = (
                "the agent has to keep OTEL_RESOURCE_ATTRIBUTES in its resource, or --max-parallel has to be 1"
                if self._endpoint is None
                else "the agent has to go on with the trace in the header traceparent"
            )
            return f"{number} came that do not say their case: {how}"
        if self._endpoint is None:
            return (
                "the agent's exporter has to take its address from OTEL_EXPORTER_OTLP_ENDPOINT, and its tracer "
                "provider has to be shut down at the end"
            )
        return (
            "the agent's exporter has to point there; what it sends elsewhere, such as to 'serve', stays live traffic"
        )
