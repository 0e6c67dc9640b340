"""What judges read from Kafka, read again: the records of a time, with what is needed to judge their traces whole."""

from collections.abc import Callable, Iterator

from tracegrade.assemble.settings import TracesSettings
from tracegrade.config import Config
from tracegrade.display import count
from tracegrade.journal.kafka.range import RangeReader
from tracegrade.journal.kafka.settings import KafkaSettings
from tracegrade.journal.record import Record
from tracegrade.pipeline.replay import Selection
from tracegrade.serve.judging.kafka.records import KafkaRecords
from tracegrade.telemetry.metrics import Telemetry


class KafkaReplay(RangeReader):
    """Reads once, as a context. Judges and their positions are not disturbed, as it is in no group."""

    def __init__(self, config: Config, settings: KafkaSettings, selection: Selection) -> None:
        """Ask the brokers what there is of the time of `selection`.

        It reads from so long before that every trace with spans in that time is known to have begun before, and so
        long after it that late spans are there too.

        Raises:
            KafkaUnfit: no broker answers, or there is no such topic.
        """
        since_ns, until_ns = selection.since_ns, selection.until_ns
        around_ns = longest_gap_ns(config.traces)
        super().__init__(
            settings,
            (settings.traces_topic, settings.logs_topic),
            None if since_ns is None else since_ns - around_ns,
            None if until_ns is None else until_ns + around_ns,
        )
        self._telemetry = Telemetry("replay")
        otlp = config.receivers.otlp
        self._records = KafkaRecords(settings, otlp.max_request_bytes, otlp.max_request_messages, self._telemetry)
        self._malformed = 0

    def records(self, advance: Callable[[int], None]) -> Iterator[Record]:
        """The messages as records, with the time that judges took them to have; `advance` is told of each.

        Raises:
            KafkaUnfit: the brokers answer no more.
        """
        clock_ns = 0
        for number, message in enumerate(self.messages()):
            record = self._records.record(message, number, number + 1, clock_ns)
            advance(1)
            if record is None:
                self._malformed += 1
                continue
            clock_ns = record.received_ns
            yield record

    def remarks(self) -> list[str]:
        """What the user should know of what was read."""
        if not self._malformed:
            return []
        return [f"left out {count(self._malformed, 'message')} that judges cannot read either"]


def longest_gap_ns(traces: TracesSettings) -> int:
    """The longest time, ns, that may lie between two spans of a trace which are judged together."""
    ages = [traces.max_age, *(own.max_age for own in traces.overrides if own.max_age is not None)]
    return round((max(ages) + traces.reopen_for) * 1e9)
