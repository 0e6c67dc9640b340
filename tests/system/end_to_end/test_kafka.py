"""A receive role whose journal is in Kafka, as its senders and exporters see it; Kafka is librdkafka's mock cluster.

What judges make of it, and what only a real Kafka shows, is in tests/serve and tests/system/kafka.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import grpc
import pytest
from end_to_end.test_goes_on import conditions
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from interop.peers import free_port
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from build.mock_cluster import MockCluster
from build.otlp import log_payload, otlp_span, payload
from build.served import LOGS, METRICS, TRACES, Downstream, Server, export, exporter
from waiting import eventually

pytestmark = pytest.mark.long

STORE = {"url": "postgresql+psycopg://tracegrade@127.0.0.1:1/none"}  # receiving needs no store


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    mock = MockCluster()
    yield mock
    mock.end()


# The mock cluster lets a member that comes back wait until its session is over; a real one does not.
SHORT_SESSION = {"session.timeout.ms": 4000, "heartbeat.interval.ms": 500}


def _server(folder: Path, cluster: MockCluster, *, kafka: dict[str, Any] | None = None, **settings: Any) -> Server:
    journal = {"kafka": {"brokers": [cluster.address], "client": SHORT_SESSION, **(kafka or {})}}
    server = Server(folder, journal=journal, store=STORE, **settings)
    server.start(role="receive")
    return server


def _spans(requests: list[bytes]) -> list[tuple[int, int]]:
    """The trace and span numbers of requests, sorted."""
    return sorted(
        (int.from_bytes(span.trace_id, "big"), int.from_bytes(span.span_id, "big"))
        for request in requests
        for resource in ExportTraceServiceRequest.FromString(request).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    )


def test_what_is_answered_is_in_kafka_and_goes_on_to_the_exporter(tmp_path: Path, cluster: MockCluster) -> None:
    downstream = Downstream()
    server = _server(tmp_path, cluster, exporters=exporter(downstream))
    spans = [otlp_span(trace, number) for trace in (1, 2, 3) for number in (1, 2)]
    export(server.endpoints["grpc"], payload(spans))
    export(server.endpoints["grpc"], log_payload([LogRecord(trace_id=bytes(15) + b"\2")]), method=LOGS)
    assert _spans([message.value() or b"" for message in cluster.messages("otlp_spans")]) == [
        (1, 1),
        (1, 2),
        (2, 1),
        (2, 2),
        (3, 1),
        (3, 2),
    ]
    eventually(lambda: len(_spans(downstream.requests[TRACES])) == 6 and downstream.requests[LOGS], "all downstream")
    assert _spans(downstream.requests[TRACES]) == [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2)]
    assert server.metric("tracegrade_receiver_accepted_items_total", "receive", signal="traces") == 6
    assert server.metric("tracegrade_kafka_produced_messages_total", "receive", topic="otlp_spans") == 3
    assert server.stop() == 0
    downstream.stop()


def test_an_exporter_for_one_tenant_is_sent_its_messages_alone(tmp_path: Path, cluster: MockCluster) -> None:
    of_shop, of_default = Downstream(), Downstream()
    exporters = {
        "otlp/shop": exporter(of_shop, tenants=["shop"])["otlp"],
        "otlp/default": exporter(of_default, tenants=["default"])["otlp"],
    }
    access = {"tenant_header": "x-tenant", "trusted_proxies": ["127.0.0.1"]}
    server = _server(tmp_path, cluster, exporters=exporters, access=access)
    export(server.endpoints["grpc"], payload([otlp_span(1, 1)]), **{"x-tenant": "globex"})
    export(server.endpoints["grpc"], payload([otlp_span(2, 1)]), **{"x-tenant": "shop"})
    export(server.endpoints["grpc"], payload([otlp_span(3, 1)]))
    eventually(lambda: of_shop.requests[TRACES] and of_default.requests[TRACES], "both downstream")
    assert server.stop() == 0
    assert _spans(of_shop.requests[TRACES]) == [(2, 1)]
    assert _spans(of_default.requests[TRACES]) == [(3, 1)]
    of_shop.stop()
    of_default.stop()


def test_a_restart_forwards_what_was_not_confirmed_and_nothing_of_what_was(
    tmp_path: Path, cluster: MockCluster
) -> None:
    downstream = Downstream()
    server = _server(tmp_path, cluster, exporters=exporter(downstream))
    export(server.endpoints["grpc"], payload([otlp_span(1, 1)]))
    eventually(lambda: _spans(downstream.requests[TRACES]) == [(1, 1)], "the first span downstream")
    assert server.stop() == 0
    port = downstream.port
    downstream.stop()
    server.start(role="receive")
    export(server.endpoints["grpc"], payload([otlp_span(2, 1)]))
    assert server.stop() == 0
    downstream = Downstream(port)
    server.start(role="receive")
    eventually(lambda: downstream.requests[TRACES], "the second span downstream")
    export(server.endpoints["grpc"], payload([otlp_span(3, 1)]))
    eventually(lambda: len(_spans(downstream.requests[TRACES])) >= 2, "the third span downstream")
    assert _spans(downstream.requests[TRACES]) == [(2, 1), (3, 1)]
    assert server.stop() == 0
    downstream.stop()


def test_senders_are_told_to_try_again_while_no_broker_answers(tmp_path: Path, cluster: MockCluster) -> None:
    server = _server(tmp_path, cluster, kafka={"client": {"message.timeout.ms": 3000}})
    cluster.end()
    with pytest.raises(grpc.RpcError) as caught:
        export(server.endpoints["grpc"], payload([otlp_span(1, 1)]))
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert "Kafka does not take messages for 'otlp_spans'" in caught.value.details()
    details = Status.FromString(dict(caught.value.trailing_metadata())["grpc-status-details-bin"])
    retry = RetryInfo()
    assert details.details[0].Unpack(retry)
    assert retry.retry_delay.seconds in (1, 2)
    with pytest.raises(HTTPError) as ready:
        urlopen(f"http://{server.endpoints['telemetry']}/readyz")
    with ready.value as answer:
        assert (answer.code, "kafka_unavailable" in answer.read().decode()) == (503, True)
    labels = {"outcome": "refused", "reason": "journal_unavailable"}
    assert server.metric("tracegrade_receiver_requests_total", "receive", **labels) == 1
    assert server.stop() == 0


def test_metrics_without_a_topic_are_refused_for_good_and_with_one_forwarded(
    tmp_path: Path, cluster: MockCluster
) -> None:
    request = ExportMetricsServiceRequest()
    metric = request.resource_metrics.add().scope_metrics.add().metrics.add()
    metric.gauge.data_points.add(as_int=7)
    (tmp_path / "without").mkdir()
    server = _server(tmp_path / "without", cluster)
    with pytest.raises(grpc.RpcError, match=r"journal\.kafka\.metrics_topic names no topic") as caught:
        export(server.endpoints["grpc"], request.SerializeToString(), method=METRICS)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    over_http = Request(
        f"http://{server.endpoints['http']}/v1/metrics",
        request.SerializeToString(),
        {"content-type": "application/x-protobuf"},
    )
    with pytest.raises(HTTPError) as answered:
        urlopen(over_http)
    with answered.value as answer:
        assert answer.code == 404
    assert server.stop() == 0
    downstream = Downstream()
    (tmp_path / "with").mkdir()
    server = _server(
        tmp_path / "with", cluster, kafka={"metrics_topic": "otlp_metrics"}, exporters=exporter(downstream)
    )
    export(server.endpoints["grpc"], request.SerializeToString(), method=METRICS)
    eventually(lambda: request.SerializeToString() in downstream.requests[METRICS], "the metric downstream")
    assert server.stop() == 0
    downstream.stop()


def test_a_start_without_brokers_or_topics_ends_with_one_sentence(tmp_path: Path, cluster: MockCluster) -> None:
    def said(**kafka: Any) -> str:
        server = Server(tmp_path, journal={"kafka": {"brokers": [cluster.address], **kafka}}, store=STORE)
        with pytest.raises(AssertionError, match="serve did not start"):
            server.start(role="receive")
        (line,) = [line for line in server.log.splitlines() if line.startswith("Error: ")]
        return line

    assert "there is no topic 'spans', or we may not see it; create it" in said(traces_topic="spans")
    assert "journal.kafka.client: No such configuration property" in said(client={"no.such": 1})


def test_what_circulates_by_way_of_an_instance_with_another_journal_is_named(
    tmp_path: Path, cluster: MockCluster
) -> None:
    port = free_port()
    (tmp_path / "second").mkdir()
    to_first = {"endpoint": f"127.0.0.1:{port}", "tls": {"insecure": True}}
    second = Server(tmp_path / "second", exporters={"otlp": to_first})
    second.start(role="receive")
    try:
        listens = {"otlp": {"protocols": {"grpc": {"endpoint": to_first["endpoint"]}}}}
        to_second = {"endpoint": second.endpoints["grpc"], "tls": {"insecure": True}}
        first = _server(tmp_path, cluster, receivers=listens, exporters={"otlp": to_second})
        export(first.endpoints["grpc"], payload([otlp_span(1, 1)]))
        for server, other in ((first, second), (second, first)):
            found = eventually(lambda server=server: conditions(server).get("comes_back"), "the condition", 60)
            other_id = (other.data / "instance_id").read_text() if other is second else "/otlp_spans"
            assert other_id in found["message"]
        assert first.metric("tracegrade_receiver_loop_items_total", "receive") == 0
        assert first.stop() == 0
    finally:
        assert second.stop() == 0
