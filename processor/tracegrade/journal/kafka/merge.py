"""One partition of both topics as one sequence, in the order of the brokers' times.

Spans and log records of a trace should be read about together: a judge that was away for an hour would otherwise read
an hour of one topic, close its traces, and come to the other topic's hour when they can no longer be reopened. So while
one topic is not read up to where it ended when that was last asked, nothing of the other is given that is later than
what the first has come to. After that both are read as they come.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice

from tracegrade.journal.kafka.consume import EndReached, Extent, Message


class PartitionMerge:
    """The messages of one partition that were fetched and not judged yet."""

    def __init__(self, extents: Mapping[str, Extent]) -> None:
        """Begin where each topic of `extents` begins."""
        self._queues: dict[str, deque[Message]] = {topic: deque() for topic in extents}
        self._fetched_to = {topic: extent.start for topic, extent in extents.items()}
        self._end: dict[str, int | None] = {topic: extent.end for topic, extent in extents.items()}
        self._last_ns = dict.fromkeys(extents, 0)

    @property
    def topics(self) -> list[str]:
        """Both topics."""
        return [*self._queues]

    @property
    def is_empty(self) -> bool:
        """Whether everything that was fetched has been given."""
        return not any(self._queues.values())

    def put(self, message: Message) -> None:
        """Take in a fetched message; one that came before is left out."""
        if message.offset >= self._fetched_to[message.topic]:
            self._fetched_to[message.topic] = message.offset + 1
            self._queues[message.topic].append(message)

    def reached(self, end: EndReached) -> None:
        """There is no more at the moment; offsets may be missing before the end, as those of markers are."""
        self._fetched_to[end.topic] = max(self._fetched_to[end.topic], end.offset)

    def waiting(self, topic: str) -> int:
        """The number of messages of `topic` that were fetched and not given out."""
        return len(self._queues[topic])

    def first_waiting(self, most: int) -> list[Message]:
        """The messages that are likely to be given next, at most so many of each topic."""
        return [message for queue in self._queues.values() for message in islice(queue, most)]

    def ended_at(self, ends: Mapping[str, int]) -> None:
        """The brokers say that the topics end at these offsets."""
        self._end.update(ends)

    def forget_ends(self) -> None:
        """Time passed without reading: where the topics end is not known any more."""
        self._end = dict.fromkeys(self._end)

    @property
    def knows_ends(self) -> bool:
        """Whether `ended_at` was called since the ends were forgotten."""
        return None not in self._end.values()

    @property
    def has_caught_up(self) -> bool:
        """Whether both topics are fetched up to where they ended when that was last asked."""
        return not any(map(self._is_behind, self._queues))

    def _is_behind(self, topic: str) -> bool:
        end = self._end[topic]
        return end is None or self._fetched_to[topic] < end

    def take(self) -> Iterator[Message]:
        """The messages whose turn it is, in order; others stay until the other topic has come as far."""
        while True:
            heads = [queue[0] for queue in self._queues.values() if queue]
            if not heads:
                return
            first = min(heads, key=_broker_time)
            for topic, queue in self._queues.items():
                if not queue and self._last_ns[topic] < first.broker_ns and self._is_behind(topic):
                    return
            self._last_ns[first.topic] = max(self._last_ns[first.topic], first.broker_ns)
            yield self._queues[first.topic].popleft()


def _broker_time(message: Message) -> int:
    return message.broker_ns
