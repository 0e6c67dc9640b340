"""Spans of a trace that arrived after its last judgement and were not judged: read from the journal."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tracegrade.assemble.closed_traces import ClosedTrace, ClosedTraces
from tracegrade.assemble.decode import Decoder
from tracegrade.assemble.dispositions import LOST
from tracegrade.assemble.live_traces import LiveTraces
from tracegrade.assemble.settings import TracesSettings
from tracegrade.codec.kept_spans import trace_of
from tracegrade.journal.errors import JournalNotFound, SegmentDeleted
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.record import Record
from tracegrade.model.signal import Signal
from tracegrade.model.trace_result import TraceResult
from tracegrade.pipeline.record_judge import attribute_filter_for
from tracegrade.rule.rule_set import RuleSet


@dataclass(slots=True)
class LateArrival:
    """Spans or log records of one request that were not judged, and why: `TOO_LATE`, or a bound's name."""

    received_ns: int
    spans: int
    log_records: int
    reason: str


def late_arrivals(folder: Path, stored: TraceResult, settings: TracesSettings, rule_set: RuleSet) -> list[LateArrival]:
    """What the journal in `folder` still holds of `stored` that came too late to be judged, in order of arrival.

    The assembler itself decides: it is given the trace as it was stored, and reads what came since. A journal that
    is missing, or was begun again, holds nothing of it. Takes about 1 s for a GB of journal since then.

    Raises:
        Unreadable: the stored spans are damaged, or were stored by another version.
    """
    trace = trace_of(stored)
    tenant, trace_id = key = (trace.tenant, trace.trace_id)
    known = ClosedTraces()
    known.add(key, ClosedTrace.of(trace))
    attribute_filter = attribute_filter_for(rule_set, settings)
    decoder = Decoder(attribute_filter)
    live = LiveTraces(settings, known, rule_set.hash, attribute_filter.hash)
    dispositions = (live.span_dispositions, live.log_record_dispositions)
    found: list[LateArrival] = []
    for record in _records_with(folder, tenant, trace_id, trace.last_position):
        if record.signal == Signal.TRACES:
            spans_of_it = [span for span in decoder.spans(record.payload) if span.trace_id == trace_id]
            live.add(spans_of_it, tenant, record.received_ns, record.position, record.end)
        elif record.signal == Signal.LOGS:
            logs_of_it = [log for log in decoder.log_records(record.payload) if log.trace_id == trace_id]
            live.add_log_records(logs_of_it, tenant, record.received_ns, record.position, record.end)
        for disposition, reason in {lost for counts in dispositions for lost in counts if lost[0] in LOST}:
            spans, log_records = (counts.pop((disposition, reason), 0) for counts in dispositions)
            found.append(LateArrival(record.received_ns, spans, log_records, reason or disposition))
    return found


def _records_with(folder: Path, tenant: str, trace_id: bytes, position: int) -> Iterator[Record]:
    """The records of the tenant from `position` on that may hold something of the trace."""
    try:
        reader = JournalReader(folder)
    except JournalNotFound:
        return
    try:
        end = reader.durable().end
        position = max(position, reader.first())
        while position < end and (records := reader.read(position)):
            yield from (record for record in records if record.tenant == tenant and trace_id in record.payload)
            position = records[-1].end
    except SegmentDeleted:
        pass  # a receiver beside us deleted it: what is left is younger than what was asked for
    finally:
        reader.close()
