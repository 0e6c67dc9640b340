"""Forwarding from a consumer group in memory to a peer that answers as it is told."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from build.otlp import otlp_span, payload
from tracegrade.forward.deliveries import Waiting
from tracegrade.forward.from_kafka import KafkaForwarder
from tracegrade.journal.errors import KafkaUnfit
from tracegrade.journal.kafka.originals import Original, Place
from tracegrade.model.signal import Signal
from tracegrade.otlp.client import MAX_IN_FLIGHT, Answer, ExporterSettings
from tracegrade.telemetry.metrics import Telemetry
from waiting import eventually_in_loop

SPANS: Place = ("otlp_spans", 0)
OTHER: Place = ("otlp_spans", 1)
LOGS: Place = ("otlp_logs", 0)
SIGNALS = {"otlp_spans": Signal.TRACES, "otlp_logs": Signal.LOGS}
SENT = Answer("sent")
REFUSED = Answer("failed", "invalid_argument", message="never")


def _span(trace: int) -> bytes:
    return payload([otlp_span(trace, 1)])


class Group:
    """A consumer group of one member, over messages that a test adds; knows what was committed."""

    def __init__(self) -> None:
        self.messages: list[Original] = []
        self.committed: dict[Place, int] = {}
        self.joined = self.left = self.stayed = 0
        self.fails = False
        self.read_to = 0
        self.lost: Callable[[], object] = lambda: None

    def add(self, place: Place, *payloads: bytes, read_again: bool = False, tenant: str = "default") -> None:
        for each in payloads:
            offset = sum(message.place == place for message in self.messages)
            self.messages.append(Original(place, SIGNALS[place[0]], offset, each, read_again, tenant))

    def join(self, lost: Callable[[], object]) -> Any:
        self.joined += 1
        self.lost = lost
        self._rewind()
        return self

    def move_away(self) -> None:
        """Another member had our partitions for a moment."""
        self.lost()
        self._rewind()

    def read(self, most: int, within_s: float) -> list[Original]:
        if self.fails:
            self.fails = False
            raise KafkaUnfit("a client failed for good")
        found = self.messages[self.read_to : self.read_to + most]
        self.read_to += len(found)
        return found

    def stay(self) -> None:
        self.stayed += 1

    def waiting(self) -> int:
        return len(self.messages) - self.read_to

    def commit(self, offsets: Mapping[Place, int]) -> bool:
        self.committed |= offsets
        return True

    def close(self) -> None:
        self.left += 1

    def _rewind(self) -> None:
        done = [message.offset < self.committed.get(message.place, 0) for message in self.messages]
        self.read_to = done.index(False) if False in done else len(done)


class Peer:
    def __init__(self) -> None:
        self.requests: list[tuple[Signal, bytes]] = []
        self.answer: Callable[[bytes], Answer] = lambda payload: SENT
        self.open = asyncio.Event()
        self.open.set()
        self.under_way = 0

    async def export(self, signal: Signal, payload: bytes) -> Answer:
        self.under_way += 1
        await self.open.wait()
        self.under_way -= 1
        self.requests.append((signal, payload))
        return self.answer(payload)


@asynccontextmanager
async def _forwarding(group: Group, peer: Peer, telemetry: Telemetry | None = None, **to: Any) -> Any:
    async def at_once(seconds: float) -> None:
        await asyncio.sleep(0)

    settings = ExporterSettings(endpoint="peer:4317", **to)
    forwarder = KafkaForwarder(
        "otlp", settings, peer, group.join, telemetry or Telemetry("receive"), Waiting(sleep=at_once)
    )
    task = asyncio.create_task(forwarder.run())
    try:
        yield forwarder
    finally:
        forwarder.stop(1.0)
        await task


def test_messages_of_one_signal_go_out_together_with_the_bytes_that_came() -> None:
    async def run() -> None:
        group, peer = Group(), Peer()
        group.add(SPANS, _span(1), _span(2))
        group.add(LOGS, b"")
        group.add(OTHER, _span(3))
        async with _forwarding(group, peer):
            await eventually_in_loop(lambda: peer.requests)
        assert peer.requests == [(Signal.TRACES, _span(1) + _span(2) + _span(3))]
        assert group.committed == {SPANS: 2, OTHER: 1, LOGS: 1}

    asyncio.run(run())


def test_a_message_that_cannot_be_read_goes_alone_and_costs_no_other() -> None:
    async def run() -> None:
        group, peer, telemetry = Group(), Peer(), Telemetry("receive")
        group.add(SPANS, _span(1), b"\xff no protobuf", _span(2))
        peer.answer = lambda payload: REFUSED if b"no protobuf" in payload else SENT
        async with _forwarding(group, peer, telemetry):
            await eventually_in_loop(lambda: len(peer.requests) == 2)
        assert sorted(payload for _, payload in peer.requests) == sorted([_span(1) + _span(2), b"\xff no protobuf"])
        assert group.committed == {SPANS: 3}
        points = telemetry.snapshot()["metrics"]["tracegrade.exporter.failed_requests"]
        assert [(point["labels"]["reason"], point["value"]) for point in points] == [("invalid_argument", 1)]

    asyncio.run(run())


def test_what_was_set_aside_and_comes_again_is_not_sent_again() -> None:
    async def run() -> None:
        group, peer = Group(), Peer()
        group.add(SPANS, _span(1), read_again=True)
        group.add(SPANS, _span(2))
        async with _forwarding(group, peer):
            await eventually_in_loop(lambda: peer.requests)
        assert peer.requests == [(Signal.TRACES, _span(2))]
        assert group.committed == {SPANS: 2}

    asyncio.run(run())


def test_an_exporter_for_one_tenant_sends_its_messages_alone_and_the_others_are_done() -> None:
    async def run() -> None:
        group, peer = Group(), Peer()
        group.add(SPANS, _span(1), tenant="globex")
        group.add(SPANS, _span(2), tenant="shop")
        group.add(SPANS, _span(3))
        async with _forwarding(group, peer, tenants=["shop"]):
            await eventually_in_loop(lambda: peer.requests)
        assert peer.requests == [(Signal.TRACES, _span(2))]
        assert group.committed == {SPANS: 3}

    asyncio.run(run())


def test_nothing_is_committed_before_the_peer_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracegrade.forward.from_kafka._COMMIT_EVERY_S", 0.01)

    async def run() -> None:
        group, peer = Group(), Peer()
        peer.open.clear()
        group.add(SPANS, _span(1))
        async with _forwarding(group, peer):
            await eventually_in_loop(lambda: peer.under_way)
            group.add(OTHER, b"")  # what needs no sending is done at once
            await eventually_in_loop(lambda: group.committed.get(OTHER))
            assert group.committed[SPANS] == 0
            peer.open.set()
            await eventually_in_loop(lambda: group.committed[SPANS] == 1)

    asyncio.run(run())


def test_while_the_peer_takes_nothing_the_member_stays_in_its_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracegrade.forward.from_kafka._STAY_EVERY_S", 0.01)
    monkeypatch.setattr("tracegrade.forward.from_kafka._REQUEST_BYTES", 10)

    async def run() -> None:
        group, peer = Group(), Peer()
        peer.open.clear()
        group.add(SPANS, *(_span(trace) for trace in range(1, 2 * MAX_IN_FLIGHT)))
        async with _forwarding(group, peer):
            await eventually_in_loop(lambda: group.stayed > 2)
            assert peer.under_way == MAX_IN_FLIGHT
            peer.open.set()
            await eventually_in_loop(lambda: len(peer.requests) == 2 * MAX_IN_FLIGHT - 1)
        assert group.committed == {SPANS: 2 * MAX_IN_FLIGHT - 1}

    asyncio.run(run())


def test_partitions_that_were_elsewhere_are_read_again_from_what_was_committed() -> None:
    async def run() -> None:
        group, peer = Group(), Peer()
        group.add(SPANS, _span(1))
        async with _forwarding(group, peer):
            await eventually_in_loop(lambda: len(peer.requests) == 1)
            peer.open.clear()
            group.add(SPANS, _span(2))
            await eventually_in_loop(lambda: peer.under_way)
            group.move_away()  # what is under way counts no more: somebody else may send it, too
            assert group.committed == {SPANS: 1}
            peer.open.set()
            await eventually_in_loop(lambda: len(peer.requests) == 3)
        assert [payload for _, payload in peer.requests] == [_span(1), _span(2), _span(2)]
        assert group.committed == {SPANS: 2}

    asyncio.run(run())


def test_a_client_that_failed_for_good_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracegrade.forward.from_kafka._AGAIN_AFTER_S", 0.01)

    async def run() -> None:
        group, peer = Group(), Peer()
        group.add(SPANS, _span(1))
        async with _forwarding(group, peer):
            await eventually_in_loop(lambda: peer.requests)
            peer.open.clear()
            group.add(SPANS, _span(2))
            await eventually_in_loop(lambda: peer.under_way)
            group.fails = True
            await eventually_in_loop(lambda: group.joined == 2)
            peer.open.set()
            await eventually_in_loop(lambda: len(peer.requests) == 3)
        assert (group.left, group.committed) == (2, {SPANS: 2})

    asyncio.run(run())
