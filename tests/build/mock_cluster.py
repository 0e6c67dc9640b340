"""Kafka in memory: the mock cluster that comes with librdkafka. It has no settings of topics, and no LogAppendTime."""

from typing import Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from journal.kafka.librdkafka import begin_groups_at_once
from tracegrade.journal.kafka.settings import KafkaSettings

PARTITIONS = 4  # of every topic of a mock cluster
TOPICS = ("otlp_spans", "otlp_logs", "otlp_metrics")


class MockCluster:
    """A cluster of one broker. It ends with `end`, as brokers do that are killed."""

    def __init__(self) -> None:
        self._client: Producer | None = Producer({"test.mock.num.brokers": 1, "log_level": 3})
        begin_groups_at_once(self._client)
        for topic in TOPICS:
            self._client.list_topics(topic, timeout=600)  # asking for a topic makes it
        (broker,) = self._client.list_topics(timeout=600).brokers.values()
        self.address = f"{broker.host}:{broker.port}"

    def settings(self, **more: Any) -> KafkaSettings:
        """Settings of a journal on it."""
        return KafkaSettings.model_validate({"brokers": [self.address], **more})

    def messages(self, topic: str) -> list[Message]:
        """All that a topic holds, partition by partition."""
        consumer = Consumer({"bootstrap.servers": self.address, "group.id": "test", "enable.partition.eof": False})
        try:
            ends = {
                partition: consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=600)[1]
                for partition in range(PARTITIONS)
            }
            consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
            wanted = sum(ends.values())
            found = consumer.consume(wanted, 20) if wanted else []
            assert len(found) == wanted
            return sorted(found, key=lambda message: (message.partition(), message.offset()))
        finally:
            consumer.close()

    def end(self) -> None:
        """Gone, with all it held."""
        self._client = None
