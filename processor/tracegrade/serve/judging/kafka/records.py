"""Messages of Kafka as journal records; those that cannot be one are counted, named by coordinates, and passed over."""

import logging
import re
import time

from tracegrade.journal.kafka.consume import Message
from tracegrade.journal.kafka.place import number_of
from tracegrade.journal.kafka.settings import KafkaSettings
from tracegrade.journal.record import Encoding, Record
from tracegrade.model.errors import NotTaken
from tracegrade.model.signal import Signal
from tracegrade.model.tenant import DEFAULT_TENANT, checked_tenant
from tracegrade.model.trace import TraceKey
from tracegrade.otlp.repair import finished
from tracegrade.receive.validate import Checked, DamagedError, check, check_in_turns, is_large, repair_in_turns
from tracegrade.telemetry.metrics import Telemetry

TENANT_HEADER = "tenant"

_KEY = re.compile(rb"[0-9a-f]{32}")

logger = logging.getLogger(__name__)


class KafkaRecords:
    """Makes records of messages. What a receiver would refuse or reject is left out here, whoever produced it."""

    def __init__(self, settings: KafkaSettings, max_bytes: int, max_messages: int, telemetry: Telemetry) -> None:
        """Prepare.

        Args:
            settings: name the topics.
            max_bytes: a larger message is not read.
            max_messages: the most protobuf messages in one, as ``receivers.otlp.max_request_messages``.
            telemetry: counts what is left out.
        """
        self._signals = {settings.traces_topic: Signal.TRACES, settings.logs_topic: Signal.LOGS}
        self._max_bytes = max_bytes
        self._max_messages = max_messages
        self._telemetry = telemetry

    def record(self, message: Message, position: int, end: int, clock_ns: int) -> Record | None:
        """The record that `message` is; None when it is malformed, which is counted.

        Args:
            message: of one of the two topics.
            position: of the record in its partition, and `end` that of the next one.
            clock_ns: the receive time is the broker's, but never before this. Where the topic keeps the sender's time,
                it is never after our own clock.
        """
        try:
            tenant = _tenant(message)
            checked = self._checked(message)
        except NotTaken as error:
            self._count(message, error.reason, str(error))
            return None
        received_ns = message.broker_ns
        if not message.has_broker_time:
            self._telemetry.add("tracegrade.kafka.senders_times", topic=message.topic)
            received_ns = min(received_ns, time.time_ns())
        for reason, spans in checked.rejected.items():
            self._count(message, reason, f"{spans} of its spans are left out")
        if texts := checked.repaired.total():
            self._count(message, "not_utf8", f"{texts} of its texts were not UTF-8, and were repaired by U+FFFD")
        return Record(
            position,
            end,
            max(received_ns, clock_ns),
            tenant,
            self._signals[message.topic],
            Encoding.PROTOBUF,
            checked.items,
            checked.payload,
            number_of(self._signals[message.topic], message.partition, message.offset),
        )

    def _checked(self, message: Message) -> Checked:
        value, signal = message.value, self._signals[message.topic]
        if value is None:
            raise NotTaken("empty", "it has no value; expected an OTLP request in protobuf")
        if len(value) > self._max_bytes:
            raise NotTaken("too_large", f"{len(value)} bytes; expected at most {self._max_bytes}")
        checked = self._check_request(signal, value)
        if signal is Signal.TRACES:
            _check_key(message.key, value)
        return checked

    def _check_request(self, signal: Signal, value: bytes) -> Checked:
        if not is_large(Encoding.PROTOBUF, value):
            return check(signal, Encoding.PROTOBUF, value)
        try:
            return finished(check_in_turns(signal, value, self._max_messages))
        except DamagedError:
            return finished(repair_in_turns(signal, value, self._max_messages))

    def _count(self, message: Message, reason: str, text: str) -> None:
        self._telemetry.add("tracegrade.kafka.malformed", topic=message.topic, reason=reason)
        logger.warning(
            "malformed message (%s) in %s, partition %d, offset %d: %s",
            reason,
            message.topic,
            message.partition,
            message.offset,
            text,
        )


def trace_key(message: Message) -> TraceKey | None:
    """The trace that `message` is of, if it is as it should be: then only its content may be wrong."""
    if message.key is None or not _KEY.fullmatch(message.key):
        return None
    try:
        return _tenant(message), bytes.fromhex(message.key.decode())
    except NotTaken:
        return None


def _tenant(message: Message) -> str:
    for name, value in message.headers:
        if name == TENANT_HEADER and value:
            try:
                return checked_tenant(value.decode("utf-8", "backslashreplace"))
            except ValueError as error:
                raise NotTaken("bad_tenant", f"the header {TENANT_HEADER!r}: {error}") from None
    return DEFAULT_TENANT


def _check_key(key: bytes | None, value: bytes) -> None:
    """Spans of one trace are together only where the trace's id is the key; the id must be that of the spans, too."""
    if key is None:
        raise NotTaken("no_key", "it has no key; set partition_traces_by_id: true in the Collector's Kafka exporter")
    if not _KEY.fullmatch(key) or bytes.fromhex(key.decode()) not in value:
        raise NotTaken("other_key", f"its key is {key[:40]!r}; expected the trace id of its spans, as 32 hex digits")
