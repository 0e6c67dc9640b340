"""Promise 5 while the judge is behind the bound: what is deleted unread is counted once, and no longer as unread."""

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tracegrade.journal.errors import SegmentDeleted
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.record import Encoding, Entry
from tracegrade.journal.retention import Consumer
from tracegrade.journal.settings import JournalSettings
from tracegrade.model.signal import Signal
from tracegrade.serve.receiving.unread import Items, JudgeBehind, SkippedItems, UnreadItems


class SmallSettings(JournalSettings):
    """A bound that a few dozen records reach."""

    @property
    def max_bytes(self) -> int:
        return 4000

    @property
    def segment_bytes(self) -> int:
        return 500


class Judge:
    """Reads the journal and counts what it reads; what it says of itself is what it last published."""

    def __init__(self, folder: Path, position: int) -> None:
        self._reader = JournalReader(folder)
        self.begun = self.position = position
        self.read = 0
        self.snapshot: dict[str, Any] = {}
        self.skipped: list[tuple[int, int]] = []
        self.publish()

    def read_some(self, bytes_: int) -> None:
        try:
            records = self._reader.read(self.position, bytes_)
        except SegmentDeleted as error:
            self.skipped.append((self.position, error.first))
            self.position = error.first
            return
        for record in records:
            self.read += record.items
            self.position = record.end

    def publish(self) -> None:
        self.snapshot = {"read": self.read, "position": self.position, "skipped": list(self.skipped)}

    def close(self) -> None:
        self._reader.close()


@given(st.data())
def test_every_accepted_span_is_read_unread_or_dropped_once(tmp_path_factory: Any, data: st.DataObject) -> None:
    folder: Path = tmp_path_factory.mktemp("journal")
    journal = LocalJournal.open(folder, SmallSettings())
    unread = UnreadItems(journal, folder, 0)
    skipped = SkippedItems(unread)
    judge = Judge(folder, 0)
    accepted = 0
    committed = 0
    earlier = Items()  # dropped before this judge began
    try:
        for _ in range(data.draw(st.integers(5, 40), label="steps")):
            step = data.draw(st.sampled_from(["send", "send", "send", "read", "publish", "trim", "look", "restart"]))
            if step == "send":
                items = data.draw(st.integers(1, 9), label="spans")
                if journal.end - journal.first < 3500:
                    unread.append(Entry(Signal.TRACES, Encoding.PROTOBUF, "default", items, bytes(150))).result()
                    accepted += items
            elif step == "read":
                judge.read_some(data.draw(st.sampled_from([1, 400, 4000]), label="bytes"))
            elif step == "publish":
                judge.publish()
            elif step == "trim":
                journal.trim({"judge": Consumer(committed, "drop_oldest")})
            elif step == "restart":  # without having said what it read last; the sums are since the next one's start
                committed = judge.position
                accepted = unread.between(committed, journal.end).spans  # type: ignore[union-attr]
                skipped.note({"skipped": judge.skipped}, committed)
                earlier = skipped.dropped(committed, committed)
                judge.close()
                judge = Judge(folder, committed)
            read_to = judge.snapshot["position"]
            skipped.note(judge.snapshot, read_to)
            dropped = skipped.dropped(read_to, journal.first)
            behind = unread.behind(read_to, journal.first, committed)
            assert behind is not None
            assert accepted == judge.snapshot["read"] + behind.spans + dropped.minus(earlier).spans
            again = skipped.dropped(read_to, journal.first)
            assert again == dropped
    finally:
        judge.close()
        journal.close()


def test_each_trim_counts_what_it_deleted_and_nothing_twice(tmp_path: Path) -> None:
    journal = LocalJournal.open(tmp_path, SmallSettings())
    unread = UnreadItems(journal, tmp_path, 0)
    skipped = SkippedItems(unread)
    accepted = 0
    for _ in range(30):  # a judge that stands still, a journal that is trimmed again and again
        while journal.end - journal.first < 3700:
            unread.append(Entry(Signal.TRACES, Encoding.PROTOBUF, "default", 10, bytes(150))).result()
            accepted += 10
        journal.trim({"judge": Consumer(0, "drop_oldest")})
        dropped = skipped.dropped(0, journal.first)
        behind = unread.behind(0, journal.first, 0)
        assert behind is not None
        assert accepted == dropped.spans + behind.spans
        assert 0 < dropped.spans < accepted
    # It wakes, passes over what is gone, and says so, more than once.
    for _ in range(3):
        told = {"skipped": [(0, journal.first)]}
        skipped.note(told, journal.first)
        assert skipped.dropped(journal.first, journal.first) == dropped
    journal.close()


def test_what_one_judge_passed_over_is_not_counted_again_for_the_next(tmp_path: Path) -> None:
    journal = LocalJournal.open(tmp_path, SmallSettings())
    unread = UnreadItems(journal, tmp_path, 0)
    ends = [unread.append(Entry(Signal.TRACES, Encoding.PROTOBUF, "default", 1, bytes(9))).result() for _ in range(8)]
    skipped = SkippedItems(unread)
    skipped.note({"skipped": [(ends[1], ends[3])]}, ends[3])
    assert skipped.dropped(ends[3], 0) == Items(2, 0)
    skipped.note({"skipped": [(ends[0], ends[5])]}, ends[5])  # it began before, and goes on behind
    assert skipped.dropped(ends[5], 0) == Items(5, 0)
    skipped.note({"skipped": [(ends[6], ends[7])]}, ends[6])  # a position that does not go with it yet
    assert skipped.dropped(ends[6], 0) == Items(5, 0)
    journal.close()


def test_a_judge_is_behind_when_it_stays_so_or_loses_something() -> None:
    behind = JudgeBehind()
    mib = 1024 * 1024
    assert [behind.condition(100 * mib) is None for _ in range(10)] == [True] * 9 + [False]
    assert behind.condition(10 * mib) is not None
    assert behind.condition(1 * mib) is None
    behind.lost = True
    condition = behind.condition(9 * mib)
    assert condition is not None
    assert "is being deleted" in condition
