"""What a tenant, and a service of it, may send: beyond it senders are asked to come back, and told when."""

import http.client
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from pydantic import ValidationError

from build import each
from tracegrade.access.quotas import QuotasSettings
from tracegrade.journal.record import Encoding, Entry
from tracegrade.model.signal import Signal
from tracegrade.receive.ingest import Refused
from tracegrade.receive.quotas import BURST_S, Quotas
from tracegrade.telemetry.metrics import Telemetry

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def quotas(clock: Clock | None = None, telemetry: Telemetry | None = None, **settings: Any) -> Quotas:
    made = QuotasSettings.model_validate(settings)
    return Quotas(made, telemetry or Telemetry("receive"), clock or Clock())


def entry(items: int, tenant: str = "acme", service: str = "shop", signal: Signal = Signal.TRACES) -> Entry:
    request = ExportTraceServiceRequest()
    request.resource_spans.add().resource.attributes.add(key="service.name").value.string_value = service
    return Entry(signal, Encoding.PROTOBUF, tenant, items, request.SerializeToString())


def taken(bound: Quotas, clock: Clock, seconds: float, sent: Entry, every_s: float = 0.1) -> int:
    """How many items are taken of a sender that never waits."""
    items, end_s = 0, clock.now_s + seconds
    while clock.now_s < end_s:
        if bound.refusal(sent) is None:
            items += sent.items
        clock.now_s += every_s
    return items


@each("items", [1, 7, 100, 3000])
def test_the_rate_is_the_same_for_batches_of_any_size(items: int) -> None:
    clock = Clock()
    bound = quotas(clock, tenants={"acme": {"spans_per_second": 50}})
    assert taken(bound, clock, 200, entry(items), 0.01) == pytest.approx(50 * 200, abs=50 * BURST_S + items + 1)


def test_what_others_send_counts_not() -> None:
    clock = Clock()
    bound = quotas(clock, each={"spans_per_second": 10})
    assert taken(bound, clock, 10, entry(100, "acme")) >= 100
    assert isinstance(bound.refusal(entry(100, "acme")), Refused)
    assert bound.refusal(entry(1, "globex")) is None


def test_a_service_is_bound_within_its_tenant() -> None:
    clock = Clock()
    bound = quotas(
        clock, tenants={"acme": {"spans_per_second": 1000, "services": {"crawler": {"spans_per_second": 1}}}}
    )
    assert bound.refusal(entry(50, service="crawler")) is None
    refused = bound.refusal(entry(1, service="crawler"))
    assert refused is not None
    assert (refused.reason, refused.retry_after_s) == ("over_quota", 45)
    assert refused.message == (
        "tenant 'acme', service 'crawler', has sent more than 1 spans a second, the bound "
        "quotas.tenants.acme.services.crawler.spans_per_second; send again later"
    )
    assert bound.refusal(entry(1, service="shop")) is None
    clock.now_s += 46
    assert bound.refusal(entry(1, service="crawler")) is None


def test_bytes_are_bound_too_and_metrics_have_no_spans() -> None:
    clock = Clock()
    large = Entry(Signal.METRICS, Encoding.PROTOBUF, "acme", 10**6, bytes(1024**2))
    bound = quotas(clock, each={"mib_per_second": 2, "spans_per_second": 1})
    assert taken(bound, clock, 100, large) == pytest.approx(200 * 10**6, rel=0.1)


def test_a_refusal_is_named_by_a_metric_and_a_condition_that_ends() -> None:
    clock, telemetry = Clock(), Telemetry("receive")
    bound = quotas(clock, telemetry, each={"spans_per_second": 1}, tenants={"acme": {"spans_per_second": 1}})
    for tenant in ("acme", "one", "two"):
        bound.refusal(entry(100, tenant))
        assert bound.refusal(entry(1, tenant)) is not None
    assert telemetry.value("tracegrade.receiver.over_quota", tenant="acme", quota="spans_per_second") == 1
    assert telemetry.value("tracegrade.receiver.over_quota", tenant="other", quota="spans_per_second") == 2
    assert telemetry.conditions.holds("over_quota", "acme")
    clock.now_s += 11
    bound.end_quiet()
    assert not telemetry.conditions.holds("over_quota", "acme")


@each("signal", ["grpc", "http"])
def test_senders_are_told_to_come_back_and_when(serve: Callable[..., Any], wire: bytes, signal: str) -> None:
    served = serve()
    clock = Clock()
    served.ingest._quotas = quotas(clock, tenants={"default": {"spans_per_second": 0.05}})
    for code, details, delay_s in [send(served, wire, signal) for _ in range(2)][1:]:
        assert code in ("RESOURCE_EXHAUSTED", "429")
        assert "the bound quotas.tenants.default.spans_per_second; send again later" in details
        assert delay_s == 15
    assert len(served.journal.entries) == 1
    assert served.requests(outcome="refused", reason="over_quota") == 1
    clock.now_s += 16
    assert send(served, wire, signal)[0] in ("OK", "200")


def send(served: Any, wire: bytes, protocol: str) -> tuple[str, str, float]:
    if protocol == "http":
        connection = http.client.HTTPConnection("127.0.0.1", served.http_port)
        connection.request("POST", "/v1/traces", wire, {"Content-Type": "application/x-protobuf"})
        answer = connection.getresponse()
        said = answer.read().decode("utf-8", "replace")
        connection.close()
        return str(answer.status), said, float(answer.headers.get("retry-after", 0))
    with grpc.insecure_channel(served.grpc_address) as channel:
        try:
            channel.unary_unary(EXPORT)(wire)
        except grpc.RpcError as error:
            trailers: dict[str, Any] = dict(error.trailing_metadata())
            status = Status.FromString(trailers["grpc-status-details-bin"])
            info = RetryInfo()
            assert status.details[0].Unpack(info)
            assert status.code == 8
            return error.code().name, error.details(), info.retry_delay.seconds
    return "OK", "", 0.0


@each(
    ("wrong", "said"),
    [
        ({"each": {"spans_per_second": 0}}, "greater than 0"),
        ({"tenants": {"acme": {"mib_per_second": 0}}}, "greater than 0"),
        ({"tenants": {"acme": {"jobs": 0}}}, "greater than 0"),
        ({"tenants": {"acme": {"stored_for": "0s"}}}, "greater than 0"),
        ({"each": {"stored_for": "7d"}}, "what holds for every tenant is store.retention"),
        ({"tenants": {"a/b": {}}}, "expected a tenant of 1 to 64 letters"),
        (
            {"tenants": {"acme": {"spans_per_second": 5, "services": {"s": {"spans_per_second": 6}}}}},
            "acme: service 's': expected spans_per_second of at most 5, that of its tenant, found 6",
        ),
    ],
)
def test_quotas_that_make_no_sense_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        QuotasSettings.model_validate(wrong)


def test_without_bounds_on_sending_nothing_is_counted() -> None:
    assert not QuotasSettings.model_validate({"tenants": {"acme": {"jobs": 1, "stored_for": "7d"}}}).bounds_sending
    assert QuotasSettings.model_validate({"each": {"services": {"s": {"mib_per_second": 1}}}}).bounds_sending
