"""Forwarding from a journal in memory to a peer that answers as it is told; the last tests use the real ones."""

import asyncio
import logging
from collections import Counter
from contextlib import asynccontextmanager, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracegrade.forward.deliveries import Waiting
from tracegrade.forward.forwarder import Forwarder
from tracegrade.forward.journal_source import JournalSource
from tracegrade.journal.errors import SegmentDeleted
from tracegrade.journal.published import Durable
from tracegrade.journal.record import Encoding, Record
from tracegrade.model.signal import Signal
from tracegrade.otlp.client import MAX_IN_FLIGHT, Answer, ExporterSettings
from tracegrade.telemetry.metrics import Telemetry
from waiting import eventually_in_loop

SENT = Answer("sent")
BUSY = Answer("retry", "unavailable", message="try later")
REFUSED = Answer("failed", "invalid_argument", message="never")


class Journal:
    """Records of ten bytes each, as a reader gives them."""

    def __init__(self, *payloads: bytes | tuple[Signal, bytes], read_at_once: int = 3) -> None:
        self.records: list[Record] = []
        self.deleted_to = 0
        self.read_at_once = read_at_once
        self.reads = 0
        self.add(*payloads)

    def add(self, *payloads: bytes | tuple[Signal, bytes], tenant: str = "default") -> None:
        for item in payloads:
            signal, payload = item if isinstance(item, tuple) else (Signal.TRACES, item)
            at = len(self.records) * 10
            self.records.append(Record(at, at + 10, at, tenant, signal, Encoding.PROTOBUF, 1, payload))

    def durable(self) -> Durable:
        return Durable(len(self.records) * 10, 0, 0)

    def first(self) -> int:
        return self.deleted_to

    def read(self, position: int, max_bytes: int = 0) -> list[Record]:
        if position < self.deleted_to:
            raise SegmentDeleted(position, self.deleted_to)
        self.reads += 1
        start = position // 10
        return self.records[start : start + self.read_at_once]


class Position:
    def __init__(self, position: int | None = None) -> None:
        self.commits = [] if position is None else [position]

    def load(self) -> int | None:
        return self.commits[-1] if self.commits else None

    def commit(self, position: int) -> None:
        self.commits.append(position)


class Peer:
    """Answers each payload with what it is told, in turn, then SENT; holds a payload until it is let go."""

    def __init__(self, answers: dict[bytes, list[Answer]] | None = None, holding: set[bytes] = frozenset()) -> None:
        self.answers = {payload: list(turns) for payload, turns in (answers or {}).items()}
        self.got: list[tuple[Signal, bytes]] = []
        self.gates = {payload: asyncio.Event() for payload in holding}
        self.under_way = 0
        self.most_under_way = 0

    async def export(self, signal: Signal, payload: bytes) -> Answer:
        self.got.append((signal, payload))
        self.under_way += 1
        self.most_under_way = max(self.under_way, self.most_under_way)
        try:
            await asyncio.sleep(0)
            if payload in self.gates:
                await self.gates[payload].wait()
        finally:
            self.under_way -= 1
        turns = self.answers.get(payload)
        return turns.pop(0) if turns else SENT

    @property
    def payloads(self) -> list[bytes]:
        return [payload for _, payload in self.got]


class Time:
    """A clock that only sleeping moves; sleeping takes no time, or for ever."""

    def __init__(self, asleep: bool = False) -> None:
        self.now_s = 0.0
        self.delays: list[float] = []
        self.asleep = asleep

    async def sleep(self, seconds: float) -> None:
        self.delays.append(seconds)
        self.now_s += seconds
        if self.asleep:
            await asyncio.Event().wait()
        await asyncio.sleep(0)

    @property
    def waiting(self) -> Waiting:
        return Waiting(lambda: self.now_s, self.sleep, lambda: 0.5)


def exporter(**more) -> ExporterSettings:
    return ExporterSettings.model_validate({"endpoint": "collector:4317", **more})


@asynccontextmanager
async def forwarding(
    journal, peer, position=None, *, time=None, to=None, telemetry=None, stop_within_s=5.0, recent=lambda position: None
):
    """A forwarder at work; stopped, in order, at the end of the block."""
    forwarder = Forwarder(
        "otlp",
        to or exporter(),
        peer,
        JournalSource("otlp", journal, position or Position(), recent),
        telemetry or Telemetry("receive"),
        (time or Time()).waiting,
    )
    task = asyncio.create_task(forwarder.run())
    try:
        yield forwarder
    finally:
        forwarder.stop(stop_within_s)
        await task


def value(telemetry: Telemetry, name: str, **labels: str) -> float:
    return telemetry.value(f"tracegrade.exporter.{name}", exporter="otlp", **labels)


def test_every_request_leaves_in_order_unchanged_and_counted():
    async def run():
        journal, position, peer, telemetry = Journal(b"a", b"b"), Position(), Peer(), Telemetry("receive")
        async with forwarding(journal, peer, position, telemetry=telemetry) as forwarder:
            await eventually_in_loop(lambda: len(peer.got) == 2)
            journal.add((Signal.LOGS, b"c"), (Signal.METRICS, b"d"))
            forwarder.wake()
            await eventually_in_loop(lambda: len(peer.got) == 4)
        assert peer.got == [
            (Signal.TRACES, b"a"),
            (Signal.TRACES, b"b"),
            (Signal.LOGS, b"c"),
            (Signal.METRICS, b"d"),
        ]
        assert position.load() == 40
        sent = {signal: value(telemetry, "sent_requests", signal=signal) for signal in ("traces", "logs", "metrics")}
        assert sent == {"traces": 2, "logs": 1, "metrics": 1}
        assert forwarder.queued == 0

    asyncio.run(run())


def test_an_exporter_for_one_tenant_sends_its_requests_alone_and_passes_over_the_others():
    async def run():
        journal, position, peer, telemetry = Journal(), Position(), Peer(), Telemetry("receive")
        journal.add(b"a", b"b", tenant="globex")
        journal.add(b"c", (Signal.METRICS, b"d"), tenant="shop")
        journal.add(b"e")
        to = exporter(tenants=["shop"])
        async with forwarding(journal, peer, position, to=to, telemetry=telemetry) as forwarder:
            await eventually_in_loop(lambda: len(peer.got) == 2)
            await forwarder.measure()
        assert peer.payloads == [b"c", b"d"]
        assert position.load() == 50
        assert value(telemetry, "sent_requests") == 2
        assert forwarder.queued == 0

    asyncio.run(run())


def test_new_requests_are_found_without_being_woken():
    async def run():
        journal, peer = Journal(), Peer()
        async with forwarding(journal, peer):
            await eventually_in_loop(lambda: journal.reads)  # it found none
            journal.add(b"a")
            await eventually_in_loop(lambda: peer.got)

    asyncio.run(run())


def test_records_still_in_memory_are_not_read_and_count_like_others():
    class Watched(Journal):
        def read(self, position, max_bytes=0):
            reads.append(position)
            return super().read(position, max_bytes)

    async def run():
        journal, position, peer, telemetry = Watched(b"a", b"b", b"c"), Position(), Peer(), Telemetry("receive")

        def recent(at):
            return journal.records[at // 10 :] if at >= 20 else None

        async with forwarding(journal, peer, position, telemetry=telemetry, recent=recent) as forwarder:
            await eventually_in_loop(lambda: len(peer.got) == 3)
            journal.add(b"d")
            forwarder.wake()
            await eventually_in_loop(lambda: len(peer.got) == 4)
            await forwarder.measure()
            assert value(telemetry, "queued_requests") == 0
        assert peer.payloads == [b"a", b"b", b"c", b"d"]
        assert value(telemetry, "sent_requests") == 4
        assert position.load() == 40

    reads: list[int] = []
    asyncio.run(run())
    assert set(reads) <= {0, 10}


def test_a_retry_waits_as_long_as_the_server_asked_and_sends_the_same_bytes():
    async def run():
        slow = Answer("retry", "http_503", retry_after_s=12.0)
        peer, time, telemetry = Peer({b"a": [BUSY, slow]}), Time(), Telemetry("receive")
        async with forwarding(Journal(b"a"), peer, time=time, telemetry=telemetry) as forwarder:
            await eventually_in_loop(lambda: value(telemetry, "sent_requests") == 1)
            assert forwarder.queued == 0
        assert peer.payloads == [b"a", b"a", b"a"]
        assert time.delays == [5.0, 12.0]
        assert value(telemetry, "retries", reason="unavailable") == 1
        assert value(telemetry, "retries", reason="http_503") == 1

    asyncio.run(run())


def test_a_request_is_given_up_after_the_longest_time_and_the_next_one_follows():
    async def run():
        peer, time, telemetry = Peer({b"a": [BUSY] * 100}), Time(), Telemetry("receive")
        journal, position = Journal(b"a", b"b"), Position()
        to = exporter(retry_on_failure={"max_elapsed_time": "300s"})
        async with forwarding(journal, peer, position, time=time, to=to, telemetry=telemetry):
            await eventually_in_loop(lambda: value(telemetry, "failed_requests") == 1)
            await eventually_in_loop(lambda: value(telemetry, "sent_requests") == 1)
        assert value(telemetry, "failed_requests", reason="unavailable", signal="traces") == 1
        assert sum(time.delays) <= 300
        assert position.load() == 20

    asyncio.run(run())


def test_a_permanent_refusal_is_failed_by_reason_without_a_second_attempt():
    async def run():
        peer, telemetry, position = Peer({b"a": [REFUSED]}), Telemetry("receive"), Position()
        async with forwarding(Journal(b"a", b"b"), peer, position, telemetry=telemetry):
            await eventually_in_loop(lambda: value(telemetry, "sent_requests") == 1)
        assert sorted(peer.payloads) == [b"a", b"b"]
        assert value(telemetry, "failed_requests", reason="invalid_argument") == 1
        assert position.load() == 20

    asyncio.run(run())


def test_what_the_peer_rejected_by_partial_success_is_counted_and_the_request_is_sent():
    async def run():
        peer, telemetry = Peer({b"a": [Answer("sent", rejected=7)]}), Telemetry("receive")
        async with forwarding(Journal(b"a"), peer, telemetry=telemetry):
            await eventually_in_loop(lambda: value(telemetry, "sent_requests") == 1)
        assert value(telemetry, "rejected_items", signal="traces") == 7

    asyncio.run(run())


def test_the_position_stays_behind_the_oldest_unfinished_request():
    async def run():
        position, peer, telemetry = Position(), Peer(holding={b"b"}), Telemetry("receive")
        async with forwarding(Journal(b"a", b"b", b"c", b"d"), peer, position, telemetry=telemetry):
            await eventually_in_loop(lambda: value(telemetry, "sent_requests") == 3)
            await eventually_in_loop(lambda: position.load() is not None and position.load() > 0)
            assert position.load() == 10
            peer.gates[b"b"].set()
        assert position.load() == 40
        assert position.commits == sorted(position.commits)

    asyncio.run(run())


def test_a_restart_sends_the_unfinished_requests_and_no_other():
    async def run():
        journal, position = Journal(b"a", b"b", b"c", b"d"), Position()
        down = Peer({b"c": [BUSY] * 9, b"d": [BUSY] * 9})
        async with forwarding(journal, down, position, time=Time(asleep=True)) as forwarder:
            await eventually_in_loop(lambda: len(down.got) == 4 and down.under_way == 0)
            assert forwarder.queued == 2
        up = Peer()
        async with forwarding(journal, up, position) as forwarder:
            await eventually_in_loop(lambda: up.payloads == [b"c", b"d"])
        assert position.load() == 40
        assert up.payloads == [b"c", b"d"]

    asyncio.run(run())


def test_without_a_position_the_first_record_still_there_is_the_beginning():
    async def run():
        journal, peer, telemetry = Journal(b"a", b"b", b"c"), Peer(), Telemetry("receive")
        journal.deleted_to = 10
        async with forwarding(journal, peer, telemetry=telemetry):
            await eventually_in_loop(lambda: value(telemetry, "sent_requests") == 2)
        assert peer.payloads == [b"b", b"c"]
        assert value(telemetry, "failed_requests") == 0

    asyncio.run(run())


def test_stopping_lets_an_attempt_under_way_end():
    async def run():
        position, peer = Position(), Peer(holding={b"a"})
        async with forwarding(Journal(b"a"), peer, position) as forwarder:
            await eventually_in_loop(lambda: peer.under_way == 1)
            forwarder.stop(5.0)
            await asyncio.sleep(0)
            peer.gates[b"a"].set()
        assert position.load() == 10
        assert forwarder.queued == 0

    asyncio.run(run())


def test_stopping_leaves_what_does_not_end_in_time_to_the_next_start():
    async def run():
        position, peer = Position(), Peer(holding={b"b"})
        async with forwarding(Journal(b"a", b"b"), peer, position, stop_within_s=0.01):
            await eventually_in_loop(lambda: len(peer.got) == 2)
        assert position.load() == 10

    asyncio.run(run())


def test_stopping_does_not_wait_for_a_retry():
    async def run():
        position, peer, time = Position(), Peer({b"a": [BUSY]}), Time(asleep=True)
        async with forwarding(Journal(b"a"), peer, position, time=time, stop_within_s=60.0) as forwarder:
            await eventually_in_loop(lambda: time.delays)
            forwarder.stop(60.0)
        assert position.load() in (None, 0)
        assert forwarder.queued == 1

    asyncio.run(asyncio.wait_for(run(), 600))


def test_few_requests_are_under_way_at_a_time_and_the_rest_is_counted_as_queued():
    async def run():
        payloads = [b"%d" % number for number in range(50)]
        journal, telemetry = Journal(*payloads), Telemetry("receive")
        peer = Peer(holding=set(payloads))
        async with forwarding(journal, peer, telemetry=telemetry) as forwarder:
            await eventually_in_loop(lambda: peer.under_way == MAX_IN_FLIGHT)
            await forwarder.measure()
            assert value(telemetry, "queued_requests") == 50
            journal.add(b"more")
            await forwarder.measure()
            assert value(telemetry, "queued_requests") == 51
            for gate in peer.gates.values():
                gate.set()
            await eventually_in_loop(lambda: value(telemetry, "sent_requests") == 51)
            assert value(telemetry, "queued_requests") == 0
        assert peer.most_under_way == MAX_IN_FLIGHT

    asyncio.run(run())


def test_signals_that_the_exporter_does_not_take_are_passed_over_and_not_counted():
    async def run():
        journal = Journal(b"a", (Signal.METRICS, b"m"), (Signal.LOGS, b"l"))
        peer, position, telemetry = Peer(), Position(), Telemetry("receive")
        to = exporter(signals=["logs"])
        async with forwarding(journal, peer, position, to=to, telemetry=telemetry) as forwarder:
            await eventually_in_loop(lambda: peer.got)
            journal.add(b"b")
            forwarder.wake()
            await eventually_in_loop(lambda: position.load() == 40)
        assert peer.payloads == [b"l"]
        assert forwarder.queued == 0

    asyncio.run(run())


def test_what_retention_deleted_is_counted_as_dropped_and_the_rest_is_sent():
    async def run():
        held = [b"%d" % number for number in range(MAX_IN_FLIGHT)]
        journal = Journal(*held, *[(Signal.LOGS, b"gone")] * 20, b"a")
        peer, position, telemetry = Peer(holding=set(held)), Position(), Telemetry("receive")
        async with forwarding(journal, peer, position, telemetry=telemetry) as forwarder:
            await eventually_in_loop(lambda: peer.under_way == MAX_IN_FLIGHT)
            await forwarder.measure()
            journal.add((Signal.LOGS, b"b"))  # not counted yet when the deletion is noticed
            journal.deleted_to = (MAX_IN_FLIGHT + 20) * 10
            for gate in peer.gates.values():
                gate.set()
            await eventually_in_loop(lambda: peer.payloads[-1:] == [b"b"])
        read_before = peer.payloads.count(b"gone")  # one reading's worth was in memory already
        assert read_before <= journal.read_at_once
        assert value(telemetry, "failed_requests", reason="dropped", signal="logs") == 20 - read_before
        assert value(telemetry, "failed_requests") == 20 - read_before
        assert value(telemetry, "sent_requests") == MAX_IN_FLIGHT + read_before + 2
        assert forwarder.queued == 0
        assert position.load() == len(journal.records) * 10

    asyncio.run(run())


def test_a_position_that_was_deleted_while_nobody_looked_goes_on_at_the_first_left():
    async def run():
        journal, peer, position = Journal(b"a", b"b", b"c"), Peer(), Position(0)
        journal.deleted_to = 20
        async with forwarding(journal, peer, position):
            await eventually_in_loop(lambda: peer.got)
        assert peer.payloads == [b"c"]
        assert position.load() == 30

    asyncio.run(run())


def test_each_kind_of_trouble_is_logged_once_a_minute_with_the_peers_words(caplog):
    async def run():
        names = [b"%d" % number for number in range(8)]
        peer, telemetry, time = Peer({name: [BUSY, REFUSED] for name in names}), Telemetry("receive"), Time()
        journal = Journal(*names)
        async with forwarding(journal, peer, telemetry=telemetry, time=time) as forwarder:
            await eventually_in_loop(lambda: value(telemetry, "failed_requests") == 8)
            time.now_s += 60
            peer.answers[b"later"] = [REFUSED]
            journal.add(b"later")
            forwarder.wake()
            await eventually_in_loop(lambda: value(telemetry, "failed_requests") == 9)

    with caplog.at_level(logging.INFO, "tracegrade.forward"):
        asyncio.run(run())
    given_up = "exporter otlp: collector:4317: invalid_argument, given up: never"
    assert [message for message in caplog.messages if message.startswith("exporter ")] == [
        "exporter otlp: collector:4317: unavailable, will try again: try later",
        given_up,
        given_up,
    ]


def test_a_journal_that_cannot_be_read_ends_forwarding_loudly():
    class Broken(Journal):
        def read(self, position, max_bytes=0):
            raise OSError(5, "input/output error")

    async def run():
        source = JournalSource("otlp", Broken(b"a"), Position())
        forwarder = Forwarder("otlp", exporter(), Peer(), source, Telemetry("receive"))
        await forwarder.run()

    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(run())
    assert caught.group_contains(OSError)


answers = st.sampled_from([SENT, BUSY, REFUSED, Answer("sent", rejected=2), Answer("retry", "http_429")])
traffic = st.lists(st.tuples(st.sampled_from([Signal.TRACES, Signal.LOGS]), st.lists(answers, max_size=4)), max_size=30)


@given(
    traffic=traffic,
    taken=st.sampled_from([["traces"], ["logs"], ["traces", "logs"]]),
    stop_after=st.integers(0, 30),
    recent_from=st.integers(0, 30),
)
def test_accepted_is_sent_and_queued_and_failed_whatever_the_peer_answers_and_whenever_we_stop(
    traffic, taken, stop_after, recent_from
):
    async def run():
        numbered = [(signal, b"%d" % number) for number, (signal, _) in enumerate(traffic)]
        journal = Journal(*numbered)
        position, telemetry = Position(), Telemetry("receive")
        to = exporter(signals=taken, retry_on_failure={"max_elapsed_time": "30s"})
        peer = Peer({payload: turns for (_, payload), (_, turns) in zip(numbered, traffic, strict=True)})
        accepted = [payload for signal, payload in numbered if to.takes(signal)]

        def recent(at):
            return journal.records[at // 10 :] if at >= recent_from * 10 else None

        async with forwarding(journal, peer, position, to=to, telemetry=telemetry, recent=recent) as forwarder:
            with suppress(TimeoutError):
                async with asyncio.timeout(0.02):
                    await eventually_in_loop(lambda: len(peer.got) >= stop_after)
            await forwarder.measure()
            names = ("sent_requests", "failed_requests", "queued_requests")
            assert sum(value(telemetry, name) for name in names) == len(accepted)

        later = Telemetry("receive")
        async with forwarding(journal, peer, position, to=to, telemetry=later) as forwarder:
            await eventually_in_loop(lambda: position.load() == journal.durable().end or not numbered)
            assert forwarder.queued == 0
        finished = Counter()
        for each in (telemetry, later):
            for name in ("sent_requests", "failed_requests"):
                finished[name] += value(each, name)
        assert finished.total() >= len(accepted)  # more when a stop came between an unfinished request and a later one
        assert set(peer.payloads) == set(accepted)

    asyncio.run(run())
