"""Delivery: from the results journals to sinks and alerts, and the snapshot file.

It runs in a thread of its own: of the judge's process, or of the delivery process where several workers judge.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Engine

from tracegrade.alert.loop import AlertLoop
from tracegrade.alert.notify.channels.registry import channels
from tracegrade.alert.notify.events import AlertEvents
from tracegrade.alert.notify.settings import OF_EXPORTERS
from tracegrade.config import Config
from tracegrade.deletion.request import Deletions
from tracegrade.deliver.consumer import SinkConsumer, wait
from tracegrade.deliver.cursor import ResultsCursor
from tracegrade.deliver.gather import GatheringConsumer
from tracegrade.deliver.registry import open_sinks
from tracegrade.deliver.sink import Sink, SinkContext
from tracegrade.deliver.sinks.parquet import ParquetSink
from tracegrade.deliver.sinks.sql import SqlSink
from tracegrade.journal.position import Position
from tracegrade.journal.published import Published
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.retention import Consumer
from tracegrade.model.signal import Signal
from tracegrade.otlp.client import OtlpClient
from tracegrade.pipeline.data_folder import DataFolder
from tracegrade.serve.background import BackgroundLoop, Work, every, run_until
from tracegrade.serve.delivering.deletion_upkeep import take_over_deletions
from tracegrade.serve.delivering.leftovers import delete_leftovers
from tracegrade.serve.delivering.parquet_upkeep import keep_parquet_files
from tracegrade.serve.delivering.results_source import LeftResults, ResultsSource
from tracegrade.serve.delivering.store_lag import Positions, StoreLag
from tracegrade.serve.delivering.store_upkeep import StoreUpkeep
from tracegrade.serve.judging.metrics import JudgeMetrics
from tracegrade.serve.judging.turns import may_have_turn
from tracegrade.serve.rule_reload import RuleReload
from tracegrade.store.several_processes import Judges, Leader

SNAPSHOT_EVERY_S = 1.0
TRIM_EVERY_S = 5.0
LOOK_EVERY_S = 0.05
_ENDS_WITHIN_S = 10.0  # in addition to draining

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class _Delivered:
    """A results journal and the consumers of it, one for each sink."""

    source: ResultsSource
    consumers: Sequence[SinkConsumer]

    @property
    def is_stored(self) -> bool:
        """Whether the store has taken all there is."""
        return all(consumer.has_all for consumer in self.consumers if consumer.sink.name == SqlSink.name)

    @property
    def is_done(self) -> bool:
        """Whether every sink has."""
        return all(consumer.has_all for consumer in self.consumers)


class DeliveryThread:
    """Delivers results to all sinks. Retention deletes nothing after the position of a sink in a results journal."""

    def __init__(
        self,
        config: Config,
        folder: DataFolder,
        store: Engine,
        sources: Sequence[ResultsSource],
        rules: RuleReload,
        metrics: JudgeMetrics,
        *,
        stored_to_ns: Callable[[], int],
        failed: Callable[[BaseException], object],
        left: Sequence[LeftResults] = (),
        left_stored: Callable[[], object] = lambda: None,
        into_store: Callable[[Sink], Sink] = lambda sink: sink,
        alongside: Callable[[asyncio.Event], Sequence[Work]] = lambda halt: (),
    ) -> None:
        """Prepare; nothing runs yet.

        Args:
            config: the settings.
            folder: the data folder.
            store: open for writing. With SQLite, this process is the only one that stores results.
            sources: the results journals.
            rules: those in force, which are also watched here.
            metrics: of this process.
            stored_to_ns: the store holds every result of what came up to this time.
            failed: called with the error that ended delivery.
            left: what earlier sets of judges left, to be removed once every sink has taken it.
            left_stored: called once the store holds all of that.
            into_store: gives the sink to use in place of the store's.
            alongside: gives what else to run, until the event is set.
        """
        self._config = config
        self._folder = folder
        self._store = store
        self._leader = Leader(store)
        self._judges = Judges(store, folder.instance_id(), stored_to_ns)
        self._sources = sources
        self._rules = rules
        self._metrics = metrics
        self._left = left
        self._left_stored = left_stored
        self._into_store = into_store
        self._alongside = alongside
        self._delivered: list[_Delivered] = []
        self._drain_s = 0.0
        self._background = BackgroundLoop("delivery", self._deliver, failed)

    def start(self) -> None:
        """Begin to deliver."""
        self._background.start()

    def stop(self, drain_s: float) -> None:
        """Deliver remaining results for at most `drain_s` seconds, then close; others wait for the next start."""
        self._drain_s = drain_s
        self._background.stop(drain_s + _ENDS_WITHIN_S)

    async def _deliver(self, stopping: asyncio.Event) -> None:
        sinks = [self._into_store(sink) if sink.name == SqlSink.name else sink for sink in self._open_sinks()]
        self._folder.write_sinks({sink.name: sink.when_full for sink in sinks})
        delivered = self._consumers(sinks, [*self._sources, *(left.source for left in self._left)])
        self._delivered = delivered
        current, left = (
            delivered[: len(self._sources)],
            dict(zip(delivered[len(self._sources) :], self._left, strict=True)),
        )
        for source in self._sources:
            source.recent.listen(lambda: self._background.call(self._wake))
        clients = self._clients_for_alerts()
        await asyncio.to_thread(self._leader.look)  # before alerts ask for the first time
        halt = asyncio.Event()
        upkeep = StoreUpkeep(self._store, self._leader, self._metrics.telemetry.conditions, halt)
        works = [
            *(consumer.run(halt) for each in current for consumer in each.consumers),
            self._deliver_left(left, halt),
            self._look(halt),
            *self._alongside(halt),
            self._alerts(clients).run(halt),
            every(SNAPSHOT_EVERY_S, self._metrics.write_snapshot, halt),
            every(TRIM_EVERY_S, self._trim, halt),
            every(SNAPSHOT_EVERY_S, StoreLag(self._stored_to, self._metrics.telemetry.conditions).look, halt),
            self._leader.run(halt),
            self._judges.run(halt),
            upkeep.delete_old_traces(self._config.store.retention, self._config.quotas.stored_for),
            delete_leftovers(self._store, self._folder, self._config.store, halt),
            keep_parquet_files(self._config.parquet, self._folder, halt),
            take_over_deletions(self._config, self._folder, self._store, halt),
            self._rules.run(halt),
            upkeep.keep_rule_texts(self._rules),
        ]
        if (values_retention_s := self._config.store.values_retention) is not None:
            works.append(upkeep.keep_values_young(values_retention_s))
        await run_until(stopping, halt, works, self._wake)
        await self._drain()
        for sink in sinks:
            await sink.close()
        for client in clients.values():
            await client.close()
        self._metrics.write_snapshot()

    async def _deliver_left(self, left: dict[_Delivered, LeftResults], halt: asyncio.Event) -> None:
        """Deliver what earlier sets of judges left, then remove it; ends with `halt`."""
        enough = {each: asyncio.Event() for each in left}
        runs = {each: asyncio.gather(*(c.run(enough[each]) for c in each.consumers)) for each in left}
        while not all(each.is_stored for each in left) and not await wait(halt, LOOK_EVERY_S):
            _raise_failure(runs.values())
        if not halt.is_set():
            self._left_stored()
        while runs and not await wait(halt, LOOK_EVERY_S):
            _raise_failure(runs.values())
            for each in [each for each in runs if each.is_done]:
                await _end(each, enough[each], runs.pop(each))
                self._delivered.remove(each)
                await asyncio.to_thread(left[each].remove)
                logger.info("%s, left by another number of judges, is delivered and removed", each.source.name)
        await halt.wait()
        for each, run in runs.items():
            await _end(each, enough[each], run)

    async def _look(self, halt: asyncio.Event) -> None:
        """Wake consumers when another process has added results."""
        watched = [
            (each, Published(each.source.folder)) for each in self._delivered if each.source.is_written_elsewhere
        ]
        seen = [0] * len(watched)
        while watched and not await wait(halt, LOOK_EVERY_S):
            for place, (each, published) in enumerate(watched):
                if (end := published.read().end) != seen[place]:
                    seen[place] = end
                    for consumer in each.consumers:
                        consumer.wake()
        await halt.wait()

    def _stored_to(self) -> Positions:
        stores = [
            (delivered.source.name, consumer)
            for delivered in self._delivered
            for consumer in delivered.consumers
            if consumer.sink.name == SqlSink.name
        ]
        return {name: (consumer.position, consumer.end) for name, consumer in stores}

    def _open_sinks(self) -> list[Sink]:
        context = SinkContext(
            self._store,
            self._metrics.telemetry,
            self._folder.path,
            self._folder.instance_id(),
            self._config.exporters,
            self._config.judge.include_values,
            self._config.parquet,
            Deletions(self._folder.path).tombstones,
            None if self._config.journal.kafka is None else lambda trace: may_have_turn(trace, self._rules.in_force),
            self._config.store.max_names,
        )
        return open_sinks(context)

    def _consumers(self, sinks: Sequence[Sink], sources: Sequence[ResultsSource]) -> list[_Delivered]:
        turns = {sink.name: asyncio.Lock() for sink in sinks}
        return [_Delivered(source, self._consumers_of(source, sinks, turns)) for source in sources]

    def _consumers_of(
        self, source: ResultsSource, sinks: Sequence[Sink], turns: Mapping[str, asyncio.Lock]
    ) -> list[SinkConsumer]:
        needed: dict[str, int] = {sink.name: 0 for sink in sinks if sink.when_full == "refuse"}

        def delivered(sink: Sink, position: int) -> None:
            if sink.name == SqlSink.name:
                source.stored(position)
            if sink.name in needed:
                needed[sink.name] = position
                source.confirmed(min(needed.values()))

        return [self._consumer(sink, source, turns[sink.name], partial(delivered, sink)) for sink in sinks]

    def _consumer(
        self, sink: Sink, source: ResultsSource, turn: asyncio.Lock, delivered: Callable[[int], None]
    ) -> SinkConsumer:
        telemetry = self._metrics.telemetry
        cursor = ResultsCursor(
            sink.name,
            JournalReader(source.folder, telemetry=telemetry, name=source.name),
            Position(source.position(sink.name)),
            telemetry,
            source.recent,
            delivered=delivered,
        )
        if isinstance(sink, ParquetSink):
            return GatheringConsumer(sink.of_journal(source.name), cursor, telemetry)
        exporter = self._config.exporters.get(sink.name)
        is_for = None if exporter is None or exporter.tenants is None else exporter.is_for
        return SinkConsumer(sink, cursor, telemetry, turn=turn, is_for=is_for)

    def _all_consumers(self) -> list[SinkConsumer]:
        return [consumer for delivered in self._delivered for consumer in delivered.consumers]

    def _clients_for_alerts(self) -> dict[str, OtlpClient]:
        """A client for each exporter that takes logs: not the sinks', so that alerts need not wait for results."""
        instance = self._folder.instance_id()
        return {
            name: OtlpClient(settings, instance)
            for name, settings in self._config.exporters.items()
            if settings.takes(Signal.LOGS)
        }

    def _alerts(self, clients: dict[str, OtlpClient]) -> AlertLoop:
        settings = self._config.alerts
        loop = self._background.loop
        events = [AlertEvents(f"{OF_EXPORTERS}{name}", client, loop) for name, client in clients.items()]
        exporters = {f"{OF_EXPORTERS}{name}": exporter for name, exporter in self._config.exporters.items()}
        return AlertLoop(
            self._store,
            lambda: self._rules.in_force,
            [*channels(settings), *events],
            self._metrics.telemetry,
            settings,
            self._judges.stored_to_ns,
            self._config.judge.include_values,
            lambda: self._leader.leads,
            {**settings.channels, **exporters},
        )

    def _wake(self) -> None:
        for consumer in self._all_consumers():
            consumer.wake()

    def _trim(self) -> None:
        for delivered in self._delivered:
            if delivered.source.trim is not None:
                delivered.source.trim(
                    {
                        consumer.sink.name: Consumer(consumer.position, consumer.sink.when_full)
                        for consumer in delivered.consumers
                    }
                )

    async def _drain(self) -> None:
        halt = asyncio.Event()
        drains = [asyncio.create_task(consumer.drain(halt)) for consumer in self._all_consumers()]
        _, unfinished = await asyncio.wait(drains, timeout=self._drain_s)
        halt.set()
        for task in unfinished:
            await task


async def _end(delivered: _Delivered, enough: asyncio.Event, run: asyncio.Future[list[None]]) -> None:
    enough.set()
    for consumer in delivered.consumers:
        consumer.wake()
    await run


def _raise_failure(runs: Iterable[asyncio.Future[list[None]]]) -> None:
    for run in runs:
        if run.done():
            run.result()
