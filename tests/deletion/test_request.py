"""Files that ask for deletions: damaged ones, and what a kill left."""

import os
import time
from pathlib import Path

from tracegrade.deletion.request import Choice, Deleted, Deletions


def test_a_damaged_file_is_named_and_stops_no_other(tmp_path: Path) -> None:
    deletions = Deletions(tmp_path)
    asked = deletions.request(Choice(session="s-1"))
    assert deletions.waiting("requested") == [asked]
    assert deletions.damage() is None
    for name, content in (("0", b""), ("1", b"{}"), ("2", b"\xff"), ("3", b"[]")):
        (tmp_path / "deletions" / f"{name}.deletion.json").write_bytes(content)
    assert deletions.waiting("requested") == [asked]
    assert len(deletions.unreadable) == 4
    damage = deletions.damage() or ""
    assert all(f"{name}.deletion.json: no deletion of ours" in damage for name in "0123")


def test_damaged_tombstones_are_told_of_as_long_as_they_are_there(tmp_path: Path) -> None:
    deletions = Deletions(tmp_path)
    deletions.tombstones().add([b"a" * 16], 1, forget_before_ns=0)
    assert deletions.damage() is None
    written = deletions.tombstones_path.read_bytes()
    deletions.tombstones_path.write_bytes(written[:-1])
    assert "tombstones: damaged" in (deletions.damage() or "")
    deletions.tombstones_path.write_bytes(written)
    os.utime(deletions.tombstones_path, ns=(1, 1))
    assert deletions.damage() is None


def test_what_a_kill_left_unfinished_goes_after_an_hour(tmp_path: Path) -> None:
    deletions = Deletions(tmp_path)
    asked = deletions.request(Choice(session="s-1"))
    old, new = (tmp_path / "deletions" / f"x.deletion.json.{pid}.unfinished" for pid in (1, 2))
    for path in (old, new):
        path.touch()
    hours_ago_s = time.time() - 7200
    os.utime(old, (hours_ago_s, hours_ago_s))
    assert deletions.waiting("requested") == [asked]
    assert (old.exists(), new.exists()) == (False, True)


def test_what_was_deleted_is_said_in_words() -> None:
    assert str(Deleted(spans=48, parquet_rows=2)) == "48 spans, 2 parquet rows"
    assert str(Deleted()) == "nothing"
