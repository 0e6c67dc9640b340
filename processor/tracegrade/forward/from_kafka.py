"""One exporter's way from Kafka to its peer."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from google.protobuf.message import DecodeError

from tracegrade.forward.deliveries import Deliveries, Waiting
from tracegrade.forward.ledger import Ledger
from tracegrade.forward.report import Report
from tracegrade.journal.errors import JournalError
from tracegrade.journal.kafka.originals import Original, Originals, Place
from tracegrade.journal.record import Encoding, Record, Signal
from tracegrade.otlp.client import ExporterSettings, Exports
from tracegrade.otlp.request import REQUESTS
from tracegrade.telemetry.metrics import Telemetry

_COMMIT_EVERY_S = 1.0
_READ_MESSAGES = 1000
_READ_WITHIN_S = 0.2
_STAY_EVERY_S = 2.0
_AGAIN_AFTER_S = 5.0
# Messages hold one trace each; some of them make a request as senders usually send it.
_REQUEST_BYTES = 512 * 1024

Result = TypeVar("Result")

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Request:
    """Messages of one signal that go out together: their payloads one after the other are one request."""

    signal: Signal
    payloads: list[bytes] = field(default_factory=list)
    size: int = 0
    taken: list[tuple[Ledger, int]] = field(default_factory=list)

    def add(self, ledger: Ledger, original: Original) -> None:
        """One message more."""
        self.payloads.append(original.payload)
        self.size += len(original.payload)
        self.taken.append((ledger, original.offset))


class KafkaForwarder:
    """Sends what is in Kafka to one peer, if it is for the tenant: every span as it came, at least once.

    All receivers with an exporter of this name share the work, as one consumer group; a message counts as done when it
    was sent or given up. Counted are the requests that are made of messages, not those that senders made.
    """

    def __init__(
        self,
        name: str,
        settings: ExporterSettings,
        client: Exports,
        join: Callable[[Callable[[], object]], Originals],
        telemetry: Telemetry,
        waiting: Waiting | None = None,
    ) -> None:
        """Prepare; nothing is joined yet.

        Args:
            name: the exporter's id, a metric label.
            settings: retrying, where to, and for which tenants.
            client: makes one attempt at a time for each request; the caller closes it.
            join: makes a member of the exporter's group; it is given what to call when partitions move elsewhere.
            telemetry: filled with ``tracegrade.exporter.*``.
            waiting: replaced in tests.
        """
        waiting = waiting or Waiting()
        self._settings = settings
        self._join = join
        self._report = Report(name, settings.endpoint, telemetry, waiting.now_s)
        self._deliveries = Deliveries(settings, client, self._report, waiting, self._finished)
        self._originals: Originals | None = None
        self._ledgers: dict[Place, Ledger] = {}
        self._committed: dict[Place, int] = {}
        self._lock = threading.Lock()  # of the ledgers
        self._under_way: dict[int, _Request] = {}
        self._begun = 0
        self._stopping = asyncio.Event()
        self._stop_within_s = 0.0
        # One thread, so that calls of the client also stay in order.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"forward-{name}")

    async def run(self) -> None:
        """Forward until `stop` is called."""
        try:
            async with asyncio.TaskGroup() as group:
                loops = [
                    group.create_task(self._feed(group)),
                    group.create_task(self._every(_COMMIT_EVERY_S, self._report_waiting)),
                ]
                await self._stopping.wait()
                for task in loops:
                    task.cancel()
                await self._deliveries.stop(self._stop_within_s)
            await self._in_thread(self._leave)
        finally:
            self._thread.shutdown()

    def stop(self, within_s: float) -> None:
        """Begin no further request, let attempts under way end within `within_s`, leave the rest to the next start."""
        self._stop_within_s = within_s
        self._stopping.set()

    async def _feed(self, group: asyncio.TaskGroup) -> None:
        while True:
            try:
                if self._originals is None:
                    self._originals = await self._in_thread(self._join, self._lost)
                for request in await self._in_thread(self._next_requests):
                    await self._wait_for_room()
                    self._begin(group, request)
            except JournalError as error:  # a client that failed for good; members come and go, so another one is made
                _log.warning("%s; trying again in %.0f s", error, _AGAIN_AFTER_S)
                await self._in_thread(self._leave)
                await asyncio.sleep(_AGAIN_AFTER_S)

    def _begin(self, group: asyncio.TaskGroup, request: _Request) -> None:
        self._begun += 1
        self._under_way[self._begun] = request
        record = Record(
            self._begun, self._begun + 1, 0, "", request.signal, Encoding.PROTOBUF, 0, b"".join(request.payloads)
        )
        self._deliveries.begin(group, record)

    async def _wait_for_room(self) -> None:
        """Wait until one more request may be begun, and stay a member of the group meanwhile."""
        room = asyncio.ensure_future(self._deliveries.wait_for_room())
        try:
            while not (await asyncio.wait({room}, timeout=_STAY_EVERY_S))[0]:
                assert self._originals is not None
                await self._in_thread(self._originals.stay)
        finally:
            room.cancel()

    def _next_requests(self) -> list[_Request]:
        """The next messages as requests, each message on its account; in the thread."""
        assert self._originals is not None
        found = []
        for original in self._originals.read(_READ_MESSAGES, _READ_WITHIN_S):
            with self._lock:
                if (ledger := self._ledgers.get(original.place)) is None:
                    ledger = self._ledgers[original.place] = Ledger(original.offset)
                if original.read_again or not original.payload or not self._settings.is_for(original.tenant):
                    ledger.pass_over(original.offset + 1)
                    continue
                ledger.take(original.offset, original.offset + 1)
            found.append((ledger, original))
        return list(self._together(found))

    def _together(self, found: Iterable[tuple[Ledger, Original]]) -> Iterator[_Request]:
        """Messages of one signal as one request; what cannot be read goes alone, or the others would be refused too."""
        open_requests: dict[Signal, _Request] = {}
        for ledger, original in found:
            signal = original.signal
            request = open_requests.get(signal)
            if not _is_readable(signal, original.payload):
                yield _Request(signal, [original.payload], len(original.payload), [(ledger, original.offset)])
                continue
            if request is not None and request.size + len(original.payload) > _REQUEST_BYTES:
                yield open_requests.pop(signal)
                request = None
            if request is None:
                request = open_requests[signal] = _Request(signal)
            request.add(ledger, original)
        yield from open_requests.values()

    def _finished(self, position: int) -> None:
        request = self._under_way.pop(position)
        with self._lock:
            for ledger, offset in request.taken:
                ledger.finish(offset)

    async def _report_waiting(self) -> None:
        if self._originals is not None:
            await self._in_thread(self._commit)
            waiting = await self._in_thread(self._originals.waiting)
            self._report.queued(waiting + len(self._under_way))
        self._report.end_failing()

    def _commit(self) -> None:
        """Commit what is done of each partition; in the thread."""
        assert self._originals is not None
        with self._lock:
            done = {place: ledger.position for place, ledger in self._ledgers.items()}
        changed = {place: offset for place, offset in done.items() if self._committed.get(place) != offset}
        if changed and self._originals.commit(changed):
            self._committed |= changed

    def _leave(self) -> None:
        """Leave the group, as far as we are in it; what is done is committed; in the thread."""
        if self._originals is not None:
            self._lost()
            self._originals.close()
            self._originals = None

    def _lost(self) -> None:
        """Others may read our partitions now: what is under way ends, and counts no more; in the thread."""
        self._commit()
        with self._lock:
            self._ledgers.clear()
        self._committed.clear()

    async def _every(self, seconds: float, action: Callable[[], Awaitable[None]]) -> None:
        while True:
            await action()
            await asyncio.sleep(seconds)

    async def _in_thread(self, call: Callable[..., Result], *arguments: object) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *arguments)


def _is_readable(signal: Signal, payload: bytes) -> bool:
    try:
        REQUESTS[signal].FromString(payload)
    except DecodeError:
        return False
    return True
