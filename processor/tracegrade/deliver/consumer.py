"""From the results journal to one sink: reads, retries and keeps the position, so that sinks need not."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence

from tracegrade.deliver.cursor import ResultsCursor
from tracegrade.deliver.sink import Delivery, Sink
from tracegrade.journal.errors import SegmentDeleted
from tracegrade.model.trace_result import TraceResult
from tracegrade.otlp.retry import Backoff, RetrySettings
from tracegrade.telemetry.metrics import Telemetry

# Results wait in their journal for as long as their sink needs; only the journal's size bound ends the wait.
FAILS_AFTER_S = 5.0  # a failure that ends sooner makes no condition
PATIENT = RetrySettings(initial_interval=0.5, max_interval=30.0, max_elapsed_time=0.0)


class SinkConsumer:
    """Delivers results to one sink, in order except for what the sink puts off, at least once."""

    def __init__(
        self,
        sink: Sink,
        cursor: ResultsCursor,
        telemetry: Telemetry,
        *,
        turn: asyncio.Lock | None = None,
        is_for: Callable[[str], bool] | None = None,
    ) -> None:
        """Prepare.

        Args:
            sink: takes the results.
            cursor: reads them, and keeps the sink's position in their journal.
            telemetry: counts what is delivered, repeated and given up.
            turn: held while a batch is under way, where the sink has a consumer for each of several journals.
            is_for: whether the sink gets the results of a tenant; None: it gets all.
        """
        self.sink = sink
        self._cursor = cursor
        # The sink has taken everything before this one, but for the rest; before the cursor's position, that too.
        self._reached = cursor.position
        self._rest: Sequence[TraceResult] = ()
        self._telemetry = telemetry
        self._turn = turn or asyncio.Lock()
        self._is_for = is_for
        self._more = asyncio.Event()

    @property
    def position(self) -> int:
        """Up to where the sink has taken everything."""
        return self._cursor.position

    @property
    def end(self) -> int:
        """The end of everything that is durable now."""
        return self._cursor.end

    @property
    def has_all(self) -> bool:
        """Whether the sink has taken everything that is durable now."""
        return self.position >= self.end

    def wake(self) -> None:
        """Look for more to deliver, or for `stop`; called in the event loop."""
        self._more.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Deliver all results, and new ones whenever `wake` is called, until `stop` is set."""
        while not stop.is_set():
            self._more.clear()
            if not await self.deliver_batch(stop):
                await self._more.wait()

    async def drain(self, stop: asyncio.Event) -> None:
        """Deliver everything that is durable now, then return; `stop` ends this early."""
        end = self.end
        while self.position < end and not stop.is_set():
            await self.deliver_batch(stop)

    async def deliver_batch(self, stop: asyncio.Event) -> bool:
        """Deliver the result of one read; False when there was nothing to deliver, or `stop` came in between."""
        try:
            batch, end = self._cursor.after(self._reached)
        except SegmentDeleted as error:
            self._telemetry.add("tracegrade.sink.dropped_records", sink=self.sink.name, reason="journal_full")
            self._reached = error.first
            self._cursor.commit(error.first)
            return True
        if end == self._reached and not self._rest:
            return False
        if self._is_for is not None:
            batch = [judged for judged in batch if self._is_for(judged.trace.tenant)]
        if batch or self._rest:
            async with self._turn:
                if not await self._deliver([*self._rest, *batch], stop):
                    return False
        self._reached = end
        if self._rest:
            self._cursor.taken(end)
        else:
            self._cursor.commit(end)
        return True

    async def _deliver(self, batch: Sequence[TraceResult], stop: asyncio.Event) -> bool:
        """Repeat until the batch is delivered or given up; False when `stop` came first."""
        return await self._until_done(lambda: self.sink.deliver(batch), len(batch), stop)

    async def _until_done(self, attempt: Callable[[], Awaitable[Delivery]], records: int, stop: asyncio.Event) -> bool:
        """Repeat `attempt` until it is done or gives up its `records`; False when `stop` came first."""
        name = self.sink.name
        begun_s = time.monotonic()
        backoff = Backoff(PATIENT, begun_s, random.random)
        while True:
            delivery = await attempt()
            if delivery.kind == "done":
                self._telemetry.conditions.end(*self.sink.failing)
                self._rest = delivery.rest
                delivered = records - delivery.failed_records - len(delivery.rest)
                self._telemetry.add("tracegrade.sink.delivered_records", delivered, sink=name)
                if delivery.failed_records:
                    self._telemetry.add(
                        "tracegrade.sink.dropped_records", delivery.failed_records, sink=name, reason=delivery.reason
                    )
                return True
            delay = backoff.next_delay(time.monotonic(), delivery.retry_after_s) if delivery.kind == "retry" else None
            if delay is None:
                self._rest = ()
                self._telemetry.add(
                    "tracegrade.sink.dropped_records", records, sink=name, reason=delivery.reason or "failed"
                )
                return True
            self._telemetry.add("tracegrade.sink.retries", sink=name, reason=delivery.reason)
            if time.monotonic() - begun_s > FAILS_AFTER_S:
                condition, where = self.sink.failing
                self._telemetry.conditions.begin(condition, f"results wait: {delivery.reason}", where)
            if await wait(stop, delay):
                return False


async def wait(stop: asyncio.Event, seconds: float) -> bool:
    """Wait `seconds`, or less when `stop` is set. Returns whether it is set."""
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return False
    return True
