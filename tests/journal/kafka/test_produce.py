from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from build.mock_cluster import PARTITIONS, MockCluster
from build.otlp import log_payload, otlp_span, payload
from build.refused import refused
from journal.kafka.librdkafka import INVALID_PRODUCER_EPOCH, fail_for_good
from tracegrade.journal.kafka import produce
from tracegrade.journal.kafka.partition_hash import partition_of
from tracegrade.journal.kafka.produce import KafkaJournal
from tracegrade.journal.kafka.topics import Topics
from tracegrade.journal.record import Encoding, Entry, Signal
from tracegrade.model.errors import NotTaken
from tracegrade.telemetry.metrics import Telemetry
from waiting import WITHIN_S, eventually

SPANS, LOGS, METRICS = "otlp_spans", "otlp_logs", "otlp_metrics"


def _traces(*spans: Any, tenant: str = "default", encoding: Encoding = Encoding.PROTOBUF) -> Entry:
    return Entry(Signal.TRACES, encoding, tenant, len(spans), payload(spans))


@pytest.fixture
def telemetry() -> Telemetry:
    return Telemetry("receive")


@pytest.fixture
def journal(cluster: MockCluster, telemetry: Telemetry) -> Iterator[KafkaJournal]:
    opened = KafkaJournal(cluster.settings(metrics_topic=METRICS), telemetry, Topics())
    yield opened
    opened.close()


def _value(telemetry: Telemetry, name: str) -> float:
    return sum(point["value"] for point in telemetry.snapshot()["metrics"].get(name, ()))


def test_a_request_is_one_message_for_each_of_its_traces(journal: KafkaJournal, cluster: MockCluster) -> None:
    spans = [otlp_span(1, 1), otlp_span(2, 2), otlp_span(1, 3), otlp_span(3, 4)]
    assert journal.append(_traces(*spans)).result(WITHIN_S) == 3
    found = {message.key(): message for message in cluster.messages(SPANS)}
    keys = [trace.to_bytes(16, "big").hex().encode() for trace in (1, 2, 3)]
    assert found.keys() == set(keys)
    assert found[keys[0]].value() == payload([spans[0], spans[2]])
    assert found[keys[1]].value() == payload([spans[1]])
    assert {key: message.partition() for key, message in found.items()} == {
        key: partition_of(key, PARTITIONS) for key in keys
    }
    assert all(message.headers() == [("tenant", b"default")] for message in found.values())


def test_each_key_lies_where_the_collectors_exporter_would_put_it(journal: KafkaJournal, cluster: MockCluster) -> None:
    traces = range(1, 200)
    journal.append(_traces(*(otlp_span(trace, 1) for trace in traces))).result(WITHIN_S)
    keys = [trace.to_bytes(16, "big").hex().encode() for trace in traces]
    found = {message.key(): message.partition() for message in cluster.messages(SPANS)}
    assert found == {key: partition_of(key, PARTITIONS) for key in keys}
    assert set(found.values()) == set(range(PARTITIONS))


def test_the_answer_comes_after_the_brokers_have_all_of_it(journal: KafkaJournal, cluster: MockCluster) -> None:
    futures = [journal.append(_traces(*(otlp_span(trace, 1) for trace in range(1, 9)))) for _ in range(5)]
    assert [future.result(WITHIN_S) for future in futures] == [8] * 5
    assert len(cluster.messages(SPANS)) == 40


def test_log_records_follow_their_trace_and_those_without_one_have_no_key(
    journal: KafkaJournal, cluster: MockCluster
) -> None:
    records = [LogRecord(trace_id=bytes(15) + b"\1"), LogRecord(severity_text="no trace")]
    entry = Entry(Signal.LOGS, Encoding.PROTOBUF, "acme", 2, log_payload(records))
    assert journal.append(entry).result(WITHIN_S) == 2
    found = {message.key(): message for message in cluster.messages(LOGS)}
    assert found.keys() == {None, b"0" * 31 + b"1"}
    assert found[None].value() == log_payload([records[1]])
    assert found[None].headers() == [("tenant", b"acme")]


def test_metrics_go_to_their_topic_as_they_came(journal: KafkaJournal, cluster: MockCluster) -> None:
    journal.append(Entry(Signal.METRICS, Encoding.PROTOBUF, "default", 1, b"\x0a\x00")).result(WITHIN_S)
    (message,) = cluster.messages(METRICS)
    assert (message.key(), message.value()) == (None, b"\x0a\x00")


def test_without_a_topic_for_metrics_they_are_refused_for_good(cluster: MockCluster, telemetry: Telemetry) -> None:
    journal = KafkaJournal(cluster.settings(), telemetry, Topics())
    with pytest.raises(NotTaken, match=r"metrics are not taken here: journal\.kafka\.metrics_topic") as caught:
        journal.append(Entry(Signal.METRICS, Encoding.PROTOBUF, "default", 1, b"\x0a\x00"))
    assert caught.value.reason == "no_metrics_topic"
    journal.close()


def test_what_is_read_again_says_so_to_forwarders(journal: KafkaJournal, cluster: MockCluster) -> None:
    journal.append(_traces(otlp_span(1, 1), encoding=Encoding.READ_AGAIN)).result(WITHIN_S)
    (message,) = cluster.messages(SPANS)
    assert message.headers() == [("tenant", b"default"), ("read_again", b"1")]


def test_a_trace_that_is_too_large_for_a_message_is_several_on_one_partition(
    cluster: MockCluster, telemetry: Telemetry
) -> None:
    journal = KafkaJournal(cluster.settings(), telemetry, Topics(max_message_bytes={SPANS: 100_000, LOGS: 200_000}))
    spans = [otlp_span(1, number, text="x" * 30_000) for number in range(1, 8)]
    assert journal.append(_traces(*spans)).result(WITHIN_S) == 3
    found = cluster.messages(SPANS)
    assert len({message.partition() for message in found}) == 1
    sent = [ExportTraceServiceRequest.FromString(message.value() or b"") for message in found]
    assert [s for request in sent for r in request.resource_spans for c in r.scope_spans for s in c.spans] == spans
    journal.close()


def test_a_span_that_is_too_large_is_refused_for_good_with_its_size(cluster: MockCluster, telemetry: Telemetry) -> None:
    journal = KafkaJournal(cluster.settings(), telemetry, Topics(max_message_bytes={SPANS: 100_000}))
    with pytest.raises(NotTaken, match=r"of 120\d\d\d bytes .*expected at most 97952; send less") as caught:
        journal.append(_traces(otlp_span(1, 1), otlp_span(2, 2, text="x" * 120_000)))
    assert caught.value.reason == "too_large"
    assert cluster.messages(SPANS) == []
    journal.close()


def test_a_large_request_is_divided_beside_the_loop(journal: KafkaJournal, cluster: MockCluster) -> None:
    spans = [otlp_span(trace, 1, text="x" * 1000) for trace in range(1, 1500)]
    assert journal.append(_traces(*spans)).result(WITHIN_S) == len(spans)
    assert len(cluster.messages(SPANS)) == len(spans)


@pytest.mark.parametrize("text", ["", "x" * 30_000], ids=["at once", "beside the loop"])
def test_more_traces_than_a_batch_has_are_refused_for_good(
    journal: KafkaJournal, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(produce, "MAX_PARTS", 40)
    with pytest.raises(NotTaken, match="holds 50 traces; expected at most 40"):
        journal.append(_traces(*(otlp_span(trace, 1, text=text) for trace in range(1, 51)))).result(WITHIN_S)


def test_a_broker_that_is_gone_is_a_retryable_refusal_and_a_condition(
    cluster: MockCluster, telemetry: Telemetry
) -> None:
    journal = KafkaJournal(cluster.settings(client={"message.timeout.ms": 3000}), telemetry, Topics())
    journal.append(_traces(otlp_span(1, 1))).result(WITHIN_S)
    cluster.end()
    with refused("journal_unavailable", match=r"Kafka does not take messages for 'otlp_spans' \(.*; the sender"):
        journal.append(_traces(otlp_span(1, 1), otlp_span(2, 2))).result(WITHIN_S)
    assert telemetry.conditions.holds("kafka_unavailable")
    assert _value(telemetry, "tracegrade.kafka.failed_messages") == 2
    assert _value(telemetry, "tracegrade.kafka.produced_messages") == 3
    journal.close()


def test_the_condition_ends_when_the_brokers_take_messages_again(journal: KafkaJournal, telemetry: Telemetry) -> None:
    telemetry.conditions.begin("kafka_unavailable", "gone")
    journal.append(_traces(otlp_span(1, 1))).result(WITHIN_S)
    assert not telemetry.conditions.holds("kafka_unavailable")


def test_too_much_that_waits_is_a_retryable_refusal(cluster: MockCluster, telemetry: Telemetry) -> None:
    client = {"queue.buffering.max.messages": 5, "linger.ms": 400}
    journal = KafkaJournal(cluster.settings(client=client), telemetry, Topics())
    first = journal.append(_traces(*(otlp_span(trace, 1) for trace in range(1, 5))))
    with refused("journal_full", match="Kafka is too slow: 5 messages wait to be confirmed; the sender should"):
        journal.append(_traces(*(otlp_span(trace, 1) for trace in range(1, 5)))).result(WITHIN_S)
    assert first.result(WITHIN_S) == 4
    journal.close()


def test_a_stop_waits_for_what_is_not_confirmed_and_refuses_the_rest(
    cluster: MockCluster, telemetry: Telemetry
) -> None:
    journal = KafkaJournal(cluster.settings(client={"linger.ms": 300}), telemetry, Topics())
    waiting = journal.append(_traces(otlp_span(1, 1)))
    journal.close()
    assert waiting.result(0) == 1
    with refused("shutting_down"):
        journal.append(_traces(otlp_span(1, 1)))


def test_a_stop_answers_what_the_brokers_do_not_confirm(
    cluster: MockCluster, telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(produce, "_STOP_WITHIN_S", 0.1)
    journal = KafkaJournal(cluster.settings(), telemetry, Topics())
    cluster.end()
    waiting = journal.append(_traces(otlp_span(1, 1)))
    journal.close()
    with refused("journal_unavailable"):
        waiting.result(0)


def test_a_client_that_failed_for_good_is_replaced_and_its_messages_are_answered(
    cluster: MockCluster, telemetry: Telemetry
) -> None:
    journal = KafkaJournal(cluster.settings(client={"linger.ms": 1000}), telemetry, Topics())
    waiting: Future[int] = journal.append(_traces(otlp_span(1, 1)))
    failed = journal._producer
    fail_for_good(failed, INVALID_PRODUCER_EPOCH)
    with refused("journal_unavailable"):
        waiting.result(WITHIN_S)
    eventually(lambda: journal._producer is not failed)
    assert journal.append(_traces(otlp_span(1, 1))).result(WITHIN_S) == 1
    journal.close()


def test_a_client_that_fails_while_the_journal_closes_keeps_nobody_waiting(
    cluster: MockCluster, telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(produce, "_POLL_S", 0.01)
    journal = KafkaJournal(cluster.settings(client={"linger.ms": 4000}), telemetry, Topics())
    journal._closed.set()  # nobody polls any more, as in `close`
    journal._polling.join()
    journal._closed.clear()
    waiting: Future[int] = journal.append(_traces(otlp_span(1, 1)))
    fail_for_good(journal._producer, INVALID_PRODUCER_EPOCH)
    journal.close()
    with refused("journal_unavailable"):
        waiting.result(0)
