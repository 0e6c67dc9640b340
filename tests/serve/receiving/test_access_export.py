"""The access log leaves for exporters as log events, each once where the exporter takes it."""

import asyncio
from pathlib import Path

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from tracegrade.access.log import Access, AccessFiles
from tracegrade.access.settings import AccessLogSettings
from tracegrade.model.signal import Signal
from tracegrade.otlp.answer import Answer
from tracegrade.otlp.exporter_settings import ExporterSettings
from tracegrade.otlp.metrics import Instance
from tracegrade.serve.receiving.access_export import AccessExport
from tracegrade.telemetry.metrics import Telemetry

SETTINGS = ExporterSettings.model_validate({"endpoint": "localhost:4317"})
WITHOUT_LOGS = ExporterSettings.model_validate({"endpoint": "localhost:4317", "signals": ["traces"]})

SENT = Answer("sent")


class Peer:
    def __init__(self, answer: Answer = SENT) -> None:
        self.is_down = False
        self.answer = answer
        self.taken: list[ExportLogsServiceRequest] = []

    async def export(self, signal: Signal, payload: bytes) -> Answer:
        assert signal is Signal.LOGS
        if self.is_down:
            return Answer("retry", "unavailable")
        self.taken.append(ExportLogsServiceRequest.FromString(payload))
        return self.answer

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


def note(files: AccessFiles, name: str, tenant: str | None = None) -> None:
    files.write([Access(name, tenant, "read", "GET /traces/{trace_id}", {"trace_id": "ab"}, 200, True).line()])


def export(files: AccessFiles, peer: Peer, telemetry: Telemetry, settings: ExporterSettings = SETTINGS) -> AccessExport:
    exporters = {"otlp/one": settings, "otlp/other": WITHOUT_LOGS}
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


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Answer("failed", "unauthenticated", message="no such key"), "otlp/one refused 2 of its entries for good"),
        (Answer("sent", rejected=1, message="no such key"), "otlp/one refused 1 of its entries for good"),
    ],
)
def test_what_an_exporter_refuses_for_good_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, answer: Answer, why: str
) -> None:
    files = AccessFiles(tmp_path, AccessLogSettings())
    note(files, "first")
    note(files, "second")
    asyncio.run(export(files, Peer(answer), Telemetry("receive")).send())
    [said] = caplog.messages
    assert why in said
    assert "no such key" in said


def test_an_exporter_for_one_tenant_is_sent_what_this_tenants_callers_did_alone(tmp_path: Path) -> None:
    files, peer = AccessFiles(tmp_path, AccessLogSettings()), Peer()
    exporting = export(files, peer, Telemetry("receive"), SETTINGS.model_copy(update={"tenants": ["shop"]}))
    note(files, "operator")
    note(files, "of the shop", "shop")
    files.write([b'{"time":"2026-01-01T00:00:00.000Z","lost":3}\n'])
    asyncio.run(exporting.send())
    note(files, "of globex", "globex")
    asyncio.run(exporting.send())
    assert peer.names == ["of the shop"]
    assert len(peer.taken) == 1


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
