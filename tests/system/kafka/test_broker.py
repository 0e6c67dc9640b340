"""The broker of these tests does what they rest on."""

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from kafka.broker import Broker

pytestmark = pytest.mark.long

LOG_APPEND_TIME = 2


def _produce(broker: Broker, value: bytes) -> Message:
    reports: list[Message] = []
    producer = Producer({"bootstrap.servers": broker.address, "acks": "all"})
    producer.produce("kept", key=b"key", value=value, on_delivery=lambda error, message: reports.append(message))
    assert producer.flush(30) == 0
    (report,) = reports
    assert report.error() is None
    return report


def test_what_was_answered_is_there_after_a_kill(broker: Broker) -> None:
    broker.create_topic("kept", 4)
    before = _produce(broker, b"before")
    assert before.timestamp()[0] == LOG_APPEND_TIME
    broker.kill()
    broker.start()
    after = _produce(broker, b"after")
    assert (after.partition(), after.offset()) == (before.partition(), before.offset() + 1)
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "any"})
    consumer.assign([TopicPartition("kept", before.partition() or 0, before.offset() or 0)])
    assert [message.value() for message in consumer.consume(2, 30)] == [b"before", b"after"]
    consumer.close()
