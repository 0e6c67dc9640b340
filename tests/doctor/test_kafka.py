from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from build.mock_cluster import MockCluster
from tracegrade.config import Config
from tracegrade.doctor import kafka as module
from tracegrade.doctor.finding import Finding
from tracegrade.doctor.kafka import kafka


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    mock = MockCluster()
    yield mock
    mock.end()


def _examined(cluster: MockCluster) -> list[Finding]:
    settings = cluster.settings(metrics_topic="otlp_metrics")
    exporter = {"endpoint": "127.0.0.1:4317", "tls": {"insecure": True}}
    return list(kafka(Config.model_validate({"exporters": {"otlp/archive": exporter}}), settings))


def _of(findings: list[Finding], where: str) -> Finding:
    (found,) = [finding for finding in findings if finding.where == where]
    return found


def _produce(cluster: MockCluster, messages: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.address})
    for _ in range(messages):
        producer.produce("otlp_spans", b"value", partition=1)
    assert producer.flush(20) == 0


def _commit(cluster: MockCluster, group: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.address, "group.id": group})
    consumer.commit(offsets=[TopicPartition("otlp_spans", 1, offset)], asynchronous=False)
    consumer.close()


def test_topics_whose_settings_cannot_be_read_are_warned_of_and_each_group_is_told(cluster: MockCluster) -> None:
    findings = _examined(cluster)
    assert [(finding.level, finding.where) for finding in findings] == [
        ("warning", "otlp_spans"),
        ("warning", "otlp_logs"),
        ("warning", "otlp_metrics"),
        ("note", "tracegrade-judge"),
        ("note", "tracegrade-forward-otlp-archive"),
    ]
    assert "its settings cannot be read" in findings[0].found


def test_a_group_says_how_many_messages_wait_for_it(cluster: MockCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    _produce(cluster, 7)
    _commit(cluster, "tracegrade-judge", 5)
    of_judges = _of(_examined(cluster), "tracegrade-judge")
    assert (of_judges.level, of_judges.found) == ("ok", "2 messages are not committed yet")
    monkeypatch.setattr(module, "_BEHIND_MESSAGES", 1)
    behind = _of(_examined(cluster), "tracegrade-judge")
    assert (behind.level, behind.evidence) == ("warning", {"waiting": 2, "lost": 0})
    assert "start more judges" in behind.advice


def test_brokers_that_do_not_answer_are_one_error(cluster: MockCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WITHIN_S", 0.5)
    address = cluster.address
    cluster.end()
    (finding,) = _examined(cluster)
    assert (finding.check, finding.level) == ("kafka", "error")
    assert f"none of {address} answers within 0.5 s" in finding.found
