"""One of several judges: it judges its share of the traces, and one process delivers what all of them judged.

It reads the same journal as the others, with a position, a results journal, a heartbeat and a snapshot of its own.
What it needs to know of delivery is in files (`FileHandOver`); sessions come to it by turns (`SessionTurns`). Its
second thread writes its snapshot, reads its rules again, and trims its results journal (`Upkeep`).
"""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack

from tracegrade.deletion.request import Deletion
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.position import Position
from tracegrade.journal.retention import Consumer
from tracegrade.pipeline.data_folder import DataFolder, Judge, judges
from tracegrade.pipeline.judge_set import JudgeSet
from tracegrade.serve.background import BackgroundLoop, every, run_until
from tracegrade.serve.delivering.delivery import SNAPSHOT_EVERY_S, TRIM_EVERY_S
from tracegrade.serve.judge_role import Beside, JudgeRole
from tracegrade.serve.judging.file_hand_over import FileHandOver, StoredClocks
from tracegrade.serve.judging.hand_over import HandOver
from tracegrade.serve.judging.metrics import JudgeMetrics
from tracegrade.serve.judging.turns import SessionTurns
from tracegrade.serve.rule_reload import RuleReload

_ENDS_WITHIN_S = 10.0


class Upkeep:
    """Runs beside judging. Retention deletes from the results journal what all sinks of delivery have taken."""

    def __init__(
        self,
        folder: DataFolder,
        judge: Judge,
        results: LocalJournal,
        rules: RuleReload,
        metrics: JudgeMetrics,
        failed: Callable[[BaseException], object],
    ) -> None:
        """Prepare; nothing runs yet. `failed` is called with the error that ended it."""
        self._folder = folder
        self._judge = judge
        self._results = results
        self._rules = rules
        self._metrics = metrics
        self._background = BackgroundLoop("upkeep", self._run, failed)

    def start(self) -> None:
        """Begin."""
        self._background.start()

    def stop(self, drain_s: float) -> None:
        """End, with a last snapshot; there is nothing to deliver in `drain_s`."""
        self._background.stop(_ENDS_WITHIN_S)

    async def _run(self, stopping: asyncio.Event) -> None:
        halt = asyncio.Event()
        works = [
            every(SNAPSHOT_EVERY_S, self._metrics.write_snapshot, halt),
            every(TRIM_EVERY_S, self._trim, halt),
            self._rules.run(halt),
        ]
        await run_until(stopping, halt, works, lambda: None)
        self._metrics.write_snapshot()

    def _trim(self) -> None:
        consumers = {}
        for sink, when_full in self._folder.read_sinks().items():
            position = Position(self._folder.position_in(self._judge.results, sink)).load()
            consumers[sink] = Consumer(position or 0, when_full)
        if consumers:
            self._results.trim(consumers)


_LOOK_EVERY_S = 0.05


class WorkerRole(JudgeRole):
    """A judge beside others."""

    _turns: SessionTurns
    _hand_over: FileHandOver

    def run(self) -> None:
        """As of the only judge.

        Raises:
            BaseException: the error that ended what runs beside judging.
        """
        super().run()
        if self._hand_over.failure is not None:
            raise self._hand_over.failure

    def _open_turns(self) -> SessionTurns:
        clocks = StoredClocks(self._folder, judges(self._own.share.of))
        return SessionTurns(self._folder, self._own, clocks.traces_ns)

    def _open_delivery(self, opened: ExitStack) -> tuple[HandOver, Beside]:
        """Another process delivers; here are the files by which it is known how far it is."""
        has_sessions = self._config.journal.kafka is None
        hand_over = FileHandOver(self._folder, self._own, (lambda: self._turns.clock_ns) if has_sessions else None)
        opened.callback(hand_over.close)
        return hand_over, Upkeep(self._folder, self._own, self._results, self._rules, self._metrics, hand_over.fail)

    def _wait_until_ready(self) -> None:
        """Wait until delivery has opened the store, and stored all that earlier sets of judges left."""
        judge_set = JudgeSet(self._folder)
        while not judge_set.is_ready and not self._hand_over.stopping.wait(_LOOK_EVERY_S):
            self._heartbeat.beat(0)

    def _delete(self) -> list[Deletion]:
        return self._deletions.carry_out_share(
            self._results, self._own, lambda: self._heartbeat.beat(0), self._hand_over.stopping.wait
        )
