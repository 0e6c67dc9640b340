"""What Parquet files cost: CPU a row and a span, bytes a row, beside the SQL store in the same run.

    python tests/system/bench/parquet.py [--requests 200] [--max-rows 100000] [--values] [--rounds 3]

The load of `stages.py`, in one thread: rows are gathered trace by trace and written when there are `--max-rows`, as the
sink does. Explanations are real sentences; ids are random, and are most of the bytes. Then one trace is erased from all
files, which looks at the names in each of them.
"""

import argparse
import gc
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parent
sys.path.extend(map(str, HERE.parents[:2]))

import pyarrow.parquet  # noqa: E402  # before anything is timed
from bench.stages import SPANS, Stages  # noqa: E402  # importable by the line above

from tracegrade.deliver.parquet.erase import encoded, erase  # noqa: E402
from tracegrade.deliver.parquet.gathered import Gathered  # noqa: E402
from tracegrade.deliver.parquet.settings import ParquetSettings  # noqa: E402
from tracegrade.deliver.parquet.storage import Storage  # noqa: E402

FILES_OF_A_DAY = 1440


class Measured:
    """One run: seconds of CPU by what they were spent on, rows, and files."""

    def __init__(self, folder: Path, *, max_rows: int, values: bool) -> None:
        self.spent: dict[str, float] = defaultdict(float)
        self.rows = 0
        self.most_bytes = 0
        self._settings = ParquetSettings(url=str(folder / "parquet"), include_values=values)
        self._storage = Storage(self._settings)
        self._gathered = Gathered(values)
        self._max_rows = max_rows
        self._folder = folder

    def run(self, stage: str, work: Callable[[], Any]) -> Any:
        """For `Stages`: takes the results from it, and the time of the store."""
        begun = time.process_time()
        found = work()
        if stage == "sink: sql":
            self.spent["sql"] += time.process_time() - begun
        if stage == "pack the results":
            self._take(found[0])
        return found

    def _take(self, batch: list[Any]) -> None:
        begun = time.process_time()
        for judged in batch:
            self._gathered.add(judged)
        self.spent["gather"] += time.process_time() - begun
        self.most_bytes = max(self.most_bytes, self._gathered.bytes)
        if self._gathered.rows >= self._max_rows:
            self.write()

    def write(self) -> None:
        """Write what is gathered."""
        begun = time.process_time()
        for folder, table in self._gathered.tables(frozenset()):
            self._storage.write(f"{folder}/here-{self.rows:020d}.parquet", encoded(table))
        self.spent["write"] += time.process_time() - begun
        self.rows += self._gathered.rows
        self._gathered.clear()

    @property
    def files(self) -> list[Path]:
        """The files."""
        return list((self._folder / "parquet").rglob("*.parquet"))

    def erase_one(self) -> float:
        """Seconds that it takes to erase one trace from as many files as a day has."""
        some = min(self.files, key=lambda path: path.stat().st_size)
        content = some.read_bytes()
        for number in range(FILES_OF_A_DAY):
            some.with_name(f"copy-{number}.parquet").write_bytes(content)
        named = pyarrow.parquet.ParquetFile(some).read(columns=["judged_id"])["judged_id"][0].as_py()
        begun = time.monotonic()
        erase(self._settings, self._folder / "data", {bytes.fromhex(named[::-1])})
        return time.monotonic() - begun


def main() -> None:
    """Measure, print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=200, help="of 26 traces each")
    parser.add_argument("--max-rows", type=int, default=100_000)
    parser.add_argument("--values", action="store_true", help="with arguments, outputs and details")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    gc.disable()  # as the judge does
    rounds = []
    for number in range(options.rounds):
        gc.collect()
        with tempfile.TemporaryDirectory(prefix="tracegrade-bench-") as name:
            measured = Measured(Path(name), max_rows=options.max_rows, values=options.values)
            with Stages(Path(name), 50) as stages:
                for _ in range(options.requests):
                    stages.take_request(measured.run)
                stages.end(measured.run)
            measured.write()
            size = sum(path.stat().st_size for path in measured.files)
            found = {
                f"{what}, us a span": cpu / (options.requests * SPANS) * 1e6 for what, cpu in measured.spent.items()
            }
            both = measured.spent["gather"] + measured.spent["write"]
            found["gather and write, us a row"] = both / measured.rows * 1e6
            found["of the SQL store's CPU"] = both / measured.spent["sql"]
            found["rows a trace"] = measured.rows / (options.requests * 26)
            found["bytes a row in files"] = size / measured.rows
            found["bytes a row in memory"] = measured.most_bytes / min(measured.rows, options.max_rows)
            if number == 0:
                found["erase: files a second"] = FILES_OF_A_DAY / measured.erase_one()
            rounds.append(found)
    for what in rounds[0]:
        print(f"{what:32} {median(found[what] for found in rounds if what in found):10.2f}")


if __name__ == "__main__":
    main()
