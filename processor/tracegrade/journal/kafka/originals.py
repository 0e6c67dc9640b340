"""The journal's messages as one exporter gets them: through a consumer group of its own, shared by all receivers."""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from tracegrade.journal.errors import KafkaUnfit
from tracegrade.journal.kafka.client import client_config, error_text, is_final, library
from tracegrade.journal.kafka.produce import READ_AGAIN_HEADER, TENANT_HEADER
from tracegrade.journal.kafka.settings import ClientValue, KafkaSettings
from tracegrade.model.signal import Signal
from tracegrade.model.tenant import DEFAULT_TENANT

Place = tuple[str, int]  # a topic and one of its partitions

_SESSION_MS = 10_000
# Of all partitions together: what is fetched ahead is memory in addition to what is under way.
_FETCHED_KIB = 16 * 1024

logger = logging.getLogger(__name__)


class Original(NamedTuple):
    """One message: a request with what is of one trace, or metrics. With ``read_again`` it is for judges alone.

    ``tenant`` is as its header has it, which others may have written.
    """

    place: Place
    signal: Signal
    offset: int
    payload: bytes
    read_again: bool
    tenant: str


class Originals:
    """One member of the group; for one thread at a time. `lost` is called from within `read` and `close`."""

    def __init__(
        self, settings: KafkaSettings, group: str, topics: Mapping[str, Signal], lost: Callable[[], object]
    ) -> None:
        """Join the group, which begins at the first message there is.

        Args:
            settings: brokers, and this instance's name in its groups.
            group: the group's name; every exporter has another.
            topics: what it reads, and the signal of each.
            lost: called while positions can still be committed: all that was read and is not committed may be read by
                another member now.

        Raises:
            KafkaUnfit: a client cannot be made with these settings.
        """
        self._kafka = library()
        self._failed: Any = None
        self._paused: list[Any] = []
        self._kept: list[Original] = []  # that came while nothing was to be read
        self._was_lost = False
        self._lost = lost
        self._signals = topics
        usual: dict[str, ClientValue] = {
            "session.timeout.ms": _SESSION_MS,
            "queued.max.messages.kbytes": _FETCHED_KIB,
        }
        if not settings.is_static:
            del usual["session.timeout.ms"]  # it is the brokers' then
        own: dict[str, ClientValue] = {
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
        }
        if (member := settings.member_id(0, topics)) is not None:
            own["group.instance.id"] = member
        config = {**client_config(settings, group, usual, own), "error_cb": self._note}
        try:
            self._consumer = self._kafka.Consumer(config)
        except (self._kafka.KafkaException, ValueError) as error:
            raise KafkaUnfit(f"journal.kafka.client: {error_text(error)}") from None
        self._consumer.subscribe(list(topics), on_revoke=self._on_revoke, on_lost=self._on_revoke)

    def read(self, most: int, within_s: float) -> list[Original]:
        """The next messages of all partitions, at most `most`; none after `within_s` seconds without.

        Raises:
            KafkaUnfit: the client has failed for good; make another one.
        """
        if self._paused:
            with suppress(self._kafka.KafkaException):  # they are not ours any more
                self._consumer.resume(self._paused)
            self._paused = []
        found, self._kept = self._kept, []
        while len(found) < most and (message := self._consumer.poll(0 if found else within_s)) is not None:
            if self._was_lost:  # what was read before is read again, here or elsewhere
                found, self._was_lost = [], False
            if message.error() is not None:
                self._note(message.error())
            else:
                found.append(self._original(message))
        if self._was_lost:
            found, self._was_lost = [], False
        if self._failed is not None:
            raise KafkaUnfit(f"journal.kafka: a client failed for good: {error_text(self._failed)}")
        return found

    def stay(self) -> None:
        """Remain a member without reading, while what was read waits; call it every few seconds."""
        if not self._paused:
            self._paused = self._consumer.assignment()
            with suppress(self._kafka.KafkaException):  # the same
                self._consumer.pause(self._paused)
        message = self._consumer.poll(0)
        if message is not None and message.error() is not None:
            self._note(message.error())
        elif message is not None:
            self._kept.append(self._original(message))

    def waiting(self) -> int:
        """The messages of this member's partitions that are not read yet, as far as the client knows."""
        waiting = 0
        with suppress(self._kafka.KafkaException):  # partitions move
            for place in self._consumer.position(self._consumer.assignment()):
                _, end = self._consumer.get_watermark_offsets(place, cached=True)
                waiting += max(0, end - place.offset) if place.offset >= 0 else 0
        return waiting

    def commit(self, offsets: Mapping[Place, int]) -> bool:
        """Begin at these offsets after a restart. Returns whether the brokers have them; it may be tried again."""
        wanted = [self._kafka.TopicPartition(*place, offset) for place, offset in offsets.items()]
        try:
            self._consumer.commit(offsets=wanted, asynchronous=False)
        except self._kafka.KafkaException as error:
            logger.warning("positions of a forwarder are not committed: %s", error_text(error))
            return False
        return True

    def close(self) -> None:
        """Leave."""
        self._consumer.close()

    def _on_revoke(self, consumer: Any, places: Sequence[Any]) -> None:
        self._paused = []
        self._kept = []
        self._was_lost = True
        self._lost()

    def _note(self, error: Any) -> None:
        if is_final(error):
            self._failed = error
        elif not error.retriable():
            logger.warning("Kafka, while forwarding: %s", error_text(error))

    def _original(self, message: Any) -> Original:
        headers = message.headers() or ()
        again = any(name == READ_AGAIN_HEADER for name, _ in headers)
        named = (
            value.decode("utf-8", "backslashreplace") for name, value in headers if name == TENANT_HEADER and value
        )
        tenant = next(named, DEFAULT_TENANT)
        topic = message.topic()
        place = (topic, message.partition())
        return Original(place, self._signals[topic], message.offset(), message.value() or b"", again, tenant)
