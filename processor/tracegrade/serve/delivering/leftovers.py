"""What damage and crashes left in the data folder: it holds values, so that it goes when it is old."""

import asyncio
import logging
import time

from sqlalchemy import Engine

from tracegrade.display import count
from tracegrade.pipeline.data_folder import DataFolder
from tracegrade.serve.background import repeat
from tracegrade.store.files import delete_put_aside, sqlite_path
from tracegrade.store.settings import StoreSettings

LOOK_EVERY_S = 60.0

logger = logging.getLogger(__name__)


async def delete_leftovers(store: Engine, folder: DataFolder, settings: StoreSettings, stop: asyncio.Event) -> None:
    """Until `stop` is set, delete what is older than values may be: replaced stores, damaged bytes, requests set aside.

    Requests that crashed the judge and damaged bytes stay as long as values of traces do, replaced stores no longer
    than `StoreSettings.damaged_kept_s`.
    """

    async def delete() -> None:
        for text in await asyncio.to_thread(_delete, store, folder, settings):
            logger.info("deleted, since it is too old: %s", text)

    await repeat(LOOK_EVERY_S, delete, stop, "what damage left in the data folder stays there")


def _delete(store: Engine, folder: DataFolder, settings: StoreSettings) -> list[str]:
    now_ns = time.time_ns()
    values_before_ns = now_ns - round(settings.values_kept_s * 1e9)
    path = sqlite_path(str(store.url))
    stores = 0 if path is None else delete_put_aside(path, now_ns - round(settings.damaged_kept_s * 1e9))
    found = (
        (stores, "replaced store"),
        (folder.delete_damaged_bytes(values_before_ns), "file of damaged bytes"),
        (folder.set_aside.delete_older(values_before_ns), "request that was set aside"),
    )
    return [count(number, what) for number, what in found if number]
