import threading
from pathlib import Path
from typing import Any

import pytest

from build.refused import refused
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.record import Encoding, Entry
from tracegrade.journal.retention import Consumer
from tracegrade.journal.settings import JournalSettings
from tracegrade.model.signal import Signal
from tracegrade.serve.receiving.unread import Items, UnreadItems


def entry(items: int, signal: Signal = Signal.TRACES) -> Entry:
    return Entry(signal, Encoding.PROTOBUF, "default", items, b"x" * items)


def test_what_is_behind_a_position_is_counted_across_a_restart(tmp_path: Path) -> None:
    journal = LocalJournal.open(tmp_path)
    first = journal.append(entry(3)).result()
    journal.append(entry(50, Signal.LOGS)).result()
    second = journal.append(entry(4)).result()
    reader = JournalReader(tmp_path)

    unread = UnreadItems(journal, tmp_path, judged_to=first)
    assert unread.behind(first, 0, first) == Items(4, 50)
    third = unread.append(entry(5)).result()
    unread.append(entry(99, Signal.METRICS)).result()
    assert unread.behind(first, 0, first) == Items(9, 50)
    # A judge that dies here has read more than it has committed: the next one reads that again.
    assert unread.behind(third, 0, first) == Items(0, 0)
    assert unread.behind(first, 0, first) == Items(9, 50)
    # One that has committed more than its last snapshot tells: it is asked about that snapshot until the next.
    assert [unread.behind(first, 0, third) for _ in range(2)] == [Items(9, 50)] * 2
    assert unread.between(first, second) == Items(4, 50)
    assert unread.behind(second, 0, second) == Items(5, 0)
    assert unread.behind(third, 0, third) == Items(0, 0)
    reader.close()
    journal.close()


def test_a_judge_whose_position_was_deleted_reads_on_at_the_first_record_left(tmp_path: Path) -> None:
    journal = LocalJournal.open(tmp_path, JournalSettings(max_size_mib=8))
    for _ in range(8):
        journal.append(entry(1_000_000)).result()
    journal.trim({"judge": Consumer(0, "drop_oldest")})
    reader = JournalReader(tmp_path)
    assert reader.first() > 0

    unread = UnreadItems(journal, tmp_path, judged_to=0)
    assert unread.behind(0, 0, 0) == Items(7_000_000, 0)
    assert unread.behind(journal.end, 0, journal.end) == Items(0, 0)
    reader.close()
    journal.close()


def test_a_record_is_noted_before_its_sender_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = LocalJournal.open(tmp_path)
    unread = UnreadItems(journal, tmp_path, judged_to=0)
    noting, may_note = threading.Event(), threading.Event()
    note = unread._note_appended

    def note_later(*arguments: Any) -> None:
        noting.set()
        may_note.wait()
        note(*arguments)

    monkeypatch.setattr(unread, "_note_appended", note_later)
    answered = unread.append(entry(3))
    noting.wait()
    was_answered = answered.done()
    may_note.set()
    answered.result()
    journal.close()
    assert not was_answered


def test_a_refused_append_is_not_counted(tmp_path: Path) -> None:
    journal = LocalJournal.open(tmp_path)
    reader = JournalReader(tmp_path)
    unread = UnreadItems(journal, tmp_path, judged_to=0)
    future = unread.append(entry(2))
    future.result()
    journal.close()
    with refused("shutting_down"):
        unread.append(entry(7))
    assert unread.behind(0, 0, 0) == Items(2, 0)
    reader.close()


def test_a_long_journal_is_counted_later_and_what_comes_meanwhile_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tracegrade.serve.receiving.unread._SOON_COUNTED_BYTES", 0)
    caplog.set_level("INFO")
    journal = LocalJournal.open(tmp_path)
    ends = [journal.append(entry(3)).result(), journal.append(entry(50, Signal.LOGS)).result()]
    unread = UnreadItems(journal, tmp_path, judged_to=0)
    ends.append(unread.append(entry(5)).result())
    assert not unread.is_counted
    assert unread.behind(ends[0], 0, 0) is None
    assert unread.between(0, ends[2]) is None
    assert unread.behind(ends[1], 0, 0) == Items(5, 0)
    unread.count()
    assert unread.is_counted
    assert unread.behind(0, 0, 0) == Items(8, 50)
    assert unread.between(0, ends[1]) == Items(3, 50)
    assert unread.between(ends[0], ends[2]) == Items(5, 50)
    unread.log_progress(ends[0])
    unread.log_progress(ends[0])
    unread.log_progress(ends[1])
    unread.log_progress(ends[2])
    logged = [record.getMessage() for record in caplog.records]
    assert logged == [
        "0 MiB of the journal wait to be judged: 0 spans and 50 log records",
        "the journal found at the start is judged, after 0 s",
    ]
    journal.close()
