"""The judge process of ``serve``: journal -> assemble -> extract -> match -> evaluate -> results journal -> sinks.

Two threads, joined by a `MemoryHandOver`. The main thread only judges (`judging`). Sinks, alerts and the snapshot
are on an event loop in the second thread (`delivering`), each sink with its own position in the results journal. This
module puts both together.
"""

import sys
from contextlib import ExitStack
from functools import partial
from typing import Protocol

from sqlalchemy.exc import SQLAlchemyError

from tracegrade.assemble.closed_traces import ClosedTraces
from tracegrade.assemble.share import ALL, Share, Shares
from tracegrade.config import Config
from tracegrade.deletion.request import Deletion
from tracegrade.journal.errors import JournalError, JournalLocked, JournalNotFound
from tracegrade.journal.kafka.settings import KafkaSettings
from tracegrade.journal.kafka.topics import examine_topics
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.reader import JournalReader
from tracegrade.pipeline.data_folder import JUDGE, DataFolder, Judge
from tracegrade.pipeline.heartbeat import Heartbeat
from tracegrade.pipeline.judge_set import JudgeSet
from tracegrade.pipeline.record_judge import Mode, RecordJudge
from tracegrade.pipeline.watched_judge import Watchdog
from tracegrade.serve.delivering.delivery import DeliveryThread
from tracegrade.serve.delivering.upstream import LeftResults, OneJudge, ResultsSource
from tracegrade.serve.judging.deletions import JudgeDeletions
from tracegrade.serve.judging.fair_shares import FairShares
from tracegrade.serve.judging.hand_over import HandOver, MemoryHandOver
from tracegrade.serve.judging.journal_source import JournalSource, JudgePosition
from tracegrade.serve.judging.kafka.records import KafkaRecords
from tracegrade.serve.judging.kafka.sessions import KafkaSessions
from tracegrade.serve.judging.kafka.source import KafkaSource
from tracegrade.serve.judging.loop import JudgeLoop, JudgingParts
from tracegrade.serve.judging.metrics import JudgeMetrics
from tracegrade.serve.judging.results_writer import ResultsWriter
from tracegrade.serve.judging.source import Sessions, Source
from tracegrade.serve.judging.stored_traces import StoredTraces
from tracegrade.serve.judging.turns import SessionTurns
from tracegrade.serve.opening import lock_delivery, open_journal_of, open_store_patiently, patiently
from tracegrade.serve.rule_reload import RuleReload
from tracegrade.serve.tuning import THREAD_SWITCH_S
from tracegrade.store.open import open_store, unavailable
from tracegrade.telemetry.conditions import conditions_in
from tracegrade.telemetry.metrics import Telemetry

DRAIN_AT_STOP_S = 5.0
# 50 us each: a trace of more (30,000 agents by eight rules are 240,000) takes turns with what comes meanwhile.
DECIDED_AT_ONCE = 5_000
ONLY = Judge(ALL)


class Beside(Protocol):
    """What runs in the second thread."""

    def start(self) -> None:
        """Begin."""
        ...

    def stop(self, drain_s: float) -> None:
        """End; what delivers goes on for at most `drain_s` seconds."""
        ...


class JudgeRole:
    """The one judge over a data folder; `tracegrade.serve.worker_role` is one of several."""

    def __init__(self, config: Config, judge: Judge = ONLY) -> None:
        """Open everything; mistakes in rules or settings, or a broken store, stop the start here.

        Raises:
            TraceGradeError: naming the file, line and column, or the folder.
        """
        self._config = config
        self._own = judge
        self._folder = DataFolder(config.data_path)
        self._metrics = JudgeMetrics(
            self._folder, config.telemetry.max_series, judge.name, config.telemetry.max_tenants
        )
        self._rules = RuleReload(config.rules, self._metrics.telemetry, config.quotas)
        with ExitStack() as opened:
            self._results = self._open_results()
            opened.callback(self._results.close)
            self._heartbeat = Heartbeat(self._folder.heartbeat(judge.name))
            opened.callback(self._heartbeat.close)
            self._turns = self._open_turns()
            if self._turns is not None:
                opened.callback(self._turns.close)
            self._hand_over, self._beside = self._open_delivery(opened)
            self._stored = StoredTraces(
                lambda: open_store(config.store_url, read_only=True),
                self._heartbeat,
                judge.share,
                conditions=self._metrics.telemetry.conditions,
                wait=self._hand_over.stopping.wait,
            )
            opened.callback(self._stored.close)
            self._deletions = JudgeDeletions(self._folder, with_files=config.parquet is not None)
            self._aside = self._folder.set_aside.load()
            self._writer = ResultsWriter(
                self._results, self._hand_over, self._heartbeat, config.settings_hash, config.traces.max_live_spans
            )
            self._parts = JudgingParts(
                self._writer,
                self._hand_over,
                self._heartbeat,
                self._metrics,
                self._rules,
                self._deletions,
                self._folder.set_aside,
            )
            self._source, sessions = self._open_source(opened)
            self._loop = JudgeLoop(self._parts, self._source, sessions)
            self._opened = opened.pop_all()

    def run(self) -> None:
        """Judge until `stop` is called; returns when everything is committed and closed."""
        sys.setswitchinterval(THREAD_SWITCH_S)
        self._source.prepare()
        self._metrics.write_snapshot()
        self._beside.start()
        try:
            self._wait_until_ready()
            while not self._hand_over.stopping.is_set():
                # Late spans look for their traces in the store: it must hold all results before any span is read.
                self._writer.wait_until_stored()
                self._carry_out_deletions()
                self._loop.run()
            self._heartbeat.beat(self._source.read_position)
        except (OSError, JournalError, SQLAlchemyError) as error:
            # A disk or a store ends us, not the record being read.
            self._heartbeat.beat(self._source.read_position)
            if isinstance(error, SQLAlchemyError) and (known := unavailable(self._config.store_url, error)):
                raise known from error
            raise
        finally:
            self._beside.stop(DRAIN_AT_STOP_S)
            self._opened.close()

    def stop(self) -> None:
        """Ask `run` to return; open traces stay in the journal for the next start. Called from any thread."""
        self._hand_over.stopping.set()

    def _open_source(self, opened: ExitStack) -> tuple[Source, Sessions | None]:
        """Where records come from, and the sessions that are judged by turns."""
        if self._config.journal.kafka is not None:
            return self._open_kafka(self._config.journal.kafka.of_instance(self._folder.instance_id()))
        reader = self._open_journal()
        opened.callback(reader.close)
        position = JudgePosition(self._folder.position(self._own.name), self._heartbeat)
        opened.callback(position.close)
        shares = FairShares(self._config.journal.max_bytes) if self._config.judge.when_full == "drop_oldest" else None
        source = JournalSource(self._parts, reader, position, self._new_judge, self._stored.sessions_going_on, shares)
        return source, self._turns

    def _open_kafka(self, settings: KafkaSettings) -> tuple[Source, Sessions]:
        topics = examine_topics(settings)
        topics.say(self._metrics.telemetry.conditions)
        partitions = topics.partitions[settings.traces_topic]
        otlp = self._config.receivers.otlp
        source = KafkaSource(
            self._parts,
            settings,
            self._own.share.number,
            lambda of, number: self._new_judge(of, Share(number, partitions)),
            KafkaRecords(settings, otlp.max_request_bytes, otlp.max_request_messages, self._metrics.telemetry),
            self._config.traces.max_live_spans,
        )
        return source, KafkaSessions(self._stored, partitions)

    def _new_judge(self, parts: int = 1, session_share: Share | None = None) -> RecordJudge:
        """A judge that has read nothing, for one of so many parts that share the bounds of memory."""
        traces = self._config.traces.shared_by(parts)
        closed = ClosedTraces(
            self._stored.closed_traces,
            deleted=self._deletions.tombstones(),
            set_aside=self._aside.traces,
            max_unpacked_spans=traces.max_unpacked_spans,
            lookup_session=self._stored.session,
        )
        closed.came_deleted = self._deletions.late_spans_of_deleted.traces
        return RecordJudge(
            traces,
            self._rules.in_force,
            closed,
            Mode(decided_at_once=DECIDED_AT_ONCE),
            watchdog=Watchdog(self._aside.pairs, self._aside.positions, self._heartbeat),
            # Of Kafka's partitions, those given to this judge are its share.
            shares=Shares(self._own.share if self._config.journal.kafka is None else ALL, session_share),
        )

    def _carry_out_deletions(self) -> None:
        """Erase requested deletions that the journal no longer holds, and forget what was read of them.

        To forget is to begin as after a start: all open traces are read again, from the committed position.
        """
        if self._hand_over.stopping.is_set():
            return
        if waited := self._delete():
            self._metrics.forget_traces({trace_id for deletion in waited for trace_id in deletion.trace_ids})
            self._writer.forget()
            self._source.forget()

    def _delete(self) -> list[Deletion]:
        """Erase what was requested from all that is ours to write; returns what waited."""
        journals = [self._results, *(source.journal for source in self._left if not source.is_removed)]
        return self._deletions.carry_out(journals, self._store, lambda: self._heartbeat.beat(0))

    def _wait_until_ready(self) -> None:
        """Wait for what has to be before the store is read: here, all of it was done at the start."""

    def _open_results(self) -> LocalJournal:
        """The results journal; its lock makes us the only judge of our share of this folder."""
        # The judge of a killed receiver may still be committing; its pipe has ended, so it will end.
        open_it = partial(
            open_journal_of, self._folder, self._own.results, self._config.journal, self._metrics.telemetry
        )
        return patiently(open_it, JournalLocked)

    def _open_turns(self) -> SessionTurns | None:
        """The turns that several judges before us had not come to; None when there were none."""
        if not self._folder.turns.exists() or not self._folder.turns_position(self._own).exists():
            return None
        return SessionTurns(self._folder, self._own, lambda: 0)

    def _open_delivery(self, opened: ExitStack) -> tuple[HandOver, Beside]:
        """Delivery, in a thread of this process, and the hand-over to it."""
        folder, telemetry = self._folder, self._metrics.telemetry
        opened.callback(patiently(lambda: lock_delivery(folder), JournalLocked).release)
        self._left = [
            patiently(partial(LeftResults.open, folder, self._config.journal, telemetry, name), JournalLocked)
            for name in JudgeSet(folder).left()
        ]
        for left in self._left:
            opened.callback(left.close)
        self._store = open_store_patiently(self._config.store_url, self._heartbeat, self._metrics)
        opened.callback(self._store.dispose)
        hand_over = MemoryHandOver(self._results.end, has_left=not self._left)
        source = ResultsSource(
            self._own.results,
            folder.results(self._own),
            partial(folder.position_in, self._own.results),
            hand_over.recent,
            hand_over.store_holds,
            self._results.trim,
            confirmed=hand_over.confirm,
        )
        return hand_over, DeliveryThread(
            self._config,
            folder,
            self._store,
            self._rules,
            self._metrics,
            OneJudge([source], self._left, hand_over),
        )

    def _open_journal(self) -> JournalReader:
        # Started alone, the judge may run before the receiver has made the journal.
        return patiently(
            lambda: JournalReader(self._folder.journal, telemetry=self._metrics.telemetry, name="journal"),
            JournalNotFound,
        )


def say_that_the_store_is_away(folder: DataFolder, message: str, name: str = JUDGE) -> None:
    """Write a snapshot with this condition: this process ends, and the next one of its name tries again."""
    telemetry = Telemetry(name)
    telemetry.conditions.resume(conditions_in(folder.read_snapshot(name) or {}))
    telemetry.conditions.begin("store_unavailable", message)
    folder.write_snapshot(name, telemetry.snapshot())
