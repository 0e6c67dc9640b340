"""All checks over one installation, each over what it needs."""

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from sqlalchemy import Connection

from tracegrade.assemble.decode import Decoder, UnreadLogs
from tracegrade.config import Config
from tracegrade.display import count, time_text
from tracegrade.doctor import installation, judging
from tracegrade.doctor.arrivals import Lateness, lateness_findings
from tracegrade.doctor.content import Content, incomplete, unread_logs
from tracegrade.doctor.finding import Finding
from tracegrade.doctor.kafka import kafka
from tracegrade.doctor.redacted import redacted
from tracegrade.history.stored_extraction import extract_stored
from tracegrade.journal.errors import JournalNotFound, SegmentDeleted
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.segments import segment_bases
from tracegrade.model.errors import TraceGradeError
from tracegrade.model.evaluation import Decision
from tracegrade.model.extraction import Extraction
from tracegrade.model.signal import Signal
from tracegrade.model.trace_result import TraceResult
from tracegrade.pipeline.data_folder import DataFolder
from tracegrade.pipeline.record_judge import attribute_filter_for
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.files import sqlite_path
from tracegrade.store.open import reading_store
from tracegrade.store.read import newest_traces, stored_traces
from tracegrade.store.senders import Sender, newest_not_judged, newest_of, recent_senders

RARE_DAYS = 7
"""The time of which the senders are looked at that have few traces among the newest."""

_DAY_NS = 86_400 * 10**9
_TRACES_A_SENDER = 20
_SEARCHED_FOR_NOT_JUDGED = 50_000  # traces; SQLite takes 0.05 s for them
_MAX_NAMED = 5


@dataclass(slots=True)
class Examined:
    """The examined data, and the findings."""

    traces: int = 0  # of the store
    traces_text: str = "0 stored traces"  # which of them
    sessions: int = 0  # of the store, judged as a whole
    journal_spans: int = 0
    unread_log_records: Counter[UnreadLogs] = field(default_factory=Counter)  # of the journal
    findings: list[Finding] = field(default_factory=list)

    @property
    def can_tell(self) -> bool:
        """Whether there was anything to look at."""
        return self.traces > 0 or self.journal_spans > 0 or bool(self.unread_log_records)

    @property
    def looked_at(self) -> str:
        """The examined data in words."""
        parts = self.traces_text, count(self.sessions, "session"), f"{count(self.journal_spans, 'span')} of the journal"
        return ", ".join(parts)


def examine(
    config: Config, rule_set: RuleSet, *, max_traces: int, max_journal_bytes: int, tenant: str | None = None
) -> Examined:
    """Look at the installation that `config` describes; changes nothing.

    Args:
        config: its settings.
        rule_set: the rules in force.
        max_traces: how many of the newest stored traces are looked at, and at most so many more of the services and
            agents of the last `RARE_DAYS` that have few among them, and of those that no rule judged.
        max_journal_bytes: how much of the newest part of the journal is looked at.
        tenant: whose data is looked at; None: everybody's, and what is of the installation as a whole, too.
    """
    examined = Examined()
    if not config.data_path.is_dir():
        text = "there is no such data folder"
        advice = "name the data folder of your 'serve' with -c or --data-dir; 'tracegrade serve' makes it"
        examined.findings.append(Finding("data folder", "error", str(config.data_path), text, advice))
        return examined
    folder = DataFolder(config.data_path)
    if tenant is None:
        examined.findings += installation.disk(config)
        examined.findings += installation.privacy(config)
        examined.findings += installation.replaced_stores(config)
    if config.journal.kafka is None:
        _look_at_journal(examined, config, folder, max_journal_bytes, tenant)
    elif tenant is None:
        examined.findings += kafka(config, config.journal.kafka)
    if tenant is None:
        examined.findings += installation.conditions(folder)
        examined.findings += installation.processes(folder)
    _look_at_store(examined, config, rule_set, max_traces, tenant)
    return examined


def _look_at_journal(
    examined: Examined, config: Config, folder: DataFolder, max_bytes: int, tenant: str | None
) -> None:
    try:
        reader = JournalReader(folder.journal)
    except JournalNotFound:
        advice = "check that this is the data folder of 'serve', and that 'serve' has run"
        examined.findings.append(Finding("journal", "error", str(folder.journal), "there is no journal", advice))
        return
    try:
        lateness = Lateness(config.traces)
        decoder = Decoder(attribute_filter_for(RuleSet([]), config.traces))
        end = reader.durable().end
        passed_over = folder.set_aside.load().positions
        position = _start(folder, reader, end - max_bytes)
        while position < end:
            try:
                records = reader.read(position)
            except SegmentDeleted as error:  # by the retention of a running serve
                position = error.first
                continue
            if not records:
                break
            for record in records:
                if tenant not in (None, record.tenant):
                    continue
                if record.position in passed_over:
                    continue
                if record.signal == Signal.LOGS:
                    decoder.log_records(record.payload)
                elif record.signal == Signal.TRACES:
                    spans = decoder.spans(record.payload)
                    spans = [span for span in spans if span.scope not in config.traces.ignore_scopes]
                    examined.journal_spans += len(spans)
                    lateness.add(spans, record.tenant, record.received_ns)
            position = records[-1].end
        if tenant is None:
            examined.findings += installation.journal(config, folder, reader)
        examined.unread_log_records = decoder.unread_log_records
        examined.findings += lateness_findings(lateness.by_service(), config.traces)
    finally:
        reader.close()


def _start(folder: DataFolder, reader: JournalReader, wanted: int) -> int:
    """The first segment that begins at `wanted` or later, else the last one: reading begins where one begins."""
    bases = [base for base in segment_bases(folder.journal) if base >= reader.first()]
    return next((base for base in bases if base >= wanted), bases[-1] if bases else reader.first())


class _Store:
    """What is read of the store: the newest traces, the newest of rare senders, and some that no rule judged."""

    def __init__(self, config: Config, max_traces: int) -> None:
        self._config = config
        self._max_traces = max_traces
        self._seen: set[tuple[str, str]] = set()  # tenant and trace id of each trace
        self._of_sender: Counter[Sender] = Counter()
        self.extractions: list[Extraction] = []
        self.decisions: list[Decision] = []
        self.content = Content()

    def read(self, connection: Connection, examined: Examined) -> None:
        """Take in traces and sessions, and say in `examined` which."""
        for stored in newest_traces(connection, self._max_traces):
            self._add(stored)
        newest = len(self.extractions)
        if 0 < newest < self._max_traces:
            examined.traces_text = "the only stored trace" if newest == 1 else f"all {newest} stored traces"
        elif newest:
            first_ns = min(extraction.trace.first_received_ns for extraction in self.extractions)
            examined.traces_text = f"the newest {count(newest, 'stored trace')} (since {time_text(first_ns)} UTC)"
            self._read_rare_senders(connection, examined)
            self._read_not_judged(connection, examined)
        for session in newest_traces(connection, self._max_traces, sessions=True):
            self.decisions += session.decisions
            examined.sessions += 1

    def _read_rare_senders(self, connection: Connection, examined: Examined) -> None:
        since_ns = time.time_ns() - RARE_DAYS * _DAY_NS
        senders = recent_senders(connection, since_ns)
        rare = [sender for sender in senders if self._of_sender[sender] < _TRACES_A_SENDER]
        wanted, left_out = rare[: self._max_traces], rare[self._max_traces :]
        most = max(1, min(_TRACES_A_SENDER, self._max_traces // max(1, len(wanted))))
        before = len(self.extractions)
        self._add_each(connection, newest_of(connection, dict.fromkeys(wanted, most), since_ns))
        if more := len(self.extractions) - before:
            examined.traces_text += f", {more} more of services and agents that have few among them"
        if left_out:
            names = ", ".join(
                sender.agent or sender.service or "an unnamed service" for sender in left_out[:_MAX_NAMED]
            )
            dots = ", ..." if len(left_out) > _MAX_NAMED else ""
            text = f"{count(len(left_out), 'sender')} (services and agents) of the last {RARE_DAYS} days"
            text += f" with few traces among the newest not looked at: {names}{dots}"
            advice = "look at more traces: --traces"
            examined.findings.append(Finding("looked at", "note", "", text, advice, {"left_out": len(left_out)}))

    def _read_not_judged(self, connection: Connection, examined: Examined) -> None:
        """Take in some that no rule judged: an agent that no rule is about may be one of many of its service."""
        since_ns = time.time_ns() - RARE_DAYS * _DAY_NS
        before = len(self.extractions)
        found = newest_not_judged(
            connection, _TRACES_A_SENDER, self._max_traces, since_ns, among=_SEARCHED_FOR_NOT_JUDGED
        )
        self._add_each(connection, found)
        if more := len(self.extractions) - before:
            examined.traces_text += f", {more} more that no rule judged"

    def _add_each(self, connection: Connection, trace_ids: Iterable[tuple[str, bytes]]) -> None:
        for tenant, trace_id in [*trace_ids]:
            if (tenant, trace_id.hex()) not in self._seen:
                for stored in stored_traces(connection, trace_id):
                    if stored.trace.tenant == tenant:
                        self._add(stored)

    def _add(self, stored: TraceResult) -> None:
        trace = stored.trace
        self._seen.add((trace.tenant, trace.trace_id))
        extraction = extract_stored(stored, self._config.traces)
        agents = {run.agent for run in extraction.runs}
        self._of_sender.update(Sender(trace.tenant, trace.service, agent) for agent in {"", *agents})
        self.extractions.append(extraction)
        self.decisions += stored.decisions
        self.content.add(extraction)


def _look_at_store(examined: Examined, config: Config, rule_set: RuleSet, max_traces: int, tenant: str | None) -> None:
    found = _Store(config, max_traces)
    try:
        with reading_store(config.store_url, tenant) as connection:
            if tenant is None:
                examined.findings += installation.free_space_of(connection, str(sqlite_path(config.store_url) or ""))
            found.read(connection, examined)
    except TraceGradeError as error:
        text, _, advice = str(error).partition("; ")
        path = sqlite_path(config.store_url)
        is_missing = path is not None and not path.exists()
        if is_missing:
            advice = "the judge makes the file when it first runs"
        finding = Finding("store", "error", "", text, advice or "check store.url and the database")
        examined.findings.append(finding)
        if not is_missing:
            return  # nothing is known of what it holds
    finally:
        examined.findings += unread_logs(examined.unread_log_records, found.content.called)
    extractions = found.extractions
    examined.traces = len(extractions)
    if extractions:
        examined.findings += incomplete(extractions)
        examined.findings += found.content.findings()
        examined.findings += redacted(extractions)
    elif examined.journal_spans:
        text = f"holds no traces, and the journal {examined.journal_spans} spans"
        advice = "check that the judge runs ('serve --role receive' has none); a trace is stored after it closed"
        examined.findings.append(Finding("store", "warning", "", text, advice))
    examined.findings += judging.idle_rules(rule_set, extractions, examined.sessions, found.decisions)
