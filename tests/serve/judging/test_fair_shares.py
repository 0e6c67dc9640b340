"""A judge that is far behind leaves out who sends most, and judges who sends little."""

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from build import each
from tracegrade.journal.record import Encoding, Record, Signal
from tracegrade.otlp.service import service_of
from tracegrade.serve.judging.fair_shares import ENDS_BELOW, LEVELS, FairShares

BOUND = 1_000_000


def request(service: str | None, size: int = 100) -> bytes:
    sent = ExportTraceServiceRequest()
    resource_spans = sent.resource_spans.add()
    resource_spans.resource.attributes.add(key="other").value.int_value = 7
    if service is not None:
        resource_spans.resource.attributes.add(key="service.name").value.string_value = service
    span = resource_spans.scope_spans.add().spans.add(name="")
    span.name = "x" * max(0, size - sent.ByteSize())
    sent.resource_spans.add().resource.attributes.add(key="service.name").value.string_value = "second"
    return sent.SerializeToString()


def records(*sent: tuple[str, str, int]) -> list[Record]:
    return [
        Record(at, at + 1, 1, tenant, Signal.TRACES, Encoding.PROTOBUF, 1, request(service, size))
        for at, (tenant, service, size) in enumerate(sent)
    ]


def left_out(shares: FairShares, lag: float, read: list[Record]) -> set[str]:
    shares.note_lag(round(lag * BOUND))
    found = shares.left_unread(read, round(lag * BOUND))
    return {f"{record.tenant}/{service_of(record.payload)}" for record in read if record.position in found}


NOISY = [("default", f"noisy-{number}", 2500 + number) for number in range(40)]
SMALL = ("default", "small", 300)


def test_forty_noisy_senders_are_left_out_and_the_small_one_never() -> None:
    shares, read = FairShares(BOUND), records(*NOISY, SMALL)
    assert left_out(shares, 0.4, read) == set()
    for lag in (0.5, 0.7, 0.8, 0.9, 0.6, 0.4):
        found = left_out(shares, lag, read)
        assert found, lag
        assert "default/small" not in found, lag
    assert len(left_out(shares, 0.9, read)) >= 36
    assert left_out(shares, ENDS_BELOW - 0.01, read) == set()
    assert left_out(shares, 0.4, read) == set()


def test_the_same_service_of_two_tenants_is_two_senders() -> None:
    shares, read = FairShares(BOUND), records(("acme", "shop", 5000), ("globex", "shop", 200))
    left_out(shares, 0.6, read)
    assert left_out(shares, 0.6, read) == {"acme/shop"}
    assert shares.condition() == "spans are left out of service 'shop' of tenant 'acme'"


@each("sent", [[("default", "one", 900)], [("default", "one", 900), ("default", "two", 900)]])
def test_nobody_is_left_out_where_nobody_sends_more_than_others(sent: list[tuple[str, str, int]]) -> None:
    """Then retention deletes the oldest, as it always did."""
    shares = FairShares(BOUND)
    sent = [(tenant, service.ljust(3), size) for tenant, service, size in sent]
    for _ in range(3):
        assert left_out(shares, 0.9, records(*sent)) == set()
    assert shares.condition() is None


@given(st.lists(st.integers(150, 60_000), min_size=2, max_size=12), st.floats(0.5, 1.0))
def test_who_is_judged_sent_no_more_than_who_is_left_out(sizes: list[int], lag: float) -> None:
    read = records(*[("default", f"s{number:02d}", size) for number, size in enumerate(sizes)])
    shares = FairShares(100 * BOUND)
    for _ in range(2):
        shares.note_lag(round(lag * 100 * BOUND))
        found = shares.left_unread(read, round(lag * 100 * BOUND))
    largest_kept = max(len(record.payload) for record in read if record.position not in found)
    assert all(len(record.payload) > largest_kept for record in read if record.position in found)
    kept = sum(len(record.payload) for record in read if record.position not in found)
    allowed = next(part for least, part in LEVELS if lag >= least)
    assert not found or kept <= allowed * sum(len(record.payload) for record in read) + 1


def test_what_was_sent_long_ago_counts_less() -> None:
    shares = FairShares(100_000)
    read = records(("default", "was-noisy", 9000), ("default", "other", 300))
    for _ in range(3):
        shares.note_lag(60_000)
        shares.left_unread(read, 60_000)
    assert shares.over == {("default", "was-noisy")}
    calm = records(("default", "was-noisy", 200), ("default", "other", 3000))
    for _ in range(40):
        shares.note_lag(60_000)
        shares.left_unread(calm, 60_000)
    assert shares.over == {("default", "other")}


@each("service", ["shop", "", "größe", None])
def test_the_service_is_that_of_the_first_resource(service: str | None) -> None:
    assert service_of(request(service)) == (service or "")


def test_a_request_without_resources_has_no_service() -> None:
    assert service_of(b"") == ""
