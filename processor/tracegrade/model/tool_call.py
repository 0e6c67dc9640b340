"""One tool call: the model's request, its execution and its result, paired."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, TypeAlias

from tracegrade.model.field_schema import FieldSpec, json_of
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

    type: Annotated[str, FieldSpec("its type")]
    message: Annotated[str, FieldSpec("its message", is_value=True)]

    @property
    def text(self) -> str:
        """Both as one text; "failed" where neither is known."""
        return ": ".join(part for part in (self.type, self.message) if part) or "failed"


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

    name: Annotated[str, FieldSpec("the tool")]
    raw_name: Annotated[str, FieldSpec("as it was written in the trace")]
    call_id: Annotated[str | None, FieldSpec("the id of the call")]
    arguments: Annotated[JsonValue, FieldSpec("the arguments", is_value=True, in_column=" as JSON")]
    arguments_status: Annotated[
        ValueStatus, FieldSpec("how the arguments were read, such as `ok`, `absent` or `truncated`")
    ]
    output: Annotated[JsonValue, FieldSpec("the output", is_value=True, in_column=" as JSON")]
    output_status: Annotated[ValueStatus, FieldSpec("how the output was read")]
    error: Annotated[ToolError | None, FieldSpec("the error; null without one")]
    start_ns: Annotated[
        int, FieldSpec("when it began", is_time=True, column="start", in_column="; null when only a message shows it")
    ]
    end_ns: Annotated[
        int, FieldSpec("when it ended", is_time=True, column="end", in_column="; null when only a message shows it")
    ]
    span_id: Annotated[str, FieldSpec("the span that shows the call best")]
    agent: Annotated[str, FieldSpec("the agent that called")]
    agent_span_id: Annotated[str, FieldSpec("its run: `subject_id` of the results of scope agent")]
    depth: Annotated[int, FieldSpec("how many calls enclose it")] = 0
    batch: Annotated[int | None, FieldSpec("calls of one number were made together; null: not known")] = None
    attempt: Annotated[int, FieldSpec("1 for the first call of this name and these arguments, 2 for the next")] = 1
    read_from: Annotated[ReadFrom, FieldSpec("`span`, `message` or `event`", column=None)] = "span"
    dialect: Annotated[str, FieldSpec("the way in which it was written")] = ""
    message_path: Annotated[
        str | None, FieldSpec("of a call in a message: which message, and its part", column=None)
    ] = None
    also_seen_in: Annotated[list[str], FieldSpec("further spans that show the same call", column=None)] = field(
        default_factory=list
    )
    duplicate_of: Annotated[str | None, FieldSpec("the same call in another trace, as TRACE_ID/SPAN_ID")] = None
    turn: int | None = None
    failure_hidden: bool = False

    JSON_ORDER: ClassVar = (
        *("name", "arguments", "arguments_status", "output", "output_status", "error", "call_id", "agent", "span_id"),
        *("batch", "raw_name", "agent_span_id", "depth", "attempt", "start_ns", "end_ns", "read_from", "dialect"),
    )

    @property
    def failed(self) -> bool:
        """Whether an error was recorded."""
        return self.error is not None

    def lack_of(self, part: CallPart, *, in_part: bool) -> ValueStatus | None:
        """The status for which a part of it cannot be read; None where it can.

        A failed call without an output gave none, and that is known. `in_part`: what was redacted stands in it as masks
        and hashes (`stand_ins`), so that what stands beside them can be read.
        """
        if (self.arguments_status if part == "arguments" else self.output_status) == "ok":  # so it is mostly
            return None
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
        """The documented JSON object."""
        return json_of(self)


def numbers_in_runs(calls: Iterable[ToolCall]) -> list[int]:
    """The number of each call, from 1, among those of its agent run; `calls` are in their one total order."""
    before: Counter[str] = Counter()
    numbers = []
    for call in calls:
        before[call.agent_span_id] += 1
        numbers.append(before[call.agent_span_id])
    return numbers
