"""What other programs that take OTLP traces use of the machine, under the same load in one run.

    python tests/system/bench/peers.py [--work FOLDER] [--seconds 8] [--rate 3] [--spans 500] [PEER ...]

Prints a table: CPU per span, of all processes of the server until they rest again, without what they use at rest;
their peak memory; what share of the spans reached the server to which they forward. What they do for it differs, so a
row says that too. Each is installed into FOLDER (a temporary one, unless given to be used again) as
tests/system/interop/run does; one that cannot be had is shown with the reason. None listens beyond this machine:
Phoenix, whose gRPC port knows no address, runs in a network of its own, for which one must be root.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.extend(map(str, Path(__file__).parents[1:3]))

from bench.serving import BareServer, cpu_s, descendants, exporter, peak_mib, send, serving  # importable by the above
from interop import peers
from interop.peers import NotInstalled

REST_WITHIN_S = 60.0
RESTING = 0.15  # of a core, for so long:
RESTING_S = 2.0
LOOKS_BUSY_AFTER_S = 4.0  # who puts traces together waits two seconds for more of them


@dataclass(frozen=True)
class Running:
    """A server under load: its process, where and how to send."""

    pid: int
    endpoint: str
    load: Sequence[str] = ()
    through: Sequence[str] = ()


@dataclass(frozen=True)
class Peer:
    """A server, and what it does with a request: ``start(work, folder, downstream)`` runs it."""

    name: str
    answered: str
    does: str
    start: Callable[[Path, Path, int], AbstractContextManager[Running]]


def main() -> None:
    """Measure one after the other, print a row each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peers", nargs="*", metavar="PEER", help=" ".join(PEERS))
    parser.add_argument("--work", type=Path, help="where peers are installed, to be used again")
    parser.add_argument("--seconds", type=float, default=8, help="how long to send to each")
    parser.add_argument("--rate", type=float, default=3, help="requests a second at most")
    parser.add_argument("--spans", type=int, default=500, help="spans a request, about")
    options = parser.parse_args()
    if unknown := set(options.peers) - PEERS.keys():
        parser.error(f"no peer {', '.join(sorted(unknown))}; expected {', '.join(PEERS)}")
    print("| server | spans answered | µs of CPU a span | peak MiB | forwarded | answers | then |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory(prefix="tracegrade-bench-") as temporary:
        work = (options.work or Path(temporary)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        for name in options.peers or PEERS:
            peer = PEERS[name]
            try:
                print(f"| {peer.name} | {_row(peer, work, options)} |", flush=True)
            except (NotInstalled, AssertionError, subprocess.CalledProcessError) as error:
                print(f"| {peer.name} | not measured: {' '.join(str(error).split())[:200]} | | | | | |", flush=True)


def _row(peer: Peer, work: Path, options: argparse.Namespace) -> str:
    downstream = BareServer("count")
    try:
        with (
            tempfile.TemporaryDirectory(prefix="tracegrade-bench-") as folder,
            peer.start(work, Path(folder), downstream.port) as running,
        ):
            load = ("--spans", options.spans, "--rate", options.rate, *running.load)
            once = send(running.endpoint, 1, *load, through=running.through)  # what is done once is done here
            at_rest, _ = _rest(running.pid)
            begun, before_s = time.monotonic(), _cpu_s(running.pid)
            sent = send(running.endpoint, options.seconds, *load, through=running.through)
            _, rested = _rest(running.pid)
            spent_s = _cpu_s(running.pid) - before_s - at_rest * (time.monotonic() - begun)
            peak = sum(map(peak_mib, _processes(running.pid)))
    finally:
        forwarded = downstream.end()
    share = int(forwarded) / (once["spans"] + sent["spans"]) if forwarded.strip().isdigit() else 0
    still = "" if rested else f" (still at work after {REST_WITHIN_S:.0f} s)"
    cost = f"{spent_s / sent['spans'] * 1e6:,.0f}{still}"
    return f"{sent['spans']:,} | {cost} | {peak:,.0f} | {share:.0%} | {peer.answered} | {peer.does}"


def _processes(pid: int) -> list[int]:
    return [pid, *descendants(pid)]


def _cpu_s(pid: int) -> float:
    return sum(map(cpu_s, _processes(pid)))


def _rest(pid: int) -> tuple[float, bool]:
    """Wait until the server hardly works: how many cores it uses then, and whether it came to that in time."""
    deadline = time.monotonic() + REST_WITHIN_S
    time.sleep(LOOKS_BUSY_AFTER_S)
    while True:
        begun, before_s = time.monotonic(), _cpu_s(pid)
        time.sleep(RESTING_S)
        cores = (_cpu_s(pid) - before_s) / (time.monotonic() - begun)
        if cores < RESTING or time.monotonic() > deadline:
            return cores, cores < RESTING


@contextmanager
def _ours(work: Path, folder: Path, downstream: int) -> Iterator[Running]:
    with serving(folder, settings=exporter(downstream)) as served:
        yield Running(served.process.pid, served.endpoint)


@contextmanager
def _bare(work: Path, folder: Path, downstream: int) -> Iterator[Running]:
    server = BareServer("parse")
    try:
        yield Running(server.process.pid, f"127.0.0.1:{server.port}")
    finally:
        server.end()


@contextmanager
def _rotel(work: Path, folder: Path, downstream: int) -> Iterator[Running]:
    ports = {"grpc": peers.free_port(), "http": peers.free_port()}
    command = peers.rotel(work).command(folder, ports, downstream, "grpc")
    with peers.process(command, folder, ports.values()) as process:
        yield Running(process.pid, f"127.0.0.1:{ports['grpc']}")


def _collector(processors: str) -> Callable[[Path, Path, int], AbstractContextManager[Running]]:
    """The Collector with such processors between its receiver and a sending queue that is a file."""

    @contextmanager
    def start(work: Path, folder: Path, downstream: int) -> Iterator[Running]:
        binary, port = peers.collector_binary(work), peers.free_port()
        (folder / "config.yaml").write_text(
            f"""\
extensions: {{file_storage: {{directory: "{folder}", fsync: true}}}}
receivers: {{otlp: {{protocols: {{grpc: {{endpoint: "127.0.0.1:{port}"}}}}}}}}
processors: {{groupbytrace: {{wait_duration: 2s, num_traces: 1000000}}}}
exporters:
  otlp:
    endpoint: "127.0.0.1:{downstream}"
    tls: {{insecure: true}}
    compression: none
    sending_queue: {{storage: file_storage, queue_size: 100000}}
service:
  extensions: [file_storage]
  telemetry: {{metrics: {{level: none}}, logs: {{level: warn}}}}
  pipelines: {{traces: {{receivers: [otlp], processors: [{processors}], exporters: [otlp]}}}}
"""
        )
        with peers.process([binary, f"--config={folder / 'config.yaml'}"], folder, [port]) as process:
            yield Running(process.pid, f"127.0.0.1:{port}")

    return start


@contextmanager
def _phoenix(work: Path, folder: Path, downstream: int) -> Iterator[Running]:
    if os.geteuid() != 0 or shutil.which("unshare") is None or shutil.which("nsenter") is None:
        raise NotInstalled("a network of its own needs root, unshare and nsenter")
    phoenix = peers.python_package("arize-phoenix", work) / "bin" / "phoenix"
    alone = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", phoenix, "serve"]
    settings = {
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": "6006",
        "PHOENIX_GRPC_PORT": "4317",
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    with peers.process(alone, folder, [], **settings) as process:
        yield Running(process.pid, "127.0.0.1:4317", through=["nsenter", f"--target={process.pid}", "--net"])


@contextmanager
def _mlflow(work: Path, folder: Path, downstream: int) -> Iterator[Running]:
    mlflow = peers.python_package("mlflow", work) / "bin" / "mlflow"
    port = peers.free_port()
    store = f"--backend-store-uri=sqlite:///{folder / 'mlflow.db'}"
    command = [mlflow, "server", store, "--host=127.0.0.1", f"--port={port}", "--workers=1"]
    with peers.process(command, folder, [port]) as process:
        load = ["--http", "--header", "x-mlflow-experiment-id=0"]
        yield Running(process.pid, f"http://127.0.0.1:{port}/v1/traces", load)


_IN_MEMORY, _WRITTEN = "when it is in memory", "when it is on disk (fsync)"
_SHOWS = "stores in SQLite for its page; neither forwards nor judges"
PEERS = {
    "tracegrade": Peer(
        "TraceGrade", _WRITTEN, "forwards, reads tool calls, judges (10 evaluations a trace), stores, sends", _ours
    ),
    "bare": Peer("a bare grpc.aio server in Python", "when it is parsed", "nothing", _bare),
    "rotel": Peer("rotel", _IN_MEMORY, "batches, forwards", _rotel),
    "collector": Peer(
        "OpenTelemetry Collector, sending queue in a file", _WRITTEN, "forwards from there", _collector("")
    ),
    "groupbytrace": Peer(
        "OpenTelemetry Collector, groupbytrace before that queue",
        _IN_MEMORY,
        "puts traces together for 2 s, queues each in a file (fsync), forwards",
        _collector("groupbytrace"),
    ),
    "phoenix": Peer("Phoenix", _IN_MEMORY, _SHOWS, _phoenix),
    "mlflow": Peer(
        "MLflow, by HTTP",
        "when it is in its database",
        _SHOWS,
        _mlflow,
    ),
}


if __name__ == "__main__":
    main()
