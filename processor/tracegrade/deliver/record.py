"""What travels in the results journal: one record for each (trace, revision), to every sink."""

import json
from dataclasses import dataclass
from struct import Struct
from struct import error as StructError
from typing import Any

import orjson

from tracegrade.model.errors import TraceGradeError

_HEAD = Struct(">BI")  # how the JSON was written, its length
_ORJSON = 1
_STDLIB = 2  # integers beyond 64 bits, lone surrogates: orjson cannot write the one and would round the other


@dataclass(slots=True)
class JudgedTrace:
    """A judged trace in JSON terms.

    ``trace``: tenant, run, trace_id (hex), revision, supersedes, service, release, session, root_name, resource (all
    resource attributes of the root), close_reason, complete, missing, cut_by, span_count, call_count, start_ns,
    end_ns, first_received_ns, last_received_ns, first_position, last_position, closed_ns, rule_set_hash,
    settings_hash. ``spans``: the kept spans as `tracegrade.store.kept_spans` packs them. ``tool_calls``: the fields
    of `ToolCall`. ``evaluations``: `Evaluation.to_json`. ``decisions``: the fields of `Decision` but its evaluations,
    for every (subject, rule) pair that matched.
    """

    trace: dict[str, Any]
    spans: bytes
    tool_calls: list[dict[str, Any]]
    evaluations: list[dict[str, Any]]
    decisions: list[dict[str, Any]]


def encode(judged: JudgedTrace) -> bytes:
    """The record's bytes; equal records give equal bytes."""
    parts = [judged.trace, judged.tool_calls, judged.evaluations, judged.decisions]
    try:
        how, text = _ORJSON, orjson.dumps(parts)
    except (TypeError, orjson.JSONEncodeError):
        how, text = _STDLIB, json.dumps(parts, separators=(",", ":")).encode("ascii")
    return _HEAD.pack(how, len(text)) + text + judged.spans


def decode(payload: bytes) -> JudgedTrace:
    """The record that `encode` wrote.

    Raises:
        TraceGradeError: the bytes are no such record.
    """
    try:
        how, length = _HEAD.unpack_from(payload)
        text = payload[_HEAD.size : _HEAD.size + length]
        trace, tool_calls, evaluations, decisions = orjson.loads(text) if how == _ORJSON else json.loads(text)
    except (ValueError, TypeError, StructError) as error:
        raise TraceGradeError(f"a record of the results journal cannot be read: {error}") from None
    return JudgedTrace(trace, payload[_HEAD.size + length :], tool_calls, evaluations, decisions)
