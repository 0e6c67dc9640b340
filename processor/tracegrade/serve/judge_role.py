"""The judge process of ``serve``: journal -> assemble -> extract -> match -> evaluate -> results journal -> sinks.

Two threads, joined by a `MemoryHandOver`. The main thread only judges (`judge_loop`). Sinks, alerts and the snapshot
are on an event loop in the second thread (`delivery`), each sink with its own position in the results journal. This
module puts both together.
"""

import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TypeVar

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from tracegrade.assemble.closed_traces import ClosedTraces
from tracegrade.config import Config
from tracegrade.journal.errors import JournalError, JournalLocked, JournalNotFound
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.reader import JournalReader
from tracegrade.pipeline.data_folder import JUDGE, RESULTS, DataFolder
from tracegrade.pipeline.heartbeat import Heartbeat
from tracegrade.pipeline.record_judge import RecordJudge
from tracegrade.serve.delivery import Delivery
from tracegrade.serve.hand_over import MemoryHandOver
from tracegrade.serve.judge_deletions import JudgeDeletions
from tracegrade.serve.judge_loop import JudgeLoop
from tracegrade.serve.judge_metrics import JudgeMetrics
from tracegrade.serve.judge_position import JudgePosition
from tracegrade.serve.results_source import ResultsSource
from tracegrade.serve.results_writer import ResultsWriter
from tracegrade.serve.rule_reload import RuleReload
from tracegrade.serve.stored_traces import StoredTraces
from tracegrade.serve.tuning import THREAD_SWITCH_S
from tracegrade.store.open import open_store, unavailable
from tracegrade.telemetry.conditions import conditions_in
from tracegrade.telemetry.metrics import Telemetry

DRAIN_AT_STOP_S = 5.0
OPENS_WITHIN_S = 60.0

Opened = TypeVar("Opened")


class JudgeRole:
    """One judge over one data folder."""

    def __init__(self, config: Config) -> None:
        """Open everything; mistakes in rules or settings, or a broken store, stop the start here.

        Raises:
            TraceGradeError: naming the file, line and column, or the folder.
        """
        self._config = config
        self._folder = DataFolder(config.data_path)
        self._metrics = JudgeMetrics(self._folder, config.telemetry.max_series)
        self._rules = RuleReload(config.rules, self._metrics.telemetry)
        with ExitStack() as opened:
            self._results = self._open_results()
            opened.callback(self._results.close)
            self._heartbeat = Heartbeat(self._folder.heartbeat)
            opened.callback(self._heartbeat.close)
            self._store = self._open_store()
            opened.callback(self._store.dispose)
            self._stored = StoredTraces(open_store(config.store_url, read_only=True), self._heartbeat)
            opened.callback(self._stored.close)
            reader = self._open_journal()
            opened.callback(reader.close)
            self._position = JudgePosition(self._folder.position(JUDGE), self._heartbeat)
            opened.callback(self._position.close)
            self._opened = opened.pop_all()
        self._deletions = JudgeDeletions(self._folder, with_files=config.parquet is not None)
        self._aside = self._folder.set_aside.load()
        self._hand_over = MemoryHandOver(self._results.end)
        self._writer = ResultsWriter(
            self._results, self._hand_over, self._heartbeat, config.settings_hash, config.traces.max_live_spans
        )
        self._judge = self._new_judge()
        self._loop = JudgeLoop(
            reader,
            self._position,
            self._writer,
            self._hand_over,
            self._heartbeat,
            self._metrics,
            self._rules,
            self._deletions,
            self._folder.set_aside,
            self._aside.suspects,
        )
        source = ResultsSource(
            RESULTS,
            self._folder.results,
            self._folder.position_in_results,
            self._hand_over.recent,
            self._hand_over.store_holds,
            self._results.trim,
        )
        self._delivery = Delivery(
            config,
            self._folder,
            self._store,
            [source],
            self._rules,
            self._metrics,
            stored_to_ns=self._hand_over.stored_to_ns,
            failed=self._hand_over.fail,
        )

    def run(self) -> None:
        """Judge until `stop` is called; returns when everything is committed and closed."""
        sys.setswitchinterval(THREAD_SWITCH_S)
        # Before anything is read and committed, so that the counts of unread items go with a snapshot of ours.
        self._judge.read_position = self._position.load()
        self._metrics.publish(self._judge)
        self._metrics.write_snapshot()
        self._delivery.start()
        try:
            while not self._hand_over.stopping.is_set():
                # Late spans look for their traces in the store: it must hold all results before any span is read.
                self._writer.wait_until_stored()
                self._carry_out_deletions()
                self._judge.resume(self._stored.sessions_going_on())
                self._loop.run(self._judge)
            self._heartbeat.beat(self._judge.read_position)
        except (OSError, JournalError, SQLAlchemyError) as error:
            # A disk or a store ends us, not the record being read.
            self._heartbeat.beat(self._judge.read_position)
            if isinstance(error, SQLAlchemyError) and (known := unavailable(self._config.store_url, error)):
                raise known from error
            raise
        finally:
            self._delivery.stop(DRAIN_AT_STOP_S)
            self._opened.close()

    def stop(self) -> None:
        """Ask `run` to return; open traces stay in the journal for the next start. Called from any thread."""
        self._hand_over.stopping.set()

    def _new_judge(self) -> RecordJudge:
        """A judge that has read nothing."""
        closed = ClosedTraces(
            self._stored.closed_traces,
            deleted=self._deletions.tombstones(),
            set_aside=self._aside.traces,
            max_unpacked_spans=self._config.traces.max_unpacked_spans,
        )
        closed.came_deleted = self._deletions.late_spans.trace_ids
        return RecordJudge(
            self._config.traces,
            self._rules.in_force,
            closed,
            set_aside=self._aside.pairs,
            passed_over=self._aside.positions,
            heartbeat=self._heartbeat,
            session=self._stored.session,
        )

    def _carry_out_deletions(self) -> None:
        """Erase requested deletions that the journal no longer holds, and forget what was read of them.

        To forget is to begin as after a start: all open traces are read again, from the committed position.
        """
        if self._hand_over.stopping.is_set():
            return
        if waited := self._deletions.carry_out(self._results, self._store, lambda: self._heartbeat.beat(0)):
            self._metrics.forget_traces({trace_id for deletion in waited for trace_id in deletion.trace_ids})
            self._writer.forget()
            self._judge = self._new_judge()

    def _open_results(self) -> LocalJournal:
        """The results journal; its lock makes us the only judge of this folder."""
        # The judge of a killed receiver may still be committing; its pipe has ended, so it will end.
        return _patiently(
            lambda: LocalJournal.open(
                self._folder.results,
                self._config.journal,
                telemetry=self._metrics.telemetry,
                name=RESULTS,
                consumed=self._folder.consumed_results(),
                clocked=False,
            ),
            JournalLocked,
        )

    def _open_journal(self) -> JournalReader:
        # Started alone, the judge may run before the receiver has made the journal.
        return _patiently(
            lambda: JournalReader(self._folder.journal, telemetry=self._metrics.telemetry, name="journal"),
            JournalNotFound,
        )

    def _open_store(self) -> Engine:
        """Open the store, with heartbeats while its tables are updated: for a large store, that takes minutes.

        If the watchdog killed the judge meanwhile, each update would have to begin again.
        """
        with ThreadPoolExecutor(1, thread_name_prefix="open-store") as opening:
            opened = opening.submit(open_store, self._config.store_url, updating=self._say_that_it_is_updated)
            store = self._heartbeat.beat_until(opened, 0)
        for name in ("store_updating", "store_unavailable"):
            self._metrics.telemetry.conditions.end(name)
        return store

    def _say_that_it_is_updated(self) -> None:
        self._metrics.telemetry.conditions.begin(
            "store_updating", "judging waits until the store is brought up to date"
        )
        self._metrics.write_snapshot()


def say_that_the_store_is_away(folder: DataFolder, message: str) -> None:
    """Write a snapshot with this condition: this judge ends, and the next one tries again."""
    telemetry = Telemetry(JUDGE)
    telemetry.conditions.resume(conditions_in(folder.read_snapshot(JUDGE) or {}))
    telemetry.conditions.begin("store_unavailable", message)
    folder.write_snapshot(JUDGE, telemetry.snapshot())


def _patiently(open_it: Callable[[], Opened], error: type[JournalError]) -> Opened:
    """The result of `open_it`, which is tried again for a minute while it raises `error`."""
    deadline_s = time.monotonic() + OPENS_WITHIN_S
    while True:
        try:
            return open_it()
        except error:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.1)
