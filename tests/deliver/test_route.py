import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from tracegrade.deliver.recent import RecentResults
from tracegrade.deliver.record import JudgedTrace, decode, encode
from tracegrade.deliver.route import Route
from tracegrade.deliver.sink import DONE, Delivery
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.position import Position
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.record import Encoding, Entry
from tracegrade.model.errors import TraceGradeError
from tracegrade.model.signal import Signal
from tracegrade.model.tool_call import ToolCall, ToolError
from tracegrade.telemetry import Telemetry

HUGE = ToolCall("t", "t", None, {"n": 2**70}, "ok", None, "absent", ToolError("E", "no"), 1, 2, "aa", "", "")


def judged(name: str) -> JudgedTrace:
    return JudgedTrace({"trace_id": name}, b"spans of " + name.encode(), [HUGE], [])


def names(batch: Sequence[JudgedTrace]) -> list[str]:
    return [item.trace["trace_id"] for item in batch]


class Recorder:
    """A sink that answers what it is told to, then done."""

    name = "recorder"

    def __init__(self, *answers: Delivery) -> None:
        self.batches: list[list[str]] = []
        self._answers = list(answers)

    async def deliver(self, batch: Sequence[JudgedTrace]) -> Delivery:
        self.batches.append(names(batch))
        return self._answers.pop(0) if self._answers else DONE

    async def close(self) -> None:
        return


class Journalled:
    """A results journal with a route to a sink."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.telemetry = Telemetry("judge")
        self.journal = LocalJournal.open(folder / "results")
        self.recent = RecentResults(self.journal.end)

    def append(self, *items: str, remember: bool = True) -> int:
        batch = [judged(item) for item in items]
        entries = [Entry(Signal.RESULTS, Encoding.PROTOBUF, "default", 1, encode(item)) for item in batch]
        end = self.journal.append_all(entries).result()
        if remember:
            self.recent.add(batch, end)
        return end

    def route(self, sink: Recorder) -> Route:
        reader = JournalReader(self.folder / "results")
        return Route(sink, reader, Position(self.folder / "position"), self.telemetry, self.recent)

    def drain(self, sink: Recorder) -> Route:
        route = self.route(sink)
        asyncio.run(route.drain(asyncio.Event()))
        return route


@pytest.fixture
def journalled(tmp_path: Path) -> Journalled:
    return Journalled(tmp_path)


def test_a_record_comes_back_as_it_was_whatever_its_numbers() -> None:
    assert decode(encode(judged("a"))) == judged("a")


@pytest.mark.parametrize("payload", [b"", b"\x01\x00", b"\x09" + bytes(8), encode(judged("a"))[:20]])
def test_what_is_no_record_is_said_to_be_none(payload: bytes) -> None:
    with pytest.raises(TraceGradeError, match="results journal"):
        decode(payload)


def test_batches_are_delivered_in_order_and_the_position_follows(journalled: Journalled) -> None:
    journalled.append("a", "b")
    end = journalled.append("c")
    sink = Recorder()
    assert journalled.drain(sink).position == end
    assert [name for batch in sink.batches for name in batch] == ["a", "b", "c"]
    assert Position(journalled.folder / "position").load() == end
    assert journalled.telemetry.value("tracegrade.sink.delivered_records", sink="recorder") == 3


def test_what_is_not_in_memory_any_more_is_read_from_the_journal(journalled: Journalled) -> None:
    journalled.append("a", remember=False)
    journalled.recent = RecentResults(journalled.journal.end)
    journalled.append("b")
    sink = Recorder()
    journalled.drain(sink)
    assert [name for batch in sink.batches for name in batch] == ["a", "b"]


def test_a_retry_repeats_the_batch_and_a_failure_gives_it_up(journalled: Journalled) -> None:
    journalled.append("a")
    end = journalled.append("b")
    sink = Recorder(Delivery("retry", "busy", 0.0), DONE, Delivery("failed", "refused"))

    async def run() -> int:
        route = journalled.route(sink)
        route_stop = asyncio.Event()
        async with asyncio.timeout(20):
            await route.drain(route_stop)
        return route.position

    assert asyncio.run(run()) == end
    assert sink.batches == [["a"], ["a"], ["b"]]
    assert journalled.telemetry.value("tracegrade.sink.retries", reason="busy") == 1
    assert journalled.telemetry.value("tracegrade.sink.dropped_records", reason="refused") == 1


def test_a_route_that_is_up_to_date_sleeps_until_it_is_woken(
    journalled: Journalled, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = Recorder()
    looks = 0
    look = journalled.recent.after

    def counted(position: int) -> tuple[Sequence[JudgedTrace], int] | None:
        nonlocal looks
        looks += 1
        return look(position)

    monkeypatch.setattr(journalled.recent, "after", counted)

    async def run() -> None:
        route, stop = journalled.route(sink), asyncio.Event()
        journalled.recent.listen(route.wake)
        running = asyncio.create_task(route.run(stop))
        async with asyncio.timeout(20):
            for name in ("a", "b"):
                await asyncio.sleep(0.15)
                journalled.append(name)
                while [name] not in sink.batches:
                    await asyncio.sleep(0.01)
            await asyncio.sleep(0.15)
            stop.set()
            route.wake()
            await running

    asyncio.run(run())
    assert sink.batches == [["a"], ["b"]]
    assert looks <= 5  # at first, and twice for each batch


def test_a_restart_goes_on_behind_the_last_committed_batch(journalled: Journalled) -> None:
    journalled.append("a")
    journalled.drain(Recorder())
    journalled.append("b")
    sink = Recorder()
    journalled.drain(sink)
    assert sink.batches == [["b"]]


def test_memory_keeps_the_newest_batches_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracegrade.deliver.recent.MAX_RECORDS", 2)
    recent = RecentResults(0)
    recent.add([judged("a")], 10)
    recent.add([judged("b"), judged("c")], 20)
    assert recent.after(0) is None
    found = recent.after(10)
    assert found is not None
    assert (names(found[0]), found[1]) == (["b", "c"], 20)
    assert recent.after(20) is None
    assert recent.after(15) is None


def test_memory_lets_go_of_what_every_sink_has_taken() -> None:
    recent = RecentResults(0)
    recent.taken("sql", 0)
    recent.taken("otlp", 0)
    recent.add([judged("a")], 10)
    recent.add([judged("b")], 20)
    recent.taken("sql", 20)
    assert recent.after(0) is not None
    recent.taken("otlp", 10)
    assert recent.after(0) is None
    assert recent.after(10) is not None


def test_a_route_says_what_it_has_taken(journalled: Journalled) -> None:
    sink = Recorder()
    route = journalled.route(sink)
    journalled.append("a")
    begin = route.position
    assert journalled.recent.after(begin) is not None
    asyncio.run(route.drain(asyncio.Event()))
    assert sink.batches == [["a"]]
    assert journalled.recent.after(begin) is None
