"""The delivery thread of the judge process, with sinks of the test's own."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import pytest

from build.records import summary_of
from tracegrade.codec.results import encode_result, new_result
from tracegrade.config import Config
from tracegrade.deliver.sink import DONE, Sink, SinkContext
from tracegrade.deliver.sink import Delivery as Delivered
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.record import Encoding, Entry
from tracegrade.journal.retention import WhenFull
from tracegrade.model.signal import Signal
from tracegrade.model.trace_result import TraceResult
from tracegrade.pipeline.data_folder import DataFolder
from tracegrade.serve.delivering.delivery import DeliveryThread
from tracegrade.serve.delivering.upstream import OneJudge, ResultsSource
from tracegrade.serve.judging.hand_over import MemoryHandOver
from tracegrade.serve.judging.metrics import JudgeMetrics
from tracegrade.serve.rule_reload import RuleReload
from tracegrade.store.open import open_store
from waiting import eventually

MIB = 1024 * 1024


class Answering:
    """A sink that gives the same answer each time."""

    failing = ("exporter_failing", "test")

    def __init__(self, name: str, when_full: WhenFull, answer: Delivered) -> None:
        self.name = name
        self.when_full = when_full
        self._answer = answer

    async def deliver(self, batch: Sequence[TraceResult]) -> Delivered:
        return self._answer

    async def close(self) -> None:
        return


def opens(*sinks: Sink) -> Callable[[SinkContext], Iterable[Sink]]:
    """The line of a registry for `sinks`."""
    return lambda context: sinks


@pytest.mark.parametrize(("when_full", "is_kept"), [("refuse", True), ("drop_oldest", False)])
def test_a_sink_of_the_registry_has_a_position_behind_which_retention_deletes_as_the_sink_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when_full: WhenFull, is_kept: bool
) -> None:
    monkeypatch.setattr("tracegrade.serve.delivering.delivery.TRIM_EVERY_S", 0.01)
    sinks = (Answering("quick", "refuse", DONE), Answering("slow", when_full, Delivered("retry", "away")))
    monkeypatch.setattr("tracegrade.deliver.registry.SINKS", {"added": opens(*sinks)})
    config = Config(data_dir=str(tmp_path), journal={"max_size_mib": 8}, rules={"paths": []})
    folder = DataFolder(tmp_path)
    metrics = JudgeMetrics(folder)
    store = open_store(config.store_url)
    results = LocalJournal.open(folder.path / "results", config.journal, name="results", telemetry=metrics.telemetry)
    payload = encode_result(new_result(summary_of(trace_id="a"), bytes(MIB // 2), [], []))
    for _ in range(15):
        end = results.append(Entry(Signal.RESULTS, Encoding.PROTOBUF, "default", 1, payload)).result()
    rules = RuleReload(config.rules, metrics.telemetry)
    hand_over = MemoryHandOver(end)
    source = ResultsSource(
        "results",
        folder.path / "results",
        partial(folder.position_in, "results"),
        hand_over.recent,
        trim=results.trim,
    )
    delivery = DeliveryThread(
        config,
        folder,
        store,
        rules,
        metrics,
        OneJudge([source], [], hand_over),
    )
    delivery.start()

    def position(sink: str) -> float:
        return metrics.telemetry.value("tracegrade.journal.position", journal="results", consumer=sink)

    eventually(lambda: position("quick") == end, "retention saw that the quick sink is done")
    assert (results.first == 0) is is_kept
    delivery.stop(0)
    results.close()
    store.dispose()
    assert folder.consumed_of("results") == end
