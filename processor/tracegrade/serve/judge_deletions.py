"""The judge's part of a deletion: erases results once the journal no longer holds the deleted traces."""

import logging
import time
from collections.abc import Callable

from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError

from tracegrade.deletion.carry_out import erase_from_results
from tracegrade.deletion.late_spans import LateSpans
from tracegrade.deletion.request import Deletion, Deletions
from tracegrade.journal.errors import JournalRefused
from tracegrade.journal.local import LocalJournal
from tracegrade.pipeline.data_folder import DataFolder

LOOK_EVERY_S = 0.5
RETRY_AFTER_S = 30.0

logger = logging.getLogger(__name__)


class JudgeDeletions:
    """Looks for deletions that the judge must carry out, and does so between two reads of the journal.

    ``tombstones`` and ``late_spans`` are for the assembler: the deleted traces, and those of which spans came later.
    """

    def __init__(self, folder: DataFolder, *, with_files: bool = False) -> None:
        """With Parquet files, delivery has a part after this one."""
        self._with_files = with_files
        self._deletions = Deletions(folder.path)
        self.tombstones = self._deletions.tombstones
        self.late_spans = LateSpans(self._deletions)
        self._due_s = 0.0

    def are_waiting(self) -> bool:
        """Whether there is something to carry out; looks twice a second, and also requests to delete late spans."""
        now_s = time.monotonic()
        if now_s < self._due_s:
            return False
        self._due_s = now_s + LOOK_EVERY_S
        try:
            self.late_spans.ask(now_s)
        except OSError as error:  # a full disk must not end judging
            logger.warning("late spans of deleted traces stay in the journal: %s; trying again", error)
        return bool(self._deletions.waiting("erased"))

    def carry_out(self, results: LocalJournal, store: Engine, alive: Callable[[], None]) -> list[Deletion]:
        """Erase what waits from `results` and `store`. Returns what waited. `alive` is called now and then."""
        waiting = self._deletions.waiting("erased")
        try:
            for done in erase_from_results(
                waiting, self._deletions, results, store, alive, with_files=self._with_files
            ):
                logger.info("deletion %s is %s: %s", done.id, done.state, done.deleted)
        except (OSError, JournalRefused, OperationalError) as error:
            logger.warning("deletion: %s; trying again in %.0f s", error, RETRY_AFTER_S)
            self._due_s = time.monotonic() + RETRY_AFTER_S
        return waiting
