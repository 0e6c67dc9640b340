"""The judge of one partition: its own clock, live traces and positions, fed by both topics."""

import gc
from collections.abc import Iterable, Iterator, Mapping

from tracegrade.journal.kafka.consume import Extent, Message, TopicPart
from tracegrade.journal.kafka.merge import PartitionMerge
from tracegrade.journal.kafka.place import place_of
from tracegrade.journal.kafka.positions import PartitionPositions
from tracegrade.journal.record import Record
from tracegrade.pipeline.judged import Judged
from tracegrade.pipeline.record_judge import RecordJudge
from tracegrade.pipeline.set_aside import SetAside
from tracegrade.serve.judging.kafka.records import KafkaRecords, trace_key

# What the store has of their traces is in memory then: many it has only where they are read again.
ASKED_TOGETHER = 32  # messages


class Suspects:
    """The messages of Kafka that have ended one judge; when one ends another judge, it is set aside."""

    def __init__(self, set_aside: SetAside, judge: str) -> None:
        """Those of the judge with this name."""
        self._set_aside = set_aside
        self._judge = judge
        self.numbers = {number for number in set_aside.load().suspects(judge) if place_of(number) is not None}

    def begin(self, record: Record) -> None:
        """Keep this one, which is read next, so that it can be set aside with all it holds."""
        gc.collect()
        self._set_aside.keep_suspect(record)

    def passed(self, record: Record) -> None:
        """Nothing happened."""
        self.numbers.discard(record.known_as)
        self._set_aside.clear_suspect(record.known_as, self._judge)


class PartitionJudge:
    """One partition, from its assignment to its revocation."""

    def __init__(
        self,
        number: int,
        extents: Mapping[str, Extent],
        judge: RecordJudge,
        records: KafkaRecords,
        suspects: Suspects,
        stored_before: int,
    ) -> None:
        """Begin at the committed offsets.

        Args:
            number: of the partition.
            extents: where both topics begin and end.
            judge: has read nothing.
            records: makes records of messages.
            suspects: the messages that have ended a judge of this folder once.
            stored_before: an end of the results journal; until the store holds all results before it, nothing is
                judged, since late spans look for their traces in the store.
        """
        self.number = number
        self.judge = judge
        self.stored_before = stored_before
        self.merge = PartitionMerge(extents)
        self.positions = PartitionPositions({topic: extent.start for topic, extent in extents.items()})
        judge.read_position = self.positions.read_to
        self._records = records
        self._suspects = suspects
        self._read_ns = 0  # the broker's time of the last message read

    @property
    def parts(self) -> list[TopicPart]:
        """Its number, with each of both topics."""
        return [(topic, self.number) for topic in self.merge.topics]

    @property
    def open_contents(self) -> int:
        """Spans and log records in live traces."""
        return self.judge.live.open_spans + self.judge.live.open_log_records

    @property
    def is_at_end(self) -> bool:
        """Whether everything is read up to where both topics ended when that was last asked."""
        return self.merge.has_caught_up and self.merge.is_empty

    def lag_s(self, now_ns: int) -> float | None:
        """How long ago the message read last was written; 0 when there is none after it, None while none is read."""
        if self.is_at_end:
            return 0.0
        return max(0, now_ns - self._read_ns) / 1e9 if self._read_ns else None

    def judged(self, clock_ns: int | None) -> Iterator[Judged]:
        """What closes by the messages fetched so far.

        Once both topics are read to their ends, also what is due by `clock_ns`; None when there may be more to fetch.
        """
        for number, message in enumerate(self.merge.take()):
            if number % ASKED_TOGETHER == 0:
                self._expect([message, *self.merge.first_waiting(ASKED_TOGETHER - 1)])
            begin, end = self.positions.read(message.topic, message.offset)
            self._read_ns = message.broker_ns
            record = self._records.record(message, begin, end, self.judge.clock_ns)
            if record is not None:
                yield from self._judge_record(record)
        self.judge.expect(())
        own_ns = clock_ns if clock_ns is not None and self.is_at_end else 0
        # Without a clock too: traces that a bound has cut wait for it, and no longer hold their position.
        yield from self.judge.tick(max(own_ns, self.judge.clock_ns))
        yield from self.judge.go_on()

    def _expect(self, messages: Iterable[Message]) -> None:
        """One question to the store for the traces of all of these, in place of one for each trace that begins."""
        self.judge.expect({key: None for message in messages if (key := trace_key(message)) is not None})

    def _judge_record(self, record: Record) -> Iterator[Judged]:
        if record.known_as not in self._suspects.numbers:
            yield from self.judge.read(record)
            return
        self._suspects.begin(record)
        yield from self.judge.read(record)
        self._suspects.passed(record)
