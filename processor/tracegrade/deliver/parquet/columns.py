"""What a row of each Parquet table holds: names, types and meanings, from which schema and documentation are made.

A row is of several records: a trace, and what was judged of it. Each column takes what it holds from one of them.
"""

from collections.abc import Callable, Sequence
from types import UnionType
from typing import Any, Literal, NamedTuple, TypeAlias, get_args, get_origin

from tracegrade.codec.json_text import to_json
from tracegrade.model.evaluation import Decision, Evaluation, JudgedSubject, Measure, Pair
from tracegrade.model.field_schema import RecordField, own_fields
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
        value: what it holds, of the record that it is of: an expression with ``record``, or a function of it.
        is_value: it holds values of traces, and null without include_values.
        is_long: it holds texts that may be long.
    """

    name: str
    type: Type
    meaning: str
    value: str | Callable[[Any], Any]
    is_value: bool = False
    is_long: bool = False


def row_of(columns: Sequence[Column], *, with_values: bool = True) -> Callable[[Any], tuple[Any, ...]]:
    """A function that makes the part of a row with these columns of the record that they are of."""
    known: dict[str, Any] = {"as_json": _json}  # what the text of the function refers to
    values = []
    for column in columns:
        value = column.value if with_values or not column.is_value else "None"
        if not isinstance(value, str):
            known[name := f"value_{len(known)}"] = value
            value = f"{name}(record)"
        values.append(value)
    made: Callable[[Any], tuple[Any, ...]] = eval(f"lambda record: ({', '.join(values)},)", known)
    return made


def _json(value: Any) -> str:
    return to_json(value).decode().strip()


def _columns_of(record: type, *names: str) -> tuple[Column, ...]:
    """The columns of the fields of a record, or of those with these names, in their order."""
    found = {field.path: field for field in own_fields(record) if field.column is not None}
    return tuple(_column(found[name]) for name in names or found)


def _column(field: RecordField) -> Column:
    """The column of a shown field; it is null where a text is empty."""
    of_type, value = _form(field, f"record.{field.path}")
    spec = field.spec
    meaning = f"{spec.meaning}{spec.in_column}"
    return Column(field.column or "", of_type, meaning, value, spec.is_value, spec.is_long)


def _form(field: RecordField, value: str) -> tuple[Type, str]:
    """The type of its column, and the expression for a value of this type."""
    if field.spec.is_time:  # microseconds since 1970 UTC: what every reader takes for a time with a zone
        return "time", f"min({value}, {_MAX_INTEGER}) // 1000"
    kind = get_args(field.type)[0] if get_origin(field.type) is UnionType else field.type  # of `X | None`
    if kind is str or get_origin(kind) is Literal:
        return "string", f"{value} or None"
    return (_TYPES[kind], value) if kind in _TYPES else ("string", f"as_json({value})")


def _if_timed(column: Column) -> Column:
    """Null of a call that only a message shows."""
    return column._replace(value=f"{column.value} if record.end_ns > 0 else None")


def _if_given(column: Column) -> Column:
    """Null where the sender did not give the arguments, or the output."""
    return column._replace(value=f"None if record.{column.name}_status in {_GIVEN_NOT} else {column.value}")


def _measured(measure: Measure) -> Callable[[Decision], float | None]:
    return lambda decision: dict(decision.measured).get(measure) if decision.measured else None


TRACE = (
    Column("run", "string", "`live`", "record.run"),
    Column(
        "judged_id",
        "string",
        "the trace id; of a session an id of its own. Equal in all revisions",
        "record.own_id.hex()",
    ),
    *_columns_of(TraceSummary, "revision", "trace_id", "first_received_ns"),
)
"""Columns of every row about its trace."""

JUDGED_TRACE = (
    Column(
        "members",
        "list<string>",
        "of a session the ids of its traces, else null",
        "None if record.members is None else [member.hex() for member in record.members]",
    ),
    *_columns_of(TraceSummary, "closed_ns", "close_reason", "complete"),
    Column(
        "missing",
        "list<string>",
        f"what was missing, the first {_MOST_MISSING}",
        f"record.missing[:{_MOST_MISSING}] or None",
    ),
    *_columns_of(TraceSummary, "rule_set_hash", "tracegrade"),
)
"""Further columns of results about the trace."""

SUBJECT = _columns_of(JudgedSubject, "kind", "id", "span_id", "time", "service", "release", "session", "agent")
PAIR = _columns_of(Pair)
DECISION = (
    Column(
        "decision",
        "string",
        "what became of (subject, rule): `evaluated`, `not_evaluable` or `error`",
        "record.kind",
    ),
    Column(
        "rule_outcome",
        "string",
        "the rule's outcome on the subject; repeated in each of its evaluations",
        "record.outcome or record.kind",
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
"""Further columns of tool calls about their trace."""

NUMBER = Column("number", "int64", "the place among the trace's calls, from 0", "record")
_DURATION = Column(
    "duration_ns",
    "int64",
    "between them, in ns",
    f"min(max(record.end_ns - record.start_ns, 0), {_MAX_INTEGER})",
)
CALL = (
    *_columns_of(ToolCall, "name", "raw_name", "call_id", "agent", "agent_span_id", "span_id"),
    Column("subject_id", "string", "`subject_id` of the results of scope tool-call", "record.subject_id or None"),
    *map(_if_timed, (*_columns_of(ToolCall, "start_ns", "end_ns"), _DURATION)),
    *_columns_of(ToolCall, "arguments_status", "output_status"),
    Column(
        "error_type",
        "string",
        'the type of the error, "" if unknown; null without an error',
        "None if record.error is None else record.error.type",
    ),
    *_columns_of(ToolCall, "depth", "batch", "attempt", "dialect", "duplicate_of"),
    *map(_if_given, _columns_of(ToolCall, "arguments", "output")),
    Column(
        "error_message",
        "string",
        "the message of the error",
        "None if record.error is None else record.error.message",
        is_value=True,
    ),
)

COLUMNS: dict[Table, tuple[Column, ...]] = {
    "results": (*TRACE, *JUDGED_TRACE, *SUBJECT, *PAIR, *DECISION, *EVALUATION),
    "tool_calls": (*TRACE, *CALLING_TRACE, NUMBER, *CALL),
}
