"""Which partitions are not read at the moment, so that memory stays within its bounds while polling goes on.

Open traces close as the time of their partition goes on, and that goes on by reading. So beyond half of the bound, one
partition is read on, the one furthest behind, and the others wait for it: when it was read ahead of them, it waits.
"""

from collections.abc import Collection, Iterable

from tracegrade.journal.kafka.consume import GroupConsumer, TopicPart
from tracegrade.serve.judging.kafka.partition_judge import PartitionJudge

# Fetched messages of one topic that wait for the other one.
MAX_WAITING = 2000
# One that is read alone goes on until it is so far ahead: to begin to read costs a request.
_AHEAD_NS = 10_000_000_000


class Pauses:
    """The partitions that are paused in one consumer."""

    def __init__(self, max_open: int) -> None:
        """Begin with none; `max_open` bounds open spans and log records of all partitions together."""
        self._max_open = max_open
        self._paused: set[TopicPart] = set()
        self._alone: int | None = None  # the partition that is read while the others wait

    @property
    def partitions(self) -> int:
        """How many partitions are paused, in any topic."""
        return len({number for _, number in self._paused})

    def apply(self, judges: Collection[PartitionJudge], consumer: GroupConsumer) -> list[PartitionJudge]:
        """Pause and resume as it is needed now. Returns the partitions of which something was resumed."""
        return self._become(self._wanted(judges), judges, consumer)

    def all(self, judges: Collection[PartitionJudge], consumer: GroupConsumer) -> None:
        """Pause all, until `apply` is called."""
        self._become({part for judge in judges for part in judge.parts}, judges, consumer)

    def forget(self, judges: Iterable[PartitionJudge]) -> None:
        """These were revoked."""
        self._paused.difference_update(part for judge in judges for part in judge.parts)

    def _wanted(self, judges: Collection[PartitionJudge]) -> set[TopicPart]:
        wanted = {
            (topic, judge.number)
            for judge in judges
            for topic in judge.merge.topics
            if judge.merge.waiting(topic) > MAX_WAITING
        }
        if sum(judge.open_contents for judge in judges) <= self._max_open // 2 or len(judges) < 2:
            self._alone = None
            return wanted
        clocks = {judge.number: judge.judge.clock_ns for judge in judges}
        behind = min(clocks, key=lambda number: (clocks[number], number))
        if self._alone not in clocks or clocks[self._alone] > clocks[behind] + _AHEAD_NS:
            self._alone = behind
        return wanted | {part for judge in judges if judge.number != self._alone for part in judge.parts}

    def _become(
        self, wanted: set[TopicPart], judges: Collection[PartitionJudge], consumer: GroupConsumer
    ) -> list[PartitionJudge]:
        resumed, paused = self._paused - wanted, wanted - self._paused
        if paused:
            consumer.pause(paused)
        if resumed:
            consumer.resume(resumed)
        self._paused = wanted
        numbers = {number for _, number in resumed}
        return [judge for judge in judges if judge.number in numbers]
