"""Where the records that are judged come from: the local journal, or the partitions of Kafka that are ours."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from tracegrade.pipeline.judged import Judged, JudgedSession
from tracegrade.pipeline.record_judge import RecordJudge


class Fetched(NamedTuple):
    """What was fetched of one partition. The local journal is one partition, 0.

    ``judged``, read to its end, has ``judge`` read the records, and gives what closes by them.
    """

    partition: int
    judge: RecordJudge
    judged: Iterator[Judged]


class Source(Protocol):
    """Records with positions. Its partitions may change whenever it is polled."""

    @property
    def judges(self) -> Mapping[int, RecordJudge]:
        """The judges of all partitions that are ours, by number."""
        ...

    @property
    def read_position(self) -> int:
        """How far is read, in all partitions together: for the heartbeat."""
        ...

    @property
    def has_suspects(self) -> bool:
        """Whether a record is to come at which an earlier judge ended: what one does is known before the next then."""
        ...

    def prepare(self) -> None:
        """Publish what is known before anything is read: so the counts of unread items go with a snapshot of ours."""
        ...

    def reading(self) -> AbstractContextManager[None]:
        """One run of reading, from the committed positions on; what is durable is committed when it ends."""
        ...

    def fetch(self) -> Sequence[Fetched]:
        """What has come since the last time. The next fetch asks for nothing before all of it is judged."""
        ...

    def publish(self) -> None:
        """Publish what is read, and what became of it."""
        ...

    def all_durable(self, results_end: int) -> int | None:
        """Everything that was fetched is judged, with all results before `results_end` of the results journal.

        Returns:
            The time, ns since 1970 UTC, up to which everything is judged; None while that is not known.
        """
        ...

    def end_round(self) -> None:
        """Commit what is due, and wait a little where nothing more has come."""
        ...

    def forget(self) -> None:
        """Begin the next run as after a start: all open traces are read again, from the committed position."""
        ...


class Results(Protocol):
    """What makes results durable: `GatheredResults`."""

    @property
    def end(self) -> int:
        """Where the durable results end in their journal."""
        ...

    @property
    def stored_to(self) -> int:
        """The store holds every result before this position of that journal."""
        ...

    def add(self, judge: RecordJudge, judged: Iterator[Judged] | Iterator[JudgedSession]) -> bool:
        """Take what is judged; False when stopped meanwhile."""
        ...

    def append(self) -> bool:
        """Make all durable; False when stopped meanwhile."""
        ...


class Sessions(Protocol):
    """Sessions that are judged by turns, since their traces may be closed by other judges."""

    def take(self, fetched: Sequence[Fetched], results: Results) -> bool:
        """Judge the sessions of these partitions that have turns, and those that have ended, when it is time.

        Returns:
            False when stopped meanwhile.

        Raises:
            SQLAlchemyError: the store cannot be read or changed.
        """
        ...
