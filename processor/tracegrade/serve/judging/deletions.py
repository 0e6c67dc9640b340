"""The part of a deletion that judges have: they erase results once the journal no longer holds the deleted traces.

Of several judges each erases from its own results journal, says so in a small file, and waits: delivery, which alone
writes to the store, does the rest when all of them have. So no judge reads the store in between.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence

from sqlalchemy import Engine

from tracegrade.deletion.carry_out import erase_from_results, erase_records, erase_rows
from tracegrade.deletion.late_spans_of_deleted import LateSpansOfDeleted
from tracegrade.deletion.request import Deletion, Deletions
from tracegrade.journal.errors import JournalRefused
from tracegrade.journal.local import LocalJournal
from tracegrade.pipeline.data_folder import DataFolder, Judge
from tracegrade.store.errors import STORE_ERRORS

LOOK_EVERY_S = 0.5
RETRY_AFTER_S = 30.0
_LOOK_WHEN_WAITING_S = 0.1

logger = logging.getLogger(__name__)


class JudgeDeletions:
    """Looks for deletions that a judge must carry out, and does so between two reads of the journal.

    The assembler reads ``tombstones``, the deleted traces, and notes in ``late_spans_of_deleted`` those of which spans
    came later.
    """

    def __init__(self, folder: DataFolder, *, with_files: bool = False) -> None:
        """With Parquet files, delivery has a part after this one."""
        self._with_files = with_files
        self._deletions = Deletions(folder.path)
        self.tombstones = self._deletions.tombstones
        self.late_spans_of_deleted = LateSpansOfDeleted(self._deletions)
        self._due_s = 0.0

    def are_waiting(self) -> bool:
        """Whether there is something to carry out; looks twice a second, and also requests to delete late spans."""
        now_s = time.monotonic()
        if now_s < self._due_s:
            return False
        self._due_s = now_s + LOOK_EVERY_S
        try:
            self.late_spans_of_deleted.ask(now_s)
        except OSError as error:  # a full disk must not end judging
            logger.warning("late spans of deleted traces stay in the journal: %s; trying again", error)
        return bool(self._deletions.waiting("erased"))

    def carry_out(self, results: Sequence[LocalJournal], store: Engine, alive: Callable[[], None]) -> list[Deletion]:
        """Erase what waits from all `results` and `store`. Returns what waited. `alive` is called now and then."""

        def erase(waiting: list[Deletion]) -> None:
            _log(erase_from_results(waiting, self._deletions, results, store, alive, with_files=self._with_files))

        return self._attempt(erase)

    def carry_out_share(
        self, results: LocalJournal, judge: Judge, alive: Callable[[], None], wait: Callable[[float], bool]
    ) -> list[Deletion]:
        """Erase what waits from `results`, those of `judge`, then wait until it is done everywhere.

        Args:
            results: the judge's own results journal.
            judge: one of several.
            alive: called now and then.
            wait: waits so many seconds; True when judging must end.
        """

        def erase(waiting: list[Deletion]) -> None:
            records = erase_records(waiting, results, alive)
            for place, deletion in enumerate(waiting):
                self._deletions.note_erased_by(deletion, judge.name, records[place])
            ids = {deletion.id for deletion in waiting}
            while any(deletion.id in ids for deletion in self._deletions.waiting("erased")):
                alive()
                if wait(_LOOK_WHEN_WAITING_S):
                    return

        return self._attempt(erase)

    def _attempt(self, carry_out: Callable[[list[Deletion]], object]) -> list[Deletion]:
        waiting = self._deletions.waiting("erased")
        if waiting:
            try:
                carry_out(waiting)
            except (OSError, JournalRefused, *STORE_ERRORS) as error:
                logger.warning("deletion: %s; trying again in %.0f s", error, RETRY_AFTER_S)
                self._due_s = time.monotonic() + RETRY_AFTER_S
        return waiting


def finish_deletions(
    deletions: Deletions,
    judges: Sequence[Judge],
    erase: Callable[[Deletion], int],
    store: Engine,
    alive: Callable[[], None],
    *,
    with_files: bool,
) -> list[Deletion]:
    """Delivery's part: what every one of `judges` has erased is deleted from the store. Returns what is done.

    Args:
        deletions: of the data folder.
        judges: all of the set.
        erase: erases from the journals that delivery writes; returns how many records of results that were.
        store: open for writing.
        alive: called now and then.
        with_files: as of `erase_rows`.

    Raises:
        OSError, JournalError, SQLAlchemyError: a disk or database refused; the next try goes on.
    """
    done = []
    for deletion in deletions.waiting("erased"):
        noted = [deletions.erased_by(deletion, judge.name) for judge in judges]
        if None not in noted:
            records = Counter({0: erase(deletion) + sum(filter(None, noted))})
            done += _log(erase_rows([deletion], deletions, records, store, alive, with_files=with_files))
            deletions.forget_erased_by(deletion)
    return done


def _log(done: list[Deletion]) -> list[Deletion]:
    for deletion in done:
        logger.info("deletion %s is %s: %s", deletion.id, deletion.state, deletion.deleted)
    return done
