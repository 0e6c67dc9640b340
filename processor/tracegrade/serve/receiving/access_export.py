"""The access log to every exporter that takes logs, from its files, and counted for ``/metrics``.

Each exporter has its own place in the files, so that one that was down gets what it missed: at least once, as long as
the files are kept. Command lines write into the same files, and are sent too.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber

from tracegrade import semconv
from tracegrade.access.log import AccessFiles, Place
from tracegrade.journal.files import replace_file
from tracegrade.model.signal import Signal
from tracegrade.otlp.answer import Exports
from tracegrade.otlp.encode import any_value
from tracegrade.otlp.exporter_settings import ExporterSettings
from tracegrade.otlp.metrics import Instance
from tracegrade.telemetry.metrics import Telemetry

logger = logging.getLogger(__name__)


class AccessExport:
    """Sends what is new, when it is asked to."""

    def __init__(
        self,
        files: AccessFiles,
        exporters: Mapping[str, ExporterSettings],
        clients: Mapping[str, Exports],
        instance: Instance,
        telemetry: Telemetry,
    ) -> None:
        """Prepare; entries are counted from now on.

        Args:
            files: of the data folder.
            exporters: settings by name.
            clients: by the same names; may be filled later.
            instance: becomes the resource.
            telemetry: where entries are counted, and those that were lost.
        """
        self._files = files
        self._exporters = {name: settings for name, settings in exporters.items() if settings.takes(Signal.LOGS)}
        self._clients = clients
        self._instance = instance
        self._telemetry = telemetry
        self._counted = files.end()

    async def send(self) -> None:
        """Count what is new, and send it to each exporter that takes it."""
        await asyncio.to_thread(self._count)
        for name, settings in self._exporters.items():
            await self._send_to(name, settings)

    def _count(self) -> None:
        found, self._counted = self._files.read(self._counted)
        while found:
            lost = sum(entry.get("lost", 0) for entry in found)
            entries = sum("lost" not in entry for entry in found)
            self._telemetry.add("tracegrade.access_log.entries", entries)
            if lost:
                self._telemetry.add("tracegrade.access_log.lost", lost)
            found, self._counted = self._files.read(self._counted)

    async def _send_to(self, name: str, settings: ExporterSettings) -> None:
        place = await asyncio.to_thread(self._place, name)
        if not self._files.is_kept(place):
            logger.warning("access log: %s did not take entries before they were deleted by age or size", name)
        found, place = await asyncio.to_thread(self._files.read, place)
        while found:
            own = [entry for entry in found if _is_for(entry, settings)]
            if own:
                answer = await self._clients[name].export(Signal.LOGS, request(own, self._instance))
                if answer.kind == "retry":
                    logger.info("%s did not take the access log: %s %s", name, answer.reason, answer.message)
                    return
                if refused := len(own) if answer.kind == "failed" else answer.rejected:
                    logger.warning(
                        "access log: %s refused %d of its entries for good; the files in %s still have them: %s %s",
                        name, refused, self._files.folder, answer.reason, answer.message,
                    )  # fmt: skip
            await asyncio.to_thread(replace_file, self._place_file(name), orjson.dumps(asdict(place)), 0o600)
            found, place = await asyncio.to_thread(self._files.read, place)

    def _place(self, name: str) -> Place:
        try:
            return Place(**orjson.loads(self._place_file(name).read_bytes()))
        except (FileNotFoundError, orjson.JSONDecodeError, TypeError):
            return Place()

    def _place_file(self, name: str) -> Path:
        return self._files.folder / f"sent.{name.replace('/', '~')}.json"


def _is_for(entry: Mapping[str, Any], settings: ExporterSettings) -> bool:
    """What callers of no tenant did, and that entries were lost, is for exporters of all tenants."""
    return settings.tenants is None or entry.get("tenant") in settings.tenants


def request(entries: Sequence[Mapping[str, Any]], instance: Instance) -> bytes:
    """Entries as one ``ExportLogsServiceRequest``, each a log event under a scope of its own."""
    made = ExportLogsServiceRequest()
    of_resource = made.resource_logs.add()
    for key, value in instance.attributes.items():
        of_resource.resource.attributes.add(key=key, value=any_value(value))
    of_scope = of_resource.scope_logs.add()
    of_scope.scope.name, of_scope.scope.version = semconv.ACCESS_SCOPE, instance.version
    of_scope.log_records.extend(map(_record, entries))
    return made.SerializeToString()


def _record(entry: Mapping[str, Any]) -> LogRecord:
    time_ns = round(datetime.fromisoformat(entry["time"]).timestamp() * 1000) * 1_000_000
    is_lost = "lost" in entry
    record = LogRecord(
        time_unix_nano=time_ns,
        observed_time_unix_nano=time_ns,
        severity_number=SeverityNumber.SEVERITY_NUMBER_WARN if is_lost else SeverityNumber.SEVERITY_NUMBER_INFO,
        severity_text="WARN" if is_lost else "INFO",
        event_name=semconv.ACCESS_EVENT,
    )
    for name, value in entry.items():
        if name != "time" and value not in (None, {}):
            record.attributes.add(key=f"{semconv.ACCESS_EVENT}.{name}", value=any_value(value))
    return record
