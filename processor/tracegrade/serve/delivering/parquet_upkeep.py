"""What delivery does to Parquet files besides writing them: it erases deleted traces, and deletes old days."""

import asyncio
import logging
import time
from datetime import UTC, datetime

from tracegrade.deletion.carry_out import erase_from_files
from tracegrade.deletion.request import Deletions
from tracegrade.deliver.consumer import wait
from tracegrade.deliver.parquet.erase import delete_days_before, remove_unfinished
from tracegrade.deliver.parquet.settings import ParquetSettings
from tracegrade.deliver.parquet.storage import ParquetError, Storage
from tracegrade.deliver.sinks.parquet import NAME as PARQUET
from tracegrade.journal.errors import JournalLocked
from tracegrade.pipeline.data_folder import DataFolder

LOOK_EVERY_S = 0.5
RETRY_AFTER_S = 30.0
TIDY_EVERY_S = 3600.0

logger = logging.getLogger(__name__)


async def keep_parquet_files(settings: ParquetSettings | None, folder: DataFolder, stop: asyncio.Event) -> None:
    """Until `stop` is set, carry out requested deletions in Parquet files, and remove what is too old.

    Without `settings` only what an earlier start has left is finished: there are no files any more that are ours.
    """
    deletions = Deletions(folder.path)
    tidy_due_s = deletion_due_s = 0.0
    while not await wait(stop, LOOK_EVERY_S):
        now_s = time.monotonic()
        if now_s >= deletion_due_s:
            if not await asyncio.to_thread(_erase, deletions, settings, folder):
                deletion_due_s = now_s + RETRY_AFTER_S
            elif settings is None:
                await stop.wait()
        if settings is not None and now_s >= tidy_due_s and await asyncio.to_thread(_tidy, settings, folder):
            tidy_due_s = now_s + TIDY_EVERY_S


def _erase(deletions: Deletions, settings: ParquetSettings | None, folder: DataFolder) -> bool:
    """Carry out what waits; False when the disk or the bucket refused."""
    waiting = deletions.waiting("unstored")
    try:
        for done in erase_from_files(waiting, deletions, settings, folder.path) if waiting else ():
            logger.info("deletion %s is done: %s", done.id, done.deleted)
    except JournalLocked:
        return True  # files are being written just now
    except (OSError, ParquetError) as error:
        logger.warning("deletion in Parquet files: %s; trying again in %.0f s", error, RETRY_AFTER_S)
        return False
    return True


def _tidy(settings: ParquetSettings, folder: DataFolder) -> bool:
    """Delete old days, and what kills left of files; False when files are being written just now."""
    try:
        remove_unfinished(settings, folder.path / PARQUET)
        if settings.retention is not None:
            first_kept = datetime.fromtimestamp(time.time() - settings.retention, UTC).date()
            if deleted := delete_days_before(Storage(settings), first_kept):
                logger.info("Parquet files of days before %s are deleted: %d folders", first_kept, deleted)
    except JournalLocked:
        return False
    except (OSError, ParquetError) as error:
        logger.warning("old Parquet files are not deleted, trying again in an hour: %s", error)
    return True
