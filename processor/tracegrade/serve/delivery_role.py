"""The delivery process, where several judges work: from their results journals to all sinks, and what they share.

It is the only one that writes to the store. It also writes the journal of turns, by which sessions come to the judge
that has them, and says when judging may begin.
"""

import asyncio
import logging
import threading
from contextlib import ExitStack
from functools import partial

from sqlalchemy.exc import SQLAlchemyError

from tracegrade.config import Config
from tracegrade.deletion.carry_out import erase_records
from tracegrade.deletion.request import Deletion, Deletions
from tracegrade.deliver.consumer import wait
from tracegrade.deliver.recent import RecentReads
from tracegrade.deliver.sink import Sink
from tracegrade.journal.errors import JournalLocked, JournalNotFound, JournalRefused
from tracegrade.journal.published import Published
from tracegrade.pipeline.data_folder import DELIVERY, DataFolder, Judge
from tracegrade.pipeline.heartbeat import Heartbeat
from tracegrade.pipeline.judge_set import JudgeSet
from tracegrade.serve.background import Work, every
from tracegrade.serve.delivering.delivery import TRIM_EVERY_S, DeliveryThread
from tracegrade.serve.delivering.upstream import LeftResults, ResultsSource, ignore_stored
from tracegrade.serve.judge_role import DRAIN_AT_STOP_S
from tracegrade.serve.judging.deletions import RETRY_AFTER_S, finish_deletions
from tracegrade.serve.judging.file_hand_over import StoredClocks, confirmed_position
from tracegrade.serve.judging.metrics import JudgeMetrics
from tracegrade.serve.judging.turns import NAME as TURNS
from tracegrade.serve.judging.turns import TellingSink, erase_turns, trim_turns
from tracegrade.serve.opening import lock_delivery, open_journal_of, open_store_patiently, patiently
from tracegrade.serve.rule_reload import RuleReload
from tracegrade.store.errors import STORE_ERRORS
from tracegrade.store.open import unavailable

_BEAT_EVERY_S = 1.0
_DELETE_EVERY_S = 0.25
_BEGUN = 1  # a position after the first one: what watches us sees that we have begun

logger = logging.getLogger(__name__)


class DeliveryRole:
    """Delivery for all judges of the set in force: its own `Upstream`."""

    def __init__(self, config: Config) -> None:
        """Open everything.

        Raises:
            TraceGradeError: naming the file, line and column, or the folder.
        """
        self._config = config
        self._folder = folder = DataFolder(config.data_path)
        self._set = JudgeSet(folder)
        self._judges = self._set.judges
        self._metrics = JudgeMetrics(folder, config.telemetry.max_series, DELIVERY, config.telemetry.max_tenants)
        self._rules = RuleReload(config.rules, self._metrics.telemetry, config.quotas)
        self._deletions = Deletions(folder.path)
        self._stored_clocks = StoredClocks(folder, self._judges)
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        with ExitStack() as opened:
            self._heartbeat = Heartbeat(folder.heartbeat(DELIVERY))
            opened.callback(self._heartbeat.close)
            opened.callback(patiently(partial(lock_delivery, folder), JournalLocked, self._beat).release)
            self.left = []
            for name in self._set.left():
                open_it = partial(LeftResults.open, folder, config.journal, self._metrics.telemetry, name)
                self.left.append(patiently(open_it, JournalLocked, self._beat))
                opened.callback(self.left[-1].close)
            self._store = open_store_patiently(config.store_url, self._heartbeat, self._metrics)
            opened.callback(self._store.dispose)
            self._turns = open_journal_of(folder, TURNS, config.journal, self._metrics.telemetry)
            opened.callback(self._turns.close)
            self.sources = [self._source(judge) for judge in self._judges]
            self._opened = opened.pop_all()
        self._delivery = DeliveryThread(config, folder, self._store, self._rules, self._metrics, self)

    def run(self) -> None:
        """Deliver until `stop` is called.

        Raises:
            BaseException: the error that ended delivery.
        """
        self._delivery.start()
        try:
            self._stopping.wait()
        finally:
            self._delivery.stop(DRAIN_AT_STOP_S)
            self._opened.close()
        if (error := self._failure) is not None:
            if isinstance(error, SQLAlchemyError) and (known := unavailable(self._config.store_url, error)):
                raise known from error
            raise error

    def stop(self) -> None:
        """Ask `run` to return. Called from any thread."""
        self._stopping.set()

    def stored_to_ns(self) -> int:
        """As in `Upstream`."""
        return self._stored_clocks.sessions_ns()

    def left_stored(self) -> None:
        """As in `Upstream`: judging may begin."""
        self._set.say_ready(len(self._judges))

    def failed(self, error: BaseException) -> None:
        """As in `Upstream`: this process ends."""
        self._failure = error
        self._stopping.set()

    def _beat(self) -> None:
        self._heartbeat.beat(_BEGUN)

    def _source(self, judge: Judge) -> ResultsSource:
        path = self._folder.results(judge)
        # It is made by the judge, which is started together with us.
        published = patiently(lambda: Published(path), JournalNotFound, self._beat)
        position = partial(self._folder.position_in, judge.results)
        confirmed = confirmed_position(self._folder, judge).commit if self._config.journal.kafka else ignore_stored
        recent = RecentReads(lambda: published.read().segments)
        return ResultsSource(judge.results, path, position, recent, is_written_elsewhere=True, confirmed=confirmed)

    def store_sink(self, sink: Sink) -> Sink:
        """As in `Upstream`: it also writes the turns of sessions."""
        if self._config.journal.kafka is not None:
            return sink  # the store tells
        return TellingSink(sink, self._turns, self._store, lambda: self._rules.in_force)

    def works(self, halt: asyncio.Event) -> list[Work]:
        """As in `Upstream`: turns, deletions, and the heartbeat."""
        return [
            every(_BEAT_EVERY_S, self._beat, halt),
            every(TRIM_EVERY_S, partial(trim_turns, self._turns, self._folder, self._judges), halt),
            self._delete(halt),
        ]

    async def _delete(self, halt: asyncio.Event) -> None:
        """Finish deletions that every judge has done its part of."""
        while not await wait(halt, _DELETE_EVERY_S):
            try:
                done = await asyncio.to_thread(self._finish_deletions)
            except (OSError, JournalRefused, *STORE_ERRORS) as error:
                logger.warning("deletion: %s; trying again in %.0f s", error, RETRY_AFTER_S)
                await wait(halt, RETRY_AFTER_S)
                continue
            if done:
                self._metrics.forget_traces(done)

    def _finish_deletions(self) -> set[bytes]:
        """Returns the ids of the traces that are deleted now."""
        gone: set[bytes] = set()

        def erase(deletion: Deletion) -> int:
            gone.update(deletion.trace_ids)
            erase_turns(self._turns, deletion.trace_ids)
            left = [left.journal for left in self.left if not left.is_removed]
            return sum(erase_records([deletion], journal)[0] for journal in left)

        with_files = self._config.parquet is not None
        finish_deletions(self._deletions, self._judges, erase, self._store, _nothing, with_files=with_files)
        return gone


def _nothing() -> None:
    """The heartbeat goes on in the event loop."""
