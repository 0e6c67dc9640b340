"""Bytes of a span and of a trace at each place on the path, and what a store takes to write one.

    python tests/system/bench/volumes.py [--requests 100] [--corpus DIR] [--url URL] [--writers 1]

The load of `throughput.py`: generated traces of 19 spans, ten evaluations each. Nearly all of it runs in this process,
by the path's own objects. Generated text compresses better than real text does, so --corpus says how large the spans of
real frameworks' captures are, each trace by itself. With --url the generated traces are also written, batches of 250,
by so many processes into that PostgreSQL database (postgresql+psycopg://USER@HOST/NAME), which should be empty: CPU of
these processes and of PostgreSQL's own ones, the time on the wall, and bytes. `unit_costs.yaml` has what it found.
"""

import argparse
import sqlite3
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import zstandard
from sqlalchemy import text

sys.path.extend(map(str, Path(__file__).parents[1:3]))

from bench import captures  # importable by the line above
from bench.serving import cpu_s, send, serving
from bench.stages import SPANS, TRACES, Stages

from tracegrade.assemble.decode import Decoder
from tracegrade.assemble.share import Share
from tracegrade.codec.span_reader import AttributeFilter
from tracegrade.deliver.carriers import carriers
from tracegrade.deliver.events import events
from tracegrade.deliver.results import resource
from tracegrade.model.signal import Signal
from tracegrade.model.trace_result import TraceResult
from tracegrade.otlp.by_trace import by_trace
from tracegrade.otlp.encode import MAX_REQUEST_BYTES, Item, requests
from tracegrade.store.open import open_store
from tracegrade.store.write import StoreWriter

TRACES_A_BATCH = 250
NOT_JUDGED_S = 10  # some thousand traces, beside which an empty store is little


def main() -> None:
    """Run some requests through every stage, print what lies where."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=100, help="of 26 traces each")
    parser.add_argument("--rules", type=int, default=50, help="rules loaded; five of them match")
    parser.add_argument("--url", help="of an empty PostgreSQL database")
    parser.add_argument("--writers", type=int, default=1, help="processes that write to it at once")
    parser.add_argument("--corpus", type=Path, help="a folder of folders of captures, to weigh as well")
    options = parser.parse_args()
    found, judged = measure(options.requests, options.rules)
    found |= not_judged(options.rules)
    if options.corpus:
        found |= weigh(options.corpus)
    if options.url:
        found |= write(options.url, judged, options.writers)
    for name, value in found.items():
        print(f"{name:56} {value:>10,.{2 if value < 100 else 0}f}")


def measure(count: int, rules: int) -> tuple[dict[str, float], list[TraceResult]]:
    """What lies where by its name, in bytes, and the judged traces."""
    sizes: Counter[str] = Counter()
    judged: list[TraceResult] = []
    others = Decoder(AttributeFilter(frozenset()), Share(number=0, of=2**32))  # a judge to which no trace falls

    def run(stage: str, work: Callable[[], Any]) -> Any:
        begun_ns = time.process_time_ns()
        result = work()
        if stage == "journal: read":
            sizes["request"] += sum(len(record.payload) for record in result)
            for record in result:
                assert not others.spans(record.payload)
            sizes["passed over, ns"] += time.process_time_ns() - begun_ns
        elif stage == "pack the results":
            batch, entries = result
            judged.extend(batch)
            sizes["results"] += sum(len(entry.payload) for entry in entries)
            sent = list(_sent(batch))
            sizes["sent"] += sum(map(len, sent))
            sizes["gzipped"] += sum(len(zlib.compress(request)) for request in sent)
        return result

    with tempfile.TemporaryDirectory(prefix="tracegrade-bench-") as name, Stages(Path(name), rules) as stages:
        for _ in range(count):
            stages.take_request(run)
        stages.end(run)
        stored, without_spans = stored_bytes(Path(name) / "store.db")
    traces, spans = count * TRACES, count * SPANS
    assert len(judged) == traces
    return {
        "request: bytes a span": sizes["request"] / spans,
        "read and passed over by another judge: µs of CPU a span": sizes["passed over, ns"] / spans / 1000,
        "results journal: bytes a trace": sizes["results"] / traces,
        "sent as spans and events: bytes a trace": sizes["sent"] / traces,
        "the same, gzipped: bytes a trace": sizes["gzipped"] / traces,
        "SQLite: bytes a trace": stored,
        "SQLite: bytes a trace, without its spans": without_spans,
    }, judged


def stored_bytes(path: Path) -> tuple[float, float]:
    """Bytes a trace in a store that nobody writes, and without what is kept of its spans."""
    with closing(sqlite3.connect(path)) as store:
        store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        traces, spans = store.execute("SELECT count(*), sum(length(spans)) FROM traces").fetchone()
    stored = path.stat().st_size
    return stored / traces, (stored - spans) / traces


def not_judged(rules: int) -> dict[str, float]:
    """What a running server stores of traces that no rule names."""
    with tempfile.TemporaryDirectory(prefix="tracegrade-bench-") as name:
        with serving(Path(name), rules=rules, service="another-shop") as served:
            sent = send(served.endpoint, NOT_JUDGED_S, "--rate", 10)
            served.wait_until_delivered(sent["spans"])
        _, without_spans = stored_bytes(Path(name) / "data" / "tracegrade.db")
    return {"SQLite: not judged, without its spans": without_spans}


def weigh(corpus: Path) -> dict[str, float]:
    """How large spans of captures are, what compressing leaves of them, and what it and splitting by trace take."""
    whole = captures.read(sorted(folder for folder in corpus.iterdir() if folder.is_dir()))
    spans = sum(map(captures.span_count, whole))
    joined = captures.joined(whole, 500)
    traces = [part.payload for request in whole for part in by_trace(Signal.TRACES, request, MAX_REQUEST_BYTES)]
    size = sum(map(len, traces))
    begun = time.process_time()
    gzipped = sum(len(zlib.compress(request)) for request in joined)
    gzip_s, begun = time.process_time() - begun, time.process_time()
    for request in joined:
        by_trace(Signal.TRACES, request, MAX_REQUEST_BYTES)
    split_s = time.process_time() - begun
    return {
        "captures: bytes a span": size / spans,
        "captures: left by zstd, trace by trace": sum(len(zstandard.compress(trace, 3)) for trace in traces) / size,
        "captures: left by gzip, of requests": gzipped / sum(map(len, joined)),
        "captures: gzip, µs of CPU a span": gzip_s / spans * 1e6,
        "captures: splitting by trace, µs of CPU a span": split_s / spans * 1e6,
    }


def _sent(batch: Sequence[TraceResult]) -> Iterator[bytes]:
    resources = [resource(item) for item in batch]
    for encoder in (carriers, events):
        for request in requests(Item(i, resources[i], encoder(item, False)) for i, item in enumerate(batch)):
            yield request.payload


def write(url: str, judged: Sequence[TraceResult], writers: int) -> dict[str, float]:
    """What it takes to write `judged` into PostgreSQL by so many processes at once, a trace."""
    size = text("SELECT pg_database_size(current_database())")
    store = open_store(url)
    with store.connect() as connection:
        before_bytes: int = connection.execute(size).scalar_one()
    store.dispose()
    processes = get_context("fork")  # they have the traces already
    ready = processes.Barrier(writers)
    with processes.Pool(writers, initializer=_meet_at, initargs=(ready,)) as pool:
        parts = [(url, judged[number::writers]) for number in range(writers)]
        spent = pool.starmap(_write, parts, chunksize=1)
    store = open_store(url)
    with store.connect() as connection:
        after_bytes: int = connection.execute(size).scalar_one()
    store.dispose()
    traces = sum(one.traces for one in spent)
    return {
        "PostgreSQL: our CPU, µs a trace": sum(one.ours_s for one in spent) / traces * 1e6,
        "PostgreSQL: its CPU, µs a trace": sum(one.server_s for one in spent) / traces * 1e6,
        f"PostgreSQL: traces a second, {writers} writing": sum(one.traces / one.took_s for one in spent),
        "PostgreSQL: bytes a trace": (after_bytes - before_bytes) / len(judged),
    }


class _Spent(NamedTuple):
    """By one writer after its first batch: traces, CPU of its own and of PostgreSQL's process for it, and time."""

    traces: int
    ours_s: float
    server_s: float
    took_s: float


_ready: Any = None


def _meet_at(ready: Any) -> None:
    global _ready
    _ready = ready


def _write(url: str, judged: Sequence[TraceResult]) -> _Spent:
    """Write in batches, the first of them before the clock runs, then beside the other writers."""
    store = open_store(url)
    with store.connect() as connection:  # goes back to the pool, from which the writer takes it
        server: int = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
    writer, rest = StoreWriter(store), iter(judged)
    writer.write(list(islice(rest, TRACES_A_BATCH)))
    _ready.wait()
    begun, ours_s, server_s = time.monotonic(), time.process_time(), cpu_s(server)
    while batch := list(islice(rest, TRACES_A_BATCH)):
        writer.write(batch)
    spent = time.process_time() - ours_s, cpu_s(server) - server_s, time.monotonic() - begun
    store.dispose()
    return _Spent(len(judged) - TRACES_A_BATCH, *spent)


if __name__ == "__main__":
    main()
