"""How long after a trace's last span its results are stored and sent, without the settle time, at half load.

    python tests/system/bench/latency.py [--seconds 20] [--spans 500] [--share 0.5] [--json]

First as much as is answered for a few seconds, several times what can be judged meanwhile, which shows what the server
can take: spans stored a second, from the first one's sending to the last one's row. Then `--share` of that. Each trace
comes whole in one request, and latency is from the moment that this request was begun, plus the two seconds that a
trace settles, to the moment when its row can be read in the store, and to the arrival of its last carrier span and its
last event at the downstream server; all on this machine's monotonic clock. The store is looked at every few
milliseconds, by a process that is not counted.
"""

import argparse
import json
import sqlite3
import sys
import tempfile
import threading
import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import quantiles

sys.path.extend(map(str, Path(__file__).parents[1:3]))

from bench.agent_traces import SPANS_PER_TRACE  # importable by the line above
from bench.serving import BareServer, Served, exporter, send, serving

SETTLE_S = 2.0
FLOOD_S = 3.0
LOOK_EVERY_S = 0.005


def main() -> None:
    """Find the rate, send, print the latencies."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20, help="how long to send at the share of the load")
    parser.add_argument("--spans", type=int, default=500, help="spans a request, about")
    parser.add_argument("--share", type=float, default=0.5, help="of what the server can take")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tracegrade-bench-") as folder:
        figures = _measure(Path(folder), options)
    if options.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:28} {value:>10,}")


def _measure(folder: Path, options: argparse.Namespace) -> dict[str, float]:
    downstream = BareServer("results")
    with ExitStack() as cleanup:
        served = cleanup.enter_context(serving(folder, settings=exporter(downstream.port)))
        store = cleanup.enter_context(_Store(served.data / "tracegrade.db"))
        flood = send(served.endpoint, FLOOD_S, "--spans", options.spans)
        _wait(served, store, flood["spans"])
        capacity = flood["spans"] / (max(store.seen.values()) - flood["began_s"])
        rate = options.share * capacity * flood["requests"] / flood["spans"]
        sent = send(served.endpoint, options.seconds, "--spans", options.spans, "--rate", rate, "--times")
        _wait(served, store, flood["spans"] + sent["spans"])
    arrived: dict[str, dict[str, float]] = json.loads(downstream.end())
    begun = sent["begun"]
    return {
        "spans_per_s_at_most": round(capacity),
        "spans_per_s_sent": round(sent["spans"] / sent["seconds"]),
        "traces": round(sent["spans"] / SPANS_PER_TRACE),
        **_percentiles("stored", _latencies(begun, store.seen)),
        **_percentiles("carriers_sent", _latencies(begun, arrived["carriers"])),
        **_percentiles("events_sent", _latencies(begun, arrived["events"])),
    }


def _wait(served: Served, store: "_Store", spans: float) -> None:
    served.wait_until_delivered(spans)
    store.check()


def _latencies(begun: Mapping[str, float], done: Mapping[str, float]) -> list[float]:
    """Seconds from the begin of its request, of each trace that such a request held, without settling."""
    first_ids = sorted(begun)  # those of a request's other traces follow its first one's
    found = []
    for trace_id, at in done.items():
        place = bisect_right(first_ids, trace_id) - 1
        if place >= 0 and trace_id[:10] == first_ids[place][:10]:
            found.append(at - begun[first_ids[place]] - SETTLE_S)
    return found


def _percentiles(name: str, latencies: Sequence[float]) -> dict[str, float]:
    cuts = quantiles(latencies, n=100, method="inclusive")
    found = {"p50": cuts[49], "p90": cuts[89], "p99": cuts[98], "max": max(latencies)}
    return {f"{name}_{label}_ms": round(value * 1e3, 1) for label, value in found.items()}


class _Store:
    """Looks at the store again and again, and notes when each trace is seen first."""

    def __init__(self, path: Path) -> None:
        self.seen: dict[str, float] = {}
        self._path = path
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> "_Store":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def check(self) -> None:
        """Fail when looking has failed."""
        assert self._thread.is_alive(), "the store cannot be read"

    def _look(self) -> None:
        number = 0
        with closing(sqlite3.connect(f"file:{self._path}?mode=ro", uri=True)) as connection:
            while not self._stop.wait(LOOK_EVERY_S):
                rows = connection.execute("SELECT number, trace_id FROM traces WHERE number > ?", (number,)).fetchall()
                now_s = time.monotonic()
                for found, trace_id in rows:
                    number = max(number, found)
                    self.seen.setdefault(trace_id.hex(), now_s)


if __name__ == "__main__":
    main()
