"""What the judge's process does besides judging; what it judges is in `tests/system/end_to_end`."""

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Engine

from tracegrade.config import Config
from tracegrade.journal.local import LocalJournal
from tracegrade.pipeline.data_folder import DataFolder
from tracegrade.pipeline.heartbeat import Heartbeat, read_heartbeat
from tracegrade.serve import judge_role, opening
from tracegrade.serve.judge_role import JudgeRole
from tracegrade.serve.judging.journal_source import JudgePosition
from tracegrade.store.errors import StoreError
from tracegrade.store.open import open_store
from tracegrade.telemetry.conditions import conditions_in
from waiting import eventually


@pytest.fixture
def role(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JudgeRole:
    """One over an empty journal, that was told to stop: running it only closes what is open."""
    LocalJournal.open(DataFolder(tmp_path).journal).close()
    role = JudgeRole(Config(data_dir=str(tmp_path)))
    monkeypatch.setattr(sys, "setswitchinterval", lambda _: None)  # of this process
    role.stop()
    return role


def test_the_end_wakes_sinks_that_sleep(role: JudgeRole) -> None:
    role.run()
    # It is waited for, but not without end.
    assert "delivery" not in [thread.name for thread in threading.enumerate() if thread.is_alive()]


def test_a_judge_whose_position_waits_for_a_slow_disk_is_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beats = Beats(tmp_path, monkeypatch)
    heartbeat = Heartbeat(DataFolder(tmp_path).heartbeat("judge"))
    position = JudgePosition(DataFolder(tmp_path).position("judge"), heartbeat)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", lambda fd: beats.wait_for_some())
        position.commit(5, read_to=7)
    assert len(beats.seen) > 3
    assert position.load() == 5
    position.close()
    heartbeat.close()


def test_a_judge_whose_store_takes_long_to_be_brought_up_to_date_is_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LocalJournal.open(DataFolder(tmp_path).journal).close()
    beats = Beats(tmp_path, monkeypatch)

    def slow(
        url: str,
        *,
        read_only: bool = False,
        update: bool = False,
        updating: Callable[[], object] | None = None,
        durable: bool = False,
    ) -> Engine:
        if not read_only:
            assert durable, "positions are committed behind what is stored"
            assert updating is not None
            updating()
            snapshot = DataFolder(tmp_path).read_snapshot("judge")
            assert snapshot is not None
            assert [condition.name for condition in conditions_in(snapshot)] == ["store_updating"]
            beats.wait_for_some()
        return open_store(url, read_only=read_only, update=update)

    monkeypatch.setattr(judge_role, "open_store", slow)
    monkeypatch.setattr(opening, "open_store", slow)
    role = JudgeRole(Config(data_dir=str(tmp_path)))
    role.stop()
    role.run()
    assert len(beats.seen) > 3
    snapshot = DataFolder(tmp_path).read_snapshot("judge")
    assert snapshot is not None
    assert conditions_in(snapshot) == []


def test_a_store_that_is_refused_leaves_the_folder_to_the_next_judge(tmp_path: Path) -> None:
    LocalJournal.open(DataFolder(tmp_path).journal).close()
    with pytest.raises(StoreError, match="no path"):
        JudgeRole(Config(data_dir=str(tmp_path), store={"url": "sqlite://"}))
    role = JudgeRole(Config(data_dir=str(tmp_path)))
    role.stop()
    role.run()


def test_a_store_that_cannot_be_read_yet_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_OPEN_AGAIN_AFTER_S", 0.01)
    folder = DataFolder(tmp_path)
    LocalJournal.open(folder.journal).close()
    letter = tmp_path / "letter.txt"
    letter.write_text("no database" * 100)
    config = Config(data_dir=str(tmp_path), store={"url": f"sqlite:///{letter}"})
    roles: list[JudgeRole] = []
    waiting = threading.Thread(target=lambda: roles.append(JudgeRole(config)))
    waiting.start()

    def conditions() -> list[str]:
        snapshot = folder.read_snapshot("judge")
        return [] if snapshot is None else [found.name for found in conditions_in(snapshot)]

    eventually(lambda: conditions() == ["store_unavailable"], "the condition")
    beat = read_heartbeat(folder.heartbeat("judge"))
    eventually(lambda: read_heartbeat(folder.heartbeat("judge")) != beat, "signs of life")
    assert waiting.is_alive()
    letter.unlink()
    waiting.join()
    roles[0].stop()
    roles[0].run()
    assert conditions() == []


class Beats:
    """The signs of life that a judge gives while it waits."""

    def __init__(self, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tracegrade.pipeline.heartbeat.BEAT_EVERY_S", 0.01)
        monkeypatch.setattr(sys, "setswitchinterval", lambda _: None)  # of this process
        self.seen: set[int] = set()
        self._path = DataFolder(data_dir).heartbeat("judge")

    def wait_for_some(self) -> None:
        """Until more than three came."""
        eventually(self._has_seen_some)

    def _has_seen_some(self) -> bool:
        if (beat := read_heartbeat(self._path)) is not None:
            self.seen.add(beat.changed_ns)
        return len(self.seen) > 3
