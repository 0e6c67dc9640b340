"""A receive role over a real Kafka, while it and the broker are killed: what was answered is there, and goes on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from confluent_kafka import Consumer, TopicPartition
from kafka.broker import Broker
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from build.otlp import otlp_span, payload
from build.served import TRACES, Downstream, Server, export, exporter
from waiting import eventually

pytestmark = pytest.mark.long

PARTITIONS = 8
ROUNDS = 4
REQUESTS_A_ROUND = 25
TRACES_A_REQUEST = 5


@pytest.fixture
def downstream() -> Iterator[Downstream]:
    peer = Downstream()
    yield peer
    peer.stop()


@pytest.fixture
def server(broker: Broker, downstream: Downstream, tmp_path: Path) -> Iterator[Server]:
    broker.create_topic("otlp_spans", PARTITIONS)
    broker.create_topic("otlp_logs", PARTITIONS)
    made = Server(
        tmp_path,
        journal={"kafka": {"brokers": [broker.address]}},
        store={"url": "postgresql+psycopg://tracegrade@127.0.0.1:1/none"},  # receiving needs no store
        exporters=exporter(downstream),
    )
    made.start(role="receive")
    yield made
    if made.process is not None and made.process.poll() is None:
        made.stop()
    print(made.log[-10_000:])  # shown where the test fails


def _spans(requests: list[bytes]) -> set[int]:
    return {
        int.from_bytes(span.trace_id, "big")
        for request in requests
        for resource in ExportTraceServiceRequest.FromString(request).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    }


def _in_kafka(broker: Broker, topic: str = "otlp_spans") -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "test", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found: list[bytes] = []
    ended: set[int] = set()
    while len(ended) < PARTITIONS:
        message: Any = consumer.poll(30)
        assert message is not None
        if message.error() is not None:
            ended.add(message.partition())
        else:
            found.append(message.value())
    consumer.close()
    return found


def test_what_was_answered_survives_kills_of_the_receiver_and_of_the_broker(
    broker: Broker, server: Server, downstream: Downstream
) -> None:
    answered: set[int] = set()
    refused: list[grpc.StatusCode] = []
    trace = 0
    for turn in range(ROUNDS):
        for number in range(REQUESTS_A_ROUND):
            traces = range(trace + 1, trace + 1 + TRACES_A_REQUEST)
            trace += TRACES_A_REQUEST
            if turn % 2 and number == REQUESTS_A_ROUND // 2:
                broker.kill()
                broker.start()
            try:
                export(server.endpoints["grpc"], payload([otlp_span(one, 1) for one in traces]))
            except grpc.RpcError as error:
                refused.append(error.code())
            else:
                answered.update(traces)
        if turn % 2 == 0:
            server.kill()
            server.start(role="receive")
    assert set(refused) <= {grpc.StatusCode.UNAVAILABLE}, "what is refused may be sent again"
    assert len(answered) + len(refused) * TRACES_A_REQUEST == ROUNDS * REQUESTS_A_ROUND * TRACES_A_REQUEST
    assert len(refused) < REQUESTS_A_ROUND
    assert answered - _spans(_in_kafka(broker)) == set()
    eventually(lambda: answered <= _spans(downstream.requests[TRACES]), "all answered downstream", 120, every_s=0.2)
    assert server.stop() == 0


def test_a_receiver_that_is_started_again_with_other_topics_forwards_those(
    broker: Broker, downstream: Downstream, tmp_path: Path
) -> None:
    """The group knows it by its name, and without more would give it the partitions that it had."""
    for number, prefix in enumerate(("before", "after"), start=1):
        topics = {"traces_topic": f"{prefix}-spans", "logs_topic": f"{prefix}-logs"}
        for topic in topics.values():
            broker.create_topic(topic, PARTITIONS)
        server = Server(
            tmp_path,
            journal={"kafka": {"brokers": [broker.address], **topics}},
            store={"url": "postgresql+psycopg://tracegrade@127.0.0.1:1/none"},
            exporters=exporter(downstream),
        )
        server.start(role="receive")
        export(server.endpoints["grpc"], payload([otlp_span(number, 1)]))
        eventually(lambda number=number: number in _spans(downstream.requests[TRACES]), "it downstream", every_s=0.2)
        assert server.stop() == 0


def test_what_comes_back_to_another_receiver_of_the_same_topic_is_a_loop(broker: Broker, tmp_path: Path) -> None:
    topics = {"traces_topic": "circle-spans", "logs_topic": "circle-logs"}
    for topic in topics.values():
        broker.create_topic(topic, PARTITIONS)
    common: dict[str, Any] = {
        "journal": {"kafka": {"brokers": [broker.address], **topics}},
        "store": {"url": "postgresql+psycopg://tracegrade@127.0.0.1:1/none"},
    }
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    second = Server(tmp_path / "second", **common)
    second.start(role="receive")
    to_second = {"endpoint": second.endpoints["grpc"], "tls": {"insecure": True}}
    first = Server(tmp_path / "first", **common, exporters={"otlp": to_second})
    first.start(role="receive")
    try:
        export(first.endpoints["grpc"], payload([otlp_span(1, 1)]))
        looped = "tracegrade_receiver_loop_items_total"
        eventually(lambda: second.metric(looped, "receive", signal="traces") == 1, "the span to be known again")
        assert len(_in_kafka(broker, "circle-spans")) == 1
    finally:
        assert first.stop() == 0
        assert second.stop() == 0
