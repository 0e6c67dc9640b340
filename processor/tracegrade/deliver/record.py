"""What travels in the results journal: one record for each (trace, revision), to every sink."""

from dataclasses import dataclass, field
from struct import Struct
from struct import error as StructError
from typing import Any

from tracegrade.model.errors import TraceGradeError
from tracegrade.store.json_text import from_json, to_json
from tracegrade.store.packing import pack, unpack

_HEAD = Struct(">BI")  # version, length of the packed JSON
_VERSION = 1


@dataclass(slots=True)
class JudgedTrace:
    """A judged trace in JSON terms.

    ``trace``: tenant, run, trace_id (hex), revision, supersedes, service, release, session, root_name, resource (all
    resource attributes of the root), close_reason, complete, missing, cut_by, span_count, call_count,
    earliest_span_id, root_span_id, start_ns, end_ns, first_received_ns, last_received_ns, first_position,
    last_position, closed_ns, rule_set_hash, settings_hash, runs. ``spans``: the kept spans as
    `tracegrade.store.kept_spans` packs them. ``tool_calls``: the fields of `ToolCall`. ``evaluations``:
    `Evaluation.to_json`. ``decisions``: the fields of `Decision` but its evaluations, for every (subject, rule) pair
    that matched. ``packed``: all but the spans as compressed JSON, made once: the results journal and the store hold
    the same bytes.
    """

    trace: dict[str, Any]
    spans: bytes
    tool_calls: list[dict[str, Any]]
    evaluations: list[dict[str, Any]]
    decisions: list[dict[str, Any]]
    packed: bytes = field(default=b"", compare=False)

    def __post_init__(self) -> None:
        if not self.packed:
            self.packed = pack(to_json([self.trace, self.tool_calls, self.evaluations, self.decisions]))


def encode(judged: JudgedTrace) -> bytes:
    """The record's bytes; equal records give equal bytes."""
    return b"".join((_HEAD.pack(_VERSION, len(judged.packed)), judged.packed, judged.spans))


def decode(payload: bytes) -> JudgedTrace:
    """The record that `encode` wrote.

    Raises:
        TraceGradeError: the bytes are no such record.
    """
    try:
        version, length = _HEAD.unpack_from(payload)
        if version != _VERSION:
            raise ValueError(f"version {version}, this one knows {_VERSION}")
        packed = payload[_HEAD.size : _HEAD.size + length]
        trace, tool_calls, evaluations, decisions = from_json(unpack(packed))
    except (ValueError, TypeError, StructError) as error:
        raise TraceGradeError(f"a record of the results journal cannot be read: {error}") from None
    return JudgedTrace(trace, payload[_HEAD.size + length :], tool_calls, evaluations, decisions, packed)
