import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Generator
from typing import Any

import orjson
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tracegrade.journal.errors import JournalRefused
from tracegrade.journal.record import Encoding, Entry
from tracegrade.model.errors import NotTaken
from tracegrade.model.signal import Signal
from tracegrade.otlp.json import to_json
from tracegrade.receive import ingest
from tracegrade.receive.ingest import Accepted, InFlight, Ingest, Refused
from tracegrade.receive.redacted import Redacted
from tracegrade.receive.redaction import trial_redactor
from tracegrade.receive.validate import Checked, check
from tracegrade.redact.requests.item import Redaction
from tracegrade.redact.settings import RedactionSettings
from tracegrade.telemetry.metrics import Telemetry
from waiting import eventually_in_loop

RequestOf = Callable[..., ExportTraceServiceRequest]
REQUESTS = "tracegrade.receiver.requests"


class Bench:
    """An ingest with its telemetry."""

    def __init__(self, journal: Any, redaction: "Redacts | None" = None) -> None:
        self.journal = journal
        self.telemetry = Telemetry("receive")
        self.ingest = Ingest(journal, self.telemetry, ["me"], redaction=redaction)

    async def accept(self, wire: bytes, **more: Any) -> Accepted | Refused:
        more = {"signal": Signal.TRACES, "encoding": Encoding.PROTOBUF, "transport": "grpc", **more}
        return await self.ingest.accept(more.pop("signal"), wire, more.pop("encoding"), **more)

    def counted(self) -> dict[tuple[str, str], float]:
        """(outcome, reason) -> requests."""
        series = self.telemetry.snapshot()["metrics"].get(REQUESTS, [])
        return {(one["labels"]["outcome"], one["labels"]["reason"]): one["value"] for one in series}


@pytest.fixture
def bench(journal: Any) -> Bench:
    return Bench(journal)


def test_what_is_accepted_is_in_the_journal_and_counted(bench: Bench, wire: bytes) -> None:
    assert asyncio.run(bench.accept(wire, tenant="acme")) == Accepted()
    assert bench.journal.entries == [Entry(Signal.TRACES, Encoding.PROTOBUF, "acme", 1, wire)]
    assert bench.counted() == {("accepted", ""): 1}
    assert bench.telemetry.value("tracegrade.receiver.accepted_items", signal="traces", transport="grpc") == 1


def test_12_nothing_is_answered_before_the_journal_says_durable(bench: Bench, wire: bytes) -> None:
    async def run() -> None:
        bench.journal.hold = True
        answer = asyncio.create_task(bench.accept(wire))
        for _ in range(20):
            await asyncio.sleep(0)
        assert bench.journal.entries
        assert not answer.done()
        assert bench.counted() == {}
        bench.journal.futures[0].set_result(1)
        assert await answer == Accepted()

    asyncio.run(run())


@pytest.mark.parametrize("reason", ["journal_full", "journal_unavailable", "shutting_down"])
@pytest.mark.parametrize("how", ["refuse_with", "fail_with"])
def test_16_a_journal_that_refuses_means_come_back_in_a_second_or_two(
    bench: Bench, wire: bytes, reason: str, how: str
) -> None:
    setattr(bench.journal, how, JournalRefused(reason, "no room"))
    assert asyncio.run(bench.accept(wire)) == Refused(reason, "no room", 1)
    assert bench.counted() == {("refused", reason): 1}
    assert bench.telemetry.value("tracegrade.receiver.accepted_items") == 0


def test_a_sender_that_hangs_up_does_not_lose_what_is_counted(bench: Bench, wire: bytes) -> None:
    async def run() -> None:
        bench.journal.hold = True
        answers = [asyncio.create_task(bench.accept(wire)) for _ in range(2)]
        await asyncio.sleep(0)
        for answer in answers:
            answer.cancel()
        await asyncio.gather(*answers, return_exceptions=True)
        durable, failed = bench.journal.futures
        assert not durable.cancelled()
        durable.set_result(1)
        failed.set_exception(JournalRefused("journal_unavailable", "disk"))
        for _ in range(20):
            await asyncio.sleep(0)

    asyncio.run(run())
    assert bench.counted() == {("accepted", ""): 1, ("refused", "journal_unavailable"): 1}
    assert bench.telemetry.value("tracegrade.receiver.accepted_items") == 1


def test_2_an_empty_request_is_accepted_and_not_journalled(bench: Bench) -> None:
    assert asyncio.run(bench.accept(b"")) == Accepted()
    assert bench.journal.entries == []
    assert bench.counted() == {("accepted", "empty"): 1}


def test_4_bad_spans_are_rejected_for_good_with_a_message(bench: Bench, request_of: RequestOf) -> None:
    good = (b"t" * 16, b"s" * 8, b"")
    request = request_of(good, (b"", b"s" * 8, b""), (b"t" * 16, b"", b""))
    outcome = asyncio.run(bench.accept(request.SerializeToString()))
    assert isinstance(outcome, Accepted)
    assert outcome.rejected == 2
    assert "trace ids must be 16 bytes" in outcome.message
    [entry] = bench.journal.entries
    assert (entry.items, entry.payload) == (1, request_of(good).SerializeToString())
    rejected = "tracegrade.receiver.rejected_spans"
    assert bench.telemetry.value(rejected, reason="invalid_trace_id") == 1
    assert bench.telemetry.value(rejected, reason="invalid_span_id") == 1


def test_6_what_could_not_be_kept_is_no_partial_success(bench: Bench, request_of: RequestOf) -> None:
    bench.journal.refuse_with = JournalRefused("journal_full", "2.0 of 2.0 GiB")
    request = request_of((b"t" * 16, b"s" * 8, b""), (b"", b"s" * 8, b""))
    outcome = asyncio.run(bench.accept(request.SerializeToString()))
    assert outcome == Refused("journal_full", "2.0 of 2.0 GiB", 1)
    assert bench.telemetry.value("tracegrade.receiver.rejected_spans") == 0


def test_a_request_of_nothing_but_bad_spans_is_not_journalled(bench: Bench, request_of: RequestOf) -> None:
    outcome = asyncio.run(bench.accept(request_of((b"", b"", b"")).SerializeToString()))
    assert isinstance(outcome, Accepted)
    assert outcome.rejected == 1
    assert bench.journal.entries == []
    assert bench.telemetry.value("tracegrade.receiver.rejected_spans") == 1


@pytest.mark.parametrize("redacts", [False, True])
def test_repaired_texts_are_journalled_and_counted_by_their_sender(
    journal: Any, request_of: RequestOf, redacts: bool
) -> None:
    bench = Bench(journal, redaction=trial_redactor(RedactionSettings()) if redacts else None)
    wire = request_of().SerializeToString().replace(b"work", b"wor\xff")
    outcome = asyncio.run(bench.accept(wire))
    assert isinstance(outcome, Accepted)
    assert (outcome.rejected, outcome.message.partition(":")[0]) == (0, "1 text not in UTF-8 (the first")
    expected = request_of()
    expected.resource_spans[0].scope_spans[0].spans[0].name = "wor\ufffd"
    assert [entry.payload for entry in journal.entries] == [expected.SerializeToString()]
    assert bench.telemetry.value("tracegrade.receiver.repaired_texts", signal="traces", service="shop") == 1
    assert bench.ingest.in_flight.taken_bytes == 0


def test_services_whose_texts_were_repaired_are_named_up_to_a_bound(bench: Bench, request_of: RequestOf) -> None:
    for number in range(102):
        request = request_of()
        request.resource_spans[0].resource.attributes[0].value.string_value = f"service {number}"
        asyncio.run(bench.accept(request.SerializeToString().replace(b"work", b"wor\xff")))
    assert bench.telemetry.value("tracegrade.receiver.repaired_texts", service="other") == 2


def test_what_comes_back_to_its_sender_is_answered_and_not_journalled(bench: Bench, wire: bytes) -> None:
    assert asyncio.run(bench.accept(wire, own_loop=True)) == Accepted()
    assert bench.journal.entries == []
    assert bench.counted() == {("accepted", "loop"): 1}
    assert bench.telemetry.value("tracegrade.receiver.loop_items", signal="traces") == 1


def test_17_27_garbage_is_refused_for_good(bench: Bench) -> None:
    outcome = asyncio.run(bench.accept(b"\xff"))
    assert isinstance(outcome, Refused)
    assert (outcome.reason, outcome.retry_after_s) == ("undecodable", None)


def test_a_mistake_of_ours_is_final_and_logged(bench: Bench, wire: bytes, caplog: pytest.LogCaptureFixture) -> None:
    bench.journal.refuse_with = ZeroDivisionError("a bug")
    assert asyncio.run(bench.accept(wire)) == Refused("internal", "internal error; see this receiver's log")
    assert "a bug" in caplog.text
    assert bench.counted() == {("refused", "internal"): 1}


def test_22_while_stopping_new_requests_are_told_to_come_back(bench: Bench, wire: bytes) -> None:
    async def run() -> None:
        bench.journal.hold = True
        in_work = asyncio.create_task(bench.accept(wire))
        await asyncio.sleep(0)
        bench.ingest.stop()
        late = await bench.accept(wire)
        assert isinstance(late, Refused)
        assert (late.reason, late.retry_after_s) == ("shutting_down", 1)
        bench.journal.futures[0].set_result(1)
        assert await in_work == Accepted()

    asyncio.run(run())
    assert bench.counted() == {("accepted", ""): 1, ("refused", "shutting_down"): 1}


def test_10_the_same_request_twice_is_journalled_twice(bench: Bench, wire: bytes) -> None:
    for _ in range(2):
        assert asyncio.run(bench.accept(wire)) == Accepted()
    assert [entry.payload for entry in bench.journal.entries] == [wire, wire]


def test_a_large_json_request_does_not_hold_up_others(
    bench: Bench, wire: bytes, request_of: RequestOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [(b"t" * 16, index.to_bytes(8, "big"), b"") for index in range(1, 4000)]
    body = orjson.dumps(to_json(request_of(*ids)))
    is_checked, may_end = threading.Event(), threading.Event()

    def slow_check(signal: Signal, encoding: Encoding, wire: bytes) -> Checked:
        if encoding is Encoding.JSON:
            is_checked.set()
            assert may_end.wait(), "the other request was not answered meanwhile"
        return check(signal, encoding, wire)

    monkeypatch.setattr(ingest, "check_unrepaired", slow_check)

    async def run() -> None:
        large = asyncio.create_task(bench.accept(body, encoding=Encoding.JSON, transport="http"))
        await eventually_in_loop(is_checked.is_set)
        assert await bench.accept(wire) == Accepted()
        may_end.set()
        assert await large == Accepted()

    asyncio.run(run())
    assert [(entry.items, entry.encoding) for entry in bench.journal.entries][1:] == [(3999, Encoding.JSON)]


def test_near_the_bound_the_tenant_that_has_most_gets_no_more() -> None:
    in_flight = InFlight(100)
    assert all(in_flight.take(10, "noisy") for _ in range(7))
    assert in_flight.take(2, "small")
    assert not in_flight.take(10, "noisy")
    assert in_flight.take(20, "small")
    in_flight.give(22, "small")
    assert in_flight.take(30, "noisy"), "it is alone again"
    in_flight.give(100, "noisy")
    assert in_flight.taken_bytes == 0
    assert in_flight.take(100, "another")


def test_room_in_flight_is_taken_up_to_the_bound_and_given_back() -> None:
    in_flight = InFlight(10)
    assert in_flight.take(6)
    assert not in_flight.take(5)
    assert in_flight.take(4)
    in_flight.give(6)
    assert in_flight.take(5)
    refusal = in_flight.refusal()
    assert (refusal.reason, refusal.retry_after_s) == ("overloaded", 1)


class Redacts:
    """A redaction that writes `to` over everything, or fails."""

    def __init__(self, to: bytes = b"", error: Exception | None = None) -> None:
        self.to = to
        self.error = error

    def in_turns(self, signal: Signal, payload: bytes, tenant: str) -> Generator[None, None, Redacted]:
        yield
        yield
        return self.redacted(signal, payload, tenant)

    def redacted(self, signal: Signal, payload: bytes, tenant: str) -> Redacted:
        if self.error is not None:
            raise self.error
        return Redacted(self.to, Counter({Redaction("attributes", "user.email", "email", "mask"): 2}))


@pytest.mark.parametrize("more", [0, 100_000])
def test_what_is_redacted_is_what_the_journal_gets_and_counted(journal: Any, wire: bytes, more: int) -> None:
    bench = Bench(journal, redaction=Redacts(b"redacted"))
    # An unknown field makes it a large one.
    wire += b"\x9a\x06" + bytes([more & 127 | 128, more >> 7 & 127 | 128, more >> 14]) + bytes(more) if more else b""
    assert asyncio.run(bench.accept(wire)) == Accepted()
    assert [entry.payload for entry in journal.entries] == [b"redacted"]
    labels = {"signal": "traces", "detector": "email", "place": "attributes", "action": "mask"}
    assert bench.telemetry.value("tracegrade.redacted", **labels) == 2


def test_a_request_that_cannot_be_redacted_is_refused_for_good(journal: Any, wire: bytes) -> None:
    bench = Bench(journal, redaction=Redacts(error=NotTaken("redaction_failed", "it could not be redacted")))
    assert asyncio.run(bench.accept(wire)) == Refused("redaction_failed", "it could not be redacted", None)
    assert journal.entries == []
    assert bench.counted() == {("refused", "redaction_failed"): 1}
