"""Requests under way to an exporter's peer: each is attempted until it is sent or given up."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tracegrade.forward.report import Report
from tracegrade.journal.record import Record
from tracegrade.otlp.client import MAX_IN_FLIGHT, ExporterSettings, Exports
from tracegrade.otlp.retry import Backoff

_FAILS_AFTER_S = 5.0  # a failure that ends sooner makes no condition


@dataclass(frozen=True, slots=True)
class Waiting:
    """The time between attempts: a monotonic clock in seconds, a sleep, and random numbers in [0, 1)."""

    now_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Callable[[], float] = random.random


class Deliveries:
    """The requests under way, at most `MAX_IN_FLIGHT` at a time."""

    def __init__(
        self,
        settings: ExporterSettings,
        client: Exports,
        report: Report,
        waiting: Waiting,
        finished: Callable[[int], None],
    ) -> None:
        """Start without any.

        Args:
            settings: retrying.
            client: makes one attempt.
            report: counts and logs how each ends.
            waiting: clock, sleep and random numbers.
            finished: called with the position of each request that is sent or given up, not of one that a stop
                interrupts.
        """
        self._settings = settings
        self._client = client
        self._report = report
        self._waiting = waiting
        self._finished = finished
        self._slots = asyncio.Semaphore(MAX_IN_FLIGHT)
        self._attempts: set[asyncio.Task[None]] = set()
        self._pauses: set[asyncio.Task[None]] = set()
        self._stopping = False

    async def wait_for_room(self) -> None:
        """Wait until one more request may be begun; the caller then begins it."""
        await self._slots.acquire()

    def begin(self, group: asyncio.TaskGroup, record: Record) -> None:
        """Send `record`, by a task of `group`."""
        task = group.create_task(self._deliver(record))
        self._attempts.add(task)
        task.add_done_callback(self._ended)

    async def stop(self, within_s: float) -> None:
        """Give the attempts under way this many seconds to end, and begin no other."""
        self._stopping = True
        for task in self._pauses:
            task.cancel()
        if self._attempts:
            await asyncio.wait(self._attempts, timeout=within_s)
        for task in self._attempts:
            task.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._attempts.discard(task)
        self._pauses.discard(task)
        self._slots.release()

    async def _deliver(self, record: Record) -> None:
        """Attempt until the record is sent or given up; when cancelled or stopped, it stays unfinished."""
        begun_s = self._waiting.now_s()
        backoff = Backoff(self._settings.retry_on_failure, begun_s, self._waiting.random)
        while True:
            answer = await self._client.export(record.signal, record.payload)
            if answer.kind == "sent":
                self._report.sent(record.signal, answer)
                break
            now_s = self._waiting.now_s()
            delay_s = backoff.next_delay(now_s, answer.retry_after_s) if answer.kind == "retry" else None
            if delay_s is None:
                self._report.gave_up(record.signal, answer)
                break
            for_long = now_s - begun_s > _FAILS_AFTER_S
            self._report.retries(record.position, record.signal, answer, for_long=for_long)
            if self._stopping:
                return
            await self._pause(delay_s)
        # No await after the answer was counted: a snapshot sees the request as queued or as finished, never as both.
        self._report.finished(record.position)
        self._finished(record.position)

    async def _pause(self, delay_s: float) -> None:
        """Wait; a stop ends the wait."""
        task = asyncio.current_task()
        assert task is not None
        self._attempts.discard(task)
        self._pauses.add(task)
        await self._waiting.sleep(delay_s)
        self._pauses.discard(task)
        self._attempts.add(task)
