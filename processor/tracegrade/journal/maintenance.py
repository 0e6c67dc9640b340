"""Changes to segments that are no longer written: retention deletes them, and deletions rewrite them."""

import threading
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise

from tracegrade.journal.committer import Committer
from tracegrade.journal.disk import sync_folder
from tracegrade.journal.erase import Change, remove_leftovers, rewrite_segment
from tracegrade.journal.record import Signal
from tracegrade.journal.refusals import Refusals
from tracegrade.journal.retention import Consumer, Segment, deletable_segments, unread_items
from tracegrade.journal.segments import FOLDER_NAME, segment_path
from tracegrade.journal.settings import JournalSettings
from tracegrade.journal.writer import SegmentWriter


class Maintenance:
    """Deletes and rewrites segments, one caller at a time."""

    def __init__(
        self, settings: JournalSettings, writer: SegmentWriter, committer: Committer, refusals: Refusals
    ) -> None:
        self._settings = settings
        self._writer = writer
        self._committer = committer
        self._refusals = refusals
        self._lock = threading.Lock()

    def trim(self, consumers: Mapping[str, Consumer]) -> dict[str, Counter[Signal]]:
        """See `LocalJournal.trim`."""
        telemetry = self._committer.telemetry
        with self._lock:
            if telemetry.conditions.holds("data_folder_gone", telemetry.name):
                return {}  # the files under these names are not ours
            bases = list(self._writer.bases)
            sealed = [Segment(base, following, self._writer.begun_ns[following]) for base, following in pairwise(bases)]
            assert self._writer.publisher.last is not None
            deletable = deletable_segments(
                sealed,
                self._writer.end,
                consumers,
                expired_ns=self._writer.publisher.last.clock_ns - int(self._settings.max_age * 1e9),
                keep_bytes=self._settings.max_bytes * 7 // 8,
            )
            self._refusals.held_by = deletable.held_by
            lost: dict[str, Counter[Signal]] = {}
            for segment in deletable.delete:
                self._count_lost(segment, consumers, lost)
                segment_path(self._writer.folder, segment.base).unlink(missing_ok=True)
                self._writer.bases.remove(segment.base)
                del self._writer.begun_ns[segment.base]
            if deletable.delete:
                sync_folder(self._writer.folder / FOLDER_NAME)
            for consumer, state in consumers.items():
                telemetry.set("position", state.position, consumer=consumer)
            return lost

    def erase(self, change: Change) -> int:
        """See `LocalJournal.erase`."""
        with self._lock:
            self._committer.check_in_place()
            self._committer.end_segment()
            remove_leftovers(self._writer.folder)
            changed = 0
            for base, following in pairwise(list(self._writer.bases)):
                changed += rewrite_segment(self._writer.folder, base, following, change, self._writer.disk)
            self._committer.publish_rewritten()
            if self._committer.recent is not None:
                self._committer.recent.forget()
            return changed

    def _count_lost(
        self, segment: Segment, consumers: Mapping[str, Consumer], lost: dict[str, Counter[Signal]]
    ) -> None:
        behind = {name: state.position for name, state in consumers.items() if state.position < segment.end}
        if behind:
            for name, items in unread_items(self._writer.folder, segment, behind).items():
                lost.setdefault(name, Counter()).update(items)
