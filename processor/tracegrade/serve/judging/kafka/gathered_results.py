"""What the judges of all partitions have judged, made durable together.

Each append waits for the disk, and is a transaction of the store, which other judges write to as well. So results of
all partitions are gathered for `GATHER_S`, as of one journal, and positions count what is appended alone.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator

from tracegrade.pipeline.judged import Judged
from tracegrade.serve.judging.kafka.partition_judge import PartitionJudge
from tracegrade.serve.judging.loop import APPENDED_TOGETHER, GATHER_S
from tracegrade.serve.judging.metrics import JudgeMetrics
from tracegrade.serve.judging.results_writer import ResultsWriter


class GatheredResults:
    """Results that are not appended yet, of the partitions that are ours."""

    def __init__(
        self,
        writer: ResultsWriter,
        metrics: JudgeMetrics,
        parts: Callable[[], Collection[PartitionJudge]],
        position: Callable[[], int],
    ) -> None:
        """Begin with none.

        Args:
            writer: of results; while it waits, partitions may come and go.
            metrics: of this process.
            parts: gives the partitions that are ours.
            position: gives what is read up to, for the heartbeat.
        """
        self._writer = writer
        self._metrics = metrics
        self._parts = parts
        self._position = position
        self._gathered: dict[PartitionJudge, list[Judged]] = {}
        self._count = 0
        self._due_s = 0.0

    @property
    def is_empty(self) -> bool:
        """Whether everything that was added is durable."""
        return not self._gathered

    def add(self, part: PartitionJudge, judged: Iterator[Judged]) -> bool:
        """Take what `part` has judged, and append when there is much; False when stopped meanwhile.

        When the partition is revoked in between, the rest is not judged: whoever has it now does that.
        """
        if part not in self._parts():
            return True
        for item in judged:
            self._gathered.setdefault(part, []).append(item)
            self._count += 1
            if self._count >= APPENDED_TOGETHER:
                if not self.append():
                    return False
                if part not in self._parts():
                    break
        return True

    def append_when_due(self) -> bool:
        """Append, if it is long enough ago that this was done; False when stopped meanwhile."""
        return self.append() if time.monotonic() >= self._due_s else True

    def append(self) -> bool:
        """Make all durable; False when stopped meanwhile."""
        if not self._gathered:
            return True
        gathered = self._take()
        if not self._writer.append({part.judge: items for part, items in gathered.items()}, self._position()):
            return False
        self._due_s = time.monotonic() + GATHER_S
        self._metrics.count_closed([item for items in gathered.values() for item in items])
        return self._writer.wait_for_room(self._position())

    def forget(self, parts: Iterable[PartitionJudge]) -> None:
        """These were revoked: whoever has them now judges them again."""
        for part in parts:
            self._count -= len(self._gathered.pop(part, ()))

    def _take(self) -> dict[PartitionJudge, list[Judged]]:
        gathered, self._gathered, self._count = self._gathered, {}, 0
        return gathered
