"""What the judge's process does besides judging; what it judges is in `tests/end_to_end`."""

import os
import sys
import time
from pathlib import Path

import pytest

from tracegrade.config import Config
from tracegrade.journal import LocalJournal
from tracegrade.pipeline.data_folder import DataFolder
from tracegrade.pipeline.heartbeat import read_heartbeat
from tracegrade.pipeline.judge_role import JudgeRole


def test_a_judge_whose_position_waits_for_a_slow_disk_is_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = DataFolder(tmp_path)
    LocalJournal.open(folder.journal).close()
    role = JudgeRole(Config(data_dir=str(tmp_path)))
    monkeypatch.setattr("tracegrade.pipeline.heartbeat.BEAT_EVERY_S", 0.01)
    beats: set[int] = set()

    def slow(fd: int) -> None:
        for _ in range(500):
            if (beat := read_heartbeat(folder.heartbeat)) is not None:
                beats.add(beat.changed_ns)
            if len(beats) > 3:
                return
            time.sleep(0.01)

    try:
        with monkeypatch.context() as patched:
            patched.setattr(os, "fdatasync", slow)
            role._position.commit(5)
        assert len(beats) > 3
    finally:
        monkeypatch.setattr(sys, "setswitchinterval", lambda _: None)  # of this process
        role.stop()
        role.run()  # closes what is open
