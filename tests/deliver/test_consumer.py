import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from build import each
from build.records import summary_of
from tracegrade.codec.results import decode_result, encode_result, new_result
from tracegrade.deliver.consumer import SinkConsumer
from tracegrade.deliver.cursor import ResultsCursor
from tracegrade.deliver.recent import RecentReads, RecentResults
from tracegrade.deliver.sink import DONE, Delivery
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.position import Position
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.record import Encoding, Entry
from tracegrade.journal.retention import WhenFull
from tracegrade.model.errors import TraceGradeError
from tracegrade.model.signal import Signal
from tracegrade.model.tool_call import ToolCall, ToolError
from tracegrade.model.trace_result import TraceResult
from tracegrade.telemetry.metrics import Telemetry

HUGE = ToolCall("t", "t", None, {"n": 2**70}, "ok", None, "absent", ToolError("E", "no"), 1, 2, "aa", "", "")


def judged(name: str, tenant: str = "default") -> TraceResult:
    return new_result(summary_of(trace_id=name, tenant=tenant), b"spans of " + name.encode(), [HUGE], [])


def names(batch: Sequence[TraceResult]) -> list[str]:
    return [item.trace.trace_id for item in batch]


class Recorder:
    """A sink that answers what it is told to, then done."""

    name = "recorder"
    when_full: WhenFull = "refuse"
    failing = ("exporter_failing", name)

    def __init__(self, *answers: Delivery) -> None:
        self.batches: list[list[str]] = []
        self.has_more = asyncio.Event()
        self._answers = list(answers)

    async def deliver(self, batch: Sequence[TraceResult]) -> Delivery:
        self.batches.append(names(batch))
        self.has_more.set()
        return self._answers.pop(0) if self._answers else DONE

    async def close(self) -> None:
        return


class Journalled:
    """A results journal with a consumer to a sink."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.telemetry = Telemetry("judge")
        self.journal = LocalJournal.open(folder / "results")
        self.recent = RecentResults(self.journal.end)

    def append(self, *items: str, remember: bool = True, tenant: str = "default") -> int:
        batch = [judged(item, tenant) for item in items]
        entries = [Entry(Signal.RESULTS, Encoding.PROTOBUF, tenant, 1, encode_result(item)) for item in batch]
        end = self.journal.append_all(entries).result()
        if remember:
            self.recent.add(batch, end)
        return end

    def consumer(self, sink: Recorder, is_for: Callable[[str], bool] | None = None) -> SinkConsumer:
        reader, position = JournalReader(self.folder / "results"), Position(self.folder / "position")
        cursor = ResultsCursor(sink.name, reader, position, self.telemetry, self.recent)
        return SinkConsumer(sink, cursor, self.telemetry, is_for=is_for)

    def drain(self, sink: Recorder) -> SinkConsumer:
        consumer = self.consumer(sink)
        asyncio.run(consumer.drain(asyncio.Event()))
        return consumer


@pytest.fixture
def journalled(tmp_path: Path) -> Journalled:
    return Journalled(tmp_path)


def test_a_record_comes_back_as_it_was_whatever_its_numbers() -> None:
    assert decode_result(encode_result(judged("a"))) == judged("a")


@each("payload", [b"", b"\x01\x00", b"\x09" + bytes(8), encode_result(judged("a"))[:20]])
def test_what_is_no_record_is_said_to_be_none(payload: bytes) -> None:
    with pytest.raises(TraceGradeError, match="results journal"):
        decode_result(payload)


@pytest.mark.parametrize("remember", [True, False], ids=["from memory", "from the journal"])
def test_a_sink_for_one_tenant_gets_its_results_alone_and_passes_over_the_others(
    journalled: Journalled, remember: bool
) -> None:
    journalled.append("a", "b", tenant="globex", remember=remember)
    journalled.append("c", tenant="shop", remember=remember)
    end = journalled.append("d", remember=remember)
    sink = Recorder()
    consumer = journalled.consumer(sink, "shop".__eq__)
    asyncio.run(consumer.drain(asyncio.Event()))
    assert sink.batches == [["c"]]
    assert consumer.position == Position(journalled.folder / "position").load() == end
    assert journalled.telemetry.value("tracegrade.sink.delivered_records", sink="recorder") == 1


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
        consumer = journalled.consumer(sink)
        stop = asyncio.Event()
        async with asyncio.timeout(600):
            await consumer.drain(stop)
        return consumer.position

    assert asyncio.run(run()) == end
    assert sink.batches == [["a"], ["a"], ["b"]]
    assert journalled.telemetry.value("tracegrade.sink.retries", reason="busy") == 1
    assert journalled.telemetry.value("tracegrade.sink.dropped_records", reason="refused") == 1


@pytest.mark.parametrize("remember", [True, False], ids=["from memory", "from the journal"])
def test_what_a_sink_puts_off_comes_again_with_what_came_meanwhile_and_holds_the_position(
    journalled: Journalled, remember: bool
) -> None:
    first = journalled.append("slow", "a", remember=remember)
    ends = [journalled.append(name, remember=remember) for name in "bc"]
    positions: list[int | None] = []

    class Slow(Recorder):
        async def deliver(self, batch: Sequence[TraceResult]) -> Delivery:
            await super().deliver(batch)
            positions.append(Position(journalled.folder / "position").load())
            return Delivery(
                "done", rest=[item for item in batch if item.trace.trace_id == "slow"][: len(positions) < 3]
            )

    sink = Slow()
    consumer = journalled.drain(sink)
    delivered = [name for batch in sink.batches for name in batch]
    assert (delivered.count("slow"), [name for name in delivered if name != "slow"]) == (3, ["a", "b", "c"])
    assert first not in positions, "after a kill, what was put off must come again"
    assert consumer.position == Position(journalled.folder / "position").load() == ends[-1]
    assert journalled.telemetry.value("tracegrade.sink.delivered_records", sink="recorder") == 4


def test_a_consumer_that_is_up_to_date_sleeps_until_it_is_woken(
    journalled: Journalled, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = Recorder()
    looks = 0
    timers: list[float] = []
    look = journalled.recent.after

    def counted(position: int) -> tuple[Sequence[TraceResult], int] | None:
        nonlocal looks
        looks += 1
        return look(position)

    monkeypatch.setattr(journalled.recent, "after", counted)

    async def run() -> None:
        consumer, stop = journalled.consumer(sink), asyncio.Event()
        monkeypatch.setattr(asyncio.get_running_loop(), "call_at", lambda at_s, *_, **__: timers.append(at_s))
        journalled.recent.listen(consumer.wake)
        running = asyncio.create_task(consumer.run(stop))
        for name in ("a", "b"):
            sink.has_more.clear()
            journalled.append(name)
            await sink.has_more.wait()
        for _ in range(100):
            await asyncio.sleep(0)  # a turn of the loop
        stop.set()
        consumer.wake()
        await running

    asyncio.run(run())
    assert sink.batches == [["a"], ["b"]]
    assert looks <= 5  # at first, and twice for each batch
    assert timers == []  # it wakes for nothing else


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
    consumer = journalled.consumer(sink)
    journalled.append("a")
    begin = consumer.position
    assert journalled.recent.after(begin) is not None
    asyncio.run(consumer.drain(asyncio.Event()))
    assert sink.batches == [["a"]]
    assert journalled.recent.after(begin) is None


def test_what_one_sink_read_from_another_process_is_decoded_once_for_all(
    journalled: Journalled, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[bytes] = []

    def decode(payload: bytes) -> TraceResult:
        decoded.append(payload)
        return decode_result(payload)

    monkeypatch.setattr("tracegrade.deliver.cursor.decode_result", decode)
    segments = [1]
    recent = RecentReads(lambda: segments[0])

    def consumer(name: str) -> tuple[Recorder, SinkConsumer]:
        sink = Recorder()
        sink.name = name
        reader, position = JournalReader(journalled.folder / "results"), Position(journalled.folder / name)
        cursor = ResultsCursor(name, reader, position, journalled.telemetry, recent)
        return sink, SinkConsumer(sink, cursor, journalled.telemetry)

    (first, fast), (second, slow), (third, behind) = consumer("a"), consumer("b"), consumer("c")
    for item in ("a", "b"):
        journalled.append(item, remember=False)
        for consumer in (fast, slow):
            asyncio.run(consumer.drain(asyncio.Event()))
    assert (first.batches, second.batches, len(decoded)) == ([["a"], ["b"]], [["a"], ["b"]], 2)
    asyncio.run(behind.drain(asyncio.Event()))
    assert (third.batches, len(decoded)) == ([["a"], ["b"]], 2)
    assert recent.after(0) is None  # all have taken it
    journalled.append("c", remember=False)
    asyncio.run(fast.drain(asyncio.Event()))
    segments[0] = 2  # something was erased: the others read what is there now
    asyncio.run(slow.drain(asyncio.Event()))
    assert len(decoded) == 4
