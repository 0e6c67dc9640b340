"""A member of the judges' group, by itself."""

import socket

import pytest
from confluent_kafka import KafkaError, KafkaException

from tracegrade.journal.kafka.consume import GroupConsumer
from tracegrade.journal.kafka.settings import KafkaSettings
from waiting import eventually


def test_where_topics_end_is_asked_again_when_the_client_that_was_asked_is_given_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = KafkaSettings(brokers=[f"127.0.0.1:{silent.getsockname()[1]}"], instance_id="a")
        member = GroupConsumer(settings, 0, lambda found: None, lambda numbers, can_commit: None)

        def has_heard() -> bool:
            member.ask_for_ends([0])
            member.ends()
            return "where otlp_spans/0 ends is not known" in caplog.text

        try:
            member.ask_for_ends([0])
            member._forget_leaders([KafkaException(KafkaError(KafkaError.FENCED_LEADER_EPOCH))])
            eventually(has_heard, "that it is not known, as it is asked")
        finally:
            member.close()
