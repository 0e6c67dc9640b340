"""What a row of each Parquet table holds: names, types and meanings, from which schema and documentation are made."""

from typing import Literal, NamedTuple, TypeAlias

Table: TypeAlias = Literal["results", "tool_calls"]
TABLES: tuple[Table, ...] = ("results", "tool_calls")


class Column(NamedTuple):
    """One column; ``type`` as Arrow names it. ``is_value``: it holds values of traces, null without include_values."""

    name: str
    type: Literal["string", "int64", "double", "bool", "time", "list<string>"]
    meaning: str
    is_value: bool = False


# What every row says of its trace, in this order; see `rows.py`.
TRACE = (
    Column("run", "string", "`live`"),
    Column("judged_id", "string", "the trace id; of a session an id of its own. Equal in all revisions"),
    Column("revision", "int64", "the highest replaces the others of the same `tenant`, `run` and `judged_id`"),
    Column("trace_id", "string", "the trace id; of a session that of the trace which ended last"),
    Column("received", "time", "when the first span came in; its day is the folder's `date`"),
)

RESULTS = (
    *TRACE,
    Column("members", "list<string>", "of a session the ids of its traces, else null"),
    Column("closed", "time", "when the trace was closed"),
    Column("close_reason", "string", "why it was closed"),
    Column("complete", "bool", "whether nothing was missing; the others are left out of pass rates"),
    Column("missing", "list<string>", "what was missing, the first 20"),
    Column("rule_set_hash", "string", "which rules were in force"),
    Column("tracegrade", "string", "the version that judged"),
    Column("subject_kind", "string", "`agent`, `trace`, `session` or `tool-call`"),
    Column("subject_id", "string", "what was judged; unique together with `judged_id`"),
    Column("span_id", "string", "the span that the result is attached to"),
    Column("time", "time", "the latest end of what was judged"),
    Column("service", "string", "the subject's service"),
    Column("release", "string", "its release"),
    Column("session", "string", "its conversation"),
    Column("agent", "string", "its agent"),
    Column("rule_id", "string", "the rule; null where this revision has no result, and replaces one that had"),
    Column("rule_hash", "string", "the rule's content"),
    Column("level", "string", "how much a fail matters"),
    Column("probability", "double", "the chance with which this result is kept (`sample`)"),
    Column("decision", "string", "what became of (subject, rule): `evaluated`, `not_evaluable` or `error`"),
    Column("rule_outcome", "string", "the rule's outcome on the subject; repeated in each of its evaluations"),
    Column("tokens", "double", "tokens of the subject, where an alert of the rule watches them"),
    Column("cost", "double", "their cost, where an alert watches it"),
    Column("duration_s", "double", "the subject's duration in seconds, where an alert watches it"),
    Column(
        "id", "string", "the evaluation's id; null in the row of a decision without evaluations, as all that follows"
    ),
    Column("evaluation", "string", "its name in the rule"),
    Column("evaluator", "string", "the evaluator"),
    Column("case", "string", "the case of the rule, if it has cases"),
    Column("threshold", "double", "the score needed to pass"),
    Column("score", "double", "the score; null unless `outcome` is pass or fail"),
    Column("outcome", "string", "`pass`, `fail`, `not_evaluable` or `error`"),
    Column("reason", "string", "why it is not_evaluable, or the type of the error"),
    Column("explanation", "string", "one sentence; of an error only its type, unless values are included"),
    Column("details", "string", "the evaluator's justification as JSON", is_value=True),
)

TOOL_CALLS = (
    *TRACE,
    Column("service", "string", "the service of the trace's root"),
    Column("release", "string", "its release"),
    Column("session", "string", "its conversation"),
    Column("number", "int64", "the place among the trace's calls, from 0"),
    Column("name", "string", "the tool"),
    Column("raw_name", "string", "as it was written in the trace"),
    Column("call_id", "string", "the id of the call"),
    Column("agent", "string", "the agent that called"),
    Column("agent_span_id", "string", "its run: `subject_id` of the results of scope agent"),
    Column("span_id", "string", "the span that shows the call best"),
    Column("subject_id", "string", "`subject_id` of the results of scope tool-call"),
    Column("start", "time", "when it began; null when only a message shows it"),
    Column("end", "time", "when it ended; null when only a message shows it"),
    Column("duration_ns", "int64", "between them, in ns"),
    Column("arguments_status", "string", "how the arguments were read: `ok`, `absent`, `truncated`, ..."),
    Column("output_status", "string", "how the output was read"),
    Column("error_type", "string", 'the type of the error, "" if unknown; null without an error'),
    Column("depth", "int64", "how many calls enclose it"),
    Column("batch", "int64", "calls of one number were made together; null: not known"),
    Column("attempt", "int64", "1 for the first call of this name and these arguments, 2 for the next"),
    Column("dialect", "string", "the way in which it was written"),
    Column("duplicate_of", "string", "the same call in another trace, as TRACE_ID/SPAN_ID"),
    Column("arguments", "string", "the arguments as JSON", is_value=True),
    Column("output", "string", "the output as JSON", is_value=True),
    Column("error_message", "string", "the message of the error", is_value=True),
)

COLUMNS: dict[Table, tuple[Column, ...]] = {"results": RESULTS, "tool_calls": TOOL_CALLS}
