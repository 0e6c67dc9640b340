"""Delivery: from the results journals to sinks and alerts, and the snapshot file.

It runs in a thread of its own: of the judge's process, or of the delivery process where several workers judge.
"""

import asyncio

from sqlalchemy import Engine

from tracegrade.alert.loop import AlertLoop, Recipients, Standing
from tracegrade.alert.notify.channels.registry import channels
from tracegrade.alert.notify.events import AlertEvents
from tracegrade.alert.notify.settings import OF_EXPORTERS
from tracegrade.config import Config
from tracegrade.deletion.request import Deletions
from tracegrade.deliver.registry import open_sinks
from tracegrade.deliver.sink import Sink, SinkContext
from tracegrade.deliver.sinks.sql import SqlSink
from tracegrade.model.signal import Signal
from tracegrade.otlp.client import OtlpClient
from tracegrade.pipeline.data_folder import DataFolder
from tracegrade.serve.background import BackgroundLoop, Work, every, run_until
from tracegrade.serve.delivering.consumers import ResultsConsumers
from tracegrade.serve.delivering.deletion_upkeep import take_over_deletions
from tracegrade.serve.delivering.leftovers import delete_leftovers
from tracegrade.serve.delivering.parquet_upkeep import keep_parquet_files
from tracegrade.serve.delivering.store_lag import StoreLag
from tracegrade.serve.delivering.store_upkeep import StoreUpkeep
from tracegrade.serve.delivering.upstream import Upstream
from tracegrade.serve.judging.metrics import JudgeMetrics
from tracegrade.serve.judging.turns import may_have_turn
from tracegrade.serve.rule_reload import RuleReload
from tracegrade.store.several_processes import Judges, Leader

SNAPSHOT_EVERY_S = 1.0
TRIM_EVERY_S = 5.0
_ENDS_WITHIN_S = 10.0  # in addition to draining


class DeliveryThread:
    """Delivers results to all sinks. Retention deletes nothing after the position of a sink in a results journal."""

    def __init__(
        self,
        config: Config,
        folder: DataFolder,
        store: Engine,
        rules: RuleReload,
        metrics: JudgeMetrics,
        upstream: Upstream,
    ) -> None:
        """Prepare; nothing runs yet.

        Args:
            config: the settings.
            folder: the data folder.
            store: open for writing. With SQLite, this process is the only one that stores results.
            rules: those in force, which are also watched here.
            metrics: of this process.
            upstream: the judges.
        """
        self._config = config
        self._folder = folder
        self._store = store
        self._leader = Leader(store)
        self._judges = Judges(store, folder.instance_id(), upstream.stored_to_ns)
        self._rules = rules
        self._metrics = metrics
        self._upstream = upstream
        self._drain_s = 0.0
        self._background = BackgroundLoop("delivery", self._deliver, upstream.failed)

    def start(self) -> None:
        """Begin to deliver."""
        self._background.start()

    def stop(self, drain_s: float) -> None:
        """Deliver remaining results for at most `drain_s` seconds, then close; others wait for the next start."""
        self._drain_s = drain_s
        self._background.stop(drain_s + _ENDS_WITHIN_S)

    async def _deliver(self, stopping: asyncio.Event) -> None:
        sinks = self._open_sinks()
        self._folder.write_sinks({sink.name: sink.when_full for sink in sinks})
        consumers = ResultsConsumers(self._upstream, sinks, self._config.exporters, self._metrics.telemetry)
        for source in self._upstream.sources:
            source.recent.listen(lambda: self._background.call(consumers.wake))
        clients = self._clients_for_alerts()
        await asyncio.to_thread(self._leader.poll)  # before alerts ask for the first time
        halt = asyncio.Event()
        works = [
            *consumers.works(halt),
            *self._upstream.works(halt),
            self._alerts(clients).run(halt),
            every(SNAPSHOT_EVERY_S, self._metrics.write_snapshot, halt),
            every(TRIM_EVERY_S, consumers.trim, halt),
            every(SNAPSHOT_EVERY_S, StoreLag(consumers.stored_to, self._metrics.telemetry.conditions).poll, halt),
            self._leader.run(halt),
            self._judges.run(halt),
            self._rules.run(halt),
            *self._maintenance(halt),
        ]
        await run_until(stopping, halt, works, consumers.wake)
        await consumers.drain(self._drain_s)
        for sink in sinks:
            await sink.close()
        for client in clients.values():
            await client.close()
        self._metrics.write_snapshot()

    def _maintenance(self, halt: asyncio.Event) -> list[Work]:
        """What deletes from the store and files what is too old, or was asked to be deleted."""
        upkeep = StoreUpkeep(self._store, self._leader, self._metrics.telemetry.conditions, halt)
        works: list[Work] = [
            upkeep.delete_old_traces(self._config.store.retention, self._config.quotas.stored_for),
            delete_leftovers(self._store, self._folder, self._config.store, halt),
            keep_parquet_files(self._config.parquet, self._folder, halt),
            take_over_deletions(self._config, self._folder, self._store, halt),
            upkeep.keep_rule_texts(self._rules),
        ]
        if (values_retention_s := self._config.store.values_retention) is not None:
            works.append(upkeep.keep_values_young(values_retention_s))
        return works

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
        sinks = open_sinks(context)
        return [self._upstream.store_sink(sink) if sink.name == SqlSink.name else sink for sink in sinks]

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
        events = [
            AlertEvents(f"{OF_EXPORTERS}{name}", client, loop, settings.links) for name, client in clients.items()
        ]
        exporters = {f"{OF_EXPORTERS}{name}": exporter for name, exporter in self._config.exporters.items()}
        recipients = Recipients(
            [*channels(settings), *events], {**settings.channels, **exporters}, self._config.judge.include_values
        )
        standing = Standing(lambda: self._leader.leads, self._judges.stored_to_ns)
        return AlertLoop(
            self._store, lambda: self._rules.in_force, recipients, self._metrics.telemetry, settings, standing
        )
