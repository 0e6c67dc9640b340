"""One of several judges: it judges its share of the traces, and one process delivers what all of them judged.

It reads the same journal as the others, with a position, a results journal, a heartbeat and a snapshot of its own.
What it needs to know of delivery is in files (`FileHandOver`); sessions come to it by turns (`SessionTurns`).
"""

from contextlib import ExitStack

from tracegrade.deletion.request import Deletion
from tracegrade.pipeline.data_folder import judges
from tracegrade.pipeline.judge_set import JudgeSet
from tracegrade.serve.judge_role import Beside, JudgeRole
from tracegrade.serve.judging.file_hand_over import FileHandOver
from tracegrade.serve.judging.hand_over import HandOver
from tracegrade.serve.judging.judged_to import StoredClocks
from tracegrade.serve.judging.turns import SessionTurns
from tracegrade.serve.worker_upkeep import Upkeep

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
