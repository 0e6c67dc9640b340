"""Whether memory stays flat: resident MiB of each process of the server over a long run at a steady rate.

    python tests/system/bench/soak.py [--minutes 60] [--rate 10] [--journal-mib 1024] [--json]

The server of `throughput.py`, everything on, is sent so many requests of 494 spans a second. The journal's size is
bounded, so that deleting old segments is part of the run. The first tenth is not looked at: pools and caches fill. A
line a minute goes to standard error; at the end come, by process, the least and the most that were seen and the slope
of a line fitted through all readings, in MiB an hour.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import linear_regression

HERE = Path(__file__).parent
sys.path.extend(map(str, HERE.parents[:2]))

from bench.serving import BareServer, Served, exporter, serving  # noqa: E402  # the line above makes it importable
from reliability.load import resident_mib  # noqa: E402

READ_EVERY_S = 5.0


def main() -> None:
    """Run, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=float, default=10, help="requests a second")
    parser.add_argument("--journal-mib", type=int, default=1024, help="at most, of each journal")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tracegrade-bench-") as folder:
        readings = _run(Path(folder), options)
    settled = [reading for reading in readings if reading["seconds"] > options.minutes * 6]
    figures = {role: _figures(settled, role) for role in ("receive", "judge")}
    if options.json:
        print(json.dumps({"settled": figures, "readings": readings}))
        return
    for role, found in figures.items():
        print(f"{role:8} {found['least']:8.1f} to {found['most']:8.1f} MiB, {found['mib_an_hour']:+8.2f} MiB an hour")


def _run(folder: Path, options: argparse.Namespace) -> list[dict[str, float]]:
    downstream = BareServer("sink")
    with serving(folder, settings=exporter(downstream.port), journal_mib=options.journal_mib) as served:
        command = [sys.executable, str(HERE / "load.py"), served.endpoint]
        command += ["--seconds", str(options.minutes * 60), "--rate", str(options.rate)]
        load = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            return _read_until(load, served)
        finally:
            load.terminate()
            load.wait(60)
            downstream.end()


def _read_until(load: "subprocess.Popen[bytes]", served: Served) -> list[dict[str, float]]:
    """A reading every so often, until the load ends."""
    begun_s = time.monotonic()
    readings: list[dict[str, float]] = []
    shown_s = -60.0
    while load.poll() is None:
        time.sleep(READ_EVERY_S)
        seconds = time.monotonic() - begun_s
        receive, judge = (_resident_mib(pid) for pid in served.pids)
        readings.append({"seconds": seconds, "receive": receive, "judge": judge})
        if seconds - shown_s >= 60:
            shown_s = seconds
            sizes = {name: _mib(served.data / name) for name in ("journal", "results", "tracegrade.db")}
            numbers = {**readings[-1], **sizes}
            print("  ".join(f"{name} {value:,.0f}" for name, value in numbers.items()), file=sys.stderr, flush=True)
    return readings


def _resident_mib(pid: int) -> float:
    try:
        return resident_mib(pid)
    except FileNotFoundError as error:
        raise SystemExit(f"process {pid} of the server ended") from error


def _mib(path: Path) -> float:
    files = [path] if path.is_file() else [Path(top, name) for top, _, names in os.walk(path) for name in names]
    return sum(file.stat().st_size for file in files if file.exists()) / 1024**2


def _figures(readings: list[dict[str, float]], role: str) -> dict[str, float]:
    values = [reading[role] for reading in readings]
    slope, _ = linear_regression([reading["seconds"] / 3600 for reading in readings], values)
    return {"least": min(values), "most": max(values), "mib_an_hour": round(slope, 2)}


if __name__ == "__main__":
    main()
