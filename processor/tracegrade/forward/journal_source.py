"""The journal that an exporter reads and the position it has reached: files, used by a thread of their own."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from tracegrade.journal.published import Durable
from tracegrade.journal.record import Record

_READ_BYTES = 8 * 1024 * 1024

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


class JournalSource:
    """The journal, and one exporter's position in it, without keeping the event loop waiting for the disk."""

    def __init__(
        self,
        name: str,
        reader: Reader,
        position: PositionFile,
        recent: Callable[[int], list[Record] | None] = lambda position: None,
    ) -> None:
        """Find out where to begin: the committed position, else the first record still there.

        Args:
            name: the exporter's id.
            reader: of the main journal; used from one thread, which is not the caller's.
            position: this exporter's own position file.
            recent: gives the durable records from a position on, or None: then they are read from disk.
        """
        self._reader = reader
        self._position = position
        self._recent = recent
        self._committed = position.load()
        self.begin = reader.first() if self._committed is None else self._committed
        # One thread, so that calls also stay in order.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"forward-{name}")

    async def end(self) -> int:
        """How far the journal may be read."""
        return (await self._in_thread(self._reader.durable)).end

    async def read(self, position: int) -> list[Record]:
        """The records from `position` on, from memory where they are recent.

        Raises:
            SegmentDeleted: retention deleted the records there.
        """
        found = self._recent(position)
        return await self._in_thread(self._reader.read, position, _READ_BYTES) if found is None else found

    async def commit(self, position: int) -> None:
        """Everything before `position` is done; writes nothing if that was known."""
        if position != self._committed:
            await self._in_thread(self._position.commit, position)
            self._committed = position

    def close(self) -> None:
        """Wait until the thread has finished, and end it."""
        self._thread.shutdown()

    async def _in_thread(self, call: Callable[..., Result], *arguments: object) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *arguments)
