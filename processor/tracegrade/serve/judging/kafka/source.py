"""Kafka as the source of what is judged: one member of the judges' group, one judge for each partition.

Committed is what no open trace and no sink needs any more. Whatever is lost by a kill, with all of this machine's disk,
is read again by whoever gets the partition, and gives the same ids.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from tracegrade.journal.kafka.consume import EndReached, Extent, GroupConsumer, KafkaFailed, Message, TopicPart
from tracegrade.journal.kafka.partition_hash import partition_of
from tracegrade.journal.kafka.settings import KafkaSettings
from tracegrade.pipeline.record_judge import RecordJudge
from tracegrade.serve.judging.kafka.partition_judge import PartitionJudge, Suspects
from tracegrade.serve.judging.kafka.pauses import Pauses
from tracegrade.serve.judging.kafka.records import KafkaRecords
from tracegrade.serve.judging.loop import JudgingParts
from tracegrade.serve.judging.read_sums import ReadSums
from tracegrade.serve.judging.source import Fetched
from tracegrade.telemetry.metrics import Labels, series

POLL_S = 0.05
COMMIT_EVERY_S = 0.5
MESSAGES_A_ROUND = 512
BYTES_A_ROUND = 1024 * 1024
# Not reading for so long, a judge no longer believes that what it had read to the end is at its end.
FORGETS_ENDS_AFTER_S = 2.0
ASK_FOR_ENDS_EVERY_S = 0.2
LOOK_AT_ONE_IN = 64  # messages, whether they are where their key belongs
CONFIRMED_AT_STOP_S = 2.0
CAUGHT_UP_S = 1.0  # of lag
JOINS_AGAIN_AFTER_S = 1.0
CLIENT_FAILED = "kafka_client_failed"
FAILURE_SHOWN_S = 60.0

logger = logging.getLogger(__name__)


class KafkaSource:
    """Reads the partitions given to this judge from their committed offsets on."""

    def __init__(
        self,
        parts: JudgingParts,
        settings: KafkaSettings,
        worker: int,
        new_judge: Callable[[int, int], RecordJudge],
        records: KafkaRecords,
        max_open: int,
    ) -> None:
        """Prepare.

        Args:
            parts: of this process; while its writer waits, polling goes on.
            settings: brokers, topics, and the group.
            worker: the number of this judge's worker.
            new_judge: a judge that has read nothing, with bounds for one of so many partitions, and for the partition
                of this number.
            records: makes records of messages.
            max_open: most open spans and log records of all partitions together, as ``traces.max_live_spans``.
        """
        self._settings = settings
        self._worker = worker
        self._writer = parts.writer
        self._hand_over = parts.hand_over
        self._metrics = parts.metrics
        self._new_judge = new_judge
        self._records = records
        self._suspects = Suspects(parts.set_aside, parts.metrics.name)
        self._pauses = Pauses(max_open)
        self._parts: dict[int, PartitionJudge] = {}
        self._has_none = False  # as the group says; before it says anything, that is not known
        self._ended: list[RecordJudge] = []  # of partitions that were revoked, not counted yet
        self._sums = ReadSums()  # of all that were
        self._partition_counts: dict[str, int] = {}
        self._looked_at = 0
        self._polled_s = time.monotonic()
        self._ask_for_ends_s = 0.0
        self._commit_due_s = 0.0
        self._lost_brokers = 0
        self._failed_s: float | None = None  # when the client failed, while that is shown
        self._clock_ns = 0  # of the round
        self._given_s: float | None = None  # when partitions were given that are not read to their ends yet
        self._consumer: GroupConsumer  # joins the group as soon as it is made, and must be polled from then on
        parts.writer.wait = self._keep_polling

    @property
    def judges(self) -> Mapping[int, RecordJudge]:
        """As in `Source`."""
        return {number: part.judge for number, part in self._parts.items()}

    @property
    def read_position(self) -> int:
        """The sum of what is read of all partitions given to this judge."""
        return sum(part.positions.read_to for part in self._parts.values())

    @property
    def has_suspects(self) -> bool:
        """As in `Source`."""
        return bool(self._suspects.numbers)

    def prepare(self) -> None:
        """Nothing is read yet."""
        self.publish()

    def forget(self) -> None:
        """Nothing is held between two runs: each joins the group anew."""

    @contextmanager
    def reading(self) -> Iterator[None]:
        """As in `Source`; a client that fails for good ends the run, and is said."""
        self._consumer = GroupConsumer(self._settings, self._worker, self._assigned, self._revoked)
        self._lost_brokers = 0
        try:
            yield
            self._hand_over.wait_until_stored(self._writer.end, CONFIRMED_AT_STOP_S)
        except KafkaFailed as error:
            logger.error("%s", error)
            self._metrics.telemetry.conditions.begin(CLIENT_FAILED, str(error))
            self._failed_s = time.monotonic()
            self._hand_over.stopping.wait(JOINS_AGAIN_AFTER_S)
        finally:
            self._consumer.close()  # which revokes everything, and so commits
            self._revoked(list(self._parts), can_commit=False)  # what a client that failed did not
            self._count_ended()

    def fetch(self) -> Sequence[Fetched]:
        """As in `Source`; a partition waits until the store has what its last judge made of it."""
        self._clock_ns = time.time_ns() - round(self._settings.clock_skew * 1e9)
        due_ns = self._clock_ns if self._poll_round() else None
        stored_to = self._hand_over.stored_to
        return [
            Fetched(number, part.judge, part.judged(due_ns))
            for number, part in self._parts.items()
            if stored_to >= part.stored_before
        ]

    def all_durable(self, results_end: int) -> int | None:
        """As in `Source`: by the partition that is furthest behind.

        A judge that the group has given none, since there are more judges than partitions, keeps nobody waiting.
        """
        for part in self._parts.values():
            part.positions.judged(part.judge.oldest_position, results_end)
        if self._parts:
            return min(part.judge.judged_to_ns for part in self._parts.values())
        return self._clock_ns if self._has_none else None

    def end_round(self) -> None:
        """As in `Source`; polling waits."""
        now_s = time.monotonic()
        self._note_ends(now_s)
        self._apply_pauses()
        if self._failed_s is not None and now_s - self._failed_s > FAILURE_SHOWN_S:
            self._failed_s = None
            self._metrics.telemetry.conditions.end(CLIENT_FAILED)
        if now_s >= self._commit_due_s:
            self._commit_due_s = now_s + COMMIT_EVERY_S
            self._commit(self._parts.values(), wait=False)

    def _poll_round(self) -> bool:
        """Fetch a round's messages. Returns whether there are no more at the moment."""
        size = 0
        for number in range(MESSAGES_A_ROUND):
            found = self._poll(0 if number else POLL_S)
            if found is None:
                return True
            if isinstance(found, Message):
                size += len(found.value or b"")
                if size > BYTES_A_ROUND:
                    return False
        return False

    def _poll(self, within_s: float) -> Message | EndReached | None:
        """Poll once, and note what came; partitions may come and go meanwhile."""
        now_s = time.monotonic()
        if now_s - self._polled_s > FORGETS_ENDS_AFTER_S or self._consumer.lost_brokers != self._lost_brokers:
            self._lost_brokers = self._consumer.lost_brokers
            self._forget_ends(self._parts.values())
        found = self._consumer.poll(within_s)
        self._polled_s = time.monotonic()
        if found is not None and (reader := self._parts.get(found.partition)) is not None:
            if isinstance(found, EndReached):
                reader.merge.reached(found)
            else:
                reader.merge.put(found)
                self._look_at_place(found)
        return found

    def _look_at_place(self, message: Message) -> None:
        self._looked_at += 1
        count = self._partition_counts.get(message.topic)
        if self._looked_at % LOOK_AT_ONE_IN or message.key is None or count is None:
            return
        if partition_of(message.key, count) != message.partition:
            self._metrics.telemetry.add("tracegrade.kafka.misplaced", topic=message.topic)
            self._metrics.telemetry.conditions.begin(
                "kafka_misplaced",
                f"the message at {message.partition}@{message.offset} has the key {message.key[:40]!r}, which belongs "
                f"in partition {partition_of(message.key, count)}",
                message.topic,
            )

    def _keep_polling(self, seconds: float) -> bool:
        """Poll for so long without judging; all partitions are paused. Returns whether to stop."""
        self._pauses.all(self._parts.values(), self._consumer)
        until_s = time.monotonic() + seconds
        while (left_s := until_s - time.monotonic()) > 0 and not self._hand_over.stopping.is_set():
            self._poll(min(left_s, POLL_S))
        return self._hand_over.stopping.is_set()

    def _apply_pauses(self) -> None:
        if resumed := self._pauses.apply(self._parts.values(), self._consumer):
            self._forget_ends(resumed)
        self._metrics.telemetry.set("tracegrade.kafka.paused", self._pauses.partitions)

    def _forget_ends(self, parts: Iterable[PartitionJudge]) -> None:
        """What was at its end may not be any more."""
        self._consumer.forget_ends()
        for part in parts:
            part.merge.forget_ends()

    def _note_ends(self, now_s: float) -> None:
        """Where topics end must be known before time goes on by itself, and before one is read past the other."""
        for number, ends in self._consumer.ends().items():
            if number in self._parts:
                self._parts[number].merge.ended_at(ends)
        unknown = [part.number for part in self._parts.values() if not part.merge.knows_ends]
        if unknown and now_s >= self._ask_for_ends_s:
            self._ask_for_ends_s = now_s + ASK_FOR_ENDS_EVERY_S
            self._consumer.ask_for_ends(unknown)

    def _assigned(self, found: dict[int, dict[str, Extent]]) -> None:
        count = len(found) + len(self._parts)
        self._has_none = count == 0
        self._given_s = time.monotonic() if count else None
        self._partition_counts = self._consumer.partition_counts()
        for number, extents in found.items():
            judge = self._new_judge(count, number)
            self._parts[number] = PartitionJudge(
                number, extents, judge, self._records, self._suspects, self._writer.end
            )
            for topic, extent in extents.items():
                if extent.lost:
                    self._metrics.telemetry.add("tracegrade.kafka.lost", extent.lost, topic=topic)
                    logger.error(
                        "%s/%d: %d messages were deleted by the topic's retention before they were judged",
                        topic,
                        number,
                        extent.lost,
                    )
        logger.info("judging partitions %s", _listed(self._parts) or "none")

    def _revoked(self, numbers: list[int], can_commit: bool) -> None:
        self._has_none = False
        self._given_s = None
        gone = [self._parts.pop(number) for number in numbers if number in self._parts]
        self._pauses.forget(gone)
        self._ended += [part.judge for part in gone]
        if can_commit:
            self._commit(gone, wait=True)

    def _commit(self, parts: Iterable[PartitionJudge], *, wait: bool) -> None:
        confirmed_to = self._hand_over.confirmed_to
        offsets: dict[TopicPart, int] = {}
        for part in parts:
            for topic, offset in part.positions.to_commit(confirmed_to).items():
                offsets[topic, part.number] = offset
        self._consumer.commit(offsets, wait=wait)

    def _count_ended(self) -> None:
        ended, self._ended = self._ended, []
        for judge in ended:
            self._sums.add_ended(judge)

    def publish(self) -> None:
        """As in `Source`."""
        self._count_ended()
        sums = self._sums.copy()
        now_ns = time.time_ns()
        lags: dict[Labels, float] = {}
        for part in self._parts.values():
            sums.add(part.judge)
            if (lag_s := part.lag_s(now_ns)) is not None:
                lags[series("tracegrade.kafka.lag", partition=str(part.number))] = lag_s
        self._metrics.telemetry.replace({**sums.metrics(), "tracegrade.kafka.lag": lags})
        self._say_caught_up(lags)

    def _say_caught_up(self, lags: dict[Labels, float]) -> None:
        """Say once how long it took to read what had come while nobody read the partitions that were given last."""
        if self._given_s is None or len(lags) < len(self._parts):
            return
        if max(lags.values(), default=0.0) < CAUGHT_UP_S:
            logger.info("caught up with all partitions, %.1f s after they were given", time.monotonic() - self._given_s)
            self._given_s = None


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))
