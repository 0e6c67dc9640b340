"""From the results journal to a sink that gathers: it takes batches at once, and makes them durable now and then.

Retention, and a start after a kill, know only what is durable. What was gathered and not written comes again.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from tracegrade.deliver.consumer import SinkConsumer
from tracegrade.deliver.cursor import ResultsCursor
from tracegrade.deliver.cut import Cut
from tracegrade.deliver.sink import Delivery, Sink
from tracegrade.journal.errors import SegmentDeleted
from tracegrade.model.trace_result import TraceResult
from tracegrade.telemetry.metrics import Telemetry


class GatheringSink(Sink, Protocol):
    """A sink that holds what it takes in memory until `write`.

    ``every_s`` is the longest time, in seconds, that anything is held; ``is_full`` asks for `write` sooner.
    """

    every_s: float

    @property
    def is_full(self) -> bool:
        """Whether it should write now."""
        ...

    def last_cut(self) -> Cut | None:
        """The cut that was written last, perhaps not all of it; it is made again in the same way."""
        ...

    async def write(self, cut: Cut) -> Delivery:
        """Make durable what was delivered since the last `write`: the records of `cut`. Doing it twice is once."""
        ...


class GatheringConsumer(SinkConsumer):
    """Delivers the records of one results journal to a gathering sink.

    ``position`` is where the durable part ends: it follows a `write`, while reading is ahead of it.
    """

    def __init__(
        self,
        sink: GatheringSink,
        cursor: ResultsCursor,
        telemetry: Telemetry,
        *,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """As a `SinkConsumer`, and goes on with the sink's last cut; `monotonic_s` is for tests."""
        super().__init__(sink, cursor, telemetry)
        self._gathering = sink
        self._monotonic_s = monotonic_s
        self._begin = cursor.position  # of the next cut
        self._ends_at: int | None = None  # the next cut, when it was begun before a kill
        last = sink.last_cut()
        if last is not None and cursor.position < last.end <= cursor.end:
            # All before the last cut is durable, whatever the position's file says after a power cut.
            self._begin, self._ends_at = last.begin, last.end
            cursor.begin_no_earlier(last.begin)
            self._reached = cursor.position
        self._records = 0  # taken since the last write
        self._due_s: float | None = None  # when they are to be written
        cursor.taken(self._reached)

    async def run(self, stop: asyncio.Event) -> None:
        """Gather all results, and new ones whenever `wake` is called, and write when it is due, until `stop` is set."""
        while not stop.is_set():
            self._more.clear()
            if not await self.deliver_batch(stop):
                await self._wait()

    async def drain(self, stop: asyncio.Event) -> None:
        """Gather everything that is durable now and write it, then return; `stop` ends this early."""
        end = self.end
        while self._reached < end and not stop.is_set() and await self.deliver_batch(stop):
            pass
        if self._reached > self.position and not stop.is_set():
            await self._write(stop)

    async def deliver_batch(self, stop: asyncio.Event) -> bool:
        """Write if that is due, else gather what one read gives; False when there is nothing to do, or at `stop`."""
        if self._is_due():
            return await self._write(stop)
        try:
            batch, end = self._next()
        except SegmentDeleted as error:
            self._telemetry.add("tracegrade.sink.dropped_records", sink=self.sink.name, reason="journal_full")
            batch, end = (), error.first
        if end == self._reached:
            return False
        await self.sink.deliver(batch)
        self._records += len(batch)
        self._reached = end
        self._cursor.taken(end)
        if self._due_s is None:
            self._due_s = self._monotonic_s() + self._gathering.every_s
        return True

    def _is_due(self) -> bool:
        if self._due_s is None:
            return False
        if self._ends_at is not None:
            return self._reached >= self._ends_at
        return self._gathering.is_full or self._monotonic_s() >= self._due_s

    def _next(self) -> tuple[Sequence[TraceResult], int]:
        """The next results and where they end, no further than where a cut that was begun before ends."""
        if self._ends_at is None:
            return self._cursor.after(self._reached)
        return self._cursor.between(self._reached, self._ends_at)

    async def _write(self, stop: asyncio.Event) -> bool:
        cut = Cut(self._begin, self._reached)
        if not await self._until_done(lambda: self._gathering.write(cut), self._records, stop):
            return False
        self._begin, self._ends_at, self._records, self._due_s = self._reached, None, 0, None
        self._cursor.commit(self._reached)
        return True

    async def _wait(self) -> None:
        """Until `wake`, or until something is to be written."""
        seconds = None if self._due_s is None else max(self._due_s - self._monotonic_s(), 0.0)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._more.wait(), seconds)
