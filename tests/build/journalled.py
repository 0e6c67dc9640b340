"""A data folder as `serve` leaves it: requests in its journal, and in its store what the judge made of them."""

from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan

from build import store_with
from build.otlp import Content, log_payload, log_records_of, payload, spans_of
from tracegrade.assemble.closed_traces import ClosedTraces
from tracegrade.assemble.settings import TracesSettings
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.record import Encoding, Entry, Record
from tracegrade.journal.settings import JournalSettings
from tracegrade.model.signal import Signal
from tracegrade.model.trace_result import TraceResult
from tracegrade.pipeline.record_judge import RecordJudge
from tracegrade.pipeline.trace_result import result_of
from tracegrade.rule.load import load_rules
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.open import open_store
from tracegrade.store.rule_texts import save_rule_texts
from tracegrade.store.write import StoreWriter

START_S = 1_767_225_600
"""2026-01-01T00:00:00Z."""


class Came(NamedTuple):
    """A request: when it came (seconds after `START_S`), what is in it, and of whom."""

    at_s: float
    contents: Sequence[Content]
    tenant: str = "default"
    service: str = "shop"
    release: str = ""


def with_(span: OtlpSpan, **attributes: str) -> OtlpSpan:
    """The same span with more attributes; ``__`` in their names stands for a dot."""
    made = OtlpSpan()
    made.CopyFrom(span)
    for key, value in attributes.items():
        made.attributes.add(key=key.replace("__", ".")).value.string_value = value
    return made


def _payload(spans: Sequence[OtlpSpan], request: Came) -> bytes:
    made = ExportTraceServiceRequest.FromString(payload(spans, request.service))
    if request.release:
        attributes = made.resource_spans[0].resource.attributes
        attributes.add(key="service.version").value.string_value = request.release
    return made.SerializeToString()


def journalled(data_dir: Path, came: Iterable[Came], **settings: Any) -> list[Record]:
    """Write requests into the journal; gives its records."""
    now = [START_S]
    folder, of_journal = data_dir / "journal", JournalSettings(**settings)
    journal = LocalJournal.open(folder, of_journal, lambda: round(now[0] * 1e9), monotonic_ns=lambda: 0)
    for request in came:
        now[0] = START_S + request.at_s
        spans, logs = spans_of(request.contents), log_records_of(request.contents)
        made = ((Signal.TRACES, spans, _payload(spans, request)), (Signal.LOGS, logs, log_payload(logs)))
        for signal, items, data in made:
            if items:
                journal.append(Entry(signal, Encoding.PROTOBUF, request.tenant, len(items), data)).result()
    journal.close()
    records: list[Record] = []
    with closing(JournalReader(data_dir / "journal")) as reader:
        position = reader.first()
        while some := reader.read(position):
            records += some
            position = some[-1].end
    return records


def judged_live(
    data_dir: Path,
    came: Iterable[Came],
    rules: Path | RuleSet,
    traces: TracesSettings | None = None,
    **settings: Any,
) -> list[TraceResult]:
    """Write requests into the journal, judge by `rules`, store and give the results; `settings` are the journal's."""
    rule_set = rules if isinstance(rules, RuleSet) else load_rules([rules])
    judge = RecordJudge(traces or TracesSettings(), rule_set, ClosedTraces())
    judged = [item for record in journalled(data_dir, came, **settings) for item in judge.read(record)]
    results = [result_of(item, "live", "settings") for item in (*judged, *judge.end())]
    engine = open_store(store_with(data_dir))
    with engine.begin() as connection:
        save_rule_texts(connection, rule_set, START_S * 10**9)
    writer = StoreWriter(engine)
    for result in results:
        writer.write([result])
    engine.dispose()
    return results
