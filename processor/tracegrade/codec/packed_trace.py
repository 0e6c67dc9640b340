"""A trace with its spans as bytes: as the store keeps it, and as it is handed to the process that judges it."""

from dataclasses import replace
from typing import NamedTuple

from tracegrade.codec.kept_spans import decode_spans, filter_hash_in
from tracegrade.model.trace import Trace


class PackedTrace(NamedTuple):
    """A stored trace, or one that closed and is not judged yet; it is unpacked where it is judged.

    Attributes:
        number: of its row, or of its results.
        trace: all but its spans.
        spans: these, as `kept_spans` packs them.
        span_count: how many these are: about how much work it is to judge it.
        decisions: of a stored one, the rows of this view, as JSON.
    """

    number: int
    trace: Trace
    spans: bytes
    span_count: int
    decisions: str = ""

    @property
    def trace_id(self) -> bytes:
        """The id by which people find it."""
        return self.trace.trace_id

    @property
    def filter_hash(self) -> str:
        """The hash of the attribute filter of its spans.

        Raises:
            Unreadable: as `unpacked`.
        """
        return self.trace.filter_hash or filter_hash_in(self.spans)

    def unpacked(self) -> Trace:
        """The trace with its spans.

        Raises:
            Unreadable: they are damaged, or were stored by another version.
        """
        kept = decode_spans(self.spans)
        return replace(
            self.trace,
            spans=kept.spans,
            replaced=kept.replaced,
            log_records=kept.log_records,
            filter_hash=self.trace.filter_hash or kept.filter_hash,
        )
