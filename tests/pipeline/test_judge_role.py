"""What the judge's process does besides judging; what it judges is in `tests/end_to_end`."""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tracegrade.config import Config
from tracegrade.journal.local import LocalJournal
from tracegrade.pipeline.data_folder import DataFolder
from tracegrade.pipeline.heartbeat import read_heartbeat
from tracegrade.pipeline.judge_role import JudgeRole


@pytest.fixture
def role(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JudgeRole]:
    """One over an empty journal, that was told to stop: running it only closes what is open."""
    LocalJournal.open(DataFolder(tmp_path).journal).close()
    role = JudgeRole(Config(data_dir=str(tmp_path)))
    monkeypatch.setattr(sys, "setswitchinterval", lambda _: None)  # of this process
    role.stop()
    yield role
    if role._delivery._thread.ident is None:
        role.run()


def test_the_end_wakes_sinks_that_sleep(role: JudgeRole) -> None:
    role.run()
    assert not role._delivery._thread.is_alive()  # it is not waited for without end


def test_a_judge_whose_position_waits_for_a_slow_disk_is_alive(
    role: JudgeRole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracegrade.pipeline.heartbeat.BEAT_EVERY_S", 0.01)
    path = DataFolder(tmp_path).heartbeat
    beats: set[int] = set()

    def slow(fd: int) -> None:
        for _ in range(500):
            if (beat := read_heartbeat(path)) is not None:
                beats.add(beat.changed_ns)
            if len(beats) > 3:
                return
            time.sleep(0.01)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", slow)
        role._position.commit(5)
    assert len(beats) > 3
