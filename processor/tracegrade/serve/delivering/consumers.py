"""The consumers that take results to the sinks: one for each sink and results journal."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tracegrade.deliver.consumer import SinkConsumer, wait
from tracegrade.deliver.cursor import ResultsCursor
from tracegrade.deliver.gather import GatheringConsumer
from tracegrade.deliver.sink import Sink
from tracegrade.deliver.sinks.parquet import ParquetSink
from tracegrade.deliver.sinks.sql import SqlSink
from tracegrade.journal.position import Position
from tracegrade.journal.published import Published
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.retention import Consumer
from tracegrade.otlp.client import ExporterSettings
from tracegrade.serve.background import Work
from tracegrade.serve.delivering.store_lag import Positions
from tracegrade.serve.delivering.upstream import LeftResults, ResultsSource, Upstream
from tracegrade.telemetry.metrics import Telemetry

POLL_EVERY_S = 0.05

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

    def wake(self) -> None:
        """Let each look for more."""
        for consumer in self.consumers:
            consumer.wake()


class ResultsConsumers:
    """Delivers the results journals of judges to sinks; used in the event loop."""

    def __init__(
        self,
        upstream: Upstream,
        sinks: Sequence[Sink],
        exporters: Mapping[str, ExporterSettings],
        telemetry: Telemetry,
    ) -> None:
        """Find the position of each sink in each journal.

        Args:
            upstream: the judges.
            sinks: where results go.
            exporters: settings of those sinks that are for some tenants alone, by the sinks' names.
            telemetry: counts what is delivered.
        """
        self._upstream = upstream
        self._exporters = exporters
        self._telemetry = telemetry
        turns = {sink.name: asyncio.Lock() for sink in sinks}
        self._current = [_Delivered(source, self._of(source, sinks, turns)) for source in upstream.sources]
        self._left = {_Delivered(left.source, self._of(left.source, sinks, turns)): left for left in upstream.left}

    @property
    def _all(self) -> list[_Delivered]:
        return [*self._current, *self._left]

    def works(self, halt: asyncio.Event) -> list[Work]:
        """What delivers; each ends once `halt` is set and `wake` was called."""
        current = [consumer.run(halt) for delivered in self._current for consumer in delivered.consumers]
        return [*current, self._deliver_left(halt), self._watch(halt)]

    def wake(self) -> None:
        """Look for more to deliver."""
        for delivered in self._all:
            delivered.wake()

    def stored_to(self) -> Positions:
        """Of each journal, up to where the store has taken it, and its end."""
        return {
            delivered.source.name: (consumer.position, consumer.end)
            for delivered in self._all
            for consumer in delivered.consumers
            if consumer.sink.name == SqlSink.name
        }

    def trim(self) -> None:
        """Apply retention to the journals that this process writes."""
        for delivered in self._all:
            if delivered.source.trim is not None:
                of_sinks = {
                    each.sink.name: Consumer(each.position, each.sink.when_full) for each in delivered.consumers
                }
                delivered.source.trim(of_sinks)

    async def drain(self, within_s: float) -> None:
        """Deliver what is durable now, for at most `within_s` seconds; the rest waits for the next start."""
        halt = asyncio.Event()
        consumers = [consumer for delivered in self._all for consumer in delivered.consumers]
        drains = [asyncio.create_task(consumer.drain(halt)) for consumer in consumers]
        _, unfinished = await asyncio.wait(drains, timeout=within_s)
        halt.set()
        for task in unfinished:
            await task

    async def _deliver_left(self, halt: asyncio.Event) -> None:
        """Deliver what earlier sets of judges left, and remove it; ends with `halt`."""
        stops = {each: asyncio.Event() for each in self._left}
        runs = {each: asyncio.gather(*(of.run(stop) for of in each.consumers)) for each, stop in stops.items()}
        while not all(each.is_stored for each in stops) and not await wait(halt, POLL_EVERY_S):
            _raise_failure(runs.values())
        if not halt.is_set():
            self._upstream.left_stored()
        while runs and not await wait(halt, POLL_EVERY_S):
            _raise_failure(runs.values())
            for each in [each for each in runs if each.is_done]:
                await _end(each, stops[each], runs.pop(each))
                await self._remove(each, self._left.pop(each))
        await halt.wait()
        for each, run in runs.items():
            await _end(each, stops[each], run)

    async def _remove(self, delivered: _Delivered, left: LeftResults) -> None:
        await asyncio.to_thread(left.remove)
        logger.info("%s, left by another number of judges, is delivered and removed", delivered.source.name)

    async def _watch(self, halt: asyncio.Event) -> None:
        """Wake consumers when another process has added results."""
        watched = [(each, Published(each.source.folder)) for each in self._all if each.source.is_written_elsewhere]
        ends = [0] * len(watched)
        while watched and not await wait(halt, POLL_EVERY_S):
            for number, (each, published) in enumerate(watched):
                if (end := published.read().end) != ends[number]:
                    ends[number] = end
                    each.wake()
        await halt.wait()

    def _of(
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
        cursor = ResultsCursor(
            sink.name,
            JournalReader(source.folder, telemetry=self._telemetry, name=source.name),
            Position(source.position(sink.name)),
            self._telemetry,
            source.recent,
            delivered=delivered,
        )
        if isinstance(sink, ParquetSink):
            return GatheringConsumer(sink.of_journal(source.name), cursor, self._telemetry)
        exporter = self._exporters.get(sink.name)
        is_for = None if exporter is None or exporter.tenants is None else exporter.is_for
        return SinkConsumer(sink, cursor, self._telemetry, turn=turn, is_for=is_for)


async def _end(delivered: _Delivered, stop: asyncio.Event, run: asyncio.Future[list[None]]) -> None:
    stop.set()
    delivered.wake()
    await run


def _raise_failure(runs: Iterable[asyncio.Future[list[None]]]) -> None:
    for run in runs:
        if run.done():
            run.result()
