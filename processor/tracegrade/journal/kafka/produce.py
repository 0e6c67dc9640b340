"""Requests to Kafka, one message for each trace of a request, which counts as taken once the brokers have all of it."""

import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from tracegrade.journal.errors import JournalRefused
from tracegrade.journal.kafka.client import client_config, error_text, library
from tracegrade.journal.kafka.settings import ClientValue, KafkaSettings
from tracegrade.journal.kafka.topics import USUAL_MAX_MESSAGE_BYTES, Topics, examine_topics
from tracegrade.journal.record import Encoding, Entry, Signal
from tracegrade.model.errors import NotTaken
from tracegrade.otlp.by_trace import Part, by_trace
from tracegrade.otlp.pieces import WHOLE_BYTES
from tracegrade.telemetry.metrics import Telemetry

TENANT_HEADER = "tenant"
READ_AGAIN_HEADER = "read_again"  # for judges alone: it was set aside, and was forwarded when it came
UNAVAILABLE = "kafka_unavailable"
MAX_PARTS = 20_000  # messages of one request; so many traces in one are no batch of an SDK or Collector

# Messages that the brokers have not confirmed. Beyond it senders are refused, as with a disk that is too slow.
_WAITING_KIB = 64 * 1024
# Senders wait ten seconds in all: one that is refused after five has the time to try again.
_CONFIRMED_WITHIN_MS = 5000
_OVERHEAD_BYTES = 2048  # of a batch and a message with key and headers, in a broker's bound
_POLL_S = 0.2
_STOP_WITHIN_S = 5.0

logger = logging.getLogger(__name__)


class KafkaJournal:
    """The receivers' end. Any thread may append; a thread of its own hears what the brokers confirm.

    What waits in memory is bounded by ``queue.buffering.max.kbytes``, 64 MiB unless ``journal.kafka.client`` says more.
    """

    def __init__(self, settings: KafkaSettings, telemetry: Telemetry, topics: Topics) -> None:
        """Connect; use `open`."""
        self._settings = settings
        self._telemetry = telemetry
        self._topics = {Signal.TRACES: settings.traces_topic, Signal.LOGS: settings.logs_topic}
        if settings.metrics_topic is not None:
            self._topics[Signal.METRICS] = settings.metrics_topic
        self._first_found = topics
        largest = min(topics.max_message_bytes.values(), default=USUAL_MAX_MESSAGE_BYTES)
        self._max_bytes = int(settings.client.get("message.max.bytes", largest)) - _OVERHEAD_BYTES
        self._kafka = library()
        self._lock = threading.Lock()  # of the counts of what is not confirmed
        self._unconfirmed: set[_Confirmation] = set()
        self._largest = largest
        self._producer = self._new_producer()
        self._closed = threading.Event()
        self._dividing = ThreadPoolExecutor(1, thread_name_prefix="kafka-divide")
        self._polling = threading.Thread(target=self._poll, name="kafka-confirmed", daemon=True)
        self._polling.start()

    @classmethod
    def open(cls, settings: KafkaSettings, telemetry: Telemetry) -> "KafkaJournal":
        """Check the topics, and connect.

        Raises:
            KafkaUnfit: Kafka cannot be the journal as it is set up.
        """
        topics = examine_topics(settings)
        topics.say(telemetry.conditions)
        return cls(settings, telemetry, topics)

    @property
    def shared_id(self) -> str | None:
        """Names the journal, as all that write to the same topic name it; None if brokers do not say who they are."""
        cluster = self._first_found.cluster
        return f"{cluster}/{self._settings.traces_topic}" if cluster else None

    def append(self, entry: Entry) -> "Future[int]":
        """Send `entry`.

        Returns:
            How many messages it became, once the brokers have confirmed each. It fails with `JournalRefused` when
            they did not, or when too much waits for them: part of it may be there, and the sender
            sends all of it again.

        Raises:
            JournalRefused: shutting down.
            NotTaken: a span is too large, there are too many traces, or there is no topic for metrics.
        """
        if self._closed.is_set():
            raise JournalRefused("shutting_down", "shutting down; the sender should retry")
        future: Future[int] = Future()
        if len(entry.payload) > WHOLE_BYTES:  # others would wait too long for the loop
            self._dividing.submit(self._divide_and_send, entry, future)
        else:
            self._send(entry, self._parts(entry), future)
        return future

    def examine(self) -> None:
        """Look at the topics again, and whether brokers answer, for conditions; may wait for some seconds.

        Raises:
            KafkaUnfit: the topics are no longer as they must be.
        """
        topics = examine_topics(self._settings)
        topics.compare(self._first_found)
        topics.say(self._telemetry.conditions)
        self._telemetry.conditions.end(UNAVAILABLE)

    def close(self) -> None:
        """Wait some seconds for what is not confirmed, fail the rest, and disconnect; later appends are refused."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._dividing.shutdown()
        self._polling.join()
        with suppress(self._kafka.KafkaException, SystemError):  # as in `_replace`
            self._producer.flush(_STOP_WITHIN_S)
        self._producer.purge()
        self._abandon("shutting down")

    def _divide_and_send(self, entry: Entry, future: "Future[int]") -> None:
        try:
            self._send(entry, self._parts(entry), future)
        except Exception as error:
            future.set_exception(error)

    def _parts(self, entry: Entry) -> Sequence[Part]:
        if entry.signal not in self._topics:
            raise NotTaken(
                "no_metrics_topic",
                "metrics are not taken here: journal.kafka.metrics_topic names no topic; send them elsewhere",
            )
        if entry.signal is Signal.METRICS:
            if len(entry.payload) > self._max_bytes:
                raise self._too_large(f"{len(entry.payload)} bytes of metrics; expected at most {self._max_bytes}")
            return (Part(b"", entry.items, entry.payload),)
        try:
            parts = by_trace(entry.signal, entry.payload, self._max_bytes)
        except NotTaken as error:
            raise self._too_large(str(error)) from None
        if len(parts) > MAX_PARTS:
            raise NotTaken(
                "too_many_traces",
                f"the request holds {len(parts)} traces; expected at most {MAX_PARTS}; send smaller batches",
            )
        return parts

    def _send(self, entry: Entry, parts: Sequence[Part], future: "Future[int]") -> None:
        topic = self._topics[entry.signal]
        headers = [(TENANT_HEADER, entry.tenant.encode())]
        if entry.encoding is Encoding.READ_AGAIN:
            headers.append((READ_AGAIN_HEADER, b"1"))
        producer = self._producer
        confirmation = _Confirmation(self, len(parts), future)
        with self._lock:
            self._unconfirmed.add(confirmation)
        for number, part in enumerate(parts):
            key = part.trace_id.hex().encode() if part.trace_id else None
            try:
                producer.produce(topic, part.payload, key, headers=headers, on_delivery=confirmation.heard)
            except BufferError:
                found = f"Kafka is too slow: {len(producer)} messages wait to be confirmed"
                confirmation.fail(
                    JournalRefused("journal_full", f"{found}; the sender should retry"), len(parts) - number
                )
                return
            except self._kafka.KafkaException as error:
                confirmation.fail(self._failed(error.args[0], topic), len(parts) - number)
                return
        self._telemetry.add("tracegrade.kafka.produced_messages", len(parts), topic=topic)

    def failed(self, error: Any, message: Any) -> Exception:
        """Count that the brokers did not take a message. Returns the error for the sender."""
        reason = error.name().lstrip("_").lower()
        self._telemetry.add("tracegrade.kafka.failed_messages", topic=message.topic(), reason=reason)
        return self._failed(error, message.topic())

    def succeeded(self) -> None:
        """A request was confirmed: brokers take messages."""
        if self._telemetry.conditions.holds(UNAVAILABLE):
            self._telemetry.conditions.end(UNAVAILABLE)

    def _failed(self, error: Any, topic: str) -> Exception:
        text = error_text(error)
        if error.code() == self._kafka.KafkaError.MSG_SIZE_TOO_LARGE:
            return self._too_large(f"topic {topic!r}: {text}")
        found = f"Kafka does not take messages for {topic!r} ({text})"
        self._telemetry.conditions.begin(UNAVAILABLE, found)
        return JournalRefused("journal_unavailable", f"{found}; the sender should retry")

    def _too_large(self, found: str) -> NotTaken:
        return NotTaken("too_large", f"{found}; send less in one, or raise max.message.bytes of the topics and restart")

    def _new_producer(self) -> Any:
        usual: dict[str, ClientValue] = {
            "compression.type": "lz4",
            "message.max.bytes": self._largest,
            "message.timeout.ms": _CONFIRMED_WITHIN_MS,
            "queue.buffering.max.kbytes": _WAITING_KIB,
        }
        own: dict[str, ClientValue] = {"acks": "all", "enable.idempotence": True, "partitioner": "fnv1a_random"}
        return self._kafka.Producer(client_config(self._settings, "receive", usual, own))

    def _poll(self) -> None:
        while not self._closed.is_set():
            try:
                self._producer.poll(_POLL_S)
            except (self._kafka.KafkaException, SystemError) as error:
                self._replace(error)

    def _replace(self, error: Exception) -> None:
        """Go on with another client: what a client's calls raise is final.

        It is a `SystemError` if the library called us once more with the first exception pending; what it wanted to
        tell us is lost then, so nobody may wait for it.
        """
        error = error.__cause__ if isinstance(error.__cause__, self._kafka.KafkaException) else error
        logger.error("the Kafka client failed, and a new one takes its place: %s", error_text(error))
        self._producer = self._new_producer()
        self._abandon("the client failed")

    def _abandon(self, reason: str) -> None:
        """Nothing will be heard any more of what was sent until now."""
        with self._lock:
            abandoned, self._unconfirmed = self._unconfirmed, set()
        for confirmation in abandoned:
            confirmation.abandon(
                JournalRefused("journal_unavailable", f"Kafka has not confirmed it: {reason}; the sender should retry")
            )


class _Confirmation:
    """Messages of one request that are not confirmed yet; settles its future with the last one."""

    __slots__ = ("_error", "_future", "_journal", "_left", "_parts")

    def __init__(self, journal: KafkaJournal, parts: int, future: "Future[int]") -> None:
        self._journal = journal
        self._future = future
        self._parts = self._left = parts
        self._error: Exception | None = None

    def heard(self, error: Any, message: Any) -> None:
        """One message was confirmed, or failed; called by the thread that polls."""
        self._done(1, None if error is None else self._journal.failed(error, message))

    def fail(self, error: Exception, unsent: int) -> None:
        """The last `unsent` messages were not sent."""
        self._done(unsent, error)

    def abandon(self, error: Exception) -> None:
        """Nothing more will be heard."""
        self._done(None, error)

    def _done(self, messages: int | None, error: Exception | None) -> None:
        """Count so many as settled, or all that are left."""
        journal = self._journal
        with journal._lock:
            if not self._left:  # abandoned
                return
            self._left -= self._left if messages is None else messages
            self._error = self._error or error
            if self._left:
                return
            journal._unconfirmed.discard(self)
        if self._error is not None:
            self._future.set_exception(self._error)
        else:
            journal.succeeded()
            self._future.set_result(self._parts)
