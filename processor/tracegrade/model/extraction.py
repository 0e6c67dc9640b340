"""What extraction read out of one trace."""

from dataclasses import dataclass, field

from tracegrade.model.agent_run import AgentRun
from tracegrade.model.tool_call import ToolCall
from tracegrade.model.trace import Trace


@dataclass(slots=True)
class Extraction:
    """The agent runs and tool calls of one trace.

    ``runs`` are in order of start and never empty for a trace with spans: without an agent span the local root is the
    run. ``calls`` are all calls of the trace in the one total order; every call is also in exactly one run's
    ``calls``. ``unread_tool_spans`` (hex ids, in order of start) look like tool calls, but no dialect reads them.
    ``redacted``: something of the trace was redacted by us.
    ``silent_scopes`` is empty when there are calls, else it names the scopes of models and agents that wrote spans.
    """

    trace: Trace
    runs: list[AgentRun]
    calls: list[ToolCall]
    session: str | None = None
    release: str | None = None
    dialect_error: str = ""  # what an installed dialect raised: the trace was read without those of installed packages
    silent_scopes: list[str] = field(default_factory=list)
    unread_tool_spans: list[str] = field(default_factory=list)
    redacted: bool = False
