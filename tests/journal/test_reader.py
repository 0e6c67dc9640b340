import os
from errno import EIO
from pathlib import Path
from typing import Any

import pytest
from tests.journal.conftest import SIZE, Opener, entry, payloads, read_all

from tracegrade.journal.disk import read_readable
from tracegrade.journal.errors import JournalError, JournalNotFound, SegmentDeleted
from tracegrade.journal.published import Durable, Published, Publisher
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.record import Encoding, Entry, Signal
from tracegrade.journal.settings import JournalSettings
from tracegrade.telemetry.metrics import Telemetry


def test_without_a_journal_the_reader_says_so(tmp_path: Path) -> None:
    with pytest.raises(JournalNotFound, match="no journal here"):
        JournalReader(tmp_path)


def test_a_damaged_durable_file_is_named_and_repaired_by_the_next_writer(opener: Opener) -> None:
    journal = opener()
    end = journal.append(entry()).result()
    journal.close()
    (opener.folder / "durable").write_bytes(b"x" * 128)
    with pytest.raises(JournalError, match="durable: damaged, no valid slot"):
        opener.reader().durable()
    assert opener().end == end
    assert payloads(opener.folder) == [b"payload"]


def test_a_journal_whose_writer_has_published_nothing_yet_is_waited_for_as_one_that_is_not_there(
    tmp_path: Path,
) -> None:
    """Delivery may begin to read the results of a judge in the moment in which that makes its journal."""
    publisher = Publisher(tmp_path)
    with pytest.raises(JournalNotFound, match="no journal here"):
        Published(tmp_path)
    publisher.publish(Durable(7, 1, 1))
    assert Published(tmp_path).read().end == 7
    publisher.close()


def test_an_empty_journal_reads_as_nothing(opener: Opener) -> None:
    opener()
    reader = opener.reader()
    assert (reader.first(), reader.read(0), reader.durable().end) == (0, [], 0)


def test_records_say_what_was_appended(opener: Opener) -> None:
    journal = opener()
    journal.append(Entry(Signal.LOGS, Encoding.JSON, "tenant ü", 17, b"\x00\xff")).result()
    (record,) = opener.reader().read(0)
    assert (record.signal, record.encoding, record.tenant, record.items, record.payload) == (
        Signal.LOGS,
        Encoding.JSON,
        "tenant ü",
        17,
        b"\x00\xff",
    )


@pytest.mark.parametrize("max_bytes", [1, 199, 200, 201, 399, 400, 401, 10_000])
def test_any_read_size_gives_the_same_records(opener: Opener, max_bytes: int) -> None:
    journal = opener()
    expected = [bytes([i]) * (SIZE if i != 4 else 900) for i in range(9)]
    for payload in expected:
        journal.append(entry(payload)).result()
    reader = opener.reader()
    assert [record.payload for record in read_all(reader, 0, max_bytes)] == expected
    assert reader.lost_bytes == 0


def test_a_read_stops_before_its_size_is_exceeded_but_gives_one_record(opener: Opener) -> None:
    journal = opener()
    for _ in range(6):
        journal.append(entry(bytes(SIZE))).result()
    reader = opener.reader()
    assert [len(reader.read(0, max_bytes)) for max_bytes in (1, 200, 599, 600, 800, 5000)] == [1, 1, 2, 3, 4, 6]


def test_bytes_beyond_the_durable_end_are_not_read(opener: Opener) -> None:
    journal = opener()
    journal.append(entry(b"one")).result()
    one = opener.last_segment().read_bytes()
    journal.append(entry(b"two")).result()
    journal.close()
    two = opener.last_segment().read_bytes()
    opener.last_segment().write_bytes(one)
    opener()  # publishes the end as lost bytes; see recovery
    journal_end = opener.reader().durable().end
    with opener.last_segment().open("ab") as file:
        file.write(two)
    assert journal_end == len(two)
    assert [record.end for record in read_all(opener.reader())] == [len(one)]


def test_a_reader_follows_a_writer_from_segment_to_segment(opener: Opener) -> None:
    journal = opener()
    reader = opener.reader()
    position = 0
    for i in range(12):
        journal.append(entry(bytes([i]) * SIZE)).result()
        (record,) = reader.read(position)
        assert record.payload[0] == i
        position = record.end
        assert reader.read(position) == []


def test_a_reader_stays_valid_while_the_writer_is_restarted(opener: Opener) -> None:
    journal = opener()
    first = journal.append(entry(b"first")).result()
    reader = opener.reader()
    assert len(reader.read(0)) == 1
    journal.close()
    opener().append(entry(b"second")).result()
    assert [record.payload for record in reader.read(first)] == [b"second"]


def test_any_flipped_bit_costs_its_record_and_no_other(opener: Opener) -> None:
    journal = opener(JournalSettings())
    ends = [journal.append(entry(payload)).result() for payload in (b"first", b"second", b"third")]
    journal.close()
    path = opener.last_segment()
    intact = path.read_bytes()
    for index in range(ends[0], ends[1]):
        damaged = bytearray(intact)
        damaged[index] ^= 1 << index % 8
        path.write_bytes(damaged)
        telemetry = Telemetry("judge")
        reader = JournalReader(opener.folder, telemetry=telemetry)
        assert [record.payload for record in read_all(reader)] == [b"first", b"third"], index
        assert [record.payload for record in read_all(reader)] == [b"first", b"third"], index
        assert reader.lost_bytes == ends[1] - ends[0]
        assert telemetry.value("tracegrade.journal.corrupt_bytes", reason="unreadable") == reader.lost_bytes
        reader.close()


def test_damage_at_the_end_is_passed_when_more_comes(opener: Opener) -> None:
    journal = opener(JournalSettings())
    first = journal.append(entry(b"first")).result()
    second = journal.append(entry(b"second")).result()
    with opener.last_segment().open("r+b") as file:
        file.seek(second - 1)
        file.write(b"?")
    reader = opener.reader()
    assert reader.read(first) == []
    assert reader.read(first) == []
    journal.append(entry(b"third")).result()
    assert [record.payload for record in reader.read(first)] == [b"third"]
    assert reader.lost_bytes == second - first


def test_a_record_inside_a_damaged_payload_is_not_taken_for_one(opener: Opener) -> None:
    journal = opener(JournalSettings())
    journal.append(entry(b"forged")).result()
    inner = opener.last_segment().read_bytes()
    outer_at = journal.end
    journal.append(entry(b"<" + inner + b">")).result()
    journal.append(entry(b"after")).result()
    with opener.last_segment().open("r+b") as file:
        file.seek(opener.last_segment().read_bytes().index(b"<" + inner))
        file.write(b"!")
    assert payloads(opener.folder, outer_at) == [b"after"]


def test_a_segment_that_was_lost_is_skipped_and_counted(opener: Opener) -> None:
    journal = opener()
    for i in range(6):
        journal.append(entry(bytes([i]) * SIZE)).result()
    journal.close()
    os.truncate(sorted((opener.folder / "segments").iterdir())[1], 0)
    reader = opener.reader()
    assert [record.payload[0] for record in read_all(reader)] == [0, 1, 4, 5]
    assert reader.lost_bytes == 400


def test_what_the_disk_cannot_read_is_skipped_and_counted(opener: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = opener()
    for i in range(4):
        journal.append(entry(bytes([i]) * SIZE)).result()
    original = os.pread

    def fails_in_the_first_segment(fd: int, length: int, offset: int) -> bytes:
        if os.readlink(f"/proc/self/fd/{fd}").endswith("00000.segment"):
            raise OSError(EIO, "i/o error")
        return original(fd, length, offset)

    monkeypatch.setattr(os, "pread", fails_in_the_first_segment)
    reader = opener.reader()
    assert [record.payload[0] for record in read_all(reader)] == [2, 3]
    assert reader.lost_bytes == 400


def test_a_deleted_position_names_the_first_one_left(opener: Opener) -> None:
    journal = opener()
    for _ in range(6):
        journal.append(entry(bytes(SIZE))).result()
    reader = opener.reader()
    assert len(reader.read(0, 1)) == 1  # has listed the segments, and holds the first one open
    fresh = opener.reader()
    for path in sorted((opener.folder / "segments").iterdir())[:2]:
        path.unlink()
    for one in (reader, fresh):
        with pytest.raises(SegmentDeleted, match="the first one left is 800") as caught:
            one.read(400)
        assert (caught.value.position, caught.value.first, one.first()) == (400, 800, 800)
        assert len(one.read(800)) == 2


def test_records_read_before_the_next_segment_was_deleted_are_returned(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = opener()
    for i in range(6):
        journal.append(entry(bytes([i]) * SIZE)).result()
    reader = opener.reader()
    reader.read(0, 1)

    def and_delete(*arguments: Any, **options: Any) -> Any:
        found = read_readable(*arguments, **options)
        for path in sorted((opener.folder / "segments").iterdir())[:2]:
            path.unlink()
        monkeypatch.undo()
        return found

    monkeypatch.setattr("tracegrade.journal.reader.read_readable", and_delete)
    assert [record.payload[0] for record in reader.read(0)] == [0, 1]
    with pytest.raises(SegmentDeleted):
        reader.read(400)


def test_a_deleted_segment_is_not_read_though_it_is_open(opener: Opener) -> None:
    journal = opener()
    for i in range(6):
        journal.append(entry(bytes([i]) * SIZE)).result()
    reader = opener.reader()
    assert len(reader.read(0, 1)) == 1
    for path in sorted((opener.folder / "segments").iterdir())[:2]:
        path.unlink()
    with pytest.raises(SegmentDeleted, match="the first one left is 800"):
        reader.read(0)


def test_a_segment_missing_in_the_middle_is_skipped_and_counted(opener: Opener) -> None:
    journal = opener()
    for i in range(6):
        journal.append(entry(bytes([i]) * SIZE)).result()
    reader = opener.reader()
    reader.read(0, 1)
    sorted((opener.folder / "segments").iterdir())[1].unlink()
    assert [record.payload[0] for record in read_all(reader)] == [0, 1, 4, 5]
    assert reader.lost_bytes == 400
