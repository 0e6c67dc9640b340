"""Spans a second of ``tracegrade replay`` over a journal, by one process and by workers.

    python tests/system/bench/replay.py [--traces 26000] [--jobs 1 2] [--rounds 2] [--data-dir FOLDER]

Makes the journal with the traces of `throughput.py` (19 spans of about 1 KB), unless FOLDER holds one, and replays it
with other rules than it was received under: 50, of which five match, with 10 evaluations a trace. By turns for each
number of jobs; the fastest round counts. CPU is that of all processes, memory the largest resident set of one.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path.extend(map(str, HERE.parents[:2]))

from bench.agent_traces import SPANS_PER_TRACE, Stamper, marks, template  # noqa: E402  # importable by the line above
from bench.serving import write_rules  # noqa: E402

from tracegrade.journal.local import LocalJournal  # noqa: E402
from tracegrade.journal.reader import JournalReader  # noqa: E402
from tracegrade.journal.record import Encoding, Entry, Signal  # noqa: E402
from tracegrade.journal.settings import JournalSettings  # noqa: E402

TRACES_A_REQUEST = 26


def main() -> None:
    """Make the journal if there is none, measure, print a line for each number of jobs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=int, default=26_000)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tracegrade-bench-") as temporary:
        folder = options.data_dir or Path(temporary)
        if not (folder / "journal").exists():
            write_rules(folder / "rules", 50)
            _write_journal(folder / "journal", options.traces)
        spans = _spans_in(folder / "journal")
        best: dict[int, tuple[float, float, int]] = {}
        printed = set()
        for _ in range(options.rounds):
            for jobs in options.jobs:
                wall_s, cpu_s, peak_kib, digest = _replay(folder, jobs)
                best[jobs] = min(best.get(jobs, (wall_s, cpu_s, peak_kib)), (wall_s, cpu_s, peak_kib))
                printed.add(digest)
    assert len(printed) == 1, "the same lines, whatever the number of jobs"
    for jobs, (wall_s, cpu_s, peak_kib) in best.items():
        print(
            f"{jobs} jobs: {spans:,} spans in {wall_s:.1f} s, {spans / wall_s:,.0f} a second; CPU "
            f"{cpu_s / spans * 1e6:.1f} us a span; 100,000 such traces in "
            f"{wall_s / spans * 100_000 * SPANS_PER_TRACE:.0f} s; {peak_kib / 1024:.0f} MiB"
        )


def _write_journal(folder: Path, traces: int) -> None:
    journal = LocalJournal.open(folder, JournalSettings(max_size_mib=8192))
    stamper = Stamper([template(TRACES_A_REQUEST)], marks(TRACES_A_REQUEST), 1)
    spans = TRACES_A_REQUEST * SPANS_PER_TRACE
    for _ in range(-(-traces // TRACES_A_REQUEST)):
        journal.append(Entry(Signal.TRACES, Encoding.PROTOBUF, "default", spans, stamper.next())).result()
    journal.close()


def _spans_in(folder: Path) -> int:
    reader = JournalReader(folder)
    try:
        return sum(items for _, _, items in reader.counts(reader.first(), reader.durable().end))
    finally:
        reader.close()


def _replay(folder: Path, jobs: int) -> tuple[float, float, int, str]:
    """Wall and CPU seconds, KiB of the largest process, and a digest of what was printed."""
    command = [sys.executable, "-m", "tracegrade", "replay", "--rules", str(folder / "rules")]
    command += ["--data-dir", str(folder), "--format", "json", "--jobs", str(jobs)]
    before, begun = os.times(), time.monotonic()
    with tempfile.TemporaryFile() as lines:
        process = subprocess.Popen(command, stdout=lines)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall_s, after = time.monotonic() - begun, os.times()
        assert process.returncode == 0
        lines.seek(0)
        digest = hashlib.file_digest(lines, "sha256").hexdigest()
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    return wall_s, cpu_s, usage.ru_maxrss, digest


if __name__ == "__main__":
    main()
