"""Whether the topics are as a journal needs them: looked at when a process starts, and now and then while it runs."""

from dataclasses import dataclass, field
from typing import Any

from tracegrade.journal.errors import KafkaAway, KafkaUnfit
from tracegrade.journal.kafka.client import asking_config, check_client, error_text, library
from tracegrade.journal.kafka.settings import KafkaSettings
from tracegrade.telemetry.conditions import Conditions

ANSWERS_WITHIN_S = 10.0
UNFIT = "kafka_unfit"
USUAL_MAX_MESSAGE_BYTES = 1_048_588  # of a broker that nobody changed
_DESCRIBED_WITHIN_S = 3.0
_SMALLEST_MAX_MESSAGE_BYTES = 64 * 1024
_LEAST_IN_SYNC = 2


@dataclass(slots=True)
class Topics:
    """What was found. ``partitions`` and ``max_message_bytes`` are by topic; ``warnings`` are sentences by topic.

    ``cluster`` is the id that the brokers share; "" if they say none.
    """

    cluster: str = ""
    partitions: dict[str, int] = field(default_factory=dict)
    max_message_bytes: dict[str, int] = field(default_factory=dict)
    warnings: dict[str, list[str]] = field(default_factory=dict)

    def warn(self, topic: str, sentence: str) -> None:
        """Note what should be otherwise, and does not stop the start."""
        self.warnings.setdefault(topic, []).append(sentence)

    def compare(self, first: "Topics") -> None:
        """Warn of partitions that were added since `first`: keys belong elsewhere now."""
        for topic, count in self.partitions.items():
            if count != (before := first.partitions.get(topic, count)):
                self.warn(
                    topic,
                    f"it has {count} partitions now and had {before}: traces that are open are judged in parts; "
                    "restart every process once they are closed",
                )

    def say(self, conditions: Conditions) -> None:
        """Make conditions of the warnings; ends those that are over."""
        for topic in self.partitions:
            conditions.say(UNFIT, "; ".join(self.warnings.get(topic, ())) or None, topic)


def topic_names(settings: KafkaSettings) -> list[str]:
    """The topics of the journal: of traces, of logs, and of metrics if there is one."""
    return [topic for topic in (settings.traces_topic, settings.logs_topic, settings.metrics_topic) if topic]


def examine_topics(settings: KafkaSettings, *, wait_s: float = ANSWERS_WITHIN_S) -> Topics:
    """Look at the topics; changes nothing, and creates none.

    Args:
        settings: which brokers and topics.
        wait_s: how long a broker may take to answer.

    Raises:
        KafkaUnfit: the extra is missing, the client's settings are wrong, no broker answers, a topic is missing, the
            counts of partitions differ, or a topic's time is not the brokers'.
    """
    check_client(settings)
    kafka = library()
    from confluent_kafka.admin import AdminClient

    admin = AdminClient(asking_config(settings))
    try:
        metadata = admin.list_topics(timeout=wait_s)
    except kafka.KafkaException as error:
        raise KafkaAway(
            f"journal.kafka.brokers: none of {', '.join(settings.brokers)} answers within {wait_s:g} s "
            f"({error_text(error)}); start Kafka, or correct the addresses or journal.kafka.client"
        ) from None
    found = Topics(metadata.cluster_id or "")
    described = _described(admin, topic_names(settings), has_controller=metadata.controller_id >= 0)
    for name in topic_names(settings):
        topic = metadata.topics.get(name)
        if topic is None or topic.error is not None:
            raise KafkaUnfit(
                f"journal.kafka: there is no topic {name!r}, or we may not see it; create it, with as many partitions "
                "as the others and message.timestamp.type=LogAppendTime"
            )
        found.partitions[name] = len(topic.partitions)
        replicas = min(len(each.replicas) for each in topic.partitions.values())
        _look_at_settings(name, described[name], replicas, found)
    traces, logs = found.partitions[settings.traces_topic], found.partitions[settings.logs_topic]
    if traces != logs:
        raise KafkaUnfit(
            f"journal.kafka: {settings.traces_topic!r} has {traces} partitions and {settings.logs_topic!r} {logs}; "
            "expected as many, so that one judge gets the spans and the log records of a trace"
        )
    return found


def _look_at_settings(name: str, described: dict[str, str] | str, replicas: int, found: Topics) -> None:
    if isinstance(described, str):
        found.warn(name, f"its settings cannot be read ({described}); message.timestamp.type must be LogAppendTime")
        return
    if (stamped := described["message.timestamp.type"]) != "LogAppendTime":
        raise KafkaUnfit(
            f"journal.kafka: topic {name!r}: expected message.timestamp.type LogAppendTime, found {stamped}: the "
            "senders' clocks would say when a trace is complete; change it: kafka-configs.sh --alter --topic "
            f"{name} --add-config message.timestamp.type=LogAppendTime"
        )
    largest = found.max_message_bytes[name] = int(described["max.message.bytes"])
    if largest < _SMALLEST_MAX_MESSAGE_BYTES:
        raise KafkaUnfit(
            f"journal.kafka: topic {name!r}: max.message.bytes is {largest}; expected {_SMALLEST_MAX_MESSAGE_BYTES} or "
            "more: a span with prompts is larger"
        )
    in_sync = int(described["min.insync.replicas"])
    if replicas > 1 and in_sync < _LEAST_IN_SYNC:
        found.warn(
            name,
            f"min.insync.replicas is {in_sync} with {replicas} replicas: what was answered may be on one broker alone; "
            "set it to 2",
        )


def _described(admin: Any, names: list[str], *, has_controller: bool) -> dict[str, dict[str, str] | str]:
    """The settings of each topic, or why they are not known: brokers may forbid to ask."""
    kafka = library()
    from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined]  # its stub forgets it

    if not has_controller:  # asking would take all the time there is
        return dict.fromkeys(names, "the cluster has no controller")
    resources = {ConfigResource(ConfigResource.Type.TOPIC, name): name for name in names}
    found: dict[str, dict[str, str] | str] = {}
    for resource, asked in admin.describe_configs(list(resources), request_timeout=_DESCRIBED_WITHIN_S).items():
        try:
            found[resources[resource]] = {key: entry.value for key, entry in asked.result().items()}
        except kafka.KafkaException as error:
            found[resources[resource]] = error_text(error)
    return found
