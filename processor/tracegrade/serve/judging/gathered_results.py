"""What was judged, made durable together.

Each append wakes the sinks, waits for the disk, and is a transaction of the store, which costs more than a few results.
So results of all partitions are gathered for `GATHER_S`, and meanwhile no position is committed. Where traffic is rare,
results are appended at once.
"""

import time
from collections.abc import Iterable

from tracegrade.pipeline.judged import Judged
from tracegrade.pipeline.record_judge import RecordJudge
from tracegrade.serve.judging.metrics import JudgeMetrics
from tracegrade.serve.judging.results_writer import ResultsWriter
from tracegrade.serve.judging.source import Source

GATHER_S = 0.2  # the shortest time between two appends, unless there are many results
APPENDED_TOGETHER = 256  # judged traces; so results are delivered while many closings are still being judged


class GatheredResults:
    """Results that are not appended yet, of the partitions that are ours."""

    def __init__(self, writer: ResultsWriter, metrics: JudgeMetrics, source: Source) -> None:
        """Begin with none.

        Args:
            writer: of results; while it waits, partitions of the source may come and go.
            metrics: of this process.
            source: whose records are judged.
        """
        self._writer = writer
        self._metrics = metrics
        self._source = source
        self._gathered: dict[RecordJudge, list[Judged]] = {}
        self._count = 0
        self._due_s = 0.0

    @property
    def is_empty(self) -> bool:
        """Whether everything that was added is durable."""
        return not self._gathered

    @property
    def end(self) -> int:
        """Where the durable results end in their journal."""
        return self._writer.end

    @property
    def stored_to(self) -> int:
        """The store holds every result before this position of that journal."""
        return self._writer.stored_to

    def add(self, judge: RecordJudge, judged: Iterable[Judged]) -> bool:
        """Take what `judge` judges, and append when there is much; False when stopped meanwhile.

        When its partition is revoked in between, the rest is not judged: whoever has it now does that.
        """
        if not self._is_ours(judge):
            return True
        for item in judged:
            self._gathered.setdefault(judge, []).append(item)
            self._count += 1
            if self._count >= APPENDED_TOGETHER:
                if not self.append():
                    return False
                if not self._is_ours(judge):
                    break
        return True

    def append_when_due(self) -> bool:
        """Append, if it is long enough ago that this was done; False when stopped meanwhile."""
        return self.append() if time.monotonic() >= self._due_s else True

    def append(self) -> bool:
        """Make all durable; False when stopped meanwhile."""
        gathered, self._gathered, self._count = self._gathered, {}, 0
        ours = {judge: items for judge, items in gathered.items() if self._is_ours(judge)}
        if not ours:
            return True
        if not self._writer.append(ours, self._source.read_position):
            return False
        self._due_s = time.monotonic() + GATHER_S
        self._metrics.count_closed([item for items in ours.values() for item in items])
        if not self._writer.wait_for_room(self._source.read_position):
            return False
        self._source.publish()
        return True

    def _is_ours(self, judge: RecordJudge) -> bool:
        return any(ours is judge for ours in self._source.judges.values())
