from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tracegrade.deletion.tombstones import Tombstones

IDS = st.frozensets(st.binary(min_size=16, max_size=16), max_size=50)


@given(IDS, IDS)
def test_exactly_what_was_added_is_there(added: frozenset[bytes], others: frozenset[bytes]) -> None:
    tombstones = Tombstones(Path("/nowhere"))
    tombstones._data = b"".join(trace_id + bytes(8) for trace_id in sorted(added))
    assert [trace_id for trace_id in added | others if trace_id in tombstones] == [
        trace_id for trace_id in added | others if trace_id in added
    ]


def test_what_is_added_is_on_the_disk_and_old_ones_are_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "deletions" / "tombstones"
    assert len(Tombstones(path)) == 0
    Tombstones(path).add([b"a" * 16, b"b" * 16], 100, forget_before_ns=0)
    Tombstones(path).add([b"c" * 16, b"b" * 16], 200, forget_before_ns=150)
    found = Tombstones(path)
    assert [letter for letter in "abc" if letter.encode() * 16 in found] == ["b", "c"]
    assert "text" not in found
