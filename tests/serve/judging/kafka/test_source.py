"""Judging where Kafka is the journal, against librdkafka's mock broker, which keeps the senders' times."""

import math
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from build.otlp import agent_span, chat_span, choice_log, log_payload, otlp_span, payload
from journal.kafka.librdkafka import FENCED_INSTANCE_ID, fail_for_good
from serve.judging.kafka.kafka_judges import LOGS, PARTITIONS, QUICK, SPANS, KafkaJudge, MockKafka, key_of
from tracegrade.assemble.settings import TracesSettings
from tracegrade.journal.kafka.consume import GroupConsumer, Message, TopicPart
from tracegrade.journal.kafka.place import number_of
from tracegrade.model.signal import Signal
from tracegrade.pipeline.data_folder import JUDGE, DataFolder
from tracegrade.pipeline.heartbeat import Beat
from tracegrade.serve.judging import gathered_results
from tracegrade.serve.judging.kafka import source
from tracegrade.serve.judging.kafka.partition_judge import Suspects
from tracegrade.serve.judging.kafka.records import KafkaRecords
from tracegrade.serve.judging.metrics import JudgeMetrics
from tracegrade.telemetry.merged import HANDED_OVER
from waiting import eventually

Judges = Callable[..., KafkaJudge]


@pytest.fixture
def kafka() -> MockKafka:
    """A broker of this test alone."""
    return MockKafka()


@pytest.fixture
def judges(kafka: MockKafka, tmp_path: Path) -> Iterator[Judges]:
    """Starts judges, which end with the test."""
    started: list[KafkaJudge] = []

    def start(name: str = "a", traces: TracesSettings = QUICK) -> KafkaJudge:
        judge = KafkaJudge(kafka, tmp_path / f"{name}{len(started)}", name, traces)
        started.append(judge)
        return judge

    yield start
    for judge in started:
        judge.stop()


def _whole(trace: int) -> bytes:
    return payload([agent_span(trace, 1), chat_span(trace, 2, 1)])


def _committed(kafka: MockKafka, topic: str, partition: int) -> int:
    """The group's offset; that of a new group is negative."""
    reader = Consumer({"bootstrap.servers": kafka.address, "group.id": kafka.settings().group})
    (found,) = reader.committed([TopicPartition(topic, partition)], timeout=600)
    reader.close()
    return int(found.offset)


def test_spans_and_log_records_of_a_trace_are_judged_together(kafka: MockKafka, judges: Judges) -> None:
    kafka.send(LOGS, log_payload([choice_log(1, 2, "c1", "look_up", "{}")]), key_of(1))
    kafka.send(SPANS, payload([agent_span(1, 1)]), key_of(1))
    kafka.send(SPANS, payload([chat_span(1, 2, 1)]), key_of(1))
    judge = judges()
    judge.wait_for(t1=3)
    (result,) = judge.delivery.results
    assert (result.trace.close_reason, result.trace.complete, result.trace.call_count) == ("settled", True, 1)
    assert judge.value("tracegrade.spans.read") == 2


def test_the_tenant_is_in_a_header(kafka: MockKafka, judges: Judges) -> None:
    kafka.send(SPANS, _whole(1), key_of(1), tenant=b"acme")
    kafka.send(SPANS, _whole(2), key_of(2))
    judge = judges()
    judge.wait_for(t1=2, t2=2)
    assert {result.trace.trace_id[-1]: result.trace.tenant for result in judge.delivery.results} == {
        "1": "acme",
        "2": "default",
    }


@pytest.mark.parametrize("tenant", ["../acme", "a b", "x" * 65, "\u0430cme", "\udcff"])
def test_a_header_that_can_be_no_tenant_is_refused(
    kafka: MockKafka, judges: Judges, caplog: pytest.LogCaptureFixture, tenant: str
) -> None:
    partition, _ = kafka.send(SPANS, _whole(1), key_of(1), 0, tenant=tenant.encode("utf-8", "surrogateescape"))
    kafka.send(SPANS, _whole(7), key_of(7), partition)
    judge = judges()
    judge.wait_for(t7=2)
    assert judge.value("tracegrade.kafka.malformed", topic=SPANS, reason="bad_tenant") == 1
    assert "the header 'tenant': expected a tenant of 1 to 64 letters" in caplog.text


def test_only_what_every_needed_sink_has_is_committed(kafka: MockKafka, judges: Judges) -> None:
    judge = judges()
    eventually(judge.has_partitions)
    judge.delivery.takes = 0
    partition, _ = kafka.send(SPANS, _whole(1), key_of(1))
    judge.wait_for(t1=2)
    judge.delivery.store_holds(judge.delivery.end)  # the store alone, not the exporter beside it
    other, _ = kafka.send(SPANS, _whole(2), key_of(2))
    judge.wait_for(t2=2)
    assert _committed(kafka, SPANS, partition) <= 0
    judge.delivery.take()
    eventually(lambda: _committed(kafka, SPANS, partition) >= 1)
    eventually(lambda: _committed(kafka, SPANS, other) >= 1)


def test_results_that_are_gathered_are_not_committed_before_they_are_durable(
    kafka: MockKafka, judges: Judges, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathered_results, "GATHER_S", 60.0)
    judge = judges()
    eventually(judge.has_partitions)
    kafka.send(SPANS, _whole(1), key_of(1), 0)
    judge.wait_for(t1=2)  # the first one is appended at once
    eventually(lambda: _committed(kafka, SPANS, 0) == 1)
    kafka.send(SPANS, _whole(2), key_of(2), 0)
    kafka.send(SPANS, _whole(3), key_of(3), 1)
    eventually(lambda: len(judge.loop._results._gathered) == 2, "results of two partitions are gathered")
    told_ns, commit_due_s = judge.delivery.stored_to_ns(), judge.source._commit_due_s
    eventually(lambda: judge.source._commit_due_s > commit_due_s, "the judge to commit what there is")
    assert _committed(kafka, SPANS, 0) == 1
    assert _committed(kafka, SPANS, 1) <= 0
    assert judge.delivery.stored_to_ns() == told_ns
    assert judge.revisions == {f"{1:032x}": 2}
    judge.stop()
    assert judge.revisions == {f"{trace:032x}": 2 for trace in (1, 2, 3)}
    assert (_committed(kafka, SPANS, 0), _committed(kafka, SPANS, 1)) == (2, 1)


def test_nothing_after_the_start_of_an_open_trace_is_committed(kafka: MockKafka, judges: Judges) -> None:
    patient = TracesSettings(settle="100ms", idle_timeout="60s")
    judge = judges(traces=patient)
    key = key_of(1)
    partition, _ = kafka.send(SPANS, _whole(1), key)
    _, open_from = kafka.send(SPANS, payload([otlp_span(1001, 5, parent=4)]), key_of(1001), partition)
    kafka.send(SPANS, _whole(1002), key_of(1002), partition)
    judge.wait_for(t1=2, t1002=2)
    eventually(lambda: judge.value("tracegrade.traces.open") == 1)
    judge.stop()
    assert _committed(kafka, SPANS, partition) <= open_from
    again = judges("a", TracesSettings(settle="100ms", idle_timeout="300ms"))
    again.wait_for(t1001=1)


def test_what_no_sink_confirmed_is_judged_again_by_another_disk(kafka: MockKafka, judges: Judges) -> None:
    judge = judges()
    judge.delivery.takes = 0
    kafka.send(SPANS, _whole(1), key_of(1))
    judge.wait_for(t1=2)
    judge.stop()
    again = judges()
    again.wait_for(t1=2)
    (first,), (second,) = judge.delivery.results, again.delivery.results
    assert first.trace.trace_id == second.trace.trace_id


def test_two_judges_share_partitions_and_lose_nothing(kafka: MockKafka, judges: Judges) -> None:
    patient = TracesSettings(settle="100ms", idle_timeout="60s")
    first = judges("a", patient)
    eventually(first.has_partitions)
    for trace in range(1, 21):
        kafka.send(SPANS, payload([chat_span(trace, 2, 1)]), key_of(trace))
    second = judges("b", patient)
    eventually(lambda: second.has_partitions() and len(first.source._parts) == PARTITIONS // 2)
    for trace in range(1, 21):
        kafka.send(SPANS, payload([agent_span(trace, 1)]), key_of(trace))
    wanted = {f"{trace:032x}": 2 for trace in range(1, 21)}
    eventually(lambda: _highest(first, second) == wanted, f"all, has {_highest(first, second)}")
    assert first.revisions
    assert second.revisions
    assert set(first.source._parts) | set(second.source._parts) == set(range(PARTITIONS))


def _highest(*judges: KafkaJudge) -> dict[str, int]:
    found: dict[str, int] = {}
    for judge in judges:
        for trace, revision in judge.revisions.items():
            found[trace] = max(revision, found.get(trace, 0))
    return dict(sorted(found.items()))


def test_what_was_open_when_a_partition_went_is_counted(kafka: MockKafka, judges: Judges) -> None:
    judge = judges(traces=TracesSettings())
    kafka.send(SPANS, payload([chat_span(1, 2, 1)]), key_of(1))
    eventually(lambda: judge.value("tracegrade.spans.open") == 1)
    judge.stop()
    fate, reason = HANDED_OVER
    judge.source.publish()
    assert judge.value("tracegrade.spans", fate=fate, reason=reason) == judge.value("tracegrade.spans.read") == 1
    assert judge.value("tracegrade.spans.open") == 0


@pytest.mark.parametrize(
    ("value", "key", "reason"),
    [
        (b"\xff\xff\xff", key_of(1), "undecodable"),
        (None, key_of(1), "empty"),
        (_whole(1), None, "no_key"),
        (_whole(1), b"service-a", "other_key"),
        (_whole(1), key_of(2), "other_key"),
        (payload([otlp_span(1, 1, name="x" * 200_000)]), key_of(1), "too_large"),
    ],
    ids=["no protobuf", "no value", "no key", "a key that is no id", "the id of another trace", "too large"],
)
def test_a_message_that_cannot_be_judged_is_named_and_passed_over(
    kafka: MockKafka,
    judges: Judges,
    caplog: pytest.LogCaptureFixture,
    value: bytes | None,
    key: bytes | None,
    reason: str,
) -> None:
    partition, offset = kafka.send(SPANS, value, key, 1)
    kafka.send(SPANS, _whole(7), key_of(7), partition)
    judge = judges()
    judge.wait_for(t7=2)
    assert judge.value("tracegrade.kafka.malformed", topic=SPANS, reason=reason) == 1
    assert f"malformed message ({reason}) in {SPANS}, partition {partition}, offset {offset}: " in caplog.text
    assert judge.revisions == {f"{7:032x}": 2}


def test_spans_with_broken_ids_are_left_out_of_their_message(kafka: MockKafka, judges: Judges) -> None:
    broken = chat_span(1, 3, 1)
    broken.span_id = b"123"
    kafka.send(SPANS, payload([agent_span(1, 1), broken, chat_span(1, 2, 1)]), key_of(1))
    judge = judges()
    judge.wait_for(t1=2)
    assert judge.value("tracegrade.kafka.malformed", topic=SPANS, reason="invalid_span_id") == 1


def test_while_the_store_is_behind_polling_goes_on_and_reading_waits(kafka: MockKafka, judges: Judges) -> None:
    judge = judges(traces=QUICK.model_copy(update={"max_live_spans": 3}))
    eventually(judge.has_partitions)
    judge.delivery.takes = 0
    for trace in range(1, 7):
        kafka.send(SPANS, _whole(trace), key_of(trace), 0)
    eventually(lambda: len(judge.delivery.results) >= 2)
    eventually(lambda: judge.source._pauses.partitions == PARTITIONS, "all are paused")
    read = judge.source.read_position
    kafka.send(SPANS, _whole(100), key_of(100), 0)
    judge.delivery.takes = math.inf
    judge.delivery.take()
    judge.wait_for(t6=2, t100=2)
    assert read < judge.source.read_position
    eventually(lambda: judge.value("tracegrade.kafka.paused") == 0)


def test_lag_is_the_age_of_what_was_read_last_and_nothing_at_the_end(kafka: MockKafka, judges: Judges) -> None:
    kafka.send(SPANS, _whole(1), key_of(1), 2)
    judge = judges()
    judge.wait_for(t1=2)
    eventually(lambda: judge.value("tracegrade.kafka.lag", partition="2") == 0)
    for part in (0, 2):
        judge.source._parts[part].merge.forget_ends()
    assert judge.source._parts[2].lag_s(2 * 10**18) > 10**8  # as if it were a later year
    assert judge.source._parts[0].lag_s(2 * 10**18) is None  # nothing was read of it


def test_partitions_that_go_before_they_were_caught_up_with_are_no_error(kafka: MockKafka, judges: Judges) -> None:
    judge = judges()
    eventually(judge.has_partitions)
    judge.stop()
    judge.source._given_s = 1.0  # as if it had just got them
    judge.source._parts = {}
    judge.source.publish()
    assert judge.value("tracegrade.kafka.lag", partition="0") == 0


def test_after_a_client_failed_for_good_another_one_reads_what_was_not_committed(
    kafka: MockKafka, judges: Judges, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "JOINS_AGAIN_AFTER_S", 0.1)
    judge = judges()
    kafka.send(SPANS, _whole(1), key_of(1))
    judge.wait_for(t1=2)
    kafka.send(SPANS, payload([agent_span(2, 1)]), key_of(2))
    eventually(lambda: judge.value("tracegrade.spans.read") >= 3, "an open trace")
    fail_for_good(judge.source._consumer._consumer, FENCED_INSTANCE_ID)
    eventually(lambda: judge.metrics.telemetry.conditions.holds(source.CLIENT_FAILED), "it to be said")
    kafka.send(SPANS, payload([chat_span(2, 2, 1)]), key_of(2))
    kafka.send(SPANS, _whole(3), key_of(3))
    judge.wait_for(t2=2, t3=2)
    monkeypatch.setattr(source, "FAILURE_SHOWN_S", 0.0)
    eventually(lambda: not judge.metrics.telemetry.conditions.holds(source.CLIENT_FAILED), "the end of it")


def test_messages_in_another_partition_than_their_keys_are_named(kafka: MockKafka, judges: Judges) -> None:
    for trace in range(1, 131):
        kafka.send(SPANS, _whole(trace), key_of(trace), 3)
    judge = judges()
    judge.wait_for(t1=2, t130=2)
    assert judge.value("tracegrade.kafka.misplaced", topic=SPANS) >= 1
    assert judge.metrics.telemetry.conditions.holds("kafka_misplaced", SPANS)


def test_what_retention_deleted_unread_is_counted(
    kafka: MockKafka, judges: Judges, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.send(SPANS, _whole(1), key_of(1), 0)
    first = judges()
    first.wait_for(t1=2)
    eventually(lambda: _committed(kafka, SPANS, 0) == 1)
    first.stop()
    for trace in range(2, 6):
        kafka.send(SPANS, _whole(trace), key_of(trace), 0)
    limits = GroupConsumer._limits

    def without_first_four(consumer: GroupConsumer, parts: Collection[TopicPart]) -> dict[TopicPart, tuple[int, int]]:
        found = limits(consumer, parts)
        return found | {(SPANS, 0): (4, found[SPANS, 0][1])}

    monkeypatch.setattr(GroupConsumer, "_limits", without_first_four)
    second = judges()
    second.wait_for(t5=2)
    assert second.value("tracegrade.kafka.lost", topic=SPANS) == 3


def test_a_message_that_ended_the_judge_twice_is_set_aside_with_its_coordinates(
    kafka: MockKafka, tmp_path: Path, judges: Judges
) -> None:
    partition, offset = kafka.send(SPANS, _whole(1), key_of(1), 1)
    kafka.send(SPANS, _whole(7), key_of(7), partition)
    number = number_of(Signal.TRACES, partition, offset)
    folder = DataFolder(tmp_path / "a0")
    beat = Beat(1, 0, number, None, None)
    folder.set_aside.note_death(beat, "SIGSEGV")
    assert folder.set_aside.load().suspects(JUDGE) == [number]
    # The next judge keeps the message before it reads it; this one is not ended by it, but a kill may come in between.
    suspects = Suspects(folder.set_aside, JUDGE)
    record = KafkaRecords(kafka.settings(), 100_000, 4_000_000, JudgeMetrics(folder).telemetry).record(
        Message(SPANS, partition, offset, 5, True, key_of(1), [], _whole(1)), 0, 1, 0
    )
    assert record is not None
    suspects.begin(record)
    folder.set_aside.note_death(beat, "SIGSEGV")
    (aside,) = folder.set_aside.load().records
    assert (aside.what, aside.reason) == ("2 spans", f"SIGSEGV; traces, partition {partition}, offset {offset}")
    assert folder.set_aside.request_path(aside) is not None
    judge = judges("a")
    judge.wait_for(t7=2)
    assert judge.value("tracegrade.spans", fate="dropped", reason="set_aside") == 2
    assert judge.revisions == {f"{7:032x}": 2}


def test_a_message_that_ended_the_judge_once_and_is_read_is_no_longer_suspected(
    kafka: MockKafka, tmp_path: Path, judges: Judges
) -> None:
    partition, offset = kafka.send(SPANS, _whole(1), key_of(1), 1)
    folder = DataFolder(tmp_path / "a0")
    number = number_of(Signal.TRACES, partition, offset)
    folder.set_aside.note_death(Beat(1, 0, number, None, None), "SIGSEGV")
    judge = judges("a")
    judge.wait_for(t1=2)
    assert folder.set_aside.load().deaths == {}
    assert not list((tmp_path / "a0" / "set_aside").glob("*.suspect"))
