"""Parquet files as a sink: rows gather in memory and are written as files now and then."""

import asyncio
import logging
from collections.abc import Callable, Container, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tracegrade.deliver.cut import Cut, LastCut
from tracegrade.deliver.parquet.erase import CUT_SUFFIX, encoded, writing_lock
from tracegrade.deliver.parquet.gathered import Gathered
from tracegrade.deliver.parquet.names import path_name
from tracegrade.deliver.parquet.settings import ParquetSettings
from tracegrade.deliver.parquet.storage import SUFFIX, Storage
from tracegrade.deliver.sink import DONE, Delivery, SinkContext
from tracegrade.journal.errors import JournalLocked
from tracegrade.journal.retention import WhenFull
from tracegrade.model.trace_result import TraceResult

NAME = "parquet"
MAX_BYTES = 64 * 1024 * 1024  # of rows in memory; reached before max_rows where values are included and long

logger = logging.getLogger(__name__)


class ParquetSink:
    """Gathers the rows of one results journal, and writes them as files; see `GatheringConsumer` for the order."""

    name = NAME
    failing = ("parquet_failing", "")

    def __init__(
        self,
        settings: ParquetSettings,
        storage: Storage,
        folder: Path,
        instance_id: str,
        deleted: Callable[[], Container[bytes]],
        journal: str = "results",
    ) -> None:
        """Prepare; nothing is written yet.

        Args:
            settings: the section.
            storage: what they name.
            folder: for files of our own.
            instance_id: names this instance in the names of files: no other one writes these.
            deleted: the traces whose deletion was requested, as of now.
            journal: the name of the results journal, also a part of the names.
        """
        self._settings = settings
        self.when_full: WhenFull = settings.when_full
        self.every_s = settings.every
        self._storage = storage
        self._folder = folder
        self._instance_id = instance_id
        self._deleted = deleted
        self._writer = path_name(f"{instance_id}-{journal}")
        self._gathered = Gathered(settings.include_values)
        self._last_cut = LastCut(folder / f"{self._writer}{CUT_SUFFIX}")
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tracegrade-parquet")

    def of_journal(self, journal: str) -> "ParquetSink":
        """The same for the results journal of this name: each has cuts and files of its own."""
        sink = ParquetSink(self._settings, self._storage, self._folder, self._instance_id, self._deleted, journal)
        sink._thread = self._thread  # one of them works at a time
        return sink

    @property
    def is_full(self) -> bool:
        """Whether enough is gathered to be written."""
        return self._gathered.rows >= self._settings.max_rows or self._gathered.bytes >= MAX_BYTES

    def last_cut(self) -> Cut | None:
        """The last cut of which files were written, perhaps not all of them."""
        return self._last_cut.load()

    async def deliver(self, batch: Sequence[TraceResult]) -> Delivery:
        """Gather the rows of `batch`; they are durable after `write` alone."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._gather, batch)
        return DONE

    async def write(self, cut: Cut) -> Delivery:
        """Write all gathered rows, which are those of `cut`; they are forgotten when this is done."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._write, cut)

    async def close(self) -> None:
        """Forget what is gathered: it comes again."""
        self._thread.shutdown()

    def _gather(self, batch: Sequence[TraceResult]) -> None:
        for judged in batch:
            self._gathered.add(judged)

    def _write(self, cut: Cut) -> Delivery:
        try:
            lock = writing_lock(self._folder)
        except JournalLocked:
            return Delivery("retry", "deletion_under_way")
        except OSError as error:
            return _refused(error)
        try:
            self._last_cut.save(cut)
            for folder, table in self._gathered.tables(self._deleted()):
                path = f"{folder}/{self._writer}-{cut.begin:020d}{SUFFIX}"
                if table.num_rows:
                    self._storage.write(path, encoded(table))
                else:
                    self._storage.delete(path)  # all of its traces were deleted since an earlier attempt
        except OSError as error:
            return _refused(error)
        finally:
            lock.release()
        unfit = len(self._gathered.unfit)
        self._gathered.clear()
        return Delivery("done", "not_storable", failed_records=unfit) if unfit else DONE


def _refused(error: OSError) -> Delivery:
    logger.warning("Parquet files are not written, trying again: %s", error)
    return Delivery("retry", "storage_unavailable")


def open_sinks(context: SinkContext) -> list[ParquetSink]:
    """One if the settings have the section ``parquet``.

    Raises:
        ParquetError: the extra is not installed.
    """
    settings = context.parquet
    if settings is None:
        return []
    return [ParquetSink(settings, Storage(settings), context.data_folder / NAME, context.instance_id, context.deleted)]
