import threading
from pathlib import Path

import pytest

from journal.conftest import SIZE, FailingDisk, Opener, entry, payloads, read_all
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.record import Record


def zeros(record: Record) -> bytes | None:
    return bytes(len(record.payload)) if record.payload.startswith(b"gone") else None


def gone(number: int) -> bytes:
    return (b"gone%d" % number).ljust(SIZE)


def stays(number: int) -> bytes:
    return (b"stays%d" % number).ljust(SIZE)


def test_positions_and_all_other_records_stay(opener: Opener) -> None:
    journal = opener()
    for number in range(4):
        journal.append(entry(gone(number))).result()
        journal.append(entry(stays(number), items=7)).result()
    before = read_all(opener.reader())
    assert journal.erase(zeros) == 4
    after = read_all(opener.reader())
    assert [(r.position, r.end, r.received_ns, r.items) for r in after] == [
        (r.position, r.end, r.received_ns, r.items) for r in before
    ]
    assert [r.payload for r in after] == [zeros(r) or r.payload for r in before]
    assert not any(b"gone" in path.read_bytes() for path in opener.folder.rglob("*") if path.is_file())


def test_the_journal_goes_on_behind_what_was_erased_and_after_a_restart(opener: Opener) -> None:
    journal = opener()
    journal.append(entry(gone(1))).result()
    journal.erase(zeros)
    journal.append(entry(stays(1))).result()
    journal.close()
    again = opener()
    assert again.recovery.corrupt_bytes == again.recovery.torn_bytes == 0
    again.append(entry(stays(2))).result()
    assert payloads(opener.folder) == [bytes(SIZE), stays(1), stays(2)]


def test_a_reader_that_has_the_old_file_open_sees_the_new_one(opener: Opener) -> None:
    journal = opener()
    journal.append(entry(gone(1))).result()
    reader = opener.reader()
    assert [record.payload for record in reader.read(0)] == [gone(1)]
    journal.erase(zeros)
    assert [record.payload for record in reader.read(0)] == [bytes(SIZE)]


def test_records_kept_in_memory_are_forgotten(opener: Opener) -> None:
    journal = opener()
    recent = journal.keep_recent(10_000)
    end = journal.append(entry(gone(1))).result()
    journal.erase(zeros)
    assert recent.after(0) is None
    assert recent.after(end) == []


def test_appends_go_on_meanwhile(opener: Opener) -> None:
    journal = opener()
    journal.append(entry(gone(1))).result()
    begun, appended = threading.Event(), threading.Event()

    def slowly(record: Record) -> bytes | None:
        begun.set()
        assert appended.wait()
        return zeros(record)

    erasing = threading.Thread(target=journal.erase, args=(slowly,))
    erasing.start()
    assert begun.wait()
    journal.append(entry(stays(1))).result()
    appended.set()
    erasing.join()
    assert payloads(opener.folder) == [bytes(SIZE), stays(1)]


def test_damaged_bytes_and_what_a_kill_left_go_too(opener: Opener) -> None:
    journal = opener()
    for number in range(3):
        journal.append(entry(stays(number))).result()
    journal.close()
    (segment, *_) = sorted((opener.folder / "segments").iterdir())
    data = bytearray(segment.read_bytes())
    data[20] ^= 0xFF  # the first record's header
    segment.write_bytes(data)
    (segment.parent / f"{99:020d}.segment.unfinished").write_bytes(gone(1))
    (opener.folder / "set_aside").mkdir()
    (opener.folder / "set_aside" / "copy.bytes").write_bytes(gone(2))
    opener().erase(zeros)
    files = [path for path in opener.folder.rglob("*") if path.is_file()]
    assert not any(piece in path.read_bytes() for path in files for piece in (b"gone", stays(0)))
    assert payloads(opener.folder) == [stays(1), stays(2)]


def test_a_disk_that_refuses_leaves_the_segment_as_it_was(opener: Opener) -> None:
    disk = FailingDisk()
    journal = opener(disk=disk)
    journal.append(entry(gone(1))).result()

    def then_fail(record: Record) -> bytes | None:
        disk.fail_sync = OSError(28, "full")
        return zeros(record)

    with pytest.raises(OSError, match="full"):
        journal.erase(then_fail)
    assert payloads(opener.folder) == [gone(1)]
    assert [path.name for path in (opener.folder / "segments").iterdir() if "unfinished" in path.name] == []
    assert journal.erase(zeros) == 1


def test_a_payload_of_another_length_is_refused(opener: Opener, tmp_path: Path) -> None:
    journal = opener()
    journal.append(entry(gone(1))).result()
    with pytest.raises(ValueError, match="expected as many"):
        journal.erase(lambda record: b"")
    assert JournalReader(opener.folder).read(0)[0].payload == gone(1)
