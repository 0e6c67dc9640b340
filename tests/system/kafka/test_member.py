"""A member of the judges' group, by itself."""

import pytest
from kafka.broker import Broker
from kafka.group import LOGS, SPANS

from tracegrade.journal.kafka.consume import Extent, GroupConsumer, KafkaFailed
from tracegrade.journal.kafka.settings import KafkaSettings
from waiting import eventually

pytestmark = pytest.mark.long


def test_after_a_restart_of_the_broker_it_is_known_at_once_where_partitions_end(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    for topic in (SPANS, LOGS):
        broker.create_topic(topic, 2)
    given: list[dict[int, dict[str, Extent]]] = []
    settings = KafkaSettings(brokers=[broker.address], instance_id="a")
    member = GroupConsumer(settings, 0, given.append, lambda numbers, can_commit: None)

    def answers() -> dict[int, dict[str, int]]:
        member.poll(0.05)
        member.ask_for_ends([0, 1])
        return member.ends()

    try:
        eventually(lambda: member.poll(0.1) or given, "partitions")
        for _ in range(2):  # a leader of another epoch each time
            broker.kill()
            broker.start()
            caplog.clear()
            parts = [(topic, number) for topic in (SPANS, LOGS) for number in (0, 1)]
            assert member._limits(parts) == dict.fromkeys(parts, (0, 0))
            asked_again = [record for record in caplog.records if "asking again" in record.getMessage()]
            assert len(asked_again) < 10, "for as long as a session lasts, it was asked in vain"
            broker.kill()
            broker.start()
            eventually(lambda: answers() == {number: {SPANS: 0, LOGS: 0} for number in (0, 1)}, "the ends")
    finally:
        member.close()


def test_a_member_whose_place_another_takes_says_that_it_failed(broker: Broker) -> None:
    settings = KafkaSettings(brokers=[broker.address], instance_id="a", traces_topic="spans", logs_topic="logs")
    for topic in ("spans", "logs"):
        broker.create_topic(topic, 2)
    given: list[dict[int, dict[str, Extent]]] = []
    members = []
    try:
        for count in (1, 2):
            member = GroupConsumer(settings, 0, given.append, lambda numbers, can_commit: None)
            members.append(member)
            eventually(lambda member=member, count=count: member.poll(0.1) or len(given) == count, "partitions")
        with pytest.raises(KafkaFailed, match="Static consumer fenced by other consumer"):
            eventually(lambda: members[0].poll(0.1) and False, "the first to hear of it")
    finally:
        for member in members:
            member.close()
