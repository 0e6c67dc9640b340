"""The results of one trace as bytes, and back: in the results journal and in the store.

Rows instead of objects, as keys would be half of the text. Values that all results of a subject share are written once.
A record of the results journal is a `TraceResult.packed` followed by the kept spans; the store has a column for each of
the two.
"""

from collections.abc import Collection, Sequence
from dataclasses import fields
from itertools import groupby
from operator import itemgetter
from struct import Struct
from struct import error as StructError
from typing import Any

from tracegrade.codec.json_text import from_json, to_json
from tracegrade.codec.packing import Unreadable, pack, unpack
from tracegrade.model.evaluation import BACKFILL, Decision, Evaluation, JudgedSubject, Pair
from tracegrade.model.field_schema import json_of, rows_of
from tracegrade.model.tool_call import ToolCall, ToolError
from tracegrade.model.trace_result import NotDecoded, RunSummary, TraceResult, TraceSummary

_VERSION = 1
_RECORD_HEAD = Struct(">BI")  # version, length of the packed results
_RECORD_VERSION = 2

_SHARED = ("tenant", "run", "trace_id", "revision", "close_reason", "complete", "missing", "release")
# The place of what was backfilled, by rule id; the other parts come before it.
_BACKFILLED = 4
_ERROR = [field.name for field in fields(ToolCall)].index("error")
# The fields that every stored summary has, in their order; the others come after them and are read one by one.
_values_of = itemgetter(*[field.name for field in fields(TraceSummary)][:-5])
_RUN = [field.name for field in fields(RunSummary)]


def encode_result(result: TraceResult) -> bytes:
    """The record of the results journal; equal results give equal bytes."""
    return b"".join((_RECORD_HEAD.pack(_RECORD_VERSION, len(result.packed)), result.packed, result.spans))


def decode_result(payload: bytes) -> TraceResult:
    """The result that `encode_result` wrote.

    Raises:
        Unreadable: the bytes are not such a record.
    """
    try:
        version, length = _RECORD_HEAD.unpack_from(payload)
    except StructError as error:
        raise Unreadable(f"a record of the results journal cannot be read: {error}") from None
    if version != _RECORD_VERSION:
        raise Unreadable(
            f"a record of the results journal cannot be read: version {version} found, expected {_RECORD_VERSION}"
        )
    end = _RECORD_HEAD.size + length
    try:
        return unpack_result(payload[_RECORD_HEAD.size : end], payload[end:])
    except Unreadable as error:
        raise Unreadable(f"a record of the results journal cannot be read: {error}") from None


def erased(payload: bytes) -> bytes:
    """The bytes that replace a record whose deletion was requested: of the same length, without its content."""
    return bytes(len(payload))


def is_erased(payload: bytes) -> bool:
    """Whether these bytes replace a deleted record."""
    return payload.startswith(b"\0")  # a record begins with its version


def new_result(trace: TraceSummary, spans: bytes, tool_calls: list[ToolCall], decisions: list[Decision]) -> TraceResult:
    """The result of these parts, packed; equal parts give equal bytes.

    Args:
        trace: the trace or session as a whole.
        spans: its kept spans, packed.
        tool_calls: in their order.
        decisions: in their order, with their evaluations; all of this one trace.
    """
    parts = (_VERSION, trace.to_json(), _call_rows(tool_calls), *_decision_parts(decisions))
    return TraceResult(trace, spans, tool_calls, decisions, pack(to_json(parts)))


def with_backfilled(packed: bytes, rule_ids: Collection[str], decisions: Sequence[Decision]) -> bytes:
    """The ``packed`` of the same result in which `decisions` are all that is backfilled of the rules of these ids.

    What was backfilled of other rules stays, before them; without any, the bytes are as they were judged live.

    Args:
        packed: of the result.
        rule_ids: of those rules.
        decisions: theirs, in the order of their rules.

    Raises:
        Unreadable: as `unpack_result`.
    """
    try:
        *parts, backfilled = [*_parts(packed), {}][: _BACKFILLED + 1]
        left = {rule_id: found for rule_id, found in backfilled.items() if rule_id not in rule_ids}
    except (ValueError, TypeError, AttributeError) as error:
        raise Unreadable(f"packed results cannot be read: {error}") from None
    for rule_id, of_rule in groupby(decisions, lambda decision: decision.pair.rule_id):
        left[rule_id] = _decision_parts(list(of_rule))
    return pack(to_json((_VERSION, *parts, left) if left else (_VERSION, *parts)))


def _decision_parts(decisions: Sequence[Decision]) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """The rows of their subjects, and their own."""
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
                *((decision.measured,) if decision.measured else ()),
            )
        )
    return _subject_rows(subjects), rows


def unpack_result(packed: bytes, spans: bytes) -> TraceResult:
    """The result with this ``packed`` and these ``spans``.

    Raises:
        Unreadable: `packed` is damaged or of another version.
    """
    try:
        summary, calls, subjects, rows, *backfilled = _parts(packed)
        decisions = _decisions(summary, subjects, rows)
        added: list[Decision] = []
        for of_rule in backfilled[0].values() if backfilled else ():
            added += _decisions({**summary, "run": BACKFILL}, *of_rule)
        return TraceResult(_summary(summary), spans, [_call(row) for row in calls], decisions, packed, added)
    except (KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
        raise Unreadable(f"packed results cannot be read: {error}") from None


def unpack_summary(packed: bytes) -> TraceSummary:
    """Only the summary of the result with this ``packed``.

    Raises:
        Unreadable: `packed` is damaged or of another version.
    """
    try:
        return _summary(_parts(packed)[0])
    except (KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
        raise Unreadable(f"packed results cannot be read: {error}") from None


def unpack_calls(packed: bytes) -> list[ToolCall]:
    """Only the calls of the result with this ``packed``.

    Raises:
        Unreadable: `packed` is damaged or of another version.
    """
    try:
        return [_call(row) for row in _parts(packed)[1]]
    except (ValueError, TypeError, IndexError) as error:
        raise Unreadable(f"packed results cannot be read: {error}") from None


def with_runs(packed: bytes, runs: Sequence[RunSummary]) -> bytes:
    """The ``packed`` of the same result with these runs in its summary.

    Raises:
        Unreadable: as `unpack_result`.
    """
    try:
        summary, *rest = _parts(packed)
        summary["runs"] = [json_of(run) for run in runs]
        return pack(to_json((_VERSION, summary, *rest)))
    except (ValueError, TypeError) as error:
        raise Unreadable(f"packed results cannot be read: {error}") from None


def _parts(packed: bytes) -> list[Any]:
    version, *parts = from_json(unpack(packed))
    if version != _VERSION:
        raise ValueError(f"version {version!r} found, expected {_VERSION}")
    return list(parts)


def _summary(found: dict[str, Any]) -> TraceSummary:
    found.setdefault("tracegrade", "")  # results from before the first release do not say
    runs = [RunSummary(*map(run.get, _RUN)) for run in found.get("runs", ())]
    members = found.get("members")
    if members is not None:
        members = {bytes.fromhex(trace_id): revision for trace_id, revision in members.items()}
    not_decoded = found.get("not_decoded")
    if not_decoded is not None:
        not_decoded = NotDecoded(**not_decoded)
    return TraceSummary(*[*_values_of(found), runs, members, not_decoded, found.get("cost"), found.get("prompt")])


def _error_row(error: ToolError) -> tuple[str, str]:
    return error.type, error.message


# In the order of the fields of the class, so that a row makes the object again.
_names = {kind: [field.name for field in fields(kind)] for kind in (JudgedSubject, Evaluation, ToolCall)}
_subject_rows = rows_of(name for name in _names[JudgedSubject] if name not in _SHARED)
_evaluation_rows = rows_of(name for name in _names[Evaluation] if name != "pair")
_full_call_rows = rows_of(_names[ToolCall], error=_error_row)


def _call_rows(calls: Sequence[ToolCall]) -> list[tuple[Any, ...]]:
    """Rows of calls; few failures are hidden, and nothing follows this field, which the others leave out."""
    return [row if row[-1] else row[:-1] for row in _full_call_rows(calls)]


def _call(row: list[Any]) -> ToolCall:
    if row[_ERROR] is not None:
        row[_ERROR] = ToolError(*row[_ERROR])
    return ToolCall(*row)


def _decisions(summary: dict[str, Any], subjects: list[list[Any]], rows: list[list[Any]]) -> list[Decision]:
    shared = [summary[name] for name in _SHARED]
    judged = [JudgedSubject(*shared, *row) for row in subjects]
    return [_decision(judged, row) for row in rows]


def _decision(subjects: list[JudgedSubject], row: list[Any]) -> Decision:
    subject, rule_id, rule_hash, level, probability, kind, outcome, reason, evaluations, *measured = row
    pair = Pair(subjects[subject], rule_id, rule_hash, level, probability)
    decision = Decision(
        pair, kind, outcome, reason, [Evaluation(pair, *of_evaluation) for of_evaluation in evaluations]
    )
    if measured:
        decision.measured = tuple((name, value) for name, value in measured[0])
    return decision
