"""Resource use of a process: CPU time, memory, open files; read from /proc, which Linux alone has."""

import os
from pathlib import Path

from tracegrade.telemetry.metrics import Telemetry

_PROC = Path("/proc")
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
# Of /proc/PID/stat, counted from the field after the command's name in parentheses, which may hold blanks.
_USER_TICKS, _SYSTEM_TICKS, _RESIDENT_PAGES = 11, 12, 21


def note_process(telemetry: Telemetry, name: str, pid: int | None = None) -> None:
    """Set the metrics of the process `pid`, or of this one, under its `name`; nothing where there is no such process.

    Raises nothing: without a descriptor left, what was known last stays.
    """
    place = _PROC / ("self" if pid is None else str(pid))
    try:
        fields = (place / "stat").read_text().rpartition(")")[2].split()
        files = len(os.listdir(place / "fd"))
    except OSError:
        return
    cpu_s = (int(fields[_USER_TICKS]) + int(fields[_SYSTEM_TICKS])) / _TICKS_A_SECOND
    telemetry.set("tracegrade.process.cpu", cpu_s, process=name)
    telemetry.set("tracegrade.process.memory", int(fields[_RESIDENT_PAGES]) * _PAGE_BYTES, process=name)
    telemetry.set("tracegrade.process.open_files", files, process=name)


def forget_process(telemetry: Telemetry, name: str) -> None:
    """The process `name` has ended: it uses nothing."""
    for metric in ("tracegrade.process.memory", "tracegrade.process.open_files"):
        telemetry.forget_gauge(metric, process=name)


def note_free_disk(telemetry: Telemetry, folder: Path) -> None:
    """Set how much is free, for this user, on the file system of `folder`."""
    try:
        found = os.statvfs(folder)
    except (OSError, AttributeError):  # Windows has none
        return
    telemetry.set("tracegrade.data_folder.free", found.f_bavail * found.f_frsize)
