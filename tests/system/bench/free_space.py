"""How long a writer waits while a SQLite store gives free space back to the disk.

    python tests/system/bench/free_space.py [--traces 150000] [--seconds 90]

Makes a store with rows as large as traces, deletes nine tenths of them, and lets another process write twenty rows
every 20 ms: alone, while space is given back as `serve` does it, and alone again. Prints how much was given back, the
CPU time of that, and the waits of the writer until it may write.
"""

import argparse
import multiprocessing
import secrets
import sqlite3
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path

from sqlalchemy import Engine

from tracegrade.store.open import checkpoint, open_store
from tracegrade.store.registry import database

_ROW_BYTES = 5500
_PAUSE_S = 0.1  # of `StoreUpkeep` between two slices
_INSERT = "INSERT INTO filler (bytes) VALUES (?)"


def main() -> None:
    """Make the store, and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--traces", type=int, default=150_000)
    parser.add_argument("--seconds", type=float, default=90.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tracegrade-bench-") as folder:
        path = Path(folder) / "tracegrade.db"
        engine = open_store(f"sqlite:///{path}")
        with engine.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE filler (number INTEGER PRIMARY KEY, bytes BLOB)")
        for _ in range(options.traces // 500):
            with engine.begin() as connection:
                connection.exec_driver_sql(_INSERT, [(secrets.token_bytes(_ROW_BYTES),) for _ in range(500)])
        checkpoint(engine)
        print(f"{path.stat().st_size / 2**20:.0f} MiB, of which nine tenths are deleted", flush=True)
        with engine.begin() as connection:
            connection.exec_driver_sql(f"DELETE FROM filler WHERE number <= {options.traces * 9 // 10}")
        for gives_back in (False, True, False):
            _measure(engine, path, options.seconds if gives_back else options.seconds / 4, gives_back)
        engine.dispose()


def _measure(engine: Engine, path: Path, seconds: float, gives_back: bool) -> None:
    stop = multiprocessing.Event()
    waits: Queue[Sequence[float]] = multiprocessing.Queue()
    writer = multiprocessing.Process(target=_write, args=(path, stop, waits))
    writer.start()
    begun_s, cpu_s, pages = time.monotonic(), time.process_time(), 0
    while time.monotonic() - begun_s < seconds:
        given = database(engine).give_back(engine) if gives_back else 0
        if gives_back and not given:
            break
        pages += given
        time.sleep(_PAUSE_S)
    took_s, cpu_s = time.monotonic() - begun_s, time.process_time() - cpu_s
    stop.set()
    found = sorted(1000 * wait for wait in waits.get())
    writer.join()
    what = f"{pages * 4096 / 2**20:.0f} MiB given back, {cpu_s:.1f} s of CPU" if gives_back else "nothing given back"
    said = f"median {found[len(found) // 2]:.2f}, 99 % {found[len(found) * 99 // 100]:.1f}, longest {found[-1]:.1f} ms"
    print(f"{took_s:3.0f} s, {what}; {len(found)} waits of the writer: {said}", flush=True)


def _write(path: Path, stop: Event, waits: "Queue[Sequence[float]]") -> None:
    found = []
    with closing(sqlite3.connect(path, isolation_level=None, timeout=10)) as store:
        for pragma in ("synchronous=NORMAL", "wal_autocheckpoint=4000"):
            store.execute(f"PRAGMA {pragma}")
        while not stop.is_set():
            begun_s = time.perf_counter()
            store.execute("BEGIN IMMEDIATE")
            found.append(time.perf_counter() - begun_s)
            store.executemany(_INSERT, [(secrets.token_bytes(_ROW_BYTES),) for _ in range(20)])
            store.execute("COMMIT")
            time.sleep(0.02)
    waits.put(found)


if __name__ == "__main__":
    main()
