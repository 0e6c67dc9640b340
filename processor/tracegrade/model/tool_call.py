"""One tool call: the model's request, its execution and its result, paired."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tracegrade.model.json_value import JsonValue

# How a value was read. ok: strict JSON or a structured attribute; repaired: decoded after a repair (double encoding,
# NaN, duplicate keys); python_repr: a Python literal; text: not decodable, kept as text; truncated: cut off by the
# sender; redacted: masked, by the sender or here, at least in part; elsewhere: stored elsewhere by the sender, who
# recorded a reference; absent: not recorded.
ValueStatus: TypeAlias = Literal[
    "ok", "repaired", "python_repr", "text", "truncated", "redacted", "elsewhere", "absent"
]
CallPart: TypeAlias = Literal["arguments", "output"]
ReadFrom: TypeAlias = Literal["span", "message", "event"]


_UNREADABLE = ("absent", "elsewhere", "text", "truncated")


@dataclass(slots=True)
class ToolError:
    """A failed execution: the error's type and message as recorded, "" where unknown."""

    type: str
    message: str


@dataclass(slots=True)
class ToolCall:
    """One real call, however many spans, messages or instrumentations show it.

    ``arguments`` is an object when ``arguments_status`` is ok, repaired or python_repr (a scalar or a list is kept as
    it is with status ``text``), ``None`` when absent. ``output`` is any JSON value. Times are ns since 1970 UTC, 0
    when only a message shows the call. ``span_id`` is the hex id of the span that shows it best; ``agent_span_id``
    the hex subject id of the agent run it belongs to. ``depth`` counts enclosing tool calls. ``batch`` numbers the
    groups of calls that were made together (None: no batch known); ``attempt`` counts from 1 the calls of the same
    name and arguments within the run, and what was refused before the tool ran. ``message_path`` is "message/part"
    when the call was read from a message. ``turn`` numbers the messages that ask for calls, in their order (None: no
    message is known); two messages whose order is unknown share one. ``failure_hidden``: it seems not to have failed,
    and what would say so may have been redacted by us. JSON leaves out these two.
    """

    name: str
    raw_name: str
    call_id: str | None
    arguments: JsonValue
    arguments_status: ValueStatus
    output: JsonValue
    output_status: ValueStatus
    error: ToolError | None
    start_ns: int
    end_ns: int
    span_id: str
    agent: str
    agent_span_id: str
    depth: int = 0
    batch: int | None = None
    attempt: int = 1
    read_from: ReadFrom = "span"
    dialect: str = ""
    message_path: str | None = None
    also_seen_in: list[str] = field(default_factory=list)  # hex ids of further spans that show the same call
    duplicate_of: str | None = None  # "trace id/span id" of the same call in another trace
    turn: int | None = None
    failure_hidden: bool = False

    @property
    def failed(self) -> bool:
        """Whether an error was recorded."""
        return self.error is not None

    def lack_of(self, part: CallPart, *, in_part: bool) -> ValueStatus | None:
        """The status for which a part of it cannot be read; None where it can.

        A failed call without an output gave none, and that is known. `in_part`: what was redacted stands in it as masks
        and hashes (`stand_ins`), so that what stands beside them can be read.
        """
        if part == "arguments":
            if self.arguments_status == "redacted":
                return None if in_part and isinstance(self.arguments, dict) else "redacted"
            return self.arguments_status if self.arguments_status in _UNREADABLE else None
        if self.output_status == "redacted":
            return None if in_part and self.output is not None else "redacted"
        if self.output_status == "absent":
            return None if self.failed else "absent"
        return self.output_status if self.output_status in ("truncated", "elsewhere") else None

    @property
    def subject_id(self) -> str:
        """The id under which a rule of scope tool-call judges it."""
        return f"{self.span_id}/{self.message_path}" if self.message_path else self.span_id

    def to_json(self) -> dict[str, JsonValue]:
        """The documented JSON object: all fields by name, ``error`` as ``{type, message}`` or null."""
        error = self.error
        return {
            "name": self.name,
            "arguments": self.arguments,
            "arguments_status": self.arguments_status,
            "output": self.output,
            "output_status": self.output_status,
            "error": None if error is None else {"type": error.type, "message": error.message},
            "call_id": self.call_id,
            "agent": self.agent,
            "span_id": self.span_id,
            "batch": self.batch,
            "raw_name": self.raw_name,
            "agent_span_id": self.agent_span_id,
            "depth": self.depth,
            "attempt": self.attempt,
            "start_ns": self.start_ns,
            "end_ns": self.end_ns,
            "read_from": self.read_from,
            "dialect": self.dialect,
            "message_path": self.message_path,
            "also_seen_in": [*self.also_seen_in],
            "duplicate_of": self.duplicate_of,
        }


def numbers_in_runs(calls: Iterable[ToolCall]) -> list[int]:
    """The number of each call, from 1, among those of its agent run; `calls` are in their one total order."""
    before: Counter[str] = Counter()
    numbers = []
    for call in calls:
        before[call.agent_span_id] += 1
        numbers.append(before[call.agent_span_id])
    return numbers
