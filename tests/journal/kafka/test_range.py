"""A range of messages, merged by the brokers' times, read without a group."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from build.mock_cluster import PARTITIONS, TOPICS, MockCluster
from tracegrade.journal.errors import KafkaUnfit
from tracegrade.journal.kafka import range as module
from tracegrade.journal.kafka.range import RangeReader

SPANS, LOGS, _ = TOPICS
MS = 1_000_000


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    started = MockCluster()
    yield started
    started.end()


def _send(cluster: MockCluster, *messages: tuple[str, int, int]) -> None:
    """Topic, partition and time (ms) of each; the value is its place in the order of sending."""
    producer = Producer({"bootstrap.servers": cluster.address})
    for place, (topic, partition, time_ms) in enumerate(messages):
        producer.produce(topic, str(place).encode(), None, partition, timestamp=time_ms)
        producer.flush(10)


def _read(cluster: MockCluster, since_ns: int | None = None, until_ns: int | None = None) -> list[int]:
    with RangeReader(cluster.settings(), [SPANS, LOGS], since_ns, until_ns) as reader:
        found = list(reader.messages())
        assert len(found) <= reader.total
    assert [message.broker_ns for message in found] == sorted(message.broker_ns for message in found)
    return [int(message.value or b"") for message in found]


def test_all_partitions_of_all_topics_are_one_sequence_in_order_of_time(cluster: MockCluster) -> None:
    _send(cluster, (SPANS, 0, 5000), (SPANS, 1, 1000), (LOGS, 3, 3000), (SPANS, 0, 6000), (LOGS, 0, 2000))
    assert _read(cluster) == [1, 4, 2, 0, 3]


def test_nothing_is_read_where_nothing_is(cluster: MockCluster) -> None:
    assert _read(cluster) == []


def test_what_comes_after_the_start_is_not_read(cluster: MockCluster) -> None:
    _send(cluster, (SPANS, 0, 1000), (SPANS, 2, 2000))
    with RangeReader(cluster.settings(), [SPANS, LOGS], None, None) as reader:
        _send(cluster, (SPANS, 0, 3000), (LOGS, 1, 500))
        assert [message.value for message in reader.messages()] == [b"0", b"1"]


def test_a_partition_that_is_far_ahead_waits_for_the_others(
    cluster: MockCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_WAITING", 3)
    monkeypatch.setattr(module, "_FEW_WAITING", 2)
    many = [(SPANS, 0, 1000 + place) for place in range(40)] + [(LOGS, 1, 1020), (LOGS, 1, 2000)]
    _send(cluster, *many)
    assert _read(cluster) == [*range(20), 40, *range(20, 40), 41]


def test_brokers_that_do_not_answer_are_named(cluster: MockCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ANSWERS_WITHIN_S", 0.2)
    with pytest.raises(KafkaUnfit, match=r"127\.0\.0\.1:9 do not say what there is"):
        RangeReader(cluster.settings(brokers=["127.0.0.1:9"]), [SPANS], None, None)


def test_brokers_that_answer_no_more_end_reading(cluster: MockCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    _send(cluster, *((SPANS, partition, 1000) for partition in range(PARTITIONS)))
    monkeypatch.setattr(module, "_ANSWERS_WITHIN_S", 1.0)
    with RangeReader(cluster.settings(), [SPANS, LOGS], None, None) as reader:
        cluster.end()
        with pytest.raises(KafkaUnfit, match="nothing comes for 1 s"):
            list(reader.messages())
