"""Sessions: what belongs to one conversation, over all traces in which it went on."""

from dataclasses import dataclass, field
from hashlib import blake2b

from tracegrade.model.agent_run import AgentRun
from tracegrade.model.extraction import Extraction
from tracegrade.model.tool_call import ToolCall

TURN = "turn"
"""The close reason of a session that goes on: it was judged as it stands after one of its traces closed."""


def session_trace_id(tenant: str, session_id: str) -> bytes:
    """The 16 bytes of a session's own trace id, derived: results of a session belong to none of its traces."""
    text = f"{tenant}\0{session_id}"
    digest = blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()
    return digest if any(digest) else digest[:-1] + b"\x01"  # an id of zeros is not valid


@dataclass(slots=True)
class Session:
    """The runs that share a conversation id, as they stand when they are judged.

    ``parts`` has one extraction for each trace, in order of (start, trace id), with those of its runs and calls that
    belong to the session; calls that another part shows as well are left out. ``calls`` are those of all parts in
    order of start. ``members`` are all traces known to have had a part, by id, with the revision of each: 0 of one
    that is not to be found; under the id of no bytes, the sum of revisions that count no more.

    ``close_reason`` is `TURN` while it goes on, else ``quiet``, ``end_attribute``, ``memory`` or ``end_of_input``.
    ``missing`` names what it lacks: ``end`` while it goes on, ``trace:`` and the hex id of each trace that is
    incomplete or not to be found, and the bound that cut it short. Times as in `Trace`.
    """

    id: str
    tenant: str
    parts: list[Extraction]
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
    def revision(self) -> int:
        """Grows with every revision of its traces, and once more when it ends: derived from what is known."""
        return session_revision(self.members, ended=self.close_reason != TURN)

    @property
    def last(self) -> Extraction:
        """The part that ended last, to whose trace results are attached."""
        return max(self.parts, key=lambda part: (max(span.end_ns for span in part.trace.spans), part.trace.trace_id))


def session_revision(members: dict[bytes, int], *, ended: bool) -> int:
    """The revision of a session with these traces: twice the sum of theirs, one more when it has ended."""
    return 2 * sum(members.values()) + ended
