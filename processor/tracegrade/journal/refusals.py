"""Why the journal refuses appends, and until when: each reason is a condition that users see."""

import time
from errno import EDQUOT, ENOSPC

from tracegrade.journal.errors import FolderGoneError, JournalRefused
from tracegrade.journal.journal_telemetry import JournalTelemetry
from tracegrade.journal.writer import SegmentWriter

# A bound that is reached again and again is one state: it ends when nothing was refused for this long.
QUIET_NS = 3_000_000_000
MAX_WAITING_BYTES = 64 * 1024 * 1024  # appended and not yet durable

_MIB = 1024**2
_GIB = 1024**3


class Refusals:
    """Watches the room in memory, below the size bound and on the disk, for one journal."""

    def __init__(self, writer: SegmentWriter, max_bytes: int, telemetry: JournalTelemetry) -> None:
        """With nothing refused yet."""
        self.held_by: list[str] = []  # the consumers that keep retention from deleting more
        self._max_bytes = max_bytes
        self._writer = writer
        self._telemetry = telemetry
        self._refused: dict[str, tuple[int, int]] = {}  # condition -> time of its last refusal, monotonic, and the size

    def check_room(self, waiting_bytes: int, size: int) -> None:
        """Check that there is room for `size` bytes in addition to those that wait to be written.

        Raises:
            JournalRefused: there is none.
        """
        waiting = waiting_bytes + size
        if waiting > MAX_WAITING_BYTES and waiting_bytes:
            found = f"the disk is too slow: {waiting_bytes / 1e6:.0f} MB wait to be written"
            self._note("disk_slow", found, size)
            raise JournalRefused("journal_full", f"{found}; the sender should retry")
        if self._writer.used + waiting > self._max_bytes:
            found = self._full()
            self._note("journal_full", found, size)
            raise JournalRefused("journal_full", f"{found}; the sender should retry")

    def refuse(self, error: OSError, size: int) -> Exception:
        """Count that `size` bytes could not be written. Returns the error for the senders."""
        if isinstance(error, FolderGoneError):
            self._count("folder_gone")
            self.folder_gone(error, size)
            return JournalRefused("journal_unavailable", f"{error}; the sender should retry")
        no_room = error.errno in (ENOSPC, EDQUOT)
        self._count("disk_full" if no_room else "disk_error")
        found = f"{self._writer.folder}: the disk {'is full' if no_room else 'failed'} ({error.strerror})"
        self._note("disk_failing", found, size)
        if no_room:
            return JournalRefused("journal_full", f"{found}; make room, the sender should retry")
        return JournalRefused("journal_unavailable", f"{found}; check it, the sender should retry")

    def folder_gone(self, error: FolderGoneError, size: int = 0) -> None:
        """Note that no reader could find what is written."""
        self._note("data_folder_gone", str(error), size)

    def disk_failed(self, error: OSError) -> None:
        """Count that the disk failed without an append; the next append gets the error."""
        self.refuse(error, self._refused.get("disk_failing", (0, 0))[1])

    def end_those_over(self, now_ns: int, waiting_bytes: int) -> None:
        """End conditions if the append refused last would be taken now; `now_ns` is the journal's time."""
        for condition, (refused_ns, size) in list(self._refused.items()):
            if time.monotonic_ns() - refused_ns < QUIET_NS:
                continue
            if condition in ("disk_failing", "data_folder_gone"):
                try:
                    self._writer.check_in_place()
                    if condition == "disk_failing":
                        self._writer.probe(max(size, 1), now_ns)
                except OSError:
                    self._refused[condition] = (time.monotonic_ns(), size)
                    continue
            waiting = waiting_bytes + size
            if condition == "journal_full" and self._writer.used + waiting > self._max_bytes:
                continue
            if condition == "disk_slow" and waiting > MAX_WAITING_BYTES:
                continue
            del self._refused[condition]
            self._telemetry.conditions.end(condition, self._telemetry.name)

    def _note(self, condition: str, message: str, size: int) -> None:
        self._refused[condition] = (time.monotonic_ns(), size)
        self._telemetry.conditions.begin(condition, message, self._telemetry.name)

    def _count(self, reason: str) -> None:
        self._telemetry.add("failed_commits", reason=reason)

    def _full(self) -> str:
        bound = self._max_bytes
        unit, name = (_GIB, "GiB") if bound >= _GIB else (_MIB, "MiB")
        sizes = f"{self._writer.used / unit:.1f} of {bound / unit:.1f} {name}"
        waiting = f", waiting for {', '.join(self.held_by)}" if self.held_by else ""
        return f"journal is full ({sizes}, the bound journal.max_size_mib){waiting}"
