"""A member of the judges' consumer group: messages of its partitions, and positions committed when they are done.

The classic protocol with the ``range`` assignor, because only it gives the same partition numbers of both topics to one
member: the spans and the log records of a trace. Members are static where the settings allow it, so that a judge that
was killed takes its partitions back as soon as it runs again.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, NamedTuple

from tracegrade.journal.errors import JournalError, KafkaUnfit
from tracegrade.journal.kafka.client import client_config, error_text, is_final, library
from tracegrade.journal.kafka.settings import ClientValue, KafkaSettings

TopicPart = tuple[str, int]  # a topic, and the number of one of its partitions

_ANSWERS_WITHIN_S = 10.0
_ASKS_AGAIN_S = 0.2
_ENDS_WITHIN_S = 1.0
_SESSION_MS = 10_000
_MS = 1_000_000
# Of all partitions together: what is fetched and not read is memory that no bound of ours counts.
_FETCHING: dict[str, ClientValue] = {
    "queued.max.messages.kbytes": 16 * 1024,
    "fetch.max.bytes": 8 * 1024 * 1024,
    "fetch.queue.backoff.ms": 50,
    "reconnect.backoff.max.ms": 1000,
}
_READING: dict[str, ClientValue] = {
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
}

logger = logging.getLogger(__name__)


class KafkaFailed(JournalError):
    """The client cannot go on: another one has to take its place."""


class Message(NamedTuple):
    """One message. ``broker_ns`` is when the broker took it in, ns since 1970 UTC.

    ``has_broker_time`` is False when the topic keeps the sender's time instead; then ``broker_ns`` is that.
    """

    topic: str
    partition: int
    offset: int
    broker_ns: int
    has_broker_time: bool
    key: bytes | None
    headers: list[tuple[str, bytes | None]]
    value: bytes | None


def message_of(found: Any, kafka: Any) -> Message:
    """What the library `kafka` gave, which is no error."""
    kind, time_ms = found.timestamp()
    return Message(
        found.topic(),
        found.partition(),
        found.offset(),
        max(time_ms, 0) * _MS,
        kind == kafka.TIMESTAMP_LOG_APPEND_TIME,
        found.key(),
        found.headers() or [],
        found.value(),
    )


class EndReached(NamedTuple):
    """Everything of this topic's partition before ``offset`` was fetched, and there is no more at the moment."""

    topic: str
    partition: int
    offset: int


class Extent(NamedTuple):
    """What one topic has of a partition: reading begins at ``start``, the next message will have offset ``end``.

    ``lost`` counts the messages that were deleted before this group had read them.
    """

    start: int
    end: int
    lost: int


Assigned = Callable[[dict[int, dict[str, Extent]]], None]  # partition number -> topic -> what there is
Revoked = Callable[[list[int], bool], None]  # partition numbers; whether positions can still be committed


class GroupConsumer:
    """One member of the group. Not for use by two threads at once; callbacks are called from within `poll`."""

    def __init__(self, settings: KafkaSettings, worker: int, assigned: Assigned, revoked: Revoked) -> None:
        """Join the group, with the first `poll`.

        Args:
            settings: brokers, topics, and the group.
            worker: the number of this judge's worker, which is part of its name in the group.
            assigned: called with partitions that this member reads from now on.
            revoked: called with those that it no longer reads, while their positions can still be committed; or
                with False when it is too late for that.

        Raises:
            KafkaUnfit: the client refuses a setting, or the extra is missing.
        """
        self._kafka = library()
        self._settings, self._worker = settings, worker
        self._topics = (settings.traces_topic, settings.logs_topic)
        self._assigned = assigned
        self._revoked = revoked
        self._is_static = settings.is_static
        self._failure: JournalError | None = None
        self._asked: dict[TopicPart, Future[Any]] = {}
        self.lost_brokers = 0  # how often all connections were lost: then ends are not what they were
        try:
            self._consumer = self._kafka.Consumer(self._config(settings, worker))
            self._admin = self._new_admin()
            self._consumer.subscribe(
                list(self._topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
            )
        except (self._kafka.KafkaException, ValueError) as error:
            raise KafkaUnfit(f"journal.kafka.client: {error_text(error)}") from None

    def _new_admin(self) -> Any:
        """A client that asks, with own connections: on the consumer's, a question waits for a fetch, for 0.5 s."""
        from confluent_kafka.admin import AdminClient

        return AdminClient(client_config(self._settings, f"judge-{self._worker}-ends"))

    def _config(self, settings: KafkaSettings, worker: int) -> dict[str, Any]:
        usual: dict[str, ClientValue] = dict(_FETCHING)
        own: dict[str, ClientValue] = {**_READING, "group.id": settings.group}
        if settings.is_static:
            usual["session.timeout.ms"] = _SESSION_MS
            own["partition.assignment.strategy"] = "range"
        else:
            own["group.remote.assignor"] = "range"
        if (member := settings.member_id(worker, self._topics)) is not None:
            own["group.instance.id"] = member
        return client_config(settings, f"judge-{worker}", usual, own) | {"error_cb": self._note_error}

    def poll(self, within_s: float) -> Message | EndReached | None:
        """The next message of any partition, waiting for it at most `within_s` seconds.

        Raises:
            KafkaFailed: the client has failed for good.
            KafkaUnfit: topics and partitions are not what they must be.
        """
        found = self._consumer.poll(within_s)
        if self._failure is not None:
            raise self._failure
        if found is None:
            return None
        if (error := found.error()) is not None:
            if error.code() == self._kafka.KafkaError._PARTITION_EOF:
                return EndReached(found.topic(), found.partition(), found.offset())
            self._note_error(error)
            return None
        return message_of(found, self._kafka)

    def ask_for_ends(self, partitions: Iterable[int]) -> None:
        """Ask the brokers which offsets the next messages of these partitions will have; nothing while that is asked.

        `ends` has the answers once they are here.
        """
        if not self._asked:
            parts = [(topic, number) for number in partitions for topic in self._topics]
            self._asked = self._ask(parts, "latest", _ENDS_WITHIN_S)

    def ends(self) -> dict[int, dict[str, int]]:
        """The answers to `ask_for_ends`, by partition and topic: none until all are here; what failed is left out."""
        if not all(future.done() for future in self._asked.values()):
            return {}
        asked, self._asked = self._asked, {}
        found: dict[int, dict[str, int]] = {}
        self._forget_leaders(future.exception() for future in asked.values())
        for (topic, number), future in asked.items():
            if (error := future.exception()) is not None:
                logger.warning("where %s/%d ends is not known: %s", topic, number, error_text(error))
            else:
                found.setdefault(number, {})[topic] = future.result().offset
        return {number: ends for number, ends in found.items() if len(ends) == len(self._topics)}

    def forget_ends(self) -> None:
        """Ask for the ends anew: those that were asked for are too old."""
        self._asked = {}

    def partition_counts(self) -> dict[str, int]:
        """The number of partitions of both topics; a topic is left out if no broker says so."""
        try:
            found = self._admin.list_topics(timeout=_ENDS_WITHIN_S).topics
        except self._kafka.KafkaException:
            return {}
        return {topic: len(found[topic].partitions) for topic in self._topics if topic in found}

    def commit(self, offsets: Mapping[TopicPart, int], *, wait: bool) -> None:
        """Begin at these offsets after a restart, or after a move to another member.

        A commit that fails is logged: what it would have said is read again, which changes no result.
        """
        if not offsets:
            return
        wanted = [self._kafka.TopicPartition(*part, offset) for part, offset in offsets.items()]
        try:
            self._consumer.commit(offsets=wanted, asynchronous=not wait)
        except self._kafka.KafkaException as error:
            logger.warning("positions are not committed: %s", error_text(error))

    def pause(self, parts: Iterable[TopicPart]) -> None:
        """Fetch nothing of these until `resume`; `poll` must go on, or the group takes them away."""
        self._consumer.pause([self._kafka.TopicPartition(*part) for part in parts])

    def resume(self, parts: Iterable[TopicPart]) -> None:
        """Fetch them again."""
        self._consumer.resume([self._kafka.TopicPartition(*part) for part in parts])

    def close(self) -> None:
        """Leave; a static member's partitions wait for it for the session's 10 s."""
        self._consumer.close()

    def _ask(self, parts: Iterable[TopicPart], which: str, within_s: float) -> dict[TopicPart, "Future[Any]"]:
        """Ask for the earliest or the latest offsets of `parts`."""
        from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]  # its stub forgets it

        wanted = {self._kafka.TopicPartition(*part): getattr(OffsetSpec, which)() for part in parts}
        if not wanted:
            return {}
        asked = self._admin.list_offsets(wanted, request_timeout=within_s)
        return {(part.topic, part.partition): future for part, future in asked.items()}

    def _limits(self, parts: Collection[TopicPart]) -> dict[TopicPart, tuple[int, int]]:
        """The offsets of the first message of each part, and of the next one."""
        until_s = time.monotonic() + _ANSWERS_WITHIN_S
        while True:
            first, following = (self._ask(parts, which, _ANSWERS_WITHIN_S) for which in ("earliest", "latest"))
            try:
                return {part: (first[part].result().offset, following[part].result().offset) for part in parts}
            except self._kafka.KafkaException as error:  # as after the restart of a broker, until it is known anew
                if time.monotonic() > until_s:
                    raise
                logger.warning("where partitions begin and end is not known: %s; asking again", error_text(error))
                self._forget_leaders([error])
                time.sleep(_ASKS_AGAIN_S)

    def _forget_leaders(self, errors: Iterable[BaseException | None]) -> None:
        """A client that knew the leaders before a broker's restart goes on asking those, in vain: use another one."""
        fenced = self._kafka.KafkaError.FENCED_LEADER_EPOCH
        if any(isinstance(each, self._kafka.KafkaException) and each.args[0].code() == fenced for each in errors):
            self._admin = self._new_admin()
            self._asked = {}  # what the old one was asked is never answered once it is gone

    def _on_assign(self, consumer: Any, parts: list[Any]) -> None:
        try:
            found = self._found(parts)
        except (self._kafka.KafkaException, KafkaUnfit) as error:
            # Raised from within a callback it would reach only the log of the client.
            self._failure = error if isinstance(error, KafkaUnfit) else _failed(error)
            return
        for part in parts:
            part.offset = found[part.partition][part.topic].start
        if self._is_static:
            consumer.assign(parts)
        else:
            consumer.incremental_assign(parts)
        self._assigned(found)

    def _found(self, parts: list[Any]) -> dict[int, dict[str, Extent]]:
        numbers = {topic: {part.partition for part in parts if part.topic == topic} for topic in self._topics}
        alone = numbers[self._topics[0]] ^ numbers[self._topics[1]]
        if alone:
            raise KafkaUnfit(
                f"journal.kafka: this judge was given only one of partitions {min(alone)} of {self._topics[0]!r} and "
                f"{self._topics[1]!r}; both topics must have as many partitions, and all members of the group must "
                "use partition.assignment.strategy=range"
            )
        found: dict[int, dict[str, Extent]] = {}
        limits = self._limits([(part.topic, part.partition) for part in parts])
        for committed in self._consumer.committed(parts, timeout=_ANSWERS_WITHIN_S) if parts else ():
            part = (committed.topic, committed.partition)
            low, high = limits[part]
            start = committed.offset if committed.offset >= 0 else low
            lost = max(0, low - start)
            if start > high:
                logger.error(
                    "%s/%d ends at %d, but was read up to %d: the topic was made anew; it is read from its beginning",
                    *part,
                    high,
                    start,
                )
                start = low
            found.setdefault(part[1], {})[part[0]] = Extent(max(start, low), high, lost)
        return found

    def _on_revoke(self, consumer: Any, parts: list[Any]) -> None:
        self._revoked(sorted({part.partition for part in parts}), True)

    def _on_lost(self, consumer: Any, parts: list[Any]) -> None:
        self._revoked(sorted({part.partition for part in parts}), False)

    def _note_error(self, error: Any) -> None:
        if is_final(error):
            self._failure = _failed(error)
        elif error.code() == self._kafka.KafkaError._ALL_BROKERS_DOWN:
            self.lost_brokers += 1
            logger.warning("no broker of journal.kafka.brokers answers: %s; trying again", error.str())
        elif error.code() != self._kafka.KafkaError._TRANSPORT:
            logger.warning("Kafka: %s", error.str())


def _failed(error: object) -> KafkaFailed:
    return KafkaFailed(f"journal.kafka: the client cannot go on, and another one joins: {error_text(error)}")
