"""What was judged of one trace as compressed bytes, and back: the results journal and the store hold the same.

Rows instead of objects: a key for each value would be half of the text. What all results of a subject share is written
once.
"""

from collections.abc import Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any, TypeAlias

from tracegrade.model.errors import TraceGradeError
from tracegrade.model.evaluation import Decision, Evaluation, JudgedSubject, Pair
from tracegrade.model.tool_call import ToolCall, ToolError
from tracegrade.store.json_text import from_json, to_json
from tracegrade.store.packing import pack, unpack

_VERSION = 1

# In C, and in the order of the fields of the class, so that a row makes the object again.
_SUBJECT = attrgetter("kind", "id", "span_id", "session", "agent", "service", "time")
_SHARED = ("tenant", "run", "trace_id", "revision", "close_reason", "complete", "missing", "release")
_EVALUATION = attrgetter(
    "id", "evaluation", "evaluator", "case", "threshold", "score", "outcome", "reason", "explanation", "details"
)
_CALL_FIELDS = tuple(field.name for field in fields(ToolCall))
_CALL = attrgetter(*_CALL_FIELDS)
_ERROR = _CALL_FIELDS.index("error")

JudgedParts: TypeAlias = tuple[dict[str, Any], list[ToolCall], list[Decision]]


class JudgedError(TraceGradeError):
    """Packed results cannot be read: damaged, or written by another version."""


def pack_judged(trace: dict[str, Any], tool_calls: Sequence[ToolCall], decisions: Sequence[Decision]) -> bytes:
    """Pack what was judged of one trace; equal parts give equal bytes.

    Args:
        trace: the trace in JSON terms: `tracegrade.deliver.record.JudgedTrace` lists the keys.
        tool_calls: in their order.
        decisions: in their order, with their evaluations; all of the one trace.
    """
    subjects: list[JudgedSubject] = []
    rows = []
    for decision in decisions:
        pair = decision.pair
        if not subjects or subjects[-1] is not pair.subject:
            subjects.append(pair.subject)
        rows.append(
            (
                len(subjects) - 1,
                pair.rule_id,
                pair.rule_hash,
                pair.level,
                pair.probability,
                decision.kind,
                decision.outcome,
                decision.reason,
                list(map(_EVALUATION, decision.evaluations)),
            )
        )
    calls = [_call_row(call) if call.error is not None else _CALL(call) for call in tool_calls]
    return pack(to_json((_VERSION, trace, calls, list(map(_SUBJECT, subjects)), rows)))


def unpack_judged(packed: bytes) -> JudgedParts:
    """The trace, the tool calls and the decisions that `pack_judged` was given.

    Raises:
        JudgedError: `packed` is damaged or of another version.
    """
    try:
        version, *parts = from_json(unpack(packed))
        if version != _VERSION:
            raise ValueError(f"version {version!r} found, expected {_VERSION}")
        trace, calls, subjects, rows = parts
        shared = [trace.get(name) for name in _SHARED]
        judged = [JudgedSubject(*shared, *row) for row in subjects]
        return trace, [_call(row) for row in calls], [_decision(judged, row) for row in rows]
    except (ValueError, TypeError, IndexError, AttributeError) as error:
        raise JudgedError(f"packed results cannot be read: {error}") from None


def _call_row(call: ToolCall) -> list[Any]:
    row = list(_CALL(call))
    assert call.error is not None
    row[_ERROR] = (call.error.type, call.error.message)
    return row


def _call(row: list[Any]) -> ToolCall:
    if row[_ERROR] is not None:
        row[_ERROR] = ToolError(*row[_ERROR])
    return ToolCall(*row)


def _decision(subjects: list[JudgedSubject], row: list[Any]) -> Decision:
    subject, rule_id, rule_hash, level, probability, kind, outcome, reason, evaluations = row
    pair = Pair(subjects[subject], rule_id, rule_hash, level, probability)
    return Decision(pair, kind, outcome, reason, [Evaluation(pair, *evaluation) for evaluation in evaluations])
