"""Ingest, which both transports call: check a request, journal it, answer when it is durable."""

import asyncio
import logging
from collections import Counter
from collections.abc import Generator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from tracegrade.journal.errors import JournalRefused
from tracegrade.journal.record import Encoding, Entry
from tracegrade.model.errors import NotTaken
from tracegrade.model.signal import Signal
from tracegrade.model.tenant import DEFAULT_TENANT
from tracegrade.receive.circle import Circle
from tracegrade.receive.redacted import Redacted, Redacts, next_turn
from tracegrade.receive.settings import OtlpReceiverSettings
from tracegrade.receive.validate import (
    REPAIR_ROOM,
    Checked,
    DamagedError,
    check_in_turns,
    check_unrepaired,
    decoded_bytes,
    is_large,
    repair_in_turns,
)
from tracegrade.telemetry.metrics import Telemetry
from tracegrade.telemetry.series_bound import OTHER

# Longer, and senders that try for ten seconds in all give up instead of waiting.
RETRY_AFTER_S = 1

# Looking at every text costs more than that, and protobuf, too.
_LARGE_TO_REDACT_BYTES = 32 * 1024
# Walking JSON costs about 30 us a span, so that above this size others would wait too long for the loop.
_LARGE_JSON_BYTES = 256 * 1024

_MOST_SERVICES = 100  # that metrics name; any more are other, as those with longer names are
_LONGEST_SERVICE = 256

_NEAR = 0.75  # of the bound: from here on, each tenant has its part

Transport: TypeAlias = Literal["grpc", "http"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Accepted:
    """Taken and durable. ``message`` is for the sender: why ``rejected`` spans were not, or a warning ("" if none)."""

    rejected: int = 0
    message: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """Not taken. ``reason`` is a label for counting; the sender should retry after ``retry_after_s``, never if None."""

    reason: str
    message: str
    retry_after_s: int | None = None


class _NoRoomError(Exception):
    """There is no memory now for the decoded request in addition to the others."""


class _OverQuotaError(Exception):
    """The sender's tenant has sent as much as it may."""

    def __init__(self, refused: Refused) -> None:
        self.refused = refused
        super().__init__(refused.message)


class Bounds(Protocol):
    """The part of quotas that ingest uses."""

    def refusal(self, entry: Entry) -> Refused | None:
        """Why a request is not taken now; None if it is, and it counts then."""


class JournalWriter(Protocol):
    """The part of a journal that ingest uses."""

    def append(self, entry: Entry) -> Future[int]:
        """Take an entry; the future resolves once it is durable, or fails: `JournalRefused`, `NotTaken`."""


class InFlight:
    """The bytes of all requests being read, checked or made durable, as they came and decoded, and their bound.

    Near the bound, a tenant that has more than its part of it gets no more, so that there is room for the others.
    """

    def __init__(self, bound_bytes: int) -> None:
        self.bound_bytes = bound_bytes
        self.taken_bytes = 0
        self._of: Counter[str] = Counter()  # by tenant; of those that have something

    def take(self, size: int, tenant: str = DEFAULT_TENANT) -> bool:
        """Take room for `size` bytes if there is any."""
        taken = self.taken_bytes + size
        if taken > self.bound_bytes:
            return False
        if taken > _NEAR * self.bound_bytes and len(self._of) > 1:
            own = self._of[tenant] + size
            if own > self.bound_bytes / len(self._of):
                return False
        self.taken_bytes = taken
        self._of[tenant] += size
        return True

    def give(self, size: int, tenant: str = DEFAULT_TENANT) -> None:
        """Release room for `size` bytes."""
        self.taken_bytes -= size
        self._of[tenant] -= size
        if self._of[tenant] <= 0:
            del self._of[tenant]

    def refusal(self) -> Refused:
        """The answer when there is no room."""
        return Refused(
            "overloaded",
            f"more than {self.bound_bytes} bytes of requests are in work (receivers.otlp.max_in_flight_mib); "
            "send again later",
            RETRY_AFTER_S,
        )


class Ingest:
    """Checks, journals and counts requests; every request ends in one `Accepted` or `Refused`, counted once."""

    def __init__(
        self,
        journal: JournalWriter,
        telemetry: Telemetry,
        own_ids: Sequence[str],
        settings: OtlpReceiverSettings | None = None,
        redaction: Redacts | None = None,
        quotas: Bounds | None = None,
    ) -> None:
        """With nothing taken yet.

        Args:
            journal: makes requests durable.
            telemetry: counts them.
            own_ids: what our own exporters send as their instance: such a request comes back to us.
            settings: the bounds of memory.
            redaction: changes requests before they are journalled.
            quotas: bounds what a tenant sends.
        """
        settings = settings or OtlpReceiverSettings()
        self.circle = Circle(own_ids, telemetry.conditions)
        self.in_flight = InFlight(settings.max_in_flight_bytes)
        self._journal = journal
        self._telemetry = telemetry
        self._max_messages = settings.max_request_messages
        self._redaction = redaction
        self._quotas = quotas
        self._repaired_services: set[str] = set()
        self._stopping = asyncio.Event()
        # The holder checks a piece: one in each turn of the loop, the longest waiting first.
        self._turn = asyncio.Lock()

    @property
    def is_stopping(self) -> bool:
        """Whether new requests are refused."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Refuse, retryably, whatever comes from now on; requests in work are finished."""
        self._stopping.set()

    async def wait_stopping(self) -> None:
        """Return once `stop` was called."""
        await self._stopping.wait()

    async def accept(
        self,
        signal: Signal,
        wire: bytes,
        encoding: Encoding,
        *,
        transport: Transport,
        tenant: str = DEFAULT_TENANT,
        own_loop: bool = False,
        much_expanded: bool = False,
    ) -> Accepted | Refused:
        """Take one request.

        Args:
            signal: what the service or path says it holds.
            wire: the request, decompressed.
            encoding: how `wire` is written.
            transport: for counting.
            tenant: under whose name it is journalled.
            own_loop: it carries our own instance id: answered, counted, and not journalled.
            much_expanded: it was much smaller before decompression: many such may come at once for little.

        Returns:
            `Accepted` only after the journal said that the bytes are durable.
        """
        if self.is_stopping:
            return self.refuse(signal, transport, shutting_down())
        try:
            return await self._accept(signal, wire, encoding, transport, tenant, own_loop, much_expanded)
        except NotTaken as error:
            refused = Refused(error.reason, str(error))
        except _OverQuotaError as error:
            refused = error.refused
        except _NoRoomError:
            refused = self.in_flight.refusal()
        except JournalRefused as error:
            refused = Refused(error.reason, str(error), RETRY_AFTER_S)
        except Exception as error:
            self._log(error)
            refused = Refused("internal", "internal error; see this receiver's log")
        return self.refuse(signal, transport, refused)

    def refuse(self, signal: Signal, transport: Transport, refused: Refused) -> Refused:
        """Count a refusal, and return it; transports call this for what never gets as far as `accept`."""
        self._count(signal, transport, "refused", refused.reason)
        return refused

    def _log(self, error: Exception) -> None:
        if self._redaction is None:
            logger.exception("a request could not be handled; the sender got a final error")
            return
        # What an error says may quote the request, which nobody has redacted.
        at = error.__traceback__
        while at is not None and at.tb_next is not None:
            at = at.tb_next
        where = f" at {at.tb_frame.f_code.co_filename}:{at.tb_lineno}" if at is not None else ""
        found = f"{type(error).__name__}{where}"
        logger.error("a request could not be handled (%s); the sender got a final error", found)

    def closed(self, transport: Transport, reason: str) -> None:
        """Count a connection that was closed on its client; requests are counted apart."""
        self._telemetry.add("tracegrade.receiver.closed_connections", transport=transport, reason=reason)

    async def _accept(
        self,
        signal: Signal,
        wire: bytes,
        encoding: Encoding,
        transport: Transport,
        tenant: str,
        own_loop: bool,
        much_expanded: bool,
    ) -> Accepted:
        checked = await self._check(signal, wire, encoding, much_expanded, tenant)
        if own_loop:
            self._count(signal, transport, "accepted", "loop")
            self._telemetry.add("tracegrade.receiver.loop_items", checked.items, signal=signal.name.lower())
        elif checked.items == 0:
            self._count(signal, transport, "accepted", "empty")
            self._count_changes(checked)
        else:
            entry = Entry(signal, encoding, tenant, checked.items, checked.payload)
            if self._quotas is not None and (refused := self._quotas.refusal(entry)) is not None:
                raise _OverQuotaError(refused)
            if self._redaction is not None:
                entry.payload = (await self._redacted(self._redaction, signal, entry.payload, tenant)).payload
            durable = self._journal.append(entry)
            await self._wait_durable(durable, signal, transport, checked)
        return Accepted(sum(checked.rejected.values()), checked.message)

    async def _redacted(self, redaction: Redacts, signal: Signal, payload: bytes, tenant: str) -> Redacted:
        if len(payload) > _LARGE_TO_REDACT_BYTES:
            redacted = await self._redacted_in_turns(redaction.in_turns(signal, payload, tenant))
        else:
            redacted = redaction.redacted(signal, payload, tenant)
        sums: Counter[tuple[str, str, str]] = Counter()
        for found, count in redacted.counts.items():
            sums[found.detector, found.where, found.action] += count
        for (detector, where, action), count in sums.items():
            self._telemetry.add(
                "tracegrade.redacted",
                count,
                signal=signal.name.lower(),
                detector=detector,
                place=where,
                action=action,
            )
        return redacted

    async def _redacted_in_turns(self, turns: Generator[None, None, Redacted]) -> Redacted:
        while True:
            async with self._turn:
                # A single span may be large, and detectors take a while for it: others go on meanwhile.
                redacted = await asyncio.to_thread(next_turn, turns)
            if redacted is not None:
                return redacted

    async def _check(
        self, signal: Signal, wire: bytes, encoding: Encoding, much_expanded: bool, tenant: str
    ) -> Checked:
        room = decoded_bytes(encoding, wire)
        if len(wire) + room > self.in_flight.bound_bytes:
            raise NotTaken(
                "too_dense",
                f"the request takes about {room} bytes of memory once decoded, in addition to its own {len(wire)}; "
                f"the bound for all together is {self.in_flight.bound_bytes} (receivers.otlp.max_in_flight_mib); "
                "send smaller batches, or protobuf",
            )
        if not self.in_flight.take(room, tenant):
            raise _NoRoomError
        try:
            return await self._check_unrepaired(signal, wire, encoding, much_expanded)
        except DamagedError:
            return await self._repair(signal, wire, much_expanded, tenant)
        finally:
            self.in_flight.give(room, tenant)

    async def _check_unrepaired(self, signal: Signal, wire: bytes, encoding: Encoding, much_expanded: bool) -> Checked:
        if encoding is Encoding.JSON and len(wire) > _LARGE_JSON_BYTES:
            return await asyncio.to_thread(check_unrepaired, signal, encoding, wire)
        if not is_large(encoding, wire) and not much_expanded:
            return check_unrepaired(signal, encoding, wire)
        if encoding is Encoding.JSON:
            async with self._turn:
                await asyncio.sleep(0)
                return check_unrepaired(signal, encoding, wire)
        return await self._checked_in_turns(
            check_in_turns(signal, wire, self._max_messages, much_expanded=much_expanded)
        )

    async def _repair(self, signal: Signal, wire: bytes, much_expanded: bool, tenant: str) -> Checked:
        room = REPAIR_ROOM * len(wire)
        if not self.in_flight.take(room, tenant):
            raise _NoRoomError
        try:
            return await self._checked_in_turns(
                repair_in_turns(signal, wire, self._max_messages, much_expanded=much_expanded)
            )
        finally:
            self.in_flight.give(room, tenant)

    async def _checked_in_turns(self, turns: Generator[None, None, Checked]) -> Checked:
        while True:
            async with self._turn:
                try:
                    next(turns)
                except StopIteration as done:
                    checked: Checked = done.value
                    return checked
                await asyncio.sleep(0)  # others go on before the next one takes its turn

    async def _wait_durable(self, durable: Future[int], signal: Signal, transport: Transport, checked: Checked) -> None:
        waiting = asyncio.wrap_future(durable)
        try:
            # A sender that hangs up must not cancel the future under the journal's hands.
            await asyncio.shield(waiting)
        except asyncio.CancelledError:
            # The entry is in the journal in any case, so it counts; the answer has no reader any more.
            waiting.add_done_callback(lambda done: self._count_abandoned(done, signal, transport, checked))
            raise
        self._count_journalled(signal, transport, checked)

    def _count_abandoned(
        self, done: asyncio.Future[int], signal: Signal, transport: Transport, checked: Checked
    ) -> None:
        error = done.exception()
        if error is None:
            self._count_journalled(signal, transport, checked)
        else:
            self._count(signal, transport, "refused", getattr(error, "reason", "internal"))

    def _count_journalled(self, signal: Signal, transport: Transport, checked: Checked) -> None:
        self._count(signal, transport, "accepted", "")
        self._telemetry.add(
            "tracegrade.receiver.accepted_items", checked.items, signal=signal.name.lower(), transport=transport
        )
        self._count_changes(checked)

    def _count_changes(self, checked: Checked) -> None:
        signal = checked.signal.name.lower()
        for reason, count in checked.rejected.items():
            self._telemetry.add("tracegrade.receiver.rejected_spans", count, signal=signal, reason=reason)
        for service, count in checked.repaired.items():
            if service not in self._repaired_services:
                if len(self._repaired_services) >= _MOST_SERVICES or len(service) > _LONGEST_SERVICE:
                    service = OTHER
                self._repaired_services.add(service)
            self._telemetry.add("tracegrade.receiver.repaired_texts", count, signal=signal, service=service)

    def _count(self, signal: Signal, transport: Transport, outcome: str, reason: str) -> None:
        self._telemetry.add(
            "tracegrade.receiver.requests",
            signal=signal.name.lower(),
            transport=transport,
            outcome=outcome,
            reason=reason,
        )


def shutting_down() -> Refused:
    """The answer while stopping."""
    return Refused(
        "shutting_down", "this receiver is shutting down; send again, to it or to its successor", RETRY_AFTER_S
    )


def request_too_slow(timeout_s: float) -> Refused:
    """The answer to a request that did not arrive in time."""
    return Refused("read_timeout", f"the request did not arrive within {timeout_s:g} s", RETRY_AFTER_S)
