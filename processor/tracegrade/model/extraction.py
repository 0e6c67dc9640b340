"""The result of extraction for one trace."""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from tracegrade.model.agent_run import AgentRun
from tracegrade.model.tool_call import ToolCall
from tracegrade.model.trace import Trace

WhyUnread: TypeAlias = Literal[
    "tool span without a name",
    "tool span outside an agent's work",
    "messages not readable",
    "calls announced and not shown",
    "model span of no known dialect",
    "function that may be a tool",
]


class UnreadWork(NamedTuple):
    """A span with work of an agent that could not be read: further calls, of any name, may lie from its start on.

    ``span_id`` is its hex id, ``start_ns`` when it started, ``scope`` its instrumentation scope.
    """

    span_id: str
    start_ns: int
    why: WhyUnread
    scope: str

    @property
    def sentence(self) -> str:
        """A sentence without its full stop that says what could not be read, with the span and its scope."""
        scope = f", scope {self.scope}" if self.scope else ""
        return f"{UNREAD[self.why]} (span {self.span_id}{scope})"


UNREAD: dict[WhyUnread, str] = {
    "tool span without a name": "the tool of a call cannot be read",
    "tool span outside an agent's work": "a span looks like a tool call and cannot be read",
    "messages not readable": "the messages of a model call cannot be read",
    "calls announced and not shown": "a model call ended with tool calls, and none of them is shown",
    "model span of no known dialect": "a model call is written in no known dialect",
    "function that may be a tool": "a function ran, and nothing says whether a model asked for it",
}
"""Each cause as a clause."""


@dataclass(slots=True)
class Extraction:
    """The agent runs and tool calls of one trace.

    ``runs`` are in order of start: without an agent span the local root is the run. Only a trace that prepares
    an agent, and in which no model or tool works, has none. ``calls`` are all calls of the
    trace in the one total order; every call is also in exactly one run's ``calls``. ``unread_tool_spans`` (hex ids, in
    order of start) look like tool calls, but no dialect reads them.
    ``unread`` (in order of start) is the work that could not be read; spans that only look like tool calls are none.
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
    unread: list[UnreadWork] = field(default_factory=list)
    redacted: bool = False
