"""The access log leaves for exporters as log events, each once where the exporter takes it."""

import asyncio
from pathlib import Path

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from tracegrade.access.log import Access, AccessFiles
from tracegrade.access.settings import AccessLogSettings
from tracegrade.model.signal import Signal
from tracegrade.otlp.answer import Answer
from tracegrade.otlp.exporter_settings import ExporterSettings
from tracegrade.otlp.metrics import Instance
from tracegrade.serve.access_export import AccessExport
from tracegrade.telemetry.metrics import Telemetry

SETTINGS = ExporterSettings.model_validate({"endpoint": "localhost:4317"})
WITHOUT_LOGS = ExporterSettings.model_validate({"endpoint": "localhost:4317", "signals": ["traces"]})


class Peer:
    def __init__(self) -> None:
        self.is_down = False
        self.taken: list[ExportLogsServiceRequest] = []

    async def export(self, signal: Signal, payload: bytes) -> Answer:
        assert signal is Signal.LOGS
        if self.is_down:
            return Answer("retry", "unavailable")
        self.taken.append(ExportLogsServiceRequest.FromString(payload))
        return Answer("sent")

    @property
    def names(self) -> list[str]:
        """The names in all log records that were taken."""
        return [
            attribute.value.string_value
            for request in self.taken
            for record in request.resource_logs[0].scope_logs[0].log_records
            for attribute in record.attributes
            if attribute.key == "tracegrade.access.name"
        ]


def note(files: AccessFiles, name: str) -> None:
    files.write([Access(name, None, "read", "GET /traces/{trace_id}", {"trace_id": "ab"}, 200, True).line()])


def export(files: AccessFiles, peer: Peer, telemetry: Telemetry) -> AccessExport:
    exporters = {"otlp/one": SETTINGS, "otlp/other": WITHOUT_LOGS}
    return AccessExport(files, exporters, {"otlp/one": peer}, Instance("id", "1"), telemetry)


def test_entries_are_sent_once_and_what_was_missed_later(tmp_path: Path) -> None:
    files = AccessFiles(tmp_path, AccessLogSettings())
    peer, telemetry = Peer(), Telemetry("receive")
    note(files, "before the start")
    exporting = export(files, peer, telemetry)
    note(files, "first")
    asyncio.run(exporting.send())
    asyncio.run(exporting.send())
    assert peer.names == ["before the start", "first"]
    peer.is_down = True
    note(files, "second")
    asyncio.run(exporting.send())
    assert len(peer.names) == 2
    peer.is_down = False
    asyncio.run(export(files, peer, Telemetry("receive")).send())  # a restart goes on, too
    assert peer.names == ["before the start", "first", "second"]
    assert telemetry.value("tracegrade.access_log.entries") == 2


def test_an_event_has_a_scope_of_its_own_and_says_all_of_the_entry(tmp_path: Path) -> None:
    files, peer, telemetry = AccessFiles(tmp_path, AccessLogSettings()), Peer(), Telemetry("receive")
    exporting = export(files, peer, telemetry)
    note(files, "auditor")
    files.write([b'{"time":"2026-01-01T00:00:00.000Z","lost":3}\n'])
    asyncio.run(exporting.send())
    scope = peer.taken[0].resource_logs[0].scope_logs[0]
    assert scope.scope.name == "tracegrade.access"
    record, lost = scope.log_records
    assert record.event_name == "tracegrade.access"
    found = {attribute.key.removeprefix("tracegrade.access."): attribute.value for attribute in record.attributes}
    assert found["operation"].string_value == "GET /traces/{trace_id}"
    assert found["status"].int_value == 200
    assert found["values"].bool_value
    assert found["named"].kvlist_value.values[0].key == "trace_id"
    assert lost.severity_text == "WARN"
    assert telemetry.value("tracegrade.access_log.lost") == 3
