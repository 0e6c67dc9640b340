from errno import EIO

from tests.journal.conftest import FailingDisk

from tracegrade.journal.local import LocalJournal
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.recent import RecentRecords
from tracegrade.journal.record import Encoding, Entry, Record, Signal


def record(position: int, size: int = 10) -> Record:
    return Record(position, position + size, 0, "default", Signal.TRACES, Encoding.PROTOBUF, 1, b"x" * size)


def entry(payload: bytes, tenant: str = "default") -> Entry:
    return Entry(Signal.LOGS, Encoding.JSON, tenant, 3, payload)


def test_what_was_added_is_given_from_a_position_on():
    recent = RecentRecords(1000)
    recent.add([record(100), record(110)])
    recent.add([record(120)])
    assert recent.after(110) == [record(110), record(120)]
    assert recent.after(130) == []


def test_only_the_journal_can_tell_before_anything_was_added_and_away_from_it():
    recent = RecentRecords(1000)
    assert recent.after(0) is None
    recent.add([record(100), record(110)])
    assert recent.after(0) is None
    assert recent.after(105) is None
    assert recent.after(200) is None


def test_the_oldest_go_when_their_payloads_are_too_many():
    recent = RecentRecords(25)
    recent.add([record(0), record(10), record(20)])
    assert recent.after(0) is None
    assert recent.after(10) == [record(10), record(20)]
    recent.add([record(30, 26)])
    assert recent.after(30) is None
    assert recent.after(56) == []


def test_listeners_hear_of_records_that_they_can_take():
    recent = RecentRecords(1000)
    found = []
    recent.listen(lambda: found.append(recent.after(0)))
    recent.add([record(0)])
    assert found == [[record(0)]]


def test_a_journal_keeps_what_a_reader_would_read(tmp_path):
    journal = LocalJournal.open(tmp_path)
    journal.append(entry(b"before")).result()
    recent = journal.keep_recent(1000)
    begin = journal.end
    journal.append_all([entry(b"a", tenant="acme"), entry(b"")]).result()
    journal.append(entry(b"bcd")).result()
    reader = JournalReader(tmp_path)
    assert recent.after(begin) == reader.read(begin)
    assert recent.after(0) is None
    reader.close()
    journal.close()


def test_what_the_disk_did_not_take_is_not_kept(tmp_path):
    disk = FailingDisk()
    journal = LocalJournal.open(tmp_path, disk=disk)
    recent = journal.keep_recent(1000)
    journal.append(entry(b"a")).result()
    disk.fail_sync = OSError(EIO, "input/output error")
    assert getattr(journal.append(entry(b"b")).exception(), "reason", "") == "journal_unavailable"
    end = journal.append(entry(b"c")).result()
    assert [each.payload for each in recent.after(0) or []] == [b"a", b"c"]
    assert recent.after(end) == []
    journal.close()
