"""The delivery thread of the judge process: from the results journal to sinks and alerts, and the snapshot file."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress

from sqlalchemy import Engine

from tracegrade.alert.loop import AlertLoop
from tracegrade.alert.notify.channels.registry import channels
from tracegrade.alert.notify.events import AlertEvents
from tracegrade.config import Config
from tracegrade.deliver.consumer import SinkConsumer, wait
from tracegrade.deliver.registry import open_sinks
from tracegrade.deliver.sink import Sink, SinkContext
from tracegrade.deliver.sinks.sql import SqlSink
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.position import Position
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.retention import Consumer
from tracegrade.model.signal import Signal
from tracegrade.otlp.client import OtlpClient
from tracegrade.pipeline.data_folder import DataFolder
from tracegrade.serve.hand_over import HandOver
from tracegrade.serve.judge_metrics import JudgeMetrics
from tracegrade.serve.rule_reload import RuleReload
from tracegrade.serve.store_upkeep import delete_old_traces, keep_rule_texts

SNAPSHOT_EVERY_S = 1.0
TRIM_EVERY_S = 5.0
_ENDS_WITHIN_S = 10.0  # in addition to draining


class Delivery:
    """Delivers results to all sinks. Retention deletes nothing after the position of a sink in the results journal."""

    def __init__(
        self,
        config: Config,
        folder: DataFolder,
        store: Engine,
        results: LocalJournal,
        hand_over: HandOver,
        rules: RuleReload,
        metrics: JudgeMetrics,
    ) -> None:
        """Prepare; nothing runs yet."""
        self._config = config
        self._folder = folder
        self._store = store
        self._results = results
        self._hand_over = hand_over
        self._rules = rules
        self._metrics = metrics
        self._consumers: list[SinkConsumer] = []
        self._thread = threading.Thread(target=self._run, name="delivery", daemon=True)
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._drain_s = 0.0

    def start(self) -> None:
        """Begin to deliver, in a thread; a failure is reported to the hand-over."""
        self._thread.start()

    def stop(self, drain_s: float) -> None:
        """Deliver remaining results for at most `drain_s` seconds, then close; others wait for the next start."""
        if self._thread.is_alive():
            self._drain_s = drain_s
            with suppress(RuntimeError):  # it has just failed and closed its loop
                self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(drain_s + _ENDS_WITHIN_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._deliver())
        except BaseException as error:
            self._hand_over.fail(error)
            raise
        finally:
            self._loop.close()

    async def _deliver(self) -> None:
        sinks = self._open_sinks()
        self._consumers = [self._consumer(sink) for sink in sinks]
        self._hand_over.recent.listen(self._wake_from_judging)
        clients = self._clients_for_alerts()
        halt = asyncio.Event()
        works = [
            *(consumer.run(halt) for consumer in self._consumers),
            self._alerts(clients).run(halt),
            _every(SNAPSHOT_EVERY_S, self._metrics.write_snapshot, halt),
            _every(TRIM_EVERY_S, self._trim, halt),
            delete_old_traces(self._store, self._config.store.retention, halt),
            self._rules.run(halt),
            keep_rule_texts(self._store, self._rules, halt),
        ]
        tasks = [asyncio.create_task(work) for work in works]
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait({stopping, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        halt.set()
        self._wake()
        for task in tasks:
            await task  # a failed task raises here and ends the process with its traceback
        await self._drain()
        for sink in sinks:
            await sink.close()
        for client in clients.values():
            await client.close()
        self._metrics.write_snapshot()
        stopping.cancel()

    def _open_sinks(self) -> list[Sink]:
        context = SinkContext(
            self._store,
            self._metrics.telemetry,
            self._folder.path,
            self._folder.instance_id(),
            self._config.exporters,
            self._config.judge.include_values,
        )
        return open_sinks(context)

    def _consumer(self, sink: Sink) -> SinkConsumer:
        telemetry = self._metrics.telemetry
        reader = JournalReader(self._folder.results, telemetry=telemetry, name="results")
        position = Position(self._folder.position_in_results(sink.name))
        recent = self._hand_over.recent
        if sink.name == SqlSink.name:
            return SinkConsumer(sink, reader, position, telemetry, recent, delivered=self._hand_over.store_holds)
        return SinkConsumer(sink, reader, position, telemetry, recent)

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
        events = [AlertEvents(f"exporters.{name}", client, self._loop) for name, client in clients.items()]
        return AlertLoop(
            self._store,
            lambda: self._rules.in_force,
            [*channels(settings), *events],
            self._metrics.telemetry,
            settings,
            self._hand_over.stored_to_ns,
            self._config.judge.include_values,
        )

    def _wake_from_judging(self) -> None:
        with suppress(RuntimeError):  # the loop was closed: a failure is ending the process
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        for consumer in self._consumers:
            consumer.wake()

    def _trim(self) -> None:
        self._results.trim(
            {consumer.sink.name: Consumer(consumer.position, consumer.sink.when_full) for consumer in self._consumers}
        )

    async def _drain(self) -> None:
        halt = asyncio.Event()
        drains = [asyncio.create_task(consumer.drain(halt)) for consumer in self._consumers]
        _, unfinished = await asyncio.wait(drains, timeout=self._drain_s)
        halt.set()
        for task in unfinished:
            await task


async def _every(seconds: float, action: Callable[[], None], stop: asyncio.Event) -> None:
    while not stop.is_set():
        action()
        await wait(stop, seconds)
