"""Sinks that gather: what is durable, and that a kill at any moment leaves each record in one file."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from build import rest_long
from build.records import summary_of
from tracegrade.codec.results import encode_result, new_result
from tracegrade.deliver.cursor import ResultsCursor
from tracegrade.deliver.cut import Cut, LastCut
from tracegrade.deliver.gather import GatheringConsumer
from tracegrade.deliver.recent import RecentResults
from tracegrade.deliver.sink import DONE, Delivery
from tracegrade.journal.errors import SegmentDeleted
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.position import Position
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.record import Encoding, Entry
from tracegrade.journal.retention import WhenFull
from tracegrade.model.signal import Signal
from tracegrade.model.trace_result import TraceResult
from tracegrade.telemetry.metrics import Telemetry
from waiting import eventually_in_loop

FOLDERS = 3  # what one cut is spread over, as by tenant and day


class Killed(Exception):
    """The process ends here."""


class Disk:
    """What outlives a kill: files by folder and name, and the last cut."""

    def __init__(self, path: Path) -> None:
        self.files: dict[tuple[int, int], list[str]] = {}
        self.last_cut = LastCut(path / "cut")

    @property
    def records(self) -> list[str]:
        return sorted(record for records in self.files.values() for record in records)


class Files:
    """A gathering sink that writes to a `Disk`; killed when `steps` steps were taken."""

    name = "files"
    when_full: WhenFull = "refuse"
    failing = ("exporter_failing", name)
    every_s = 60.0

    def __init__(self, disk: Disk, *answers: Delivery, full_at: int = 1000, steps: int | None = None) -> None:
        self.disk = disk
        self.gathered: list[str] = []
        self.cuts: list[Cut] = []
        self._answers = list(answers)
        self._full_at = full_at
        self._steps = steps

    @property
    def is_full(self) -> bool:
        return len(self.gathered) >= self._full_at

    def last_cut(self) -> Cut | None:
        return self.disk.last_cut.load()

    async def deliver(self, batch: Sequence[TraceResult]) -> Delivery:
        self.gathered += [judged.trace.trace_id for judged in batch]
        return DONE

    async def write(self, cut: Cut) -> Delivery:
        if self._answers:
            return self._answers.pop(0)
        self._step()
        self.disk.last_cut.save(cut)
        for folder in range(FOLDERS):
            self._step()
            if of_folder := [record for record in self.gathered if int(record) % FOLDERS == folder]:
                self.disk.files[folder, cut.begin] = of_folder
        self._step()
        self.gathered.clear()
        self.cuts.append(cut)
        return DONE

    async def close(self) -> None:
        return

    def _step(self) -> None:
        if self._steps is not None:
            self._steps -= 1
            if self._steps < 0:
                raise Killed


class Journalled:
    """A results journal of records named by numbers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.disk = Disk(folder)
        self.telemetry = Telemetry("judge")
        self.journal = LocalJournal.open(folder / "results")
        self.recent = RecentResults(self.journal.end)
        self.position = Position(folder / "position")
        self.now_s = 0.0
        self.written = 0

    def append(self, number: int = 1) -> int:
        batch = [new_result(summary_of(trace_id=f"{self.written + place:03d}"), b"", [], []) for place in range(number)]
        self.written += number
        entries = [Entry(Signal.RESULTS, Encoding.PROTOBUF, "default", 1, encode_result(item)) for item in batch]
        end = self.journal.append_all(entries).result()
        self.recent.add(batch, end)
        return end

    def consumer(self, sink: Files) -> GatheringConsumer:
        reader = JournalReader(self.folder / "results")
        cursor = ResultsCursor(sink.name, reader, self.position, self.telemetry, self.recent)
        return GatheringConsumer(sink, cursor, self.telemetry, monotonic_s=lambda: self.now_s)

    def restart(self) -> None:
        self.recent = RecentResults(self.journal.end)
        self.position.close()
        self.position = Position(self.folder / "position")


@pytest.fixture
def journalled(tmp_path: Path) -> Journalled:
    return Journalled(tmp_path)


async def take_all(consumer: GatheringConsumer) -> None:
    """Deliver until there is nothing more to do now."""
    while await consumer.deliver_batch(asyncio.Event()):
        pass


def test_the_position_follows_what_is_written_and_not_what_is_gathered(journalled: Journalled) -> None:
    end = journalled.append(3)
    sink = Files(journalled.disk)
    consumer = journalled.consumer(sink)
    asyncio.run(take_all(consumer))
    assert sink.gathered == ["000", "001", "002"]
    assert consumer.position == 0
    assert journalled.position.load() is None
    journalled.now_s = 60.0
    asyncio.run(take_all(consumer))
    assert sink.cuts == [Cut(0, end)]
    assert consumer.position == journalled.position.load() == end
    assert journalled.telemetry.value("tracegrade.sink.delivered_records", sink="files") == 3


def test_a_full_sink_writes_at_once(journalled: Journalled) -> None:
    ends = [journalled.append(2) for _ in range(3)]
    sink = Files(journalled.disk, full_at=4)
    asyncio.run(take_all(journalled.consumer(sink)))
    assert sink.cuts == [Cut(0, ends[1])]
    assert sink.gathered == ["004", "005"]


def test_an_orderly_end_writes_what_is_gathered(journalled: Journalled) -> None:
    journalled.append(2)
    end = journalled.append(1)
    sink = Files(journalled.disk)
    asyncio.run(journalled.consumer(sink).drain(asyncio.Event()))
    assert sink.cuts == [Cut(0, end)]
    assert journalled.position.load() == end


def test_run_writes_when_it_is_due_though_nothing_more_comes(journalled: Journalled) -> None:
    journalled.append(2)
    sink = Files(journalled.disk)
    sink.every_s = 0.01
    clock = asyncio.new_event_loop()
    consumer = journalled.consumer(sink)
    consumer._monotonic_s = clock.time

    async def run() -> None:
        stop = asyncio.Event()
        running = asyncio.create_task(consumer.run(stop))
        await eventually_in_loop(lambda: sink.cuts, "a write")
        stop.set()
        consumer.wake()
        await running

    clock.run_until_complete(run())
    clock.close()
    assert journalled.disk.records == ["000", "001"]


def test_a_write_that_is_refused_is_tried_again_with_the_same_cut(journalled: Journalled) -> None:
    end = journalled.append(2)
    sink = Files(journalled.disk, Delivery("retry", "away", 0.0), Delivery("retry", "away", 0.0))
    asyncio.run(journalled.consumer(sink).drain(asyncio.Event()))
    assert sink.cuts == [Cut(0, end)]
    assert journalled.telemetry.value("tracegrade.sink.retries", sink="files", reason="away") == 2


def test_a_cut_that_a_kill_left_unfinished_is_made_again_though_more_came_since(journalled: Journalled) -> None:
    first = journalled.append(4)
    with pytest.raises(Killed):
        asyncio.run(journalled.consumer(Files(journalled.disk, steps=3)).drain(asyncio.Event()))
    before = dict(journalled.disk.files)
    assert before  # some of its files were written
    journalled.restart()
    second = journalled.append(4)
    sink = Files(journalled.disk)
    asyncio.run(journalled.consumer(sink).drain(asyncio.Event()))
    assert sink.cuts == [Cut(0, first), Cut(first, second)]
    assert {name: journalled.disk.files[name] for name in before} == before
    assert journalled.disk.records == [f"{number:03d}" for number in range(8)]


def test_a_position_that_a_power_cut_set_back_repeats_no_file(journalled: Journalled) -> None:
    for _ in range(3):
        journalled.append(2)
        asyncio.run(journalled.consumer(Files(journalled.disk)).drain(asyncio.Event()))
    files = dict(journalled.disk.files)
    journalled.position.close()
    (journalled.folder / "position").unlink()
    journalled.restart()
    end = journalled.append(1)
    asyncio.run(journalled.consumer(Files(journalled.disk)).drain(asyncio.Event()))
    assert {name: journalled.disk.files[name] for name in files} == files
    assert journalled.disk.records == [f"{number:03d}" for number in range(7)]
    assert journalled.position.load() == end


def test_a_last_cut_of_another_journal_is_of_no_use(journalled: Journalled) -> None:
    end = journalled.append(2)
    journalled.disk.last_cut.save(Cut(10**9, 10**9 + 5))
    asyncio.run(journalled.consumer(sink := Files(journalled.disk)).drain(asyncio.Event()))
    assert sink.cuts == [Cut(0, end)]


@pytest.mark.parametrize("damage", [b"", b"{", b"[1]", b'{"begin": 1}'])
def test_a_damaged_last_cut_is_none(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "cut").write_bytes(damage)
    assert LastCut(tmp_path / "cut").load() is None


@pytest.mark.parametrize("seed", rest_long(range(200), usual=range(5)))
def test_whenever_it_is_killed_each_record_is_in_one_file_in_the_end(journalled: Journalled, seed: int) -> None:
    random = Random(seed)
    for _ in range(12):
        for _ in range(random.randint(0, 3)):
            journalled.append(random.randint(1, 4))
        sink = Files(journalled.disk, full_at=random.randint(1, 9), steps=random.randint(0, 14))
        try:
            consumer = journalled.consumer(sink)
            asyncio.run(take_all(consumer))
            if random.random() < 0.5:
                asyncio.run(consumer.drain(asyncio.Event()))
        except Killed:
            journalled.restart()
        else:
            journalled.restart()  # killed between two steps
    asyncio.run(journalled.consumer(Files(journalled.disk)).drain(asyncio.Event()))
    assert journalled.disk.records == [f"{number:03d}" for number in range(journalled.written)]


def test_records_that_retention_deleted_unread_are_counted(
    journalled: Journalled, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = journalled.append(1)
    end = journalled.append(1)
    journalled.recent = RecentResults(end)
    sink = Files(journalled.disk)
    consumer = journalled.consumer(sink)
    reader = consumer._cursor._reader
    read = reader.read

    def deleted(position: int, max_bytes: int) -> object:
        if position < first:
            raise SegmentDeleted(position, first)
        return read(position, max_bytes)

    monkeypatch.setattr(reader, "read", deleted)
    asyncio.run(consumer.drain(asyncio.Event()))
    assert journalled.disk.records == ["001"]
    lost = journalled.telemetry.value("tracegrade.sink.dropped_records", sink="files", reason="journal_full")
    assert lost == 1
