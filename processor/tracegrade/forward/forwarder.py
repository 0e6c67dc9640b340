"""One exporter's way from the journal to its peer."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from tracegrade.forward.backlog import Backlog, is_sent
from tracegrade.forward.deliveries import Deliveries, Waiting
from tracegrade.forward.journal_source import JournalSource
from tracegrade.forward.ledger import Ledger
from tracegrade.forward.report import Report
from tracegrade.journal.errors import SegmentDeleted
from tracegrade.journal.record import Record
from tracegrade.otlp.client import ExporterSettings, Exports
from tracegrade.telemetry.metrics import Telemetry

_COMMIT_EVERY_S = 0.2
_MEASURE_EVERY_S = 1.0


class Forwarder:
    """Sends the requests of the journal to one peer, unchanged, and accounts for each.

    In every snapshot taken while nothing is being received: requests accepted (of the exporter's signals and
    tenants, counted from the position on) = sent + queued + failed by reason; loops are not journalled. The position
    moves up to the oldest request that is not finished, and a restart begins there. So nothing is left out; requests
    that finished after that position, or in the fraction of a second before a kill, are sent again.
    """

    def __init__(
        self,
        name: str,
        settings: ExporterSettings,
        client: Exports,
        source: JournalSource,
        telemetry: Telemetry,
        waiting: Waiting | None = None,
    ) -> None:
        """Begin where `source` does.

        Args:
            name: the exporter's id, such as ``otlp`` or ``otlp/archive``: a metric label.
            settings: retrying, and which signals and tenants to take.
            client: makes one attempt at a time for each request; the caller closes it.
            source: reads the journal, and keeps this exporter's position in it; closed when `run` ends.
            telemetry: filled with ``tracegrade.exporter.*``.
            waiting: replaced in tests.
        """
        waiting = waiting or Waiting()
        self._settings = settings
        self._source = source
        self._report = Report(name, settings.endpoint, telemetry, waiting.now_s)
        self._deliveries = Deliveries(settings, client, self._report, waiting, self._finished)
        self._read_to = self._source.begin
        self._ledger = Ledger(self._read_to)
        self._backlog = Backlog(settings, self._read_to)
        self._more = asyncio.Event()
        self._stopping = asyncio.Event()
        self._stop_within_s = 0.0

    @property
    def queued(self) -> int:
        """The number of requests read or counted and not finished."""
        return self._backlog.requests + self._ledger.under_way

    def wake(self) -> None:
        """Look for more in the journal at once; called in the event loop. Without it, we look every second."""
        self._more.set()

    async def run(self) -> None:
        """Forward until `stop` is called.

        Raises:
            ExceptionGroup: errors that a retry does not cure, such as ``OSError`` from the journal or position file.
        """
        try:
            async with asyncio.TaskGroup() as group:
                loops = [
                    group.create_task(self._feed(group)),
                    group.create_task(_every(_COMMIT_EVERY_S, self._commit)),
                    group.create_task(_every(_MEASURE_EVERY_S, self.measure)),
                ]
                await self._stopping.wait()
                for task in loops:
                    task.cancel()
                await self._deliveries.stop(self._stop_within_s)
            await self._commit()
        finally:
            self._source.close()

    def stop(self, within_s: float) -> None:
        """Begin no further request, let attempts under way end within `within_s`, leave the rest to the next start."""
        self._stop_within_s = within_s
        self._stopping.set()

    async def measure(self) -> None:
        """Count the backlog up to the durable end: once a second, and when an exact sum is asked for."""
        end = await self._source.end()
        if end > self._read_to:
            self._more.set()
        while self._backlog.counted_to < end:
            try:
                records = await self._source.read(self._backlog.counted_to)
            except SegmentDeleted:
                break  # reading for sending meets this too, and counts what is gone
            if not records:
                break
            self._backlog.count(records)
        self._report.queued(self.queued)
        self._report.end_failing()

    async def _commit(self) -> None:
        await self._source.commit(self._ledger.position)

    async def _feed(self, group: asyncio.TaskGroup) -> None:
        while True:
            self._more.clear()
            records = await self._next_records()
            if not records:
                await self._more.wait()
            for record in records:
                if is_sent(record, self._settings):
                    await self._deliveries.wait_for_room()
                    self._backlog.take(record.signal)
                    self._ledger.take(record.position, record.end)
                    self._deliveries.begin(group, record)
                else:
                    self._ledger.pass_over(record.end)

    async def _next_records(self) -> list[Record]:
        while True:
            try:
                records = await self._source.read(self._read_to)
                break
            except SegmentDeleted as deleted:
                with suppress(SegmentDeleted):  # retention goes on meanwhile: the next read meets it again
                    await self._skip_to(deleted.first)
        self._backlog.count(records)
        self._report.queued(self.queued)
        if records:
            self._read_to = records[-1].end
        return records

    async def _skip_to(self, first: int) -> None:
        """Retention deleted everything before `first`: count it as failed and go on from there."""
        left = Backlog(self._settings, first)
        while left.counted_to < self._backlog.counted_to:
            records = await self._source.read(left.counted_to)
            left.count(records, up_to=self._backlog.counted_to)
        for signal, requests in self._backlog.replace(left).items():
            self._report.failed(signal, "dropped", requests)
        self._report.queued(self.queued)
        self._report.deleted(self._read_to, first)
        self._read_to = first
        self._ledger.pass_over(first)

    def _finished(self, position: int) -> None:
        self._ledger.finish(position)
        self._report.queued(self.queued)


async def _every(seconds: float, action: Callable[[], Awaitable[None]]) -> None:
    while True:
        await action()
        await asyncio.sleep(seconds)
