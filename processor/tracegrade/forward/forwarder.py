"""One exporter's way from the journal to its peer."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, TypeVar

from tracegrade.forward.backlog import Backlog, is_sent
from tracegrade.forward.ledger import Ledger
from tracegrade.journal.errors import SegmentDeleted
from tracegrade.journal.published import Durable
from tracegrade.journal.record import Record, Signal
from tracegrade.otlp.client import MAX_IN_FLIGHT, Answer, ExporterSettings, Exports
from tracegrade.otlp.retry import Backoff
from tracegrade.telemetry import Telemetry

_log = logging.getLogger(__name__)
_READ_BYTES = 8 * 1024 * 1024
_COMMIT_EVERY_S = 0.2
_MEASURE_EVERY_S = 1.0
_QUIET_S = 60.0
_FAILS_AFTER_S = 5.0  # what passes sooner is no condition

Result = TypeVar("Result")


class Reader(Protocol):
    """What forwarding needs of a `JournalReader`."""

    def durable(self) -> Durable:
        """How far the journal may be read."""
        ...

    def first(self) -> int:
        """The first position still there."""
        ...

    def read(self, position: int, max_bytes: int = ...) -> list[Record]:
        """Records from `position` on, at least one unless it is the durable end."""
        ...


class PositionFile(Protocol):
    """What forwarding needs of a `Position`."""

    def load(self) -> int | None:
        """The last committed position, None when there is none."""
        ...

    def commit(self, position: int) -> None:
        """Everything before `position` is done."""
        ...


@dataclass(frozen=True, slots=True)
class Waiting:
    """How time passes between attempts: a monotonic clock in seconds, a sleep, a source of numbers in [0, 1)."""

    now_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Callable[[], float] = random.random


class Forwarder:
    """Sends every request of the journal to one peer, unchanged, and accounts for each.

    In every snapshot taken when nothing is being received: requests accepted (of the signals that the exporter takes,
    and counted from the position on) = sent + queued + failed by reason; loops are not journalled. The position moves
    only up to the oldest request that is not finished, and a restart goes on there: nothing is left out, and what was
    finished behind it, or in the fraction of a second before a kill, is sent again.
    """

    def __init__(
        self,
        name: str,
        settings: ExporterSettings,
        client: Exports,
        reader: Reader,
        position: PositionFile,
        telemetry: Telemetry,
        waiting: Waiting | None = None,
        recent: Callable[[int], list[Record] | None] = lambda position: None,
    ) -> None:
        """Find out where to begin: the committed position, else the first record still there.

        Args:
            name: the exporter's id, such as ``otlp`` or ``otlp/archive``: a metric label.
            settings: retrying, and which signals to take.
            client: makes one attempt at a time for each request; whoever made it closes it.
            reader: of the main journal; used from one thread, another one than the caller's.
            position: this exporter's own.
            telemetry: filled with ``tracegrade.exporter.*``.
            waiting: replaced in tests.
            recent: the durable records from a position on, or None: then they are read. Call `wake` for more of them.
        """
        self.name = name
        self._settings = settings
        self._client = client
        self._reader = reader
        self._position = position
        self._telemetry = telemetry
        self._waiting = waiting or Waiting()
        self._recent = recent
        committed = position.load()
        self._read_to = reader.first() if committed is None else committed
        self._committed = committed
        self._ledger = Ledger(self._read_to)
        self._backlog = Backlog(settings, self._read_to)
        self._slots = asyncio.Semaphore(MAX_IN_FLIGHT)
        self._more = asyncio.Event()
        self._stopping = asyncio.Event()
        self._stop_within_s = 0.0
        self._attempts: set[asyncio.Task[None]] = set()
        self._pauses: set[asyncio.Task[None]] = set()
        self._quiet_until_s: dict[str, float] = {}  # by kind of trouble
        self._failing: set[int] = set()  # positions of requests that have been tried in vain for long
        self._gave_up_s: float | None = None  # when a request was given up last
        # Journal and position are files: one thread of our own keeps the event loop free and their calls in order.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"forward-{name}")

    @property
    def queued(self) -> int:
        """Requests read or counted and not finished."""
        return self._backlog.requests + self._ledger.under_way

    def wake(self) -> None:
        """There may be more in the journal; call it in the event loop. Without it, we look every second."""
        self._more.set()

    async def run(self) -> None:
        """Forward until `stop` is called.

        Raises:
            ExceptionGroup: of what no retry helps against, such as ``OSError`` from the journal or the position file.
        """
        try:
            async with asyncio.TaskGroup() as group:
                loops = [
                    group.create_task(self._feed(group)),
                    group.create_task(_every(_COMMIT_EVERY_S, self._commit)),
                    group.create_task(_every(_MEASURE_EVERY_S, self.measure)),
                ]
                await self._stopping.wait()
                for task in (*loops, *self._pauses):
                    task.cancel()
                if self._attempts:
                    await asyncio.wait(self._attempts, timeout=self._stop_within_s)
                for task in self._attempts:
                    task.cancel()
            await self._commit()
        finally:
            self._thread.shutdown()

    def stop(self, within_s: float) -> None:
        """Begin no further request, let attempts under way end within `within_s`, leave the rest to the next start."""
        self._stop_within_s = within_s
        self._stopping.set()

    async def measure(self) -> None:
        """Count the backlog up to the durable end; done each second, and for whoever wants a sum that is exact now."""
        end = (await self._in_thread(self._reader.durable)).end
        if end > self._read_to:
            self._more.set()
        while self._backlog.counted_to < end:
            try:
                records = await self._read_from(self._backlog.counted_to)
            except SegmentDeleted:
                break  # reading for sending meets it too, and counts what is gone
            if not records:
                break
            self._backlog.count(records)
        self._show_queued()
        self._end_failing()

    async def _read_from(self, position: int) -> list[Record]:
        found = self._recent(position)
        return await self._in_thread(self._reader.read, position, _READ_BYTES) if found is None else found

    async def _in_thread(self, call: Callable[..., Result], *arguments: object) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *arguments)

    async def _commit(self) -> None:
        position = self._ledger.position
        if position != self._committed:
            await self._in_thread(self._position.commit, position)
            self._committed = position

    async def _feed(self, group: asyncio.TaskGroup) -> None:
        while True:
            self._more.clear()
            records = await self._read()
            if not records:
                await self._more.wait()
            for record in records:
                if is_sent(record, self._settings):
                    await self._slots.acquire()
                    self._backlog.take(record.signal)
                    self._ledger.take(record.position, record.end)
                    self._begin(group, record)
                else:
                    self._ledger.pass_over(record.end)

    async def _read(self) -> list[Record]:
        while True:
            try:
                records = await self._read_from(self._read_to)
                break
            except SegmentDeleted as deleted:
                with suppress(SegmentDeleted):  # retention goes on meanwhile: the next read meets it again
                    await self._skip_to(deleted.first)
        self._backlog.count(records)
        self._show_queued()
        if records:
            self._read_to = records[-1].end
        return records

    async def _skip_to(self, first: int) -> None:
        """Retention deleted what lay before `first`: count it as failed and go on from there."""
        left = Backlog(self._settings, first)
        while left.counted_to < self._backlog.counted_to:
            records = await self._read_from(left.counted_to)
            left.count(records, up_to=self._backlog.counted_to)
        for signal, requests in self._backlog.replace(left).items():
            self._count_failed(signal, "dropped", requests)
        self._show_queued()
        _log.warning(
            "exporter %s: retention deleted journal positions %d to %d before they were sent",
            self.name,
            self._read_to,
            first,
        )
        self._read_to = first
        self._ledger.pass_over(first)

    def _begin(self, group: asyncio.TaskGroup, record: Record) -> None:
        task = group.create_task(self._deliver(record))
        self._attempts.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._attempts.discard(task)
        self._pauses.discard(task)
        self._slots.release()

    async def _deliver(self, record: Record) -> None:
        """Attempt until sent or given up; cancelled or stopped, the record stays unfinished."""
        begun_s = self._waiting.now_s()
        backoff = Backoff(self._settings.retry_on_failure, begun_s, self._waiting.random)
        while True:
            answer = await self._client.export(record.signal, record.payload)
            if answer.kind == "sent":
                self._count_sent(record.signal, answer)
                break
            delay = None
            if answer.kind == "retry":
                delay = backoff.next_delay(self._waiting.now_s(), answer.retry_after_s)
            self._report(answer, given_up=delay is None)
            if delay is None:
                self._gave_up_s = self._waiting.now_s()
                self._note_failing(answer)
                self._count_failed(record.signal, answer.reason)
                break
            if self._waiting.now_s() - begun_s > _FAILS_AFTER_S:
                self._failing.add(record.position)
                self._note_failing(answer)
            self._telemetry.add(
                "tracegrade.exporter.retries", exporter=self.name, signal=_word(record.signal), reason=answer.reason
            )
            if self._stopping.is_set():
                return
            await self._pause(delay)
        # No await since the answer was counted: a snapshot sees the request as queued or as finished, never as both.
        self._failing.discard(record.position)
        self._ledger.finish(record.position)
        self._show_queued()

    async def _pause(self, delay_s: float) -> None:
        """Wait; a stop need not wait for it."""
        task = asyncio.current_task()
        assert task is not None
        self._attempts.discard(task)
        self._pauses.add(task)
        await self._waiting.sleep(delay_s)
        self._pauses.discard(task)
        self._attempts.add(task)

    def _count_sent(self, signal: Signal, answer: Answer) -> None:
        word = _word(signal)
        self._telemetry.add("tracegrade.exporter.sent_requests", exporter=self.name, signal=word)
        if answer.rejected:
            self._telemetry.add("tracegrade.exporter.rejected_items", answer.rejected, exporter=self.name, signal=word)

    def _count_failed(self, signal: Signal, reason: str, requests: int = 1) -> None:
        self._telemetry.add(
            "tracegrade.exporter.failed_requests", requests, exporter=self.name, signal=_word(signal), reason=reason
        )

    def _show_queued(self) -> None:
        self._telemetry.set("tracegrade.exporter.queued_requests", self.queued, exporter=self.name)

    def _note_failing(self, answer: Answer) -> None:
        message = f"{self._settings.endpoint}: {answer.reason}: {answer.message}"
        self._telemetry.conditions.begin("exporter_failing", message, self.name)

    def _end_failing(self) -> None:
        """It is over once nothing has been tried in vain for long, and nothing was given up of late."""
        of_late = self._gave_up_s is not None and self._waiting.now_s() - self._gave_up_s < _QUIET_S
        if not self._failing and not of_late:
            self._telemetry.conditions.end("exporter_failing", self.name)

    def _report(self, answer: Answer, given_up: bool) -> None:
        """Log each kind of trouble now and then, not for every request that meets it."""
        trouble = f"{answer.reason}, {'given up' if given_up else 'will try again'}"
        now_s = self._waiting.now_s()
        if now_s >= self._quiet_until_s.get(trouble, now_s):
            self._quiet_until_s[trouble] = now_s + _QUIET_S
            _log.warning("exporter %s: %s: %s: %s", self.name, self._settings.endpoint, trouble, answer.message)


def _word(signal: Signal) -> str:
    return signal.name.lower()


async def _every(seconds: float, action: Callable[[], Awaitable[None]]) -> None:
    while True:
        await action()
        await asyncio.sleep(seconds)
