"""Where a judge's records come from: the journal of this machine, or Kafka."""

from collections.abc import Callable
from typing import Protocol

from tracegrade.pipeline.record_judge import RecordJudge
from tracegrade.serve.judge_loop import JudgeLoop
from tracegrade.serve.judge_metrics import JudgeMetrics
from tracegrade.serve.judge_position import JudgePosition
from tracegrade.serve.stored_traces import StoredTraces


class JudgeInput(Protocol):
    """Reads, judges and commits, in the judging thread."""

    @property
    def read_position(self) -> int:
        """How far is read: for the heartbeat."""
        ...

    def prepare(self) -> None:
        """Publish what is known before anything is read."""
        ...

    def run(self) -> None:
        """Judge until stopped, or until there is something to delete. The store holds all results when it begins."""
        ...

    def forget(self) -> None:
        """Begin the next run as after a start: all open traces are read again, from the committed position."""
        ...


class LocalInput:
    """The journal in the data folder, read by one `RecordJudge`."""

    def __init__(
        self,
        loop: JudgeLoop,
        position: JudgePosition,
        metrics: JudgeMetrics,
        stored: StoredTraces,
        new_judge: Callable[[], RecordJudge],
    ) -> None:
        """`new_judge` makes a judge that has read nothing; `stored` knows the sessions that go on."""
        self._loop = loop
        self._position = position
        self._metrics = metrics
        self._stored = stored
        self._new_judge = new_judge
        self._judge = new_judge()

    @property
    def read_position(self) -> int:
        """As in `JudgeInput`."""
        return self._judge.read_position

    def prepare(self) -> None:
        """As in `JudgeInput`: so the counts of unread items go with a snapshot of ours."""
        self._judge.read_position = self._position.load()
        self._metrics.publish(self._judge)

    def run(self) -> None:
        """As in `JudgeInput`."""
        self._judge.resume(self._stored.sessions_going_on())
        self._loop.run(self._judge)

    def forget(self) -> None:
        """As in `JudgeInput`."""
        self._judge = self._new_judge()
