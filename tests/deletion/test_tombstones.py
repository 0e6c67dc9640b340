from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from tracegrade.deletion.tombstones import Tombstones

IDS = st.frozensets(st.binary(min_size=16, max_size=16), max_size=50)


@given(IDS, IDS)
def test_exactly_what_was_added_is_there(added: frozenset[bytes], others: frozenset[bytes]) -> None:
    with TemporaryDirectory() as folder:
        tombstones = Tombstones(Path(folder) / "tombstones")
        tombstones.add(added, 100, forget_before_ns=0)
        assert {trace_id for trace_id in added | others if trace_id in tombstones} == added


def test_what_is_added_is_on_the_disk_and_old_ones_are_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "deletions" / "tombstones"
    assert len(Tombstones(path)) == 0
    Tombstones(path).add([b"a" * 16, b"b" * 16], 100, forget_before_ns=0)
    Tombstones(path).add([b"c" * 16, b"b" * 16], 200, forget_before_ns=150)
    found = Tombstones(path)
    assert [letter for letter in "abc" if letter.encode() * 16 in found] == ["b", "c"]
    assert "text" not in found


@given(IDS.filter(bool), st.data())
def test_any_damage_is_noticed_and_what_is_left_is_still_known(ids: frozenset[bytes], data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "tombstones"
        Tombstones(path).add(ids, 100, forget_before_ns=0)
        assert Tombstones(path).damage == ""
        written = bytearray(path.read_bytes())
        if data.draw(st.booleans()):
            del written[data.draw(st.integers(1, len(written) - 1)) :]
        else:
            written[data.draw(st.integers(0, len(written) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        path.write_bytes(written)
        found = Tombstones(path)
        # Cut between two entries it is as an earlier version wrote it, and fewer than they were.
        if len(written) % 24:
            assert "damaged" in found.damage
            assert sum(trace_id in found for trace_id in ids) >= len(written) // 24 - 1
            found.add([b"z" * 16], 200, forget_before_ns=0)
            assert "tombstones.damaged" in Tombstones(path).damage


def test_a_file_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    path = tmp_path / "tombstones"
    path.write_bytes(b"a" * 16 + bytes(8) + b"b" * 16 + bytes(8))
    found = Tombstones(path)
    assert (found.damage, b"b" * 16 in found, len(found)) == ("", True, 2)
