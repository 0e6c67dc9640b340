"""Sessions: what belongs to one conversation, over all traces in which it went on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Literal, NamedTuple

from tracegrade.model.agent_run import AgentRun
from tracegrade.model.extraction import UnreadWork
from tracegrade.model.handoff import Handoff
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tool_call import ToolCall, ToolError, ValueStatus
from tracegrade.model.trace import TraceOutline
from tracegrade.model.usage import Usage

TURN: Literal["turn"] = "turn"
"""The close reason of a session that goes on: it was judged as it stands after one of its traces closed."""


def session_trace_id(tenant: str, session_id: str) -> bytes:
    """The 16 bytes of a session's own trace id, derived: results of a session belong to none of its traces."""
    text = f"{tenant}\0{session_id}"
    digest = blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()
    return digest if any(digest) else digest[:-1] + b"\x01"  # an id of zeros is not valid


class ToolResult(NamedTuple):
    """The result of a tool call that a later model call was given, as `ToolCall` has it."""

    output: JsonValue
    output_status: ValueStatus
    error: ToolError | None


@dataclass(frozen=True, slots=True)
class SessionPart:
    """One trace of a session: all that is needed of it to judge the session, so that its spans can be freed.

    ``runs`` and ``calls`` are those of the trace that belong to the session, as in `Extraction`. ``scopes`` has the
    instrumentation scope of each span (hex id) that shows one of the calls. ``results`` are the tool results that the
    trace's model calls were given, by call id, as far as no call of this part has one of its own. ``usages`` is what
    each of its model calls used. ``unread`` is the first work that could not be read.
    ``handoffs`` are those between its runs. ``redacted`` as in `Extraction`.
    """

    trace: TraceOutline
    runs: list[AgentRun]
    calls: list[ToolCall]
    release: str | None
    scopes: Mapping[str, str]
    results: Mapping[str, ToolResult]
    tool_definitions: Mapping[str, JsonValue]
    usages: Sequence[Usage]
    unread: UnreadWork | None
    handoffs: Sequence[Handoff] = ()
    redacted: bool = False


@dataclass(slots=True)
class Session:
    """The runs that share a conversation id, as they stand when they are judged.

    ``parts`` has one for each trace, in order of (start, trace id); calls that another part shows as well are left
    out. ``calls`` are those of all parts in order of start. ``members`` are all traces known to have had a part, by id,
    with the revision of each: 0 of one that is not to be found; under the id of no bytes, the sum of revisions that
    count no more.

    ``close_reason`` is `TURN` while it goes on, else ``quiet``, ``end_attribute``, ``memory`` or ``end_of_input``.
    ``missing`` names what it lacks: ``end`` while it goes on, ``trace:`` and the hex id of each trace that is
    incomplete or not to be found, and the bound that cut it short. Times as in `Trace`.
    """

    id: str
    tenant: str
    parts: list[SessionPart]
    calls: list[ToolCall]
    members: dict[bytes, int]
    close_reason: str
    missing: list[str]
    cut_by: str | None = None
    supersedes: int | None = None  # the revision that was judged before this one, if any
    rule_set: str = ""  # hash of the rule set in force when the first span of its first trace was read
    first_received_ns: int = 0  # of the trace that began last
    closed_ns: int = 0  # when the last of its traces closed
    runs: list[AgentRun] = field(init=False)

    def __post_init__(self) -> None:
        self.runs = [run for part in self.parts for run in part.runs]

    @property
    def complete(self) -> bool:
        """It has ended, and nothing is known to be missing."""
        return not self.missing

    @property
    def redacted(self) -> bool:
        """Something of one of its traces was redacted by us."""
        return any(part.redacted for part in self.parts)

    @property
    def revision(self) -> int:
        """Grows with every revision of its traces, and once more when it ends: derived from what is known."""
        return session_revision(self.members, ended=self.close_reason != TURN)

    @property
    def last(self) -> SessionPart:
        """The part that ended last, to whose trace results are attached."""
        return max(self.parts, key=lambda part: (part.trace.end_ns, part.trace.trace_id))


def session_revision(members: dict[bytes, int], *, ended: bool) -> int:
    """The revision of a session with these traces: twice the sum of theirs, one more when it has ended."""
    return 2 * sum(members.values()) + ended
