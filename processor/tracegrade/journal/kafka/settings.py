"""Which brokers and topics are the journal, and how to reach them; loads no client."""

import re
from collections.abc import Iterable
from hashlib import sha256
from socket import gethostname
from typing import Annotated, Self

from pydantic import AfterValidator, Field, PrivateAttr, ValidationInfo, field_serializer, model_validator

from tracegrade.document.address import address_text
from tracegrade.document.file_model import Duration, FileModel
from tracegrade.document.paths import resolved_path

ClientValue = str | int | float | bool

_BROKER = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^\s:/\[\]@?#,]+):(?P<port>\d{1,5})")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_CLIENT_KEY = re.compile(r"[a-z0-9]+([._][a-z0-9]+)*")
_SECRET = re.compile(r"password|secret|pem$|oauthbearer\.config|token")
_MASKED = "**********"
_PATH = re.compile(r"\.(location|keytab)$")  # of what librdkafka reads
_NO_PATH = "probe"  # looked for in the usual places

# What answering senders, order and committing rest on is not a matter of taste.
_OWN = {
    "acks": "every answer waits for all in-sync replicas",
    "auto.offset.reset": "a new group starts at the first message",
    "bootstrap.servers": "it is journal.kafka.brokers",
    "enable.auto.commit": "positions are committed behind what is judged and stored",
    "enable.auto.offset.store": "positions are committed behind what is judged and stored",
    "enable.idempotence": "a message is written once and in order",
    "group.id": "it is journal.kafka.group",
    "group.instance.id": "it is journal.kafka.instance_id",
    "metadata.broker.list": "it is journal.kafka.brokers",
    "partition.assignment.strategy": "only range gives one judge the spans and the log records of a trace",
    "partitioner": "only fnv1a agrees with the Collector's Kafka exporter",
    "request.required.acks": "every answer waits for all in-sync replicas",
    "transactional.id": "each message is confirmed by itself, and nobody begins a transaction",
}


def _broker(broker: str) -> str:
    match = _BROKER.fullmatch(broker)
    if match is None or not 0 < int(match["port"]) < 65536:
        raise ValueError(f"expected host:port, found {broker!r}; Kafka usually listens on 9092")
    return broker


def _topic(name: str) -> str:
    if not _TOPIC.fullmatch(name) or name in (".", ".."):
        raise ValueError(f"expected a topic's name of letters, digits, '.', '_' and '-', found {name!r}")
    return name


def _checked_client(client: dict[str, ClientValue], info: ValidationInfo) -> dict[str, ClientValue]:
    for key in client:
        if not _CLIENT_KEY.fullmatch(key):
            raise ValueError(f"expected a setting of librdkafka such as 'security.protocol', found {key!r}")
        if reason := _OWN.get(key):
            raise ValueError(f"{key!r} cannot be set here: {reason}; remove it")
    return {
        key: resolved_path(value, info) if isinstance(value, str) and _PATH.search(key) and value != _NO_PATH else value
        for key, value in client.items()
    }


Topic = Annotated[str, AfterValidator(_topic)]


class KafkaSettings(FileModel):
    """``journal.kafka:`` in the configuration file; its presence makes Kafka the journal."""

    brokers: list[Annotated[str, address_text("broker:9092"), AfterValidator(_broker)]] = Field(
        min_length=1, description="host:port of some brokers; they name the others"
    )
    traces_topic: Topic = Field("otlp_spans", description="Spans, one message a trace and request, keyed by trace id")
    logs_topic: Topic = Field(
        "otlp_logs", description="Log records, keyed alike; must have as many partitions as traces_topic"
    )
    metrics_topic: Topic | None = Field(
        None,
        description="Metrics, which are only forwarded; null: they are refused, and senders told not to retry",
    )
    group: str = Field("tracegrade-judge", min_length=1, description="Consumer group of the judges")
    client: Annotated[dict[str, ClientValue], AfterValidator(_checked_client)] = Field(
        default_factory=dict,
        description="Settings of the client librdkafka, such as security.protocol, sasl.username, ssl.ca.location",
    )
    instance_id: str | None = Field(
        None,
        min_length=1,
        description="Name of this instance in its consumer groups; another one for each instance, and the same after a "
        "restart; null: the host's name",
    )
    clock_skew: Duration = Field(
        2.0,
        ge=0,
        description="How far this machine's clock may be from the brokers'. Once a partition is read to its end, time "
        "there goes on by our clock less this",
    )

    _instance: str = PrivateAttr("")

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        topics = [topic for topic in (self.traces_topic, self.logs_topic, self.metrics_topic) if topic is not None]
        if twice := next((topic for topic in topics if topics.count(topic) > 1), None):
            raise ValueError(f"{twice!r} is named for two signals; give each its own topic")
        if not self.is_static and self.instance_id is not None:
            raise ValueError(
                "instance_id does not go with 'group.protocol: consumer': a judge that was killed would be kept out of "
                "its group for 45 s by the brokers' default; remove one of the two"
            )
        if (protocol := self.client.get("group.protocol", "classic")) not in ("classic", "consumer"):
            raise ValueError(f"client: group.protocol: expected classic or consumer, found {protocol!r}")
        return self

    @field_serializer("client", when_used="json")
    def _without_secrets(self, client: dict[str, ClientValue]) -> dict[str, ClientValue]:
        return {key: _MASKED if _SECRET.search(key) else value for key, value in client.items()}

    @property
    def is_static(self) -> bool:
        """Whether members of groups have a name of their own, by which they take their partitions back at once."""
        return self.client.get("group.protocol") != "consumer"

    def of_instance(self, instance: str) -> Self:
        """The same for the instance with this id, which its data folder holds: its clients have it in their names."""
        own = self.model_copy()
        own._instance = instance
        return own

    def client_id(self, role: str) -> str:
        """The ``client.id`` of what does this, unless ``client`` says another: ``tracegrade-ROLE-INSTANCE``."""
        return "-".join(filter(None, ("tracegrade", role, self._instance)))

    def member_id(self, worker: int, topics: Iterable[str]) -> str | None:
        """The ``group.instance.id`` of the judge's worker `worker` (from 0) that reads `topics`; None without one.

        A member that comes back within its session with the same id gets the partitions that it had, also where it
        asks for other topics by now. So the id says which topics it reads.
        """
        if not self.is_static:
            return None
        reads = sha256("\n".join(sorted(topics)).encode()).hexdigest()[:8]
        return f"{self.instance_id or gethostname()}-{worker}-{reads}"
