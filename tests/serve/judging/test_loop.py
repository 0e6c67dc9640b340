"""The judging thread gathers results before it appends them, and commits no position beyond what it appended."""

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from build.otlp import otlp_span, payload
from tracegrade.assemble.closed_traces import ClosedTraces
from tracegrade.assemble.settings import TracesSettings
from tracegrade.config import RulesSettings
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.record import Encoding, Entry
from tracegrade.journal.settings import JournalSettings
from tracegrade.model.signal import Signal
from tracegrade.model.trace_result import TraceResult
from tracegrade.pipeline.data_folder import DataFolder
from tracegrade.pipeline.heartbeat import Heartbeat
from tracegrade.pipeline.record_judge import Mode, RecordJudge
from tracegrade.serve.judging import gathered_results, journal_source
from tracegrade.serve.judging.deletions import JudgeDeletions
from tracegrade.serve.judging.gathered_results import GATHER_S
from tracegrade.serve.judging.hand_over import MemoryHandOver
from tracegrade.serve.judging.journal_source import POLL_S, JournalSource, JudgePosition
from tracegrade.serve.judging.loop import JudgeLoop, JudgingParts
from tracegrade.serve.judging.metrics import JudgeMetrics
from tracegrade.serve.judging.results_writer import ResultsWriter
from tracegrade.serve.rule_reload import RuleReload

TRACES = TracesSettings(end_attribute="app.done")


class Steps(threading.Event):
    """Instead of waiting, does what comes next, on a clock of its own; stops when there is nothing more to do."""

    def __init__(self, steps: Sequence[Callable[[], object]]) -> None:
        super().__init__()
        self.now_s = 0.0
        self._steps = iter(steps)

    def wait(self, timeout: float | None = None) -> bool:
        """One step."""
        assert timeout is not None
        self.now_s = round(self.now_s + timeout, 3)
        step = next(self._steps, self.set)
        step()
        return self.is_set()

    def monotonic(self) -> float:
        """Now, in seconds."""
        return self.now_s


class Delivery(MemoryHandOver):
    """Notes which traces come together, and when."""

    def __init__(self, stopping: Steps) -> None:
        super().__init__(0)
        self.stopping = self._steps = stopping
        self.batches: list[list[int]] = []
        self.appended_s: list[float] = []

    def add(self, batch: Sequence[TraceResult], end: int) -> None:
        """As in `HandOver`; stored at once."""
        self.batches.append([int(result.trace.trace_id, 16) for result in batch])
        self.appended_s.append(self._steps.now_s)
        self.store_holds(end)


class Judging:
    """A `JudgeLoop` over a local journal to which `send` appends."""

    def __init__(self, folder: Path) -> None:
        self.folder = DataFolder(folder)
        self._rules = folder / "every-agent.yaml"
        self._rules.write_text(
            "id: every-agent\nevaluate: [{evaluator: tool-call-count, tool_calls_count: {search: ['>=', 0]}}]\n"
        )
        self.journal = LocalJournal.open(self.folder.journal, JournalSettings())
        self._results = LocalJournal.open(folder / "results", JournalSettings(), name="results", clocked=False)
        self._heartbeat = Heartbeat(self.folder.heartbeat("judge"))
        self.position = JudgePosition(self.folder.position("judge"), self._heartbeat)
        self.ends: list[int] = []  # of the records

    def send(self, *traces: int, agents: int = 0) -> None:
        """One record for each of these traces, which ends with it; in each are so many agents."""
        for trace in traces:
            span = otlp_span(trace, 1)
            span.attributes.append(KeyValue(key="app.done", value=AnyValue(bool_value=True)))
            runs = [otlp_span(trace, 2 + n, gen_ai__operation__name="invoke_agent") for n in range(agents)]
            entry = Entry(Signal.TRACES, Encoding.PROTOBUF, "default", 1 + agents, payload([*runs, span]))
            self.ends.append(self.journal.append(entry).result())

    def run(self, *steps: Callable[[], object]) -> Delivery:
        """Judge; while it would wait, do the next of `steps`. Then stop."""
        stopping = Steps(steps)
        delivery = Delivery(stopping)
        metrics = JudgeMetrics(self.folder)
        rules = RuleReload(RulesSettings(paths=[str(self._rules)]), metrics.telemetry)
        reader = JournalReader(self.folder.journal)
        parts = JudgingParts(
            ResultsWriter(self._results, delivery, self._heartbeat, "hash", 100_000),
            delivery,
            self._heartbeat,
            metrics,
            rules,
            JudgeDeletions(self.folder),
            self.folder.set_aside,
        )

        def new_judge() -> RecordJudge:
            return RecordJudge(TRACES, rules.in_force, ClosedTraces(), Mode(decided_at_once=2))

        source = JournalSource(parts, reader, self.position, new_judge, lambda: [])
        with pytest.MonkeyPatch.context() as patched:
            for module in (gathered_results, journal_source):
                patched.setattr(module, "time", SimpleNamespace(monotonic=stopping.monotonic))
            patched.setattr(journal_source, "READ_BYTES", 1)  # each record by itself
            JudgeLoop(parts, source, None).run()
        reader.close()
        return delivery

    def close(self) -> None:
        """Close all files."""
        self.journal.close()
        self._results.close()
        self.position.close()
        self._heartbeat.close()


@pytest.fixture
def judging(tmp_path: Path) -> Iterator[Judging]:
    made = Judging(tmp_path)
    yield made
    made.close()


def nothing() -> None:
    """Nothing comes, for as long as the loop waits."""


# So often it waits until the next append is due.
A_WHILE = [nothing] * round(GATHER_S / POLL_S)


def test_results_that_follow_each_other_are_appended_together(judging: Judging) -> None:
    delivery = judging.run(
        lambda: judging.send(1, 2, 3), lambda: judging.send(4), *A_WHILE, lambda: judging.send(5), *A_WHILE
    )
    # The first one at once; then those of a while together.
    assert delivery.batches == [[1], [2, 3, 4], [5]]
    assert delivery.appended_s == pytest.approx([POLL_S, POLL_S + GATHER_S, POLL_S + 2 * GATHER_S])


def test_rare_results_do_not_wait(judging: Judging) -> None:
    delivery = judging.run(lambda: judging.send(1), *A_WHILE, lambda: judging.send(2), nothing)
    assert delivery.batches == [[1], [2]]
    assert delivery.appended_s == pytest.approx([POLL_S, 2 * POLL_S + GATHER_S])


def test_no_position_is_committed_beyond_results_that_are_not_appended(
    judging: Judging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_source, "COMMIT_EVERY_S", 0)
    committed: list[int] = []
    judging.run(lambda: judging.send(1, 2, 3), lambda: committed.append(judging.position.load()))
    assert committed == judging.ends[:1]  # 2 and 3 are judged, and not durable yet
    assert judging.position.load() == judging.ends[-1]


def test_what_was_gathered_is_appended_at_the_end(judging: Judging) -> None:
    delivery = judging.run(lambda: judging.send(1, 2, 3))
    assert delivery.batches == [[1], [2, 3]]
    assert judging.position.load() == judging.ends[-1]


def test_many_results_are_appended_before_it_is_time(judging: Judging, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathered_results, "APPENDED_TOGETHER", 2)
    delivery = judging.run(lambda: judging.send(1, 2, 3, 4, 5))
    assert delivery.batches == [[1], [2, 3], [4, 5]]


def test_a_trace_of_many_agents_keeps_no_later_one_waiting(judging: Judging) -> None:
    read: list[int] = []
    delivery = judging.run(
        lambda: judging.send(1, agents=9),
        lambda: judging.send(2, 3),
        lambda: read.append(judging.position.load()),
        *[nothing] * 20,
    )
    # 2 and 3 are given while 1, of nine decisions, is judged by two at a time; no position is committed before it ends.
    assert [trace for batch in delivery.batches for trace in batch] == [2, 3, 1]
    assert read == [0]
    assert judging.position.load() == judging.ends[-1]
