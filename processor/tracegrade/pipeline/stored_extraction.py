"""A stored trace, extracted again as it was when it was judged."""

from tracegrade.assemble.settings import TracesSettings
from tracegrade.extract.registry import extract
from tracegrade.match.tool_aliases import ToolAliases
from tracegrade.model.extraction import Extraction
from tracegrade.model.trace import Trace
from tracegrade.store.kept_spans import decode_spans
from tracegrade.store.read import StoredTrace


def extract_stored(stored: StoredTrace, settings: TracesSettings) -> Extraction:
    """The calls and runs of `stored`, under the tool names that `settings` give.

    Raises:
        KeptSpansError: its spans are damaged, or were stored by another version.
    """
    head = stored.trace
    kept = decode_spans(stored.spans)
    trace = Trace(
        trace_id=bytes.fromhex(head["trace_id"]),
        tenant=head["tenant"],
        spans=kept.spans,
        close_reason=head["close_reason"],
        missing=head["missing"],
        revision=head["revision"],
        last_received_ns=head["last_received_ns"],
        cut_by=head["cut_by"],
        replaced=kept.replaced,
        log_records=kept.log_records,
    )
    return extract(trace, ToolAliases(settings.tool_aliases))
