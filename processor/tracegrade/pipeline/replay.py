"""Judges stored traces again: with the judge's own objects, over files or a stored journal."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tracegrade.assemble.closed_traces import ClosedTrace, ClosedTraces
from tracegrade.assemble.settings import TracesSettings, without_bounds
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.record import Record
from tracegrade.model.extraction import Extraction
from tracegrade.model.session import SessionPart
from tracegrade.model.tenant import DEFAULT_TENANT
from tracegrade.model.trace import TraceKey
from tracegrade.otlp.files.source_request import SourceRequest
from tracegrade.pipeline.judged import Judged, JudgedSession
from tracegrade.pipeline.record_judge import Mode, RecordJudge
from tracegrade.pipeline.set_aside import Aside
from tracegrade.pipeline.watched_judge import Watchdog
from tracegrade.pipeline.whole_traces import records_of
from tracegrade.rule.rule_set import RuleSet

NOT_STORED = "replay"
"""The run of results that are only shown."""

Advance = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which whole traces to show; None takes all. Times are ns since 1970 UTC, ``trace_id`` may be how ids begin."""

    since_ns: int | None = None
    until_ns: int | None = None
    service: str | None = None
    agent: str | None = None
    trace_id: str | None = None
    release: str | None = None
    tenant: str | None = None
    session: str | None = None

    def takes(self, judged: Judged) -> bool:
        """Whether the trace is selected: by first receive time (by earliest span start, for files).

        A session is selected when one of its traces is.
        """
        tenant, _ = judged.key
        if self.tenant not in (None, tenant):
            return False
        if isinstance(judged, JudgedSession):
            return any(self._takes(part) for part in judged.session.parts)
        return self._takes(judged.judgement.extraction)

    def _takes(self, extraction: Extraction | SessionPart) -> bool:
        trace = extraction.trace
        begun_ns = trace.first_received_ns or trace.start_ns
        return (
            (self.since_ns is None or begun_ns >= self.since_ns)
            and (self.until_ns is None or begun_ns < self.until_ns)
            and (self.service is None or trace.resource.service == self.service)
            and (self.agent is None or any(run.agent == self.agent for run in extraction.runs))
            and (self.trace_id is None or trace.trace_id.hex().startswith(self.trace_id.lower()))
            and (self.session is None or any(run.session == self.session for run in extraction.runs))
            and (self.release is None or extraction.release == self.release)
        )


def replay_journal(
    folder: Path,
    settings: TracesSettings,
    rule_set: RuleSet,
    run: str,
    advance: Advance = lambda read_bytes: None,
    deleted: Container[bytes] = (),
    *,
    aside: Aside | None = None,
    judges_traces: bool = True,
    ends: bool = True,
) -> Iterator[Judged]:
    """Judge everything in the journal at `folder` up to its durable end at the start.

    It has no position, so a running ``serve`` may delete a segment that is not read yet.

    Args:
        folder: the journal's.
        settings: of ``traces``; with those of the live run, the canonical results are the same.
        rule_set: the rules to judge by.
        run: the name under which evaluations get their ids.
        advance: called with the number of bytes read, for a progress bar.
        deleted: ids of deleted traces: spans of them that came later are not judged.
        aside: what is set aside, which replay does not judge either.
        judges_traces: as of `Mode`.
        ends: whether what is open at the end is closed and judged.

    Raises:
        JournalNotFound: there is none.
        SegmentDeleted: retention deleted records that were not read yet.
    """
    reader = JournalReader(folder)
    try:
        records = records_in(reader, advance)
        yield from replay_records(
            records, settings, rule_set, run, deleted, aside=aside, judges_traces=judges_traces, ends=ends
        )
    finally:
        reader.close()


def records_in(reader: JournalReader, advance: Advance = lambda read_bytes: None) -> Iterator[Record]:
    """All records of a journal up to its durable end at the start.

    Raises:
        SegmentDeleted: retention deleted records that were not read yet.
    """
    position, end = reader.first(), reader.durable().end
    while position < end and (records := reader.read(position)):
        for record in records:
            if record.position >= end:
                break
            yield record
        advance(min(records[-1].end, end) - position)
        position = records[-1].end


def replay_records(
    records: Iterable[Record],
    settings: TracesSettings,
    rule_set: RuleSet,
    run: str,
    deleted: Container[bytes] = (),
    *,
    aside: Aside | None = None,
    judges_traces: bool = True,
    ends: bool = True,
) -> Iterator[Judged]:
    """Judge `records`, in the order of their journal, as they were judged live."""
    in_sessions = _Packed()
    aside = aside or Aside()
    closed = ClosedTraces(
        in_sessions.lookup,
        deleted=deleted,
        set_aside=aside.traces,
        max_unpacked_spans=settings.max_unpacked_spans,
    )
    mode = Mode(run, judges_traces, decodes_all=True)
    judge = RecordJudge(settings, rule_set, closed, mode, watchdog=Watchdog(positions=aside.positions))
    reopen_ns = round(settings.reopen_for * 1e9)
    for record in records:
        yield from judge.read(record)
        for key, trace in closed.expire(record.received_ns - reopen_ns):
            in_sessions.add(key, trace)
    if ends:
        yield from judge.end()


class _Packed:
    """Traces of sessions, which may go on when the trace can no longer be reopened."""

    def __init__(self) -> None:
        self._packed: dict[TraceKey, ClosedTrace] = {}

    def add(self, key: TraceKey, closed: ClosedTrace) -> None:
        self._packed[key] = closed.as_bytes()

    def lookup(self, keys: Iterable[TraceKey]) -> Mapping[TraceKey, ClosedTrace]:
        return {key: self._packed[key].unpacked() for key in keys if key in self._packed}


def replay_sources(
    requests: Iterable[SourceRequest],
    settings: TracesSettings,
    rule_set: RuleSet,
    run: str,
    *,
    judges_traces: bool = True,
    tenant: str = DEFAULT_TENANT,
) -> Iterator[Judged]:
    """Judge the traces in files as those of `tenant`; no receive times are known, so every trace closes at its end."""
    mode = Mode(run, judges_traces, decodes_all=True)
    judge = RecordJudge(without_bounds(settings), rule_set, ClosedTraces(), mode)
    for record in records_of(requests, tenant):
        yield from judge.read(record)
    yield from judge.end()
