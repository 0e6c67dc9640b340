"""What processes use, as their metrics say it."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tracegrade.telemetry.metrics import Telemetry
from tracegrade.telemetry.process import forget_process, note_free_disk, note_process

METRICS = ("tracegrade.process.cpu", "tracegrade.process.memory", "tracegrade.process.open_files")
pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")


def noted(telemetry: Telemetry, name: str) -> dict[str, float]:
    found: dict[str, list[dict[str, Any]]] = telemetry.snapshot()["metrics"]
    return {
        metric: point["value"]
        for metric in METRICS
        for point in found.get(metric, ())
        if point["labels"] == {"process": name}
    }


def test_a_process_says_what_it_uses(tmp_path: Path) -> None:
    telemetry = Telemetry("receive")
    with (tmp_path / "one").open("w"), (tmp_path / "two").open("w"):
        note_process(telemetry, "receive")
        with_two = noted(telemetry, "receive")
    note_process(telemetry, "receive")
    without = noted(telemetry, "receive")
    times = os.times()
    assert with_two["tracegrade.process.open_files"] == without["tracegrade.process.open_files"] + 2
    assert 0 < without["tracegrade.process.cpu"] <= times.user + times.system + 0.02  # it counts by hundredths
    assert 10 * 2**20 < without["tracegrade.process.memory"] < 8 * 2**30


def test_a_child_is_noted_until_it_ends() -> None:
    telemetry = Telemetry("receive")
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    note_process(telemetry, "web (a name)", child.pid)
    assert noted(telemetry, "web (a name)").keys() == {*METRICS}
    child.communicate()
    forget_process(telemetry, "web (a name)")
    assert noted(telemetry, "web (a name)").keys() == {"tracegrade.process.cpu"}
    note_process(telemetry, "web (a name)", child.pid)
    assert noted(telemetry, "web (a name)").keys() == {"tracegrade.process.cpu"}, (
        "a process that has ended uses nothing"
    )


def test_free_room_is_that_of_the_folder(tmp_path: Path) -> None:
    telemetry = Telemetry("receive")
    note_free_disk(telemetry, tmp_path)
    assert telemetry.value("tracegrade.data_folder.free") > 0
    note_free_disk(Telemetry("receive"), tmp_path / "gone")
