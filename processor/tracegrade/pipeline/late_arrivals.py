"""What came of a trace after it was judged for the last time, and was not judged: read from the journal."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tracegrade.assemble.closed_traces import ClosedTrace, ClosedTraces
from tracegrade.assemble.decode import Decoder
from tracegrade.assemble.live_traces import LiveTraces
from tracegrade.assemble.settings import TracesSettings
from tracegrade.journal.errors import JournalNotFound, SegmentDeleted
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.record import Record
from tracegrade.match.rule_set import RuleSet
from tracegrade.model.signal import Signal
from tracegrade.pipeline.record_judge import wanted_by
from tracegrade.store.kept_spans import decode_spans
from tracegrade.store.read import StoredTrace

_LOST = ("too_late", "dropped")


@dataclass(slots=True)
class LateArrival:
    """Spans or log records of one request that were not judged, and why: ``too_late``, or a bound's name."""

    received_ns: int
    spans: int
    log_records: int
    reason: str


def late_arrivals(folder: Path, stored: StoredTrace, settings: TracesSettings, rule_set: RuleSet) -> list[LateArrival]:
    """What the journal in `folder` still holds of `stored` that came too late to be judged, in order of arrival.

    The assembler itself says so: it is given the trace as it was stored, and reads what came since. A journal that
    is not there, or was begun anew, holds nothing of it. About 1 s a GB of journal since then.

    Raises:
        KeptSpansError: the stored spans are damaged, or were stored by another version.
    """
    head, kept = stored.trace, decode_spans(stored.spans)
    tenant, trace_id = key = (head["tenant"], bytes.fromhex(head["trace_id"]))
    closed = ClosedTrace(
        head["closed_ns"],
        head["revision"],
        kept.spans,
        kept.replaced,
        head["cut_by"],
        head["rule_set_hash"],
        head["first_received_ns"],
        head["first_position"],
        kept.log_records,
        kept.wanted,
    )
    known = ClosedTraces()
    known.add(key, closed)
    wanted = wanted_by(rule_set, settings)
    decoder = Decoder(wanted)
    live = LiveTraces(settings, known, rule_set.hash, wanted.hash)
    fates = (live.fates, live.log_record_fates)
    found: list[LateArrival] = []
    for record in _records_with(folder, tenant, trace_id, head["last_position"]):
        if record.signal == Signal.TRACES:
            spans_of_it = [span for span in decoder.spans(record.payload) if span.trace_id == trace_id]
            live.add(spans_of_it, tenant, record.received_ns, record.position, record.end)
        elif record.signal == Signal.LOGS:
            logs_of_it = [log for log in decoder.log_records(record.payload) if log.trace_id == trace_id]
            live.add_log_records(logs_of_it, tenant, record.received_ns, record.position, record.end)
        for fate, reason in {lost for counts in fates for lost in counts if lost[0] in _LOST}:
            spans, log_records = (counts.pop((fate, reason), 0) for counts in fates)
            found.append(LateArrival(record.received_ns, spans, log_records, reason or fate))
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
        pass  # by a receiver that runs beside us: what is left is younger than what was asked for
    finally:
        reader.close()
