import os
from pathlib import Path

import pytest
from tests.journal.conftest import FakeClock

from tracegrade.journal.position import Position


def test_a_new_consumer_has_no_position(tmp_path: Path) -> None:
    assert Position(tmp_path / "positions" / "judge").load() is None


def test_the_last_commit_is_loaded_by_anyone(tmp_path: Path) -> None:
    path = tmp_path / "positions" / "judge"
    owner = Position(path)
    for position in (5, 700, 2**60):
        owner.commit(position)
        assert Position(path).load() == position
    owner.close()


def test_a_new_owner_goes_on_where_the_last_one_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "judge"
    Position(path).commit(1)  # never closed
    second = Position(path)
    assert second.load() == 1
    second.commit(2)
    assert Position(path).load() == 2


def test_a_damaged_commit_leaves_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "judge"
    owner = Position(path)
    owner.commit(1)
    before = path.read_bytes()
    owner.commit(2)
    after = path.read_bytes()
    changed = next(i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b)
    path.write_bytes(after[:changed] + bytes([after[changed] ^ 1]) + after[changed + 1 :])
    assert Position(path).load() == 1


def test_a_file_that_is_no_position_means_start_over(tmp_path: Path) -> None:
    path = tmp_path / "judge"
    path.write_bytes(b"x" * 500)
    position = Position(path)
    assert position.load() is None
    position.commit(3)
    assert Position(path).load() == 3


def test_commits_are_synced_at_once_then_once_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    clock = FakeClock(0)
    position = Position(tmp_path / "judge", monotonic_s=lambda: clock.ns / 1e9)
    for milliseconds, expected in ((0, 1), (500, 1), (999, 1), (1000, 2), (1500, 2), (9000, 3)):
        clock.ns = milliseconds * 1_000_000
        position.commit(milliseconds)
        assert len(synced) == expected, milliseconds
    position.close()
    assert len(synced) == 4


def test_another_way_to_sync_may_be_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fdatasync", lambda fd: pytest.fail("not by the way that was given"))
    synced: list[int] = []
    position = Position(tmp_path / "judge", sync=synced.append)
    position.commit(7)
    assert len(synced) == 1
    assert Position(tmp_path / "judge").load() == 7
