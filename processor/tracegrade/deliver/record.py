"""What travels in the results journal: one record for each (trace or session, revision), to every sink."""

from dataclasses import dataclass, field
from itertools import chain
from struct import Struct
from struct import error as StructError
from typing import Any

from tracegrade.model.errors import TraceGradeError
from tracegrade.model.evaluation import Decision, Evaluation
from tracegrade.model.tool_call import ToolCall
from tracegrade.store.judged import JudgedError, pack_judged, unpack_judged

_HEAD = Struct(">BI")  # version, length of the packed results
_VERSION = 2


@dataclass(slots=True)
class JudgedTrace:
    """A judged trace, or session, on its way to the sinks.

    ``trace`` in JSON terms: tenant, run, trace_id (hex), revision, supersedes, service, release, session, root_name,
    resource (all resource attributes of the root), close_reason, complete, missing, cut_by, span_count, call_count,
    earliest_span_id, root_span_id, start_ns, end_ns, first_received_ns, last_received_ns, first_position,
    last_position, closed_ns, rule_set_hash, tracegrade (the version that judged; earlier records do not say),
    settings_hash, runs. ``spans``: the kept spans as `tracegrade.store.kept_spans` packs them. ``decisions``: one for
    every (subject, rule) pair that matched, with its evaluations. ``packed``: all but the spans, made once: the results
    journal and the store hold the same bytes.

    Of a session, ``trace`` has ``members`` (hex trace id -> revision) as well, trace_id is that of the trace which
    ended last, and spans and tool calls are in the records of its traces.
    """

    trace: dict[str, Any]
    spans: bytes
    tool_calls: list[ToolCall]
    decisions: list[Decision]
    packed: bytes = field(default=b"", compare=False)

    def __post_init__(self) -> None:
        if not self.packed:
            self.packed = pack_judged(self.trace, self.tool_calls, self.decisions)

    @property
    def evaluations(self) -> list[Evaluation]:
        """The evaluations of all decisions, in their order."""
        return list(chain.from_iterable([decision.evaluations for decision in self.decisions]))


def encode(judged: JudgedTrace) -> bytes:
    """The record's bytes; equal records give equal bytes."""
    return b"".join((_HEAD.pack(_VERSION, len(judged.packed)), judged.packed, judged.spans))


def erased(payload: bytes) -> bytes:
    """What stands in for a record that somebody asked to have deleted: as long, and without anything in it."""
    return bytes(len(payload))


def is_erased(payload: bytes) -> bool:
    """Whether this stands in for a deleted record."""
    return payload.startswith(b"\0")  # a record begins with its version


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
        trace, tool_calls, decisions = unpack_judged(packed)
    except (ValueError, StructError, JudgedError) as error:
        raise TraceGradeError(f"a record of the results journal cannot be read: {error}") from None
    return JudgedTrace(trace, payload[_HEAD.size + length :], tool_calls, decisions, packed)
