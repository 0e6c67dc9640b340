from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tests.journal.conftest import entry
from tests.journal.test_record import encode

from tracegrade.journal.record import MAGIC, Header
from tracegrade.journal.segments import Gap, counts, scan, segment_bases, segment_path


def test_segments_are_listed_in_order_and_other_files_are_not(tmp_path: Path) -> None:
    assert segment_bases(tmp_path) == []
    (tmp_path / "segments").mkdir()
    for name in (f"{300:020d}.segment", f"{20:020d}.segment", "notes.txt", "x.segment"):
        (tmp_path / "segments" / name).touch()
    assert segment_bases(tmp_path) == [20, 300]
    assert segment_path(tmp_path, 300).exists()


def test_a_gap_reaches_to_the_next_record_whatever_it_holds() -> None:
    base = 5000
    garbage = b"?" + MAGIC + bytes(50) + MAGIC
    first = encode(entry(), base)
    second = encode(entry(), base + len(first) + len(garbage))
    parts = list(scan(first + garbage + second, base))
    assert [type(part) for part in parts] == [Header, Gap, Header]
    assert parts[1] == Gap(base + len(first), base + len(first) + len(garbage))


@given(st.lists(st.binary(max_size=30) | st.integers(0, 40), max_size=8))
def test_scanning_covers_every_byte_once_and_finds_every_record(parts: list[bytes | int]) -> None:
    """An integer is a record with a payload of this size, bytes are damage."""
    base, data, records = 100, b"", 0
    for part in parts:
        if isinstance(part, int):
            data += encode(entry(bytes(part)), base + len(data))
            records += 1
        else:
            data += part
    position, found = base, 0
    for part in scan(data, base):
        assert part.position == position
        position = part.position + part.size if isinstance(part, Header) else part.end
        found += isinstance(part, Header)
    assert position == base + len(data)
    assert found == records
    assert [end for end, *_ in counts(data, base)] == [
        part.position + part.size for part in scan(data, base) if isinstance(part, Header)
    ]
