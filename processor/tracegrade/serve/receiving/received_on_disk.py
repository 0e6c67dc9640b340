"""The receive role's journal on this machine's disk: retention, the judge's progress, and forwarding from it."""

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any

from tracegrade.config import Config
from tracegrade.deletion.request import Deletion, Deletions
from tracegrade.deliver.consumer import wait
from tracegrade.forward.forwarder import Forwarder
from tracegrade.forward.journal_source import JournalSource
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.position import Position
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.record import Entry
from tracegrade.journal.retention import Consumer
from tracegrade.otlp.client import Exports
from tracegrade.otlp.exporter_settings import ExporterSettings
from tracegrade.pipeline.data_folder import JUDGE, DataFolder
from tracegrade.serve.background import repeat
from tracegrade.serve.receiving.judge_progress import JudgeProgress
from tracegrade.telemetry.metrics import Telemetry

TRIM_EVERY_S = 1.0
RECENT_BYTES = 16 * 1024 * 1024  # twice the size of the requests that exporters without a backlog have under way

logger = logging.getLogger(__name__)


class ReceivedOnDisk:
    """A `Received`: the journal in a data folder, of which this process is the writer."""

    def __init__(self, config: Config, folder: DataFolder, telemetry: Telemetry) -> None:
        """Open the journal.

        Raises:
            JournalLocked: another process receives into this data folder.
        """
        self._config = config
        self._folder = folder
        self._telemetry = telemetry
        self._journal = LocalJournal.open(
            folder.journal, config.journal, telemetry=telemetry, consumed=folder.consumed()
        )
        self._recent = self._journal.keep_recent(RECENT_BYTES if config.exporters else 0)
        self._progress = JudgeProgress(folder, self._journal, telemetry)
        self._unread = self._progress.unread

    @property
    def shared_id(self) -> str | None:
        """As in `Received`."""
        return None

    def append(self, entry: Entry) -> "Future[int]":
        """As in `Received`."""
        return self._unread.append(entry)

    def snapshots(self) -> list[dict[str, Any]]:
        """As in `Received`; promise 5's sums hold in them."""
        return self._progress.snapshots()

    def say_conditions(self, *, is_kept: bool) -> None:
        """As in `Received`."""
        self._progress.say_conditions(is_kept=is_kept)

    async def run_maintenance(self, stop: asyncio.Event) -> None:
        """Retention. Before it, while senders are already answered, count what the judge has not read."""
        while not self._unread.is_counted and not stop.is_set():
            try:
                await asyncio.to_thread(self._unread.count)
            except OSError as error:  # no file descriptor left, or a failing disk: receiving must go on
                logger.warning("%s; trying again in %.0f s", error, TRIM_EVERY_S)
                await wait(stop, TRIM_EVERY_S)
        await repeat(TRIM_EVERY_S, self._trim, stop)

    def forwarder(self, name: str, settings: ExporterSettings, client: Exports) -> Forwarder:
        """As in `Received`: requests go as they came, from the exporter's own position."""
        reader = JournalReader(self._folder.journal, telemetry=self._telemetry)
        source = JournalSource(name, reader, Position(self._folder.position(name)), self._recent.after)
        forwarder = Forwarder(name, settings, client, source, self._telemetry)
        self._recent.listen(partial(_wake, asyncio.get_running_loop(), forwarder))
        return forwarder

    def erase(self, waiting: Sequence[Deletion]) -> list[Deletion]:
        """As in `Received`: from the journal's segments."""
        # Imported here, because it loads SQL: that would make every start of this role a third slower.
        from tracegrade.deletion.carry_out import erase_from_journal
        from tracegrade.receive.redacted_ids import RedactedIds

        return erase_from_journal(
            waiting,
            Deletions(self._folder.path),
            self._journal,
            self._folder.journal,
            store_url=self._config.store_url,
            ids=RedactedIds(self._config.redaction, self._folder.path),
            remembered_s=self._config.remembers_deleted_for,
        )

    def halt(self) -> None:
        """As in `Received`."""
        self._unread.halt()

    def close(self) -> None:
        """As in `Received`."""
        self._journal.close()

    async def _trim(self) -> None:
        """Retention: delete only what all consumers have read."""
        consumers = {JUDGE: Consumer(self._progress.committed(), self._config.judge.when_full)}
        for name, settings in self._config.exporters.items():
            position = Position(self._folder.position(name)).load()
            consumers[name] = Consumer(position or 0, settings.when_full)
        lost = await asyncio.to_thread(self._journal.trim, consumers)
        if JUDGE in lost:
            self._progress.lost_some()
        self._folder.set_aside.forget(self._journal.first)
        self._progress.log()


def _wake(loop: asyncio.AbstractEventLoop, forwarder: Forwarder) -> None:
    with suppress(RuntimeError):  # the loop was closed, so forwarding has ended
        loop.call_soon_threadsafe(forwarder.wake)
