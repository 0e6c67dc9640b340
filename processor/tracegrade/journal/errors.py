"""Errors of a journal.

JournalError
+-- JournalLocked        another process writes here
+-- JournalNotFound      there is no journal here (yet)
+-- KafkaUnfit           Kafka, its topics or its client's settings cannot be the journal
    +-- KafkaAway            no broker answers
+-- SegmentDeleted       the wanted position was deleted by retention
+-- JournalRefused       nothing was taken; the sender should retry
"""

from tracegrade.model.errors import TraceGradeError


class JournalError(TraceGradeError):
    """Base of all journal errors."""


class JournalLocked(JournalError):
    """Another process holds the lock; the message names its process id."""


class JournalNotFound(JournalError):
    """A reader found no journal in the folder."""


class KafkaUnfit(JournalError):
    """Kafka cannot be the journal as it is set up; the message says what to change."""


class KafkaAway(KafkaUnfit):
    """No broker answers; a later start may succeed."""


class FolderGoneError(OSError):
    """The journal's files were deleted, moved or replaced: no reader would find what is written now."""


class SegmentDeleted(JournalError):
    """The wanted position lies before the first segment still there.

    ``position`` is what was asked for, ``first`` the first position that can be read now.
    """

    def __init__(self, position: int, first: int) -> None:
        self.position = position
        self.first = first
        super().__init__(
            f"journal position {position} was deleted by retention; the first one left is {first}: "
            "go on from there and count what is missing"
        )


class JournalRefused(JournalError):
    """An append was not taken and the sender should retry; ``reason`` is a label for counting.

    It is ``journal_full`` (a bound was reached: journal.max_size_mib, the disk, memory), ``journal_unavailable`` (the
    disk, or Kafka, failed; nothing of this append counts as taken) or ``shutting_down``.
    """

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(message)
