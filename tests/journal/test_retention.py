from collections import Counter
from pathlib import Path

import pytest
from tests.journal.conftest import SIZE, FakeClock, Opener, entry, payloads

from build import each
from build.refused import refused
from tracegrade.journal.errors import JournalRefused
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.record import Signal
from tracegrade.journal.retention import Consumer, Deletable, Segment, deletable_segments
from tracegrade.journal.settings import JournalSettings
from waiting import eventually

# Three sealed segments of 100 bytes and 50 bytes in the one being written.
FIRST, SECOND, THIRD = SEGMENTS = [Segment(base, base + 100, last_ns=base + 100) for base in (0, 100, 200)]
REFUSE, DROP = "refuse", "drop_oldest"


@each(
    ("consumers", "expired_ns", "keep_bytes", "expected"),
    [
        pytest.param({}, 0, 1000, Deletable([], []), id="young and small: all stay"),
        pytest.param({}, 201, 1000, Deletable([FIRST, SECOND], []), id="expired segments go"),
        pytest.param({}, 200, 1000, Deletable([FIRST], []), id="a segment goes only when its last record is expired"),
        pytest.param({}, 0, 250, Deletable([FIRST], []), id="beyond the bound the oldest go"),
        pytest.param({}, 0, 0, Deletable(SEGMENTS, []), id="all that are sealed may go"),
        pytest.param(
            {"a": (REFUSE, 150)}, 999, 1000, Deletable([FIRST], []), id="expired, but somebody has not read it"
        ),
        pytest.param({"a": (DROP, 150)}, 999, 1000, Deletable([FIRST], []), id="age alone never drops unread records"),
        pytest.param({"a": (DROP, 50)}, 0, 250, Deletable([FIRST], []), id="drop_oldest loses the oldest"),
        pytest.param({"a": (REFUSE, 50)}, 0, 250, Deletable([], ["a"]), id="refuse holds it"),
        pytest.param({"a": (REFUSE, 100)}, 0, 150, Deletable([FIRST], ["a"]), id="refuse holds from where it stands"),
        pytest.param(
            {"a": (DROP, 0), "b": (REFUSE, 0), "c": (REFUSE, 100)},
            0,
            250,
            Deletable([], ["b"]),
            id="one refuse keeps it for all",
        ),
        pytest.param({"a": (REFUSE, 350)}, 0, 0, Deletable(SEGMENTS, []), id="a consumer at the end holds nothing"),
    ],
)
def test_what_is_deleted(
    consumers: dict[str, tuple[str, int]], expired_ns: int, keep_bytes: int, expected: Deletable
) -> None:
    states = {
        name: Consumer(position, "refuse" if when_full == REFUSE else "drop_oldest")
        for name, (when_full, position) in consumers.items()
    }
    assert deletable_segments(SEGMENTS, 350, states, expired_ns=expired_ns, keep_bytes=keep_bytes) == expected


def fill(journal: LocalJournal) -> int:
    """Append until refused; returns how many were taken."""
    for taken in range(100):
        try:
            journal.append(entry(taken.to_bytes(1, "big") * SIZE, items=3)).result()
        except JournalRefused:
            return taken
    raise AssertionError("never refused")


def test_at_the_bound_a_refuse_consumer_has_appends_refused_until_it_has_read_on(opener: Opener) -> None:
    journal = opener()
    assert fill(journal) == 4000 // 200
    assert journal.trim({"otlp": Consumer(0, "refuse")}) == {}
    with refused(
        "journal_full",
        match=r"journal is full \(0.0 of 0.0 MiB, the bound journal.max_size_mib\), waiting for otlp; the",
    ):
        journal.append(entry(bytes(SIZE)))
    assert journal.trim({"otlp": Consumer(2000, "refuse")}) == {}
    assert fill(journal) > 0
    assert payloads(opener.folder, 2000)[0][0] == 10


def test_a_drop_oldest_consumer_loses_items_that_are_counted(opener: Opener) -> None:
    journal = opener()
    fill(journal)
    lost = journal.trim({"judge": Consumer(200, "drop_oldest"), "otlp": Consumer(4000, "refuse")})
    assert lost == {"judge": Counter({Signal.TRACES: 3 * 3})}  # two segments of two records; one was read
    assert opener.reader().first() == 800
    assert fill(journal) > 0


def test_items_are_counted_by_signal(opener: Opener) -> None:
    journal = opener()
    journal.append(entry(bytes(SIZE), items=5, signal=Signal.LOGS)).result()
    fill(journal)
    lost = journal.trim({"judge": Consumer(0, "drop_oldest")})
    assert lost == {"judge": Counter({Signal.LOGS: 5, Signal.TRACES: 9})}


def test_the_segment_being_written_is_never_deleted(opener: Opener) -> None:
    now = FakeClock(10**18)
    journal = opener(JournalSettings(max_age="1s"), now_ns=now)
    journal.append(entry(b"young")).result()
    journal.trim({})
    assert payloads(opener.folder) == [b"young"]


def test_with_little_traffic_records_still_go_when_they_are_old(opener: Opener) -> None:
    now = FakeClock(10**18)
    journal = opener(JournalSettings(max_age="80s"), now_ns=now)
    reader = opener.reader()
    end = journal.append(entry(b"old")).result()
    now.ns += 20_000_000_000
    eventually(lambda: len(list((opener.folder / "segments").iterdir())) == 2)
    journal.trim({})
    assert reader.first() == 0
    now.ns += 100_000_000_000
    eventually(lambda: reader.durable().clock_ns >= now.ns)
    journal.trim({"judge": Consumer(0, "drop_oldest")})
    assert reader.first() == 0
    journal.trim({"judge": Consumer(end, "drop_oldest")})
    assert reader.first() == end
    journal.append(entry(b"new")).result()
    assert payloads(opener.folder, end) == [b"new"]


@pytest.mark.parametrize("erased", [False, True])
def test_records_go_when_they_are_old_however_often_it_is_started(opener: Opener, erased: bool) -> None:
    """Nothing comes after them, and no run lasts as long as records are kept."""
    now = FakeClock(10**18)
    settings = JournalSettings(max_age="80s")
    journal = opener(settings, now_ns=now)
    end = journal.append(entry(b"old")).result()
    for _ in range(3):
        if erased:  # which ends the segment
            journal.erase(lambda record: None)
        journal.close()
        now.ns += 30_000_000_000
        journal = opener(settings, now_ns=now)
        eventually(lambda: len(list((opener.folder / "segments").iterdir())) == 2)
    eventually(lambda: opener.reader().durable().clock_ns >= now.ns)
    journal.trim({})
    assert opener.reader().first() == end


def test_age_is_known_after_a_restart(opener: Opener) -> None:
    now = FakeClock(10**18)
    journal = opener(now_ns=now)
    for _ in range(5):
        journal.append(entry(bytes(SIZE))).result()
    journal.close()
    now.ns += 2 * 86400 * 10**9
    journal = opener(now_ns=now)
    journal.trim({})
    assert opener.reader().first() == 800


def test_positions_go_on_after_everything_but_the_last_segment_was_deleted(opener: Opener) -> None:
    journal = opener()
    for _ in range(5):
        end = journal.append(entry(bytes(SIZE))).result()
    journal.close()
    for path in sorted((opener.folder / "segments").iterdir())[:-1]:
        path.unlink()
    assert opener().end == end


def test_a_damaged_segment_is_deleted_all_the_same(opener: Opener, tmp_path: Path) -> None:
    journal = opener()
    fill(journal)
    first = min((opener.folder / "segments").iterdir())
    first.write_bytes(b"?" * 250 + first.read_bytes()[250:])
    assert journal.trim({"judge": Consumer(0, "drop_oldest")}) == {"judge": Counter({Signal.TRACES: 6})}
    assert not first.exists()
