"""CPU of judging from a real Kafka into PostgreSQL, at a steady rate: of the judge, and of PostgreSQL.

    python tests/system/bench/kafka_judging.py --postgresql URL [--rate 40] [--seconds 20] [--rounds 2] [--against TREE]

`--against` measures a second source tree, the processor/ folder of another worktree, in turns with this one. Needs what
`tests/system/kafka` needs, and a PostgreSQL of this machine that may make databases. One judge reads 8
partitions; traces have 19 spans, and come whole. Counted from when the judge has partitions until all is stored.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

sys.path.extend(map(str, Path(__file__).parents[1:3]))

import psycopg
from bench.agent_traces import SPANS_PER_TRACE, Stamper, marks, template
from bench.serving import OWN, TICKS, cpu_s
from kafka.broker import Broker
from kafka.group import Judge, new_database, settings

from tracegrade.journal.kafka.produce import KafkaJournal
from tracegrade.journal.kafka.settings import KafkaSettings
from tracegrade.journal.record import Encoding, Entry
from tracegrade.model.signal import Signal
from tracegrade.telemetry.metrics import Telemetry
from waiting import eventually

PARTITIONS = 8
_AT_ONCE_S = 0.1  # a request holds the traces of so long


@dataclass(frozen=True)
class Load:
    """How many traces, and how fast."""

    rate: float
    seconds: float

    @property
    def traces(self) -> int:
        """All of them."""
        return round(self.rate * self.seconds / self.together) * self.together

    @property
    def together(self) -> int:
        """Those of one request."""
        return max(1, round(self.rate * _AT_ONCE_S))


def main() -> None:
    """Measure in turns, and print the means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--postgresql", required=True, help="postgresql+psycopg://USER@127.0.0.1:PORT/NAME")
    parser.add_argument("--rate", type=float, default=40, help="traces a second")
    parser.add_argument("--seconds", type=float, default=20, help="how long to send, each time")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--against", type=Path, help="the processor/ folder of another source tree")
    options = parser.parse_args()
    trees = [tree.resolve() for tree in (options.against, OWN) if tree is not None]
    found: dict[Path, list[dict[str, float]]] = {tree: [] for tree in trees}
    load = Load(options.rate, options.seconds)
    with tempfile.TemporaryDirectory(prefix="tracegrade-bench-") as made, Broker(Path(made) / "kafka") as broker:
        for number in range(options.rounds):
            for place, tree in enumerate(trees):
                name = f"{number}-{place}"
                store = new_database(options.postgresql, f"kafka_judging_{number}_{place}")
                found[tree].append(_measure(broker, Path(made), name, store, tree, load))
    for what in found[trees[0]][0]:
        means = [mean(round_[what] for round_ in found[tree]) for tree in trees]
        ratio = f"{means[1] / means[0]:8.2f}" if len(means) > 1 else ""
        print(f"{what:40}" + "".join(f"{value:10.2f}" for value in means) + ratio)


def _measure(broker: Broker, folder: Path, name: str, store: str, tree: Path, load: Load) -> dict[str, float]:
    topics = {"traces_topic": f"spans-{name}", "logs_topic": f"logs-{name}"}
    for topic in topics.values():
        broker.create_topic(topic, PARTITIONS)
    common = settings(broker, store, **topics, group=f"judges-{name}")
    judge = Judge(folder, f"judge-{name}", common, PYTHONPATH=str(tree))
    judge.start()
    try:
        eventually(lambda: len(judge.lags(0)) == PARTITIONS, f"partitions; see {judge.log}", within_s=60)
        with psycopg.connect(store.replace("+psycopg", ""), autocommit=True) as connection:
            begun = _used(judge, connection)
            _produce(KafkaSettings(**common["journal"]["kafka"]), load)
            eventually(lambda: _stored(connection) == load.traces, "all in the store", within_s=120, every_s=0.5)
            ended = _used(judge, connection)
    finally:
        judge.stop()
    spans = load.traces * SPANS_PER_TRACE
    used = {what: ended[what] - begun[what] for what in begun}
    return {
        "judge: µs of CPU a span": used["judge_s"] / spans * 1e6,
        "PostgreSQL: µs of CPU a span": used["postgresql_s"] / spans * 1e6,
        "transactions a second": used["transactions"] / load.seconds,
    }


def _produce(settings: KafkaSettings, load: Load) -> None:
    """Requests at a steady rate, each waited for."""
    journal = KafkaJournal.open(settings, Telemetry("bench"))
    stamper = Stamper([template(load.together)], marks(load.together), 1)
    begun_s = time.monotonic()
    for sent in range(0, load.traces, load.together):
        time.sleep(max(0.0, begun_s + sent / load.rate - time.monotonic()))
        entry = Entry(Signal.TRACES, Encoding.PROTOBUF, "default", load.together * SPANS_PER_TRACE, stamper.next())
        journal.append(entry).result(30)
    journal.close()


def _used(judge: Judge, connection: psycopg.Connection[Any]) -> Mapping[str, float]:
    (transactions,) = connection.execute(
        "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
    ).fetchone() or (0,)
    return {
        "judge_s": cpu_s(judge.pid),
        "postgresql_s": _cpu_with_children_s(_parent(connection.info.backend_pid)),
        "transactions": transactions,
    }


def _stored(connection: psycopg.Connection[Any]) -> int:
    (count,) = connection.execute("SELECT count(*) FROM traces").fetchone() or (0,)
    return int(count)


def _parent(pid: int) -> int:
    return int(_stat(pid)[1])


def _cpu_with_children_s(pid: int) -> float:
    """Of this process, and of those that it has started, also where they have ended."""
    children = [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit() and _is_child(each.name, pid)]
    return sum(float(ticks) for ticks in _stat(pid)[11:15]) / TICKS + sum(map(cpu_s, children))


def _is_child(name: str, pid: int) -> bool:
    try:
        return _parent(int(name)) == pid
    except FileNotFoundError:  # it ended meanwhile
        return False


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat, from the state on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


if __name__ == "__main__":
    main()
