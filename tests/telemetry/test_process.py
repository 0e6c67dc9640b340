"""What processes use, as their metrics say it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def child(files: int) -> Iterator[int]:
    """The id of a process that has so many files open beside those that each has."""
    script = f"files = [open('/dev/null') for _ in range({files})]; print(flush=True); input()"
    started = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert started.stdout is not None
    started.stdout.readline()
    yield started.pid
    started.communicate()


def test_a_process_says_what_it_uses() -> None:
    telemetry = Telemetry("receive")
    note_process(telemetry, "receive")
    own, times = noted(telemetry, "receive"), os.times()
    assert 0 < own["tracegrade.process.cpu"] <= times.user + times.system + 0.02  # it counts by hundredths
    assert 10 * 2**20 < own["tracegrade.process.memory"] < 8 * 2**30
    with child(0) as few, child(20) as many:
        note_process(telemetry, "few", few)
        note_process(telemetry, "many", many)
    opened = {name: noted(telemetry, name)["tracegrade.process.open_files"] for name in ("few", "many")}
    assert opened["many"] == opened["few"] + 20


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
