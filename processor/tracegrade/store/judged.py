"""What was judged of one trace as compressed bytes, and back: the results journal and the store hold the same.

Rows instead of objects: a key for each value would be half of the text. What all results of a subject share is written
once.
"""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, TypeAlias

from tracegrade.model.errors import TraceGradeError
from tracegrade.model.evaluation import Decision, Evaluation, JudgedSubject, Pair
from tracegrade.model.tool_call import ToolCall, ToolError
from tracegrade.store.json_text import from_json, to_json
from tracegrade.store.packing import pack, unpack

_VERSION = 1

_SHARED = ("tenant", "run", "trace_id", "revision", "close_reason", "complete", "missing", "release")
_ERROR = [field.name for field in fields(ToolCall)].index("error")

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
                _evaluation_rows(decision.evaluations),
            )
        )
    return pack(to_json((_VERSION, trace, _call_rows(tool_calls), _subject_rows(subjects), rows)))


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


# In the order of the fields of the class, so that a row makes the object again. Written out, and for all at once: the
# interpreter reads attributes three times as fast so as `operator.attrgetter` does.
def _subject_rows(subjects: Sequence[JudgedSubject]) -> list[tuple[Any, ...]]:
    return [(s.kind, s.id, s.span_id, s.session, s.agent, s.service, s.time) for s in subjects]


def _evaluation_rows(evaluations: Sequence[Evaluation]) -> list[tuple[Any, ...]]:
    return [
        (
            e.id,
            e.evaluation,
            e.evaluator,
            e.case,
            e.threshold,
            e.score,
            e.outcome,
            e.reason,
            e.explanation,
            e.details,
        )
        for e in evaluations
    ]


def _call_rows(calls: Sequence[ToolCall]) -> list[tuple[Any, ...]]:
    return [
        (
            call.name,
            call.raw_name,
            call.call_id,
            call.arguments,
            call.arguments_status,
            call.output,
            call.output_status,
            None if call.error is None else (call.error.type, call.error.message),
            call.start_ns,
            call.end_ns,
            call.span_id,
            call.agent,
            call.agent_span_id,
            call.depth,
            call.batch,
            call.attempt,
            call.read_from,
            call.dialect,
            call.message_path,
            call.also_seen_in,
            call.duplicate_of,
            call.turn,
        )
        for call in calls
    ]


def _call(row: list[Any]) -> ToolCall:
    if row[_ERROR] is not None:
        row[_ERROR] = ToolError(*row[_ERROR])
    return ToolCall(*row)


def _decision(subjects: list[JudgedSubject], row: list[Any]) -> Decision:
    subject, rule_id, rule_hash, level, probability, kind, outcome, reason, evaluations = row
    pair = Pair(subjects[subject], rule_id, rule_hash, level, probability)
    return Decision(pair, kind, outcome, reason, [Evaluation(pair, *evaluation) for evaluation in evaluations])
