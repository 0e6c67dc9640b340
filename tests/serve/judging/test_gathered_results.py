"""Results of all partitions are appended together, and those of a partition that went are not appended."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from build.otlp import agent_span, chat_span, payload
from tracegrade.assemble.closed_traces import ClosedTraces
from tracegrade.assemble.settings import TracesSettings
from tracegrade.config import RulesSettings
from tracegrade.journal.kafka.consume import Extent, Message
from tracegrade.journal.kafka.settings import KafkaSettings
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.settings import JournalSettings
from tracegrade.model.trace_result import TraceResult
from tracegrade.pipeline.data_folder import JUDGE, DataFolder
from tracegrade.pipeline.heartbeat import Heartbeat
from tracegrade.pipeline.record_judge import Mode, RecordJudge
from tracegrade.serve.judging import gathered_results
from tracegrade.serve.judging.gathered_results import GatheredResults
from tracegrade.serve.judging.hand_over import MemoryHandOver
from tracegrade.serve.judging.kafka.partition_judge import PartitionJudge, Suspects
from tracegrade.serve.judging.kafka.records import KafkaRecords
from tracegrade.serve.judging.metrics import JudgeMetrics
from tracegrade.serve.judging.results_writer import ResultsWriter
from tracegrade.serve.rule_reload import RuleReload

SPANS, LOGS = "otlp_spans", "otlp_logs"
SECOND_NS = 10**9


class Delivery(MemoryHandOver):
    """Notes which traces come together; what comes is stored at once."""

    def __init__(self) -> None:
        super().__init__(0)
        self.batches: list[list[int]] = []

    def add(self, batch: Sequence[TraceResult], end: int) -> None:
        """As in `HandOver`."""
        self.batches.append([int(result.trace.trace_id, 16) for result in batch])
        self.store_holds(end)


class Gathering:
    """`GatheredResults` of two partitions, at a time that the test sets; itself their source."""

    read_position = 0

    def __init__(self, folder: Path) -> None:
        self.now_s = 100.0
        self.delivery = Delivery()
        self._folder = DataFolder(folder)
        self._metrics = JudgeMetrics(self._folder)
        rule = folder / "every-agent.yaml"
        rule.write_text(
            "id: every-agent\nevaluate: [{evaluator: tool-call-count, tool_calls_count: {search: ['>=', 0]}}]\n"
        )
        self._rules = RuleReload(RulesSettings(paths=[str(rule)]), self._metrics.telemetry).in_force
        self._heartbeat = Heartbeat(self._folder.heartbeat(JUDGE))
        self._journal = LocalJournal.open(folder / "results", JournalSettings(), name="results", clocked=False)
        self.writer = ResultsWriter(self._journal, self.delivery, self._heartbeat, "hash", 100_000)
        self.parts = {number: self._part(number) for number in (0, 1)}
        self.results = GatheredResults(self.writer, self._metrics, self)  # type: ignore[arg-type]

    @property
    def judges(self) -> dict[int, RecordJudge]:
        """As in `Source`."""
        return {number: part.judge for number, part in self.parts.items()}

    def publish(self) -> None:
        """Nobody looks."""

    def closed(self, number: int, *traces: int, agents: int = 1) -> bool:
        """These traces close in this partition, each with so many agents; returns whether to go on."""
        return self.close_in(self.parts[number], *traces, agents=agents)

    def close_in(self, part: PartitionJudge, *traces: int, agents: int = 1) -> bool:
        """As `closed`, in a partition that may not be ours."""
        for trace in traces:
            others = [agent_span(trace, 3 + other) for other in range(agents - 1)]
            value = payload([agent_span(trace, 1), chat_span(trace, 2, 1), *others])
            key = f"{trace:032x}".encode()
            part.merge.put(Message(SPANS, part.number, trace, trace * SECOND_NS, True, key, [], value))
        return self.results.add(part.judge, part.judged((traces[-1] + 60) * SECOND_NS))

    def close(self) -> None:
        """Close all files."""
        self._journal.close()
        self._heartbeat.close()

    def _part(self, number: int) -> PartitionJudge:
        settings = KafkaSettings(brokers=["localhost:9092"])
        judge = RecordJudge(TracesSettings(settle="1s"), self._rules, ClosedTraces(), Mode(decided_at_once=2))
        records = KafkaRecords(settings, 100_000, 4_000_000, self._metrics.telemetry)
        extents = {topic: Extent(0, 0, 0) for topic in (SPANS, LOGS)}
        return PartitionJudge(number, extents, judge, records, Suspects(self._folder.set_aside, JUDGE), 0)


@pytest.fixture
def gathering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gathering]:
    made = Gathering(tmp_path)
    monkeypatch.setattr(gathered_results, "time", SimpleNamespace(monotonic=lambda: made.now_s))
    yield made
    made.close()


def test_the_first_is_appended_at_once_and_others_of_all_partitions_together(gathering: Gathering) -> None:
    assert gathering.closed(0, 1)
    assert gathering.results.append_when_due()
    for number, trace in ((0, 2), (1, 3), (0, 4)):
        gathering.closed(number, trace)
        assert gathering.results.append_when_due()
    assert gathering.delivery.batches == [[1]]
    assert not gathering.results.is_empty
    gathering.now_s += gathered_results.GATHER_S
    assert gathering.results.append_when_due()
    assert gathering.delivery.batches == [[1], [2, 4, 3]]
    assert gathering.results.is_empty


def test_many_are_appended_before_it_is_time(gathering: Gathering, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathered_results, "APPENDED_TOGETHER", 3)
    gathering.closed(0, 1, 2)
    gathering.closed(1, 3, 4)
    assert gathering.delivery.batches == [[1, 2, 3]]
    gathering.results.append()
    assert gathering.delivery.batches == [[1, 2, 3], [4]]


def test_what_a_partition_left_that_went_is_not_appended(gathering: Gathering) -> None:
    gathering.closed(0, 1)
    gathering.closed(1, 2)
    del gathering.parts[0]
    assert gathering.results.append()
    assert gathering.delivery.batches == [[2]]


def test_what_a_partition_closes_after_it_went_is_not_judged(gathering: Gathering) -> None:
    gone = gathering.parts.pop(0)
    assert gathering.close_in(gone, 1)
    assert gathering.results.is_empty
    assert not gone.merge.is_empty


def test_stopped_while_the_journal_is_full_nothing_counts_as_appended(
    gathering: Gathering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ResultsWriter, "append", lambda self, judged, position: False)
    gathering.closed(0, 1)
    assert not gathering.results.append()


def test_a_trace_of_many_agents_keeps_no_later_one_waiting(gathering: Gathering) -> None:
    results, part = gathering.results, gathering.parts[0]
    assert gathering.closed(0, 1, agents=7)
    assert gathering.closed(0, 2)
    assert results.append()
    assert gathering.delivery.batches == [[2]]
    assert part.judge.oldest_position is not None  # after a kill, 1 is read again
    assert gathering.closed(0, 3)
    assert results.append()
    assert gathering.delivery.batches == [[2], [3, 1]]
    assert part.judge.oldest_position is None
