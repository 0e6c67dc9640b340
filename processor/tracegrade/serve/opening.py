"""Opening what another process may still hold, or not have made yet."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from sqlalchemy import Engine

from tracegrade.journal.errors import JournalError
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.lock import FolderLock
from tracegrade.journal.settings import JournalSettings
from tracegrade.pipeline.data_folder import DataFolder
from tracegrade.pipeline.heartbeat import Heartbeat
from tracegrade.serve.judging.metrics import JudgeMetrics
from tracegrade.store.errors import StoreUnavailable
from tracegrade.store.open import open_store
from tracegrade.telemetry.metrics import Telemetry

OPENS_WITHIN_S = 60.0
_OPEN_AGAIN_AFTER_S = 1.0

Opened = TypeVar("Opened")


def patiently(open_it: Callable[[], Opened], error: type[JournalError], alive: Callable[[], object] = int) -> Opened:
    """The result of `open_it`, which is tried again for a minute while it raises `error`; `alive` is called then."""
    deadline_s = time.monotonic() + OPENS_WITHIN_S
    while True:
        try:
            return open_it()
        except error:
            if time.monotonic() > deadline_s:
                raise
            alive()
            time.sleep(0.1)


def open_journal_of(folder: DataFolder, name: str, settings: JournalSettings, telemetry: Telemetry) -> LocalJournal:
    """Become the writer of a journal of results or turns, in `folder`; what it holds is not timed by its clock.

    Raises:
        JournalLocked: another process is it.
    """
    consumed = folder.consumed_of(name)
    return LocalJournal.open(
        folder.path / name, settings, telemetry=telemetry, name=name, consumed=consumed, clocked=False
    )


def lock_delivery(folder: DataFolder) -> FolderLock:
    """The right to deliver results of this data folder, of whatever number of judges.

    Raises:
        JournalLocked: another process delivers.
    """
    return FolderLock(folder.path / "delivery.lock", "delivery of results")


def open_store_patiently(url: str, heartbeat: Heartbeat, metrics: JudgeMetrics) -> Engine:
    """Open the store for writing, as soon as it is there, with heartbeats meanwhile.

    It may be away, or its tables are updated, which takes minutes for a large one: if the watchdog ended this process
    meanwhile, each update would have to begin again.

    Raises:
        StoreError: as `open_store`, but for `StoreUnavailable`.
    """
    conditions = metrics.telemetry.conditions

    def say_updating() -> None:
        conditions.begin("store_updating", "judging waits until the store is brought up to date")
        metrics.write_snapshot()

    # Positions are committed behind what is stored: a power cut must not take it back.
    open_durably = partial(open_store, url, update=True, durable=True)
    with ThreadPoolExecutor(1, thread_name_prefix="open-store") as opening:
        while True:
            try:
                store = heartbeat.beat_until(opening.submit(open_durably, updating=say_updating), 0)
                break
            except StoreUnavailable as error:
                conditions.begin("store_unavailable", f"judging waits: {error}")
                metrics.write_snapshot()
                heartbeat.beat(0)
                time.sleep(_OPEN_AGAIN_AFTER_S)
    for name in ("store_updating", "store_unavailable"):
        conditions.end(name)
    return store
