"""What a row of each Parquet table holds: names, types and meanings, from which schema and documentation are made.

A row is of several records: a trace, and what was judged of it. Each column takes what it holds from one of them.
"""

from collections.abc import Callable
from operator import attrgetter
from types import UnionType
from typing import Any, Literal, NamedTuple, TypeAlias, get_args, get_origin

from tracegrade.codec.json_text import to_json
from tracegrade.model.evaluation import Decision, Evaluation, JudgedSubject, Measure, Pair
from tracegrade.model.record import ShownField, own_fields
from tracegrade.model.tool_call import ToolCall
from tracegrade.model.trace_result import TraceSummary

Table: TypeAlias = Literal["results", "tool_calls"]
TABLES: tuple[Table, ...] = ("results", "tool_calls")
Type: TypeAlias = Literal["string", "int64", "double", "bool", "time", "list<string>"]

_TYPES: dict[Any, Type] = {str: "string", int: "int64", float: "double", bool: "bool", list[str]: "list<string>"}
_MAX_INTEGER = 2**63 - 1
_MOST_MISSING = 20
_GIVEN_NOT = ("absent", "elsewhere")


class Column(NamedTuple):
    """One column.

    Attributes:
        name: in the file.
        type: as Arrow names it.
        meaning: as the documentation says it.
        value: gives what the column holds, of the record that it is of.
        is_value: it holds values of traces, and null without include_values.
        is_long: it holds texts that may be long.
    """

    name: str
    type: Type
    meaning: str
    value: Callable[[Any], Any]
    is_value: bool = False
    is_long: bool = False


def _time(time_ns: int) -> int:
    """Microseconds since 1970 UTC: what every reader of Parquet understands as a time with a zone."""
    return min(time_ns, _MAX_INTEGER) // 1000


def _json(value: Any) -> str:
    return to_json(value).decode().strip()


def _columns_of(record: type, *names: str) -> tuple[Column, ...]:
    """The columns of the fields of a record, or of those with these names, in their order."""
    found = {field.path: field for field in own_fields(record) if field.column is not None}
    return tuple(_column(found[name]) for name in names or found)


def _column(field: ShownField) -> Column:
    """The column of a shown field; it is null where a text is empty."""
    shown, of_record = field.shown, attrgetter(field.path)
    of_type, convert = _form(field)
    value = of_record if convert is None else lambda record: convert(of_record(record))
    meaning = f"{shown.meaning}{shown.in_column}"
    return Column(field.column or "", of_type, meaning, value, shown.is_value, shown.is_long)


def _form(field: ShownField) -> tuple[Type, Callable[[Any], Any] | None]:
    """The type of its column, and what makes values of this type."""
    if field.shown.is_time:
        return "time", _time
    kind = get_args(field.type)[0] if get_origin(field.type) is UnionType else field.type  # of `X | None`
    if kind is str or get_origin(kind) is Literal:
        return "string", lambda text: text or None
    return (_TYPES[kind], None) if kind in _TYPES else ("string", _json)


def _if_timed(value: Callable[[ToolCall], int]) -> Callable[[ToolCall], int | None]:
    """Null of a call that only a message shows."""
    return lambda call: value(call) if call.end_ns > 0 else None


def _duration_ns(call: ToolCall) -> int:
    return min(max(call.end_ns - call.start_ns, 0), _MAX_INTEGER)


def _if_given(column: Column) -> Callable[[ToolCall], str | None]:
    """Null where the sender did not give the arguments, or the output."""
    status = attrgetter(f"{column.name}_status")
    return lambda call: None if status(call) in _GIVEN_NOT else column.value(call)


def _measured(measure: Measure) -> Callable[[Decision], float | None]:
    return lambda decision: dict(decision.measured).get(measure)


TRACE = (
    Column("run", "string", "`live`", attrgetter("run")),
    Column(
        "judged_id",
        "string",
        "the trace id; of a session an id of its own. Equal in all revisions",
        lambda trace: trace.own_id.hex(),
    ),
    *_columns_of(TraceSummary, "revision", "trace_id", "first_received_ns"),
)
"""What every row says of its trace."""

JUDGED_TRACE = (
    Column(
        "members",
        "list<string>",
        "of a session the ids of its traces, else null",
        lambda trace: None if trace.members is None else [member.hex() for member in trace.members],
    ),
    *_columns_of(TraceSummary, "closed_ns", "close_reason", "complete"),
    Column(
        "missing",
        "list<string>",
        f"what was missing, the first {_MOST_MISSING}",
        lambda trace: trace.missing[:_MOST_MISSING] or None,
    ),
    *_columns_of(TraceSummary, "rule_set_hash", "tracegrade"),
)
"""What rows of results say of it besides."""

SUBJECT = _columns_of(JudgedSubject, "kind", "id", "span_id", "time", "service", "release", "session", "agent")
PAIR = _columns_of(Pair)
DECISION = (
    Column(
        "decision",
        "string",
        "what became of (subject, rule): `evaluated`, `not_evaluable` or `error`",
        lambda decision: decision.kind,
    ),
    Column(
        "rule_outcome",
        "string",
        "the rule's outcome on the subject; repeated in each of its evaluations",
        lambda decision: decision.outcome or decision.kind,
    ),
    Column("tokens", "double", "tokens of the subject, where an alert of the rule watches them", _measured("tokens")),
    Column("cost", "double", "their cost, where an alert watches it", _measured("cost")),
    Column(
        "duration_s",
        "double",
        "the subject's duration in seconds, where an alert watches it",
        _measured("duration"),
    ),
)
EVALUATION = _columns_of(Evaluation)

CALLING_TRACE = _columns_of(TraceSummary, "service", "release", "session")
"""What rows of tool calls say of their trace besides."""

NUMBER = Column("number", "int64", "the place among the trace's calls, from 0", int)
CALL = (
    *_columns_of(ToolCall, "name", "raw_name", "call_id", "agent", "agent_span_id", "span_id"),
    Column("subject_id", "string", "`subject_id` of the results of scope tool-call", lambda call: call.subject_id),
    *(column._replace(value=_if_timed(column.value)) for column in _columns_of(ToolCall, "start_ns", "end_ns")),
    Column("duration_ns", "int64", "between them, in ns", _if_timed(_duration_ns)),
    *_columns_of(ToolCall, "arguments_status", "output_status"),
    Column(
        "error_type",
        "string",
        'the type of the error, "" if unknown; null without an error',
        lambda call: None if call.error is None else call.error.type,
    ),
    *_columns_of(ToolCall, "depth", "batch", "attempt", "dialect", "duplicate_of"),
    *(column._replace(value=_if_given(column)) for column in _columns_of(ToolCall, "arguments", "output")),
    Column(
        "error_message",
        "string",
        "the message of the error",
        lambda call: None if call.error is None else call.error.message,
        is_value=True,
    ),
)

COLUMNS: dict[Table, tuple[Column, ...]] = {
    "results": (*TRACE, *JUDGED_TRACE, *SUBJECT, *PAIR, *DECISION, *EVALUATION),
    "tool_calls": (*TRACE, *CALLING_TRACE, NUMBER, *CALL),
}
