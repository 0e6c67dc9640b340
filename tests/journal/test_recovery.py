import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.journal.conftest import SIZE, FakeClock, Opener, SmallSegments, entry, payloads, read_all

from tracegrade.journal.local import LocalJournal
from tracegrade.journal.published import Durable, Publisher
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.settings import JournalSettings
from tracegrade.telemetry.metrics import Telemetry


def publish(folder: Path, end: int, clock_ns: int = 0) -> None:
    """Leave `folder` as a writer that was killed after publishing `end`."""
    publisher = Publisher(folder)
    publisher.publish(Durable(end, clock_ns, 0))
    publisher.close()


def test_a_new_journal_begins_at_zero(opener: Opener) -> None:
    journal = opener()
    assert (journal.end, journal.recovery.torn_bytes, journal.recovery.corrupt_bytes) == (0, 0, 0)


def test_a_last_record_torn_at_any_byte_is_cut_when_it_was_not_answered(opener: Opener) -> None:
    journal = opener(JournalSettings())
    ends = [journal.append(entry(payload)).result() for payload in (b"first", b"second", b"third")]
    journal.close()
    path = opener.last_segment()
    whole = path.read_bytes()
    for length in range(ends[1], ends[2]):
        path.write_bytes(whole[:length])
        publish(opener.folder, ends[1])
        telemetry = Telemetry("receive")
        journal = opener(JournalSettings(), telemetry=telemetry)
        assert (journal.end, path.stat().st_size) == (ends[1], ends[1]), length
        assert journal.recovery.torn_bytes == length - ends[1]
        assert telemetry.value("tracegrade.journal.corrupt_bytes", reason="torn") == length - ends[1]
        assert payloads(opener.folder) == [b"first", b"second"]
        journal.append(entry(b"again")).result()
        journal.close()
        assert payloads(opener.folder) == [b"first", b"second", b"again"]


def test_a_whole_record_that_was_not_answered_is_kept(opener: Opener) -> None:
    journal = opener()
    first = journal.append(entry(b"first")).result()
    second = journal.append(entry(b"second")).result()
    journal.close()
    publish(opener.folder, first)
    assert opener().end == second
    assert payloads(opener.folder) == [b"first", b"second"]


def test_the_published_end_is_never_gone_back_on(opener: Opener) -> None:
    journal = opener(JournalSettings())
    ends = [journal.append(entry(payload)).result() for payload in (b"first", b"second", b"third")]
    journal.close()
    whole = opener.last_segment().read_bytes()
    for length in range(ends[1], ends[2]):
        shutil.rmtree(opener.folder / "segments")
        shutil.rmtree(opener.folder / "set_aside", ignore_errors=True)
        (opener.folder / "segments").mkdir()
        (opener.folder / "segments" / f"{0:020d}.segment").write_bytes(whole[:length])
        publish(opener.folder, ends[2])
        telemetry = Telemetry("receive")
        journal = opener(JournalSettings(), telemetry=telemetry)
        assert journal.end == ends[2], length
        assert journal.recovery.corrupt_bytes == ends[2] - ends[1]
        assert telemetry.value("tracegrade.journal.corrupt_bytes", reason="corrupt") == ends[2] - ends[1]
        assert [path.read_bytes() for path in journal.recovery.set_aside] == [whole[ends[1] : length]]
        journal.append(entry(b"later")).result()
        journal.close()
        reader = opener.reader()
        assert [record.payload for record in read_all(reader)] == [b"first", b"second", b"later"]
        assert reader.lost_bytes == ends[2] - ends[1]


def test_damage_in_the_middle_is_set_aside_once_and_the_rest_is_kept(opener: Opener) -> None:
    journal = opener(JournalSettings())
    ends = [journal.append(entry(payload)).result() for payload in (b"first", b"second", b"third")]
    journal.close()
    path = opener.last_segment()
    damaged = bytearray(path.read_bytes())
    damaged[ends[0] + 10] ^= 1
    path.write_bytes(damaged)
    journal = opener(JournalSettings())
    (aside,) = journal.recovery.set_aside
    assert aside.read_bytes() == damaged[ends[0] : ends[1]]
    assert (journal.recovery.corrupt_bytes, journal.end) == (ends[1] - ends[0], ends[2])
    assert payloads(opener.folder) == [b"first", b"third"]
    journal.close()
    again = opener(JournalSettings()).recovery
    assert (again.corrupt_bytes, again.set_aside) == (0, [])


def test_a_published_end_older_than_the_data_loses_nothing(opener: Opener) -> None:
    journal = opener()
    for i in range(8):
        journal.append(entry(bytes([i]) * SIZE)).result()
    journal.close()
    publish(opener.folder, 600)  # what a power cut may leave of a file that is never synced
    assert opener().end == 1600
    assert len(payloads(opener.folder)) == 8


def test_without_a_published_end_the_segments_say_where_it_is(opener: Opener) -> None:
    journal = opener()
    for i in range(5):
        journal.append(entry(bytes([i]) * SIZE)).result()
    journal.close()
    (opener.folder / "durable").unlink()
    assert opener().end == 1000


def test_nothing_is_written_before_what_a_consumer_has_committed(opener: Opener) -> None:
    journal = opener()
    journal.append(entry(b"first")).result()
    journal.close()
    journal = opener(SmallSegments(), consumed=5000)
    assert journal.append(entry(b"second")).result() > 5000
    assert payloads(opener.folder) == [b"first", b"second"]
    assert payloads(opener.folder, 5000) == [b"second"]


def test_stamps_go_on_after_the_last_one_found(opener: Opener) -> None:
    journal = opener(now_ns=FakeClock(10**18))
    journal.append(entry(b"first")).result()
    journal.close()
    (opener.folder / "durable").unlink()
    journal = opener(now_ns=FakeClock(5), monotonic_ns=lambda: 0)
    journal.append(entry(b"second")).result()
    first, second = read_all(opener.reader())
    assert second.received_ns == first.received_ns == 10**18


def test_stamps_are_found_before_an_empty_last_segment(opener: Opener) -> None:
    journal = opener(now_ns=FakeClock(10**18))
    end = journal.append(entry(b"first")).result()
    journal.close()
    (opener.folder / "durable").unlink()
    (opener.folder / "segments" / f"{end:020d}.segment").touch()
    journal = opener(now_ns=FakeClock(5), monotonic_ns=lambda: 0)
    journal.append(entry(b"second")).result()
    assert [record.received_ns for record in read_all(opener.reader())] == [10**18, 10**18]


def test_a_full_disk_does_not_stop_the_start(opener: Opener) -> None:
    journal = opener()
    journal.append(entry(b"first")).result()
    end = journal.append(entry(b"second")).result()
    journal.close()
    path = opener.last_segment()
    path.write_bytes(b"?" + path.read_bytes()[1:])
    (opener.folder / "set_aside").write_text("a file where a folder is wanted")
    journal = opener()
    assert (journal.end, journal.recovery.set_aside) == (end, [])
    assert payloads(opener.folder) == [b"second"]


APPEND = st.tuples(st.just("append"), st.integers(0, 700))
CRASH = st.tuples(st.just("crash"), st.binary(max_size=300))
CUT = st.tuples(st.just("cut"), st.integers(0, 400))
REOPEN = st.tuples(st.just("reopen"), st.none())
FORGET = st.tuples(st.just("forget"), st.integers(0, 5000))


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(APPEND | REOPEN | CRASH | CUT | FORGET, max_size=15))
def test_any_history_gives_back_exactly_what_was_answered(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int | bytes | None]]
) -> None:
    """crash: killed with these bytes written after the end. cut: killed while a record of this size was half written.

    forget: killed in a power cut, the published end is an older one.
    """
    folder = tmp_path_factory.mktemp("journal")
    journal = LocalJournal.open(folder, SmallSegments())
    answered: list[bytes] = []
    try:
        for number, (step, argument) in enumerate(steps):
            if step == "append" and isinstance(argument, int):
                payload = number.to_bytes(2, "big") + bytes(argument)
                answered.append(payload)
                assert journal.append(entry(payload)).result() == journal.end
                continue
            end = journal.end
            journal.close()
            paths = sorted((folder / "segments").iterdir())
            if paths and step == "crash" and isinstance(argument, bytes):
                with paths[-1].open("ab") as file:
                    file.write(argument)
            elif paths and step == "cut" and isinstance(argument, int):
                with paths[-1].open("ab") as file:
                    file.write(b"TGJ1" + bytes(argument))
            elif step == "forget" and isinstance(argument, int):
                publish(folder, min(argument, end))
            journal = LocalJournal.open(folder, SmallSegments())
            assert journal.end == end
            assert payloads(folder) == answered
        reader = JournalReader(folder)
        records = read_all(reader)
        assert [record.payload for record in records] == answered
        assert [record.position for record in records[1:]] == [record.end for record in records[:-1]]
        assert reader.lost_bytes == 0
    finally:
        journal.close()
