"""What a PostgreSQL store of many evaluations costs beside an empty one: as growth.py, for `store.url`.

    python tests/system/bench/growth_postgresql.py --url URL --empty URL [--evaluations 10000000] [--calls 5]

URLs as `store.url` has them, of two empty databases on a server of this machine. Fills the first one unless it holds
traces (so that one can go on with the same store: more evaluations are added), as growth.py does: some hundred traces
judged and written, and copies of those under other ids and later times, counted, found and in partitions as if they had
been written one by one. Then it writes the same batches by turns into both, and makes every reading call of the
command line. CPU is that of this process, and of the server processes that worked for it.
"""

import argparse
import gc
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from click.testing import CliRunner
from sqlalchemy import Engine, text

sys.path.extend(map(str, Path(__file__).parents[1:3]))

from build.shop import HOUR, RULES, SECOND, traffic
from system.bench.growth import (
    _DAYS,
    _SAMPLE,
    _SAMPLED,
    _TRACES_A_BATCH,
    _batches,
    _copy,
    _others,
    _reading_commands,
    _Row,
)
from tracegrade.cli import main as tracegrade
from tracegrade.judge import judge
from tracegrade.pipeline.trace_result import trace_result
from tracegrade.rule.load import load_rules
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.open import open_store
from tracegrade.store.partitions import make_room, partitions
from tracegrade.store.write import StoreWriter

_BATCHES = 24
_COUNTED = "SELECT count(*), coalesce(sum(json_array_length(evaluations::json)), 0) FROM traces WHERE number <= 640"


def main() -> None:
    """Fill the store where there is too little, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    parser.add_argument("--empty", required=True)
    parser.add_argument("--evaluations", type=int, default=10_000_000)
    parser.add_argument("--calls", type=int, default=5, help="of each reading command")
    options = parser.parse_args()
    rules = load_rules([str(RULES), *_others()])
    full, empty = open_store(options.url), open_store(options.empty)
    _fill(full, options.evaluations, rules)
    _write_by_turns(full, empty, rules)
    _read_all(full, options.url, options.calls)


def _fill(engine: Engine, evaluations: int, rules: RuleSet) -> None:
    begin_ns = time.time_ns() - 60 * SECOND - _DAYS * 24 * HOUR
    with engine.connect() as connection:
        if not connection.execute(text(_COUNTED)).one()[0]:
            made = []
            for trace, _ in traffic(_SAMPLE, begin_ns + HOUR, 1.0):
                trace.rule_set = rules.hash
                made.append(trace_result(trace, judge(trace, rules), "live", "settings"))
            StoreWriter(engine).write(made)
    with engine.connect() as connection:
        traces, of_sample = connection.execute(text(_COUNTED)).one()
        stored: int = connection.execute(text("SELECT max(number) FROM traces")).scalar_one()
        sample = [_Row(*row) for row in connection.execute(_SAMPLED.where(text("number <= 640")))]
    assert traces == _SAMPLE, "the databases must be empty at first"
    copies = -(-evaluations // of_sample)
    for copy in range(-(-stored // _SAMPLE), copies):
        make_room(engine, (copy + 1) * _SAMPLE)
        with engine.begin() as connection:
            _copy(connection, sample, copy * _SAMPLE, round(copy * (_DAYS * 24 - 1) * HOUR / copies))
            connection.exec_driver_sql(
                "INSERT INTO trace_keys (trace_id, tenant, run, number, revision) "
                f"SELECT trace_id, tenant, run, number, revision FROM traces WHERE number > {copy * _SAMPLE}"
            )
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("SELECT setval('trace_numbers', max(number)) FROM traces")
        connection.exec_driver_sql("VACUUM ANALYZE")
        size = connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one()
        keys = connection.execute(text("SELECT pg_total_relation_size('trace_keys')")).scalar_one()
        rows = copies * _SAMPLE
        print(
            f"{copies * of_sample:,} evaluations of {rows:,} traces in {len(partitions(connection))} partitions: "
            f"{size / 1e9:.1f} GB, {size / rows / 1000:.1f} KB a trace, of which trace_keys {keys / rows:.0f} bytes",
            flush=True,
        )


class _Server:
    """The processor time of the server's processes that worked for one engine, or for every connection that ended."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        with engine.connect() as connection:
            self._own = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
        self.look_for_others()

    def look_for_others(self) -> None:
        """The pool gives out its connections by turns."""
        with self._engine.connect() as connection:
            own = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND client_port IS NOT NULL"
            self._all = list(connection.execute(text(own)).scalars())

    def of_connections_s(self) -> float:
        """Of those that the engine's pool gives out."""
        return sum(sum(map(int, _stat(pid)[11:13])) for pid in self._all) / os.sysconf("SC_CLK_TCK")

    def of_ended_s(self) -> float:
        """Of all connections that have ended."""
        return sum(map(int, _stat(int(_stat(self._own)[1]))[13:15])) / os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _write_by_turns(full: Engine, empty: Engine, rules: RuleSet) -> None:
    batches = list(_batches(rules, _BATCHES))
    gc.collect()
    gc.freeze()
    writers = [(StoreWriter(engine), _Server(engine)) for engine in (full, empty)]
    own: list[list[float]] = [[], []]
    servers: list[list[float]] = [[], []]
    for batch in batches:
        for (writer, server), cpu, server_cpu in zip(writers, own, servers, strict=True):
            begun, server_begun = time.process_time(), server.of_connections_s()
            writer.write(batch)
            if batch is not batches[0]:  # with which the series of an empty store are stored
                cpu.append(time.process_time() - begun)
                server_cpu.append(server.of_connections_s() - server_begun)
            else:
                server.look_for_others()
    each = 1e6 / _TRACES_A_BATCH / (len(batches) - 1)
    for what, (many, few) in (("this process", own), ("the server", servers)):
        print(
            f"writing, CPU of {what}: {sum(many) * each:.0f} us a trace, into an empty store {sum(few) * each:.0f}; "
            f"ratio {sum(many) / sum(few):.2f}",
            flush=True,
        )


def _read_all(engine: Engine, url: str, calls: int) -> None:
    middle = "SELECT encode(trace_id, 'hex') FROM traces WHERE number >= (SELECT max(number) / 2 FROM traces) LIMIT 1"
    with engine.connect() as connection:
        trace: str = connection.execute(text(middle)).scalar_one()
    server = _Server(engine)
    gc.collect()
    gc.freeze()
    print(f"{'median':>8} {'CPU':>8} {'server':>8}  command")
    with tempfile.TemporaryDirectory(prefix="tracegrade-bench-") as folder:
        config = Path(folder) / "config.yaml"
        config.write_text(f"data_dir: {folder}\nstore: {{url: '{url}'}}\n")
        for command in _reading_commands(trace):
            took, cpu, of_server = _call([*command.split(), "-c", str(config)], calls, server.of_ended_s)
            print(f"{1000 * took:5.0f} ms {1000 * cpu:5.0f} ms {1000 * of_server:5.0f} ms  {command}", flush=True)


def _call(arguments: Sequence[str], calls: int, server_s: Callable[[], float]) -> tuple[float, float, float]:
    """The median on the wall, and the mean CPU of this process and of the server, s; a first call imports."""
    CliRunner().invoke(tracegrade, list(arguments))
    walls, begun_cpu, begun_server = [], time.process_time(), server_s()
    for _ in range(calls):
        begun = time.perf_counter()
        done = CliRunner().invoke(tracegrade, list(arguments))
        walls.append(time.perf_counter() - begun)
        assert done.exit_code in (0, 1), done.output
        assert done.stdout, arguments
    cpu = (time.process_time() - begun_cpu) / calls
    return statistics.median(walls), cpu, (server_s() - begun_server) / calls


if __name__ == "__main__":
    main()
