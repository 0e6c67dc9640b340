"""What a store of ten million evaluations, and a trace of ten thousand calls, cost beside small ones.

    python tests/system/bench/growth.py [--evaluations 10000000] [--data-dir FOLDER] [--calls 20]

Makes the store with the traffic that the page is tested with (build/shop.py), judged by its rules and all that are
ready-made: some hundred traces, and copies of those under other ids and later times, counted and found as if they had
been written one by one; unless FOLDER holds one. Then it writes the same batches of traces by turns into that store
and into an empty one, and makes every reading call of the command line: in this process, so that what the interpreter
takes to start is left out, and each first call, which imports; some, besides, each in a process of its own, which is
mostly that: with the Python that has the package installed. Last, it judges traces of 10 to 10,000 calls, by the
shop's rules and by all.

CPU is this process's; where the machine does something else meanwhile, it says more than the time on the wall.
"""

import argparse
import gc
import os
import resource
import secrets
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import orjson
from click.testing import CliRunner
from sqlalchemy import Connection

sys.path.extend(map(str, Path(__file__).parents[1:3]))

from build.shop import HOUR, RULES, SECOND, crawl, fill, fire, traffic
from tracegrade.cli import main as tracegrade
from tracegrade.judge import judge
from tracegrade.model.trace_result import TraceResult
from tracegrade.pipeline.trace_result import trace_result
from tracegrade.rule.load import load_rules
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store import schema
from tracegrade.store.index import Arrivals, Blocks
from tracegrade.store.open import open_store
from tracegrade.store.schema import LIVE
from tracegrade.store.series import stored_traffic
from tracegrade.store.tallies import CountChanges, counted_minute
from tracegrade.store.write import StoreWriter

_DAYS = 30
_SAMPLE = 640  # traces that are judged; the rest are copies
_BATCHES = 48  # fewer read the pages of the full store for the first time, and little else
_TRACES_A_BATCH = 250


def main() -> None:
    """Make the store if there is none, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evaluations", type=int, default=10_000_000)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--calls", type=int, default=20, help="of each reading command")
    options = parser.parse_args()
    rules = load_rules([str(RULES), *_others()])
    with tempfile.TemporaryDirectory(prefix="tracegrade-bench-") as temporary:
        folder = options.data_dir or Path(temporary)
        if not (folder / "tracegrade.db").exists():
            folder.mkdir(parents=True, exist_ok=True)
            _make(folder, options.evaluations, rules)
        _read_all(folder, options.calls)
        with tempfile.TemporaryDirectory(prefix="tracegrade-bench-") as empty:
            _write_by_turns(folder, Path(empty), rules)
    _judge_longer_and_longer(rules)


def _others() -> list[str]:
    """The ready-made rules but the one that the shop has of its own."""
    own = {rule.id for rule in load_rules([str(RULES)]).rules}
    return [f"builtin:{rule.id}" for rule in load_rules(["builtin:all"]).rules if rule.id not in own]


def _make(folder: Path, evaluations: int, rules: RuleSet) -> None:
    now_ns = time.time_ns()
    begin_ns = now_ns - 60 * SECOND - _DAYS * 24 * HOUR
    fill(folder, traffic(_SAMPLE, begin_ns + HOUR, 1.0), rules)
    copies = -(-evaluations // _evaluations(folder))
    engine = open_store(f"sqlite:///{folder / 'tracegrade.db'}")
    with engine.connect() as connection:
        sample = [_Row(*row) for row in connection.execute(_SAMPLED)]
    for copy in range(1, copies):
        with engine.begin() as connection:
            _copy(connection, sample, copy * len(sample), round(copy * (_DAYS * 24 - 1) * HOUR / copies))
    engine.dispose()
    fire(folder, rules, now_ns, [])
    size = (folder / "tracegrade.db").stat().st_size
    print(f"{_evaluations(folder):,} evaluations of {copies * len(sample):,} traces, {size / 1e9:.1f} GB", flush=True)


class _Row:
    """What is counted of a trace of the sample."""

    def __init__(
        self, number: int, tenant: str, run: str, service: str, session: bool, first_ns: int, last_ns: int,
        complete: bool, evaluations: str, decisions: str,
    ) -> None:  # fmt: skip
        self.number, self.is_session, self.complete = number, session, complete
        self.origin = tenant, run, service
        self.first_ns, self.last_ns = first_ns, last_ns
        self.evaluations, self.decisions = orjson.loads(evaluations), orjson.loads(decisions)


_T = schema.traces.c
_SAMPLED = schema.traces.select().with_only_columns(
    _T.number, _T.tenant, _T.run, _T.service, _T.members.is_not(None), _T.first_received_ns, _T.last_received_ns,
    _T.complete, _T.evaluations, _T.decisions,
)  # fmt: skip
_TIMES = ("start_ns", "end_ns", "first_received_ns", "last_received_ns", "closed_ns")


def _copy(connection: Connection, sample: Sequence[_Row], further: int, later_ns: int) -> None:
    """The sample once more, as so many traces further on and later."""
    sqlite = connection.dialect.name == "sqlite"
    new_id = "randomblob(16)" if sqlite else "decode(md5(random()::text || number), 'hex')"
    changed = {"number": f"number + {further}", "trace_id": new_id}
    changed |= {name: f"{name} + {later_ns}" for name in _TIMES}
    names = [column.name for column in schema.traces.columns]
    connection.exec_driver_sql(
        f"INSERT INTO traces ({', '.join(names)}) SELECT {', '.join(changed.get(name, name) for name in names)} "
        f"FROM traces WHERE number <= {len(sample)} ORDER BY number"
    )
    arrivals, blocks, sums = Arrivals(), Blocks(), CountChanges()
    for row in sample:
        arrivals.add(row.first_ns + later_ns, row.number + further)
        blocks.add(row.number + further, row.evaluations)
        traffic_of = None if row.is_session else stored_traffic(connection, *row.origin)
        sums.add(traffic_of, counted_minute(LIVE, row.last_ns + later_ns), row.complete, row.evaluations, row.decisions)
    sums.write(connection)
    arrivals.write(connection)
    blocks.write(connection)


def _evaluations(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "tracegrade.db")) as store:
        found: int = store.execute("SELECT sum(json_array_length(evaluations)) FROM traces").fetchone()[0]
        return found


def _read_all(folder: Path, calls: int) -> None:
    with closing(sqlite3.connect(folder / "tracegrade.db")) as store:
        middle = "SELECT hex(trace_id), number FROM traces WHERE members IS NULL AND number >= "
        (trace, _) = store.execute(f"{middle}(SELECT max(number) / 2 FROM traces) ORDER BY number LIMIT 1").fetchone()
    # The rules that made the store are no part of a command: looking through them for garbage takes 60 ms.
    gc.collect()
    gc.freeze()
    print(f"{'median':>8} {'p95':>8} {'CPU p95':>8}  command")
    for command in _reading_commands(trace.lower()):
        took, cpu = [], []
        for call in range(calls + 1):
            begun, begun_cpu = time.perf_counter(), time.process_time()
            done = CliRunner().invoke(tracegrade, [*command.split(), "--data-dir", str(folder)])
            if call:
                took.append(1000 * (time.perf_counter() - begun))
                cpu.append(1000 * (time.process_time() - begun_cpu))
            assert done.exit_code == 0, done.output
            assert done.stdout, command
        print(f"{statistics.median(took):5.0f} ms {_p95(took):5.0f} ms {_p95(cpu):5.0f} ms  {command}", flush=True)
    _read_as_processes(folder, trace.lower(), calls)


def _read_as_processes(folder: Path, trace: str, calls: int) -> None:
    shown = (f"{command} {trace}" for command in ("results show", "traces show", "traces export", "why"))
    for command in ("--help", "results --help", "results list", "results stats", "traces list", "alerts list", *shown):
        arguments = [*command.split(), *(() if "--help" in command else ("--data-dir", str(folder)))]
        walls, cpus = zip(*[_as_process(arguments) for _ in range(calls + 1)][1:], strict=True)
        print(f"{statistics.median(walls):5.0f} ms {_p95(walls):5.0f} ms {_p95(cpus):5.0f} ms  a process: {command}")


def _as_process(arguments: Sequence[str]) -> tuple[float, float]:
    """What a command takes from its start to its end, on the wall and of CPU, ms."""
    # As installed: modules are compiled once, by the first call.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-m", "tracegrade", *arguments]
    begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, capture_output=True, check=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return 1000 * (time.perf_counter() - begun), 1000 * cpu


def _reading_commands(trace_id: str) -> Iterator[str]:
    filters = [
        "", "--outcome error", "--outcome fail", "--rule order-steps-out-of-order", "--agent crawler",
        "--rule order-steps-out-of-order --outcome fail", "--service search --outcome fail", "--since 1h",
        "--since 20d --until 19d",
    ]  # fmt: skip
    for chosen in filters:
        yield f"results list {chosen}"
        yield f"traces list {chosen}"
    yield f"results list --trace-id {trace_id}"
    yield "results list --format json"
    yield f"results show {trace_id}"
    yield "results stats"
    yield "results stats --since 1d"
    yield f"traces show {trace_id}"
    yield f"traces export {trace_id}"
    yield "traces export"
    yield f"why {trace_id}"
    yield "alerts list"
    yield "alerts list --firing"
    yield "alerts silence --list"


def _p95(values: Sequence[float]) -> float:
    return sorted(values)[-1 - len(values) // 20]


def _write_by_turns(full: Path, empty: Path, rules: RuleSet) -> None:
    batches = list(_batches(rules))
    gc.collect()
    gc.freeze()  # or the first batch is charged with looking through them all
    engines = [open_store(f"sqlite:///{folder / 'tracegrade.db'}") for folder in (full, empty)]
    writers = [StoreWriter(engine) for engine in engines]
    took: list[tuple[list[float], list[float]]] = [([], []), ([], [])]
    for batch in batches:
        for (walls, cpus), writer in zip(took, writers, strict=True):
            begun, begun_cpu = time.perf_counter(), time.process_time()
            writer.write(batch)
            walls.append(time.perf_counter() - begun)
            cpus.append(time.process_time() - begun_cpu)
    for engine in engines:
        engine.dispose()
    (full_walls, full_cpus), (empty_walls, empty_cpus) = took
    for what, many, few in (("wall", full_walls, empty_walls), ("CPU", full_cpus, empty_cpus)):
        each = 1e6 / _TRACES_A_BATCH
        print(
            f"writing, {what}: {statistics.median(many) * each:.0f} us a trace, into an empty store "
            f"{statistics.median(few) * each:.0f}; ratio of the medians "
            f"{statistics.median(many) / statistics.median(few):.2f}, of the sums {sum(many) / sum(few):.2f}"
        )


def _batches(rules: RuleSet, count: int = _BATCHES) -> Iterator[list[TraceResult]]:
    made = [trace for trace, _ in traffic(count * _TRACES_A_BATCH, time.time_ns(), 1.0, seed=2)]
    for first in range(0, len(made), _TRACES_A_BATCH):
        batch = []
        for trace in made[first : first + _TRACES_A_BATCH]:
            trace_id = secrets.token_bytes(16)
            spans = [replace(span, trace_id=trace_id) for span in trace.spans]
            trace = replace(trace, trace_id=trace_id, spans=spans, rule_set=rules.hash)
            batch.append(trace_result(trace, judge(trace, rules), "live", "settings"))
        yield batch


def _judge_longer_and_longer(all_rules: RuleSet) -> None:
    """CPU a call by the shop's own rules, and by all, of which some look at each call beside those before it."""
    few = load_rules([str(RULES)])
    print(f"{'calls':>8} {'us a call':>10} {'all rules':>10}")
    for calls in (10, 100, 1000, 10_000):
        trace = crawl(calls, time.time_ns(), calls)
        repeated = max(2, 1000 // calls)
        by_few = _best_s(partial(judge, trace, few), repeated) / calls * 1e6
        by_all = _best_s(partial(judge, trace, all_rules), repeated) / calls * 1e6
        print(f"{calls:>8,} {by_few:>10.1f} {by_all:>10.1f}", flush=True)


def _best_s(run: Callable[[], object], times: int) -> float:
    best = float("inf")
    for _ in range(times):
        begun = time.process_time()
        run()
        best = min(best, time.process_time() - begun)
    return best


if __name__ == "__main__":
    main()
