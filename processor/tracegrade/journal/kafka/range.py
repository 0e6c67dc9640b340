"""Messages of a time range, read again by who is no member of any group: replay.

What lies in the range is settled at the start, by offsets. All partitions of all topics are read at once and merged in
the order of the brokers' times, so that log records come with their spans, and traces of one session together.
"""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import Any, Self

from tracegrade.journal.errors import KafkaUnfit
from tracegrade.journal.kafka.client import asking_config, error_text, library
from tracegrade.journal.kafka.consume import Message, TopicPart, message_of
from tracegrade.journal.kafka.settings import KafkaSettings

_ANSWERS_WITHIN_S = 10.0
_POLL_S = 0.2
_MS = 1_000_000
# Messages of a partition that wait for those of others: beyond this it is not fetched any more, below it is again.
_MOST_WAITING = 256
_FEW_WAITING = 64


class RangeReader:
    """Reads once; used as a context, which closes it."""

    def __init__(
        self, settings: KafkaSettings, topics: Sequence[str], since_ns: int | None, until_ns: int | None
    ) -> None:
        """Ask the brokers what there is.

        Args:
            settings: which brokers.
            topics: what to read.
            since_ns: by the brokers' time, ns since 1970 UTC; None: from the first message there is.
            until_ns: what came at this time or later is not read; None: up to what there is now.

        Raises:
            KafkaUnfit: no broker answers, there is no such topic, or the extra is missing.
        """
        self._kafka = library()
        # A group must be named; nothing is asked of it or told to it.
        config = asking_config(
            settings, group_id="tracegrade-replay", enable_auto_commit=False, enable_partition_eof=True
        )
        self._error: Any = None
        try:
            self._consumer = self._kafka.Consumer(config | {"error_cb": self._note})
        except (self._kafka.KafkaException, ValueError) as error:
            raise KafkaUnfit(f"journal.kafka.client: {error_text(error)}") from None
        try:
            self._extents = self._found(topics, since_ns, until_ns)
        except self._kafka.KafkaException as error:
            self._consumer.close()
            brokers = ", ".join(settings.brokers)
            raise KafkaUnfit(f"journal.kafka: {brokers} do not say what there is: {error_text(error)}") from None
        except KafkaUnfit:
            self._consumer.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    @property
    def total(self) -> int:
        """The most messages that `messages` gives."""
        return sum(end - start for start, end in self._extents.values())

    def messages(self) -> Iterator[Message]:
        """All messages of the range, in the order of the brokers' times; to be called once.

        Raises:
            KafkaUnfit: the brokers answer no more.
        """
        waiting: dict[TopicPart, deque[Message]] = {part: deque() for part in self._extents}
        lacking = set(waiting)  # nothing of them is here, and there is more to come
        unfinished = set(waiting)
        heads: list[tuple[int, TopicPart]] = []
        paused: set[TopicPart] = set()
        self._consumer.assign([self._kafka.TopicPartition(*part, start) for part, (start, _) in self._extents.items()])
        while unfinished or heads:
            while heads and not lacking:
                _, part = heappop(heads)
                queue = waiting[part]
                yield queue.popleft()
                if queue:
                    heappush(heads, (queue[0].broker_ns, part))
                elif part in unfinished:
                    lacking.add(part)
                if part in paused and part in unfinished and len(queue) < _FEW_WAITING:
                    paused.remove(part)
                    self._consumer.resume([self._kafka.TopicPartition(*part)])
            if not unfinished:
                continue
            part, message, is_last = self._next()
            if part not in unfinished:
                continue
            queue = waiting[part]
            if message is not None:
                if not queue:
                    heappush(heads, (message.broker_ns, part))
                    lacking.discard(part)
                queue.append(message)
            if is_last:
                unfinished.discard(part)
                lacking.discard(part)
            if is_last or (len(queue) > _MOST_WAITING and part not in paused):
                self._consumer.pause([self._kafka.TopicPartition(*part)])
                paused.add(part)

    def _next(self) -> tuple[TopicPart, Message | None, bool]:
        """What comes next: its partition, a message of the range, if it is one, and whether it is its last one."""
        until_s = time.monotonic() + _ANSWERS_WITHIN_S
        while (found := self._consumer.poll(_POLL_S)) is None or self._is_error(found):
            if time.monotonic() > until_s:
                reason = f": {error_text(self._error)}" if self._error is not None else ""
                raise KafkaUnfit(f"journal.kafka: nothing comes for {_ANSWERS_WITHIN_S:.0f} s{reason}")
        part = (found.topic(), found.partition())
        end = self._extents[part][1]
        if found.error() is not None:
            return part, None, found.offset() >= end
        is_in_range = found.offset() < end
        return part, message_of(found, self._kafka) if is_in_range else None, found.offset() >= end - 1

    def _is_error(self, found: Any) -> bool:
        error = found.error()
        if error is None or error.code() == self._kafka.KafkaError._PARTITION_EOF:
            return False
        self._note(error)
        return True

    def _note(self, error: Any) -> None:
        self._error = error

    def _found(
        self, topics: Sequence[str], since_ns: int | None, until_ns: int | None
    ) -> dict[TopicPart, tuple[int, int]]:
        known = self._consumer.list_topics(timeout=_ANSWERS_WITHIN_S).topics
        for topic in topics:
            if topic not in known or known[topic].error is not None:
                raise KafkaUnfit(f"journal.kafka: there is no topic {topic!r}, or we may not see it")
        parts = [(topic, number) for topic in topics for number in known[topic].partitions]
        limits = {
            part: self._consumer.get_watermark_offsets(self._kafka.TopicPartition(*part), timeout=_ANSWERS_WITHIN_S)
            for part in parts
        }
        lows, highs = ({part: limit[place] for part, limit in limits.items()} for place in (0, 1))
        starts = lows if since_ns is None else highs | self._offsets_at(parts, since_ns)
        ends = highs if until_ns is None else highs | self._offsets_at(parts, until_ns)
        found = {part: (starts[part], min(ends[part], highs[part])) for part in parts}
        return {part: (start, end) for part, (start, end) in found.items() if start < end}

    def _offsets_at(self, parts: Sequence[TopicPart], time_ns: int) -> dict[TopicPart, int]:
        """The offsets of the first messages of this time or later, where there are some."""
        wanted = [self._kafka.TopicPartition(*part, max(0, -(-time_ns // _MS))) for part in parts]
        found = self._consumer.offsets_for_times(wanted, timeout=_ANSWERS_WITHIN_S)
        return {(at.topic, at.partition): at.offset for at in found if at.offset >= 0}
