"""What one of several judges does besides judging, in a second thread: its snapshot, its rules, its results journal."""

import asyncio
from collections.abc import Callable

from tracegrade.journal.local import LocalJournal
from tracegrade.journal.position import Position
from tracegrade.journal.retention import Consumer
from tracegrade.pipeline.data_folder import DataFolder, Judge
from tracegrade.serve.background import BackgroundLoop, every, run_until
from tracegrade.serve.delivering.delivery import SNAPSHOT_EVERY_S, TRIM_EVERY_S
from tracegrade.serve.judging.metrics import JudgeMetrics
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
