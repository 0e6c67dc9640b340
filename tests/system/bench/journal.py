"""What the journal costs: ``python tests/system/bench/journal.py [FOLDER]`` (on the disk to be measured).

Appends as the receive role does (coroutines on one loop), then reads everything back; prints one line a record size.
CPU is this process's, user and system, over all threads.
"""

import asyncio
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tracegrade.journal.local import LocalJournal
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.record import Encoding, Entry, Signal
from tracegrade.journal.settings import JournalSettings

IN_FLIGHT = 32


async def append_all(journal: LocalJournal, entry: Entry, count: int) -> None:
    remaining = iter(range(count))

    async def sender() -> None:
        for _ in remaining:
            await journal.appended(entry)

    await asyncio.gather(*(sender() for _ in range(IN_FLIGHT)))


def measure(folder: Path, size: int, count: int) -> str:
    journal = LocalJournal.open(folder, JournalSettings())
    entry = Entry(Signal.TRACES, Encoding.PROTOBUF, "default", 1, os.urandom(size))
    wall, cpu = time.perf_counter(), time.process_time()
    asyncio.run(append_all(journal, entry, count))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    commits = journal.telemetry.value("tracegrade.journal.commits")
    journal.close()
    reader = JournalReader(folder)
    position = read = 0
    read_cpu = time.process_time()
    while records := reader.read(position):
        position = records[-1].end
        read += len(records)
    read_cpu = time.process_time() - read_cpu
    assert read == count
    return (
        f"{size:>8} B: {count / wall:>8.0f} records/s {count * size / wall / 1e6:>7.0f} MB/s "
        f"{count / commits:>5.1f} records a commit; CPU a record: append {cpu / count * 1e6:>6.1f} us, "
        f"read {read_cpu / count * 1e6:>6.1f} us"
    )


def main() -> None:
    parent = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    for size, count in ((2_000, 50_000), (500_000, 1_500)):
        folder = Path(tempfile.mkdtemp(dir=parent))
        try:
            print(measure(folder, size, count))
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
