"""What delivery does for deletions beside its own part: it takes over those asked for at other data folders."""

import asyncio
import logging

from sqlalchemy import Engine

from tracegrade.config import Config
from tracegrade.deletion.carry_out import bury
from tracegrade.deletion.request import Deletions
from tracegrade.deletion.shared import SharedDeletions
from tracegrade.deliver.consumer import wait
from tracegrade.journal.errors import JournalLocked
from tracegrade.model.errors import TraceGradeError
from tracegrade.pipeline.data_folder import DataFolder
from tracegrade.receive.redacted_ids import RedactedIds
from tracegrade.serve.receiving.received_in_kafka import lock_receiving
from tracegrade.store.errors import STORE_ERRORS, is_away

LOOK_EVERY_S = 2.0

logger = logging.getLogger(__name__)


async def take_over_deletions(config: Config, folder: DataFolder, store: Engine, stop: asyncio.Event) -> None:
    """Until `stop` is set, take over deletions of other data folders on `store`.

    Where Kafka is the journal and no receive role runs on this data folder, its part is done here, too.
    """
    shared = SharedDeletions(folder.path, store)
    while not await wait(stop, LOOK_EVERY_S):
        try:
            await asyncio.to_thread(look_for_deletions, config, folder, shared)
        except (OSError, TraceGradeError, *STORE_ERRORS) as error:
            if is_away(error):  # a condition says so, once
                continue
            logger.warning("deletions of other data folders: %s; trying again", error)


def look_for_deletions(config: Config, folder: DataFolder, shared: SharedDeletions) -> None:
    """Look once.

    Raises:
        OSError, SQLAlchemyError, TraceGradeError: the disk or the database refused.
    """
    for deletion in shared.take_over():
        logger.info("deletion %s, asked for at another data folder, is carried out here, too", deletion.id)
    deletions = Deletions(folder.path)
    if config.journal.kafka is None or not (waiting := deletions.waiting("requested", "resolved")):
        return
    try:
        lock = lock_receiving(folder)
    except JournalLocked:
        return  # the receive role, or a command, does it
    try:
        remembered_s, ids = config.remembers_deleted_for, RedactedIds(config.redaction, folder.path)
        for erased in bury(waiting, deletions, store_url=config.store_url, ids=ids, remembered_s=remembered_s):
            folder.set_aside.erase(erased.trace_ids, erased.choice.tenant)
    finally:
        lock.release()
