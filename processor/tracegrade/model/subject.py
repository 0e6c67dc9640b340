"""The one thing that a rule judges."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tracegrade.model.agent_run import AgentRun
from tracegrade.model.tool_call import ToolCall
from tracegrade.model.trace import Trace, TraceOutline

Scope: TypeAlias = Literal["agent", "trace", "session", "tool-call"]


@dataclass(slots=True)
class Subject:
    """A tool call, agent run, trace or session, with what evaluators may read of it.

    ``id`` as in DESIGN: agent: the run's span id; trace: the trace id; tool-call: the call's span id, with
    ``/message/part`` when read from a message. ``run`` is the agent run judged (for scope trace the outermost run).
    ``span_id`` (hex) is the span that results are attached to. ``calls`` are the calls judged, in total order.
    ``sub_runs`` are the subject ids of the runs that are judged with an agent's, as their calls are.
    """

    kind: Scope
    id: str
    trace: Trace | TraceOutline  # the latter of a session: the trace of its part that ended last
    run: AgentRun | None
    calls: list[ToolCall]
    agent: str
    span_id: str
    session: str | None = None
    prompt: str | None = None
    final_answer: str | None = None
    sub_runs: Collection[str] = ()
