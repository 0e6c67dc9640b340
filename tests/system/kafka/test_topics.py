"""What does not fit about topics stops the start, or is a condition; by a real Kafka, which has settings of topics."""

from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewPartitions
from kafka.broker import Broker

from tracegrade.journal.errors import KafkaUnfit
from tracegrade.journal.kafka.settings import KafkaSettings
from tracegrade.journal.kafka.topics import examine_topics
from tracegrade.telemetry.conditions import Conditions

pytestmark = pytest.mark.long

WITHIN_S = 5.0


@pytest.fixture(scope="module")
def topics(broker: Broker) -> Broker:
    broker.create_topic("spans", 8)
    broker.create_topic("logs", 8, max_message_bytes=2_000_000)
    broker.create_topic("logs-of-four", 4)
    broker.create_topic("spans-of-senders", 8, message_timestamp_type="CreateTime")
    broker.create_topic("spans-of-bytes", 8, max_message_bytes=1000)
    return broker


def _settings(broker: Broker, **more: Any) -> KafkaSettings:
    names = {"traces_topic": "spans", "logs_topic": "logs"}
    return KafkaSettings.model_validate({"brokers": [broker.address], **names, **more})


def test_topics_as_they_must_be_are_told_with_partitions_and_sizes(topics: Broker) -> None:
    found = examine_topics(_settings(topics), wait_s=WITHIN_S)
    assert found.partitions == {"spans": 8, "logs": 8}
    assert found.max_message_bytes == {"spans": 1_048_588, "logs": 2_000_000}
    assert found.warnings == {}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"traces_topic": "nowhere"}, "there is no topic 'nowhere', or we may not see it; create it"),
        ({"logs_topic": "logs-of-four"}, "'spans' has 8 partitions and 'logs-of-four' 4; expected as many"),
        ({"traces_topic": "spans-of-senders"}, "expected message.timestamp.type LogAppendTime, found CreateTime"),
        ({"traces_topic": "spans-of-bytes"}, "max.message.bytes is 1000; expected 65536 or more"),
        ({"brokers": ["127.0.0.1:9"]}, "none of 127.0.0.1:9 answers within 5 s"),
        ({"metrics_topic": "points"}, "there is no topic 'points'"),
    ],
)
def test_what_does_not_fit_stops_the_start_with_one_sentence(topics: Broker, wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(KafkaUnfit, match=r"^journal\.kafka") as caught:
        examine_topics(_settings(topics, **wrong), wait_s=WITHIN_S)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_asking_for_a_topic_makes_none(topics: Broker) -> None:
    with pytest.raises(KafkaUnfit):
        examine_topics(_settings(topics, metrics_topic="made-by-asking"), wait_s=WITHIN_S)
    assert "made-by-asking" not in topics.admin().list_topics(timeout=600).topics


def test_partitions_that_are_added_are_noticed(topics: Broker) -> None:
    topics.create_topic("growing", 2)
    topics.create_topic("logs-of-growing", 2)
    settings = _settings(topics, traces_topic="growing", logs_topic="logs-of-growing")
    found = examine_topics(settings, wait_s=WITHIN_S)
    conditions = Conditions()
    found.say(conditions)
    assert not conditions.current()
    admin = topics.admin()
    for grown in admin.create_partitions([NewPartitions(name, 4) for name in ("growing", "logs-of-growing")]).values():
        grown.result()
    again = examine_topics(settings, wait_s=WITHIN_S)
    again.compare(found)
    again.say(conditions)
    assert {condition.where for condition in conditions.current()} == {"growing", "logs-of-growing"}
    assert "it has 4 partitions now and had 2: traces that are open are judged in parts" in (
        conditions.current()[0].message
    )


def test_a_real_kafka_places_keys_by_the_same_formula_and_stamps_them_itself(topics: Broker) -> None:
    from tracegrade.journal.kafka.partition_hash import partition_of

    found: dict[bytes, int] = {}
    kinds: set[int] = set()

    def heard(error: Any, message: Any) -> None:
        assert error is None
        found[message.key()] = message.partition()
        kinds.add(message.timestamp()[0])

    producer = Producer({"bootstrap.servers": topics.address, "partitioner": "fnv1a_random"})
    keys = [number.to_bytes(16, "big").hex().encode() for number in range(400)]
    for key in keys:
        producer.produce("spans", b"", key, timestamp=1, on_delivery=heard)
    assert producer.flush(20) == 0
    assert found == {key: partition_of(key, 8) for key in keys}
    assert kinds == {2}  # LogAppendTime, not the 1 that the sender said
