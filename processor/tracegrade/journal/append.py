"""One append to the journal on its way to the disk, and how its caller is answered."""

import asyncio
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from zlib import crc32

from tracegrade.journal.record import HEADER_BYTES, Entry, Record, checked_tenant, encode_head

AnyFuture = Future[int] | asyncio.Future[int]


class Append:
    """Entries that are appended together: they become durable together and are answered together through ``future``."""

    __slots__ = ("_entries", "_payload_crcs", "_tenants", "end", "future", "size")

    def __init__(self, entries: Sequence[Entry], future: AnyFuture) -> None:
        """Check and sum up `entries`; raises ValueError when one cannot be a record."""
        self._entries = entries
        self._tenants = [checked_tenant(entry) for entry in entries]
        # Here and not in the writer thread: there, each checksum would release the interpreter and wait for it again.
        self._payload_crcs = [crc32(entry.payload) for entry in entries]
        self.size = sum(
            HEADER_BYTES + len(tenant) + len(entry.payload)
            for tenant, entry in zip(self._tenants, entries, strict=True)
        )
        self.end = 0
        self.future = future

    def encode(self, position: int, received_ns: int) -> list[bytes]:
        """The bytes to write at `position`; sets ``end``."""
        buffers: list[bytes] = []
        for entry, tenant, payload_crc in zip(self._entries, self._tenants, self._payload_crcs, strict=True):
            head = encode_head(entry, tenant, payload_crc, position, received_ns)
            buffers += (head, entry.payload)
            position += len(head) + len(entry.payload)
        self.end = position
        return buffers

    def records(self, received_ns: int) -> list[Record]:
        """The records that a reader would read from the bytes of `encode`."""
        records = []
        position = self.end - self.size
        for entry, tenant in zip(self._entries, self._tenants, strict=True):
            end = position + HEADER_BYTES + len(tenant) + len(entry.payload)
            records.append(
                Record(
                    position, end, received_ns, entry.tenant, entry.signal, entry.encoding, entry.items, entry.payload
                )
            )
            position = end
        return records


def answer(appends: Iterable[Append], error: Exception | None = None) -> None:
    """Settle the futures with their ends, or all with `error`; wakes each event loop once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Append]] = {}
    for append in appends:
        if isinstance(append.future, Future):
            _settle(append, error)
        else:
            by_loop.setdefault(append.future.get_loop(), []).append(append)
    for loop, waiting in by_loop.items():
        with suppress(RuntimeError):  # the loop was closed, so no caller waits any more
            loop.call_soon_threadsafe(_settle_all, waiting, error)


def _settle_all(appends: list[Append], error: Exception | None) -> None:
    for append in appends:
        _settle(append, error)


def _settle(append: Append, error: Exception | None) -> None:
    if append.future.done():  # cancelled: its caller went away
        return
    with suppress(InvalidStateError):  # cancelled just now, by another thread
        if error is None:
            append.future.set_result(append.end)
        else:
            append.future.set_exception(error)
