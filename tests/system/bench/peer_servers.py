"""The servers that `peers.py` measures: how each is started, and what it does with a request."""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.serving import BareServer, exporter, serving
from interop import peers
from interop.peers import NotInstalled


@dataclass(frozen=True)
class Running:
    """A server under load: its process, where and how to send."""

    pid: int
    endpoint: str
    load: Sequence[str] = ()
    through: Sequence[str] = ()


@dataclass(frozen=True)
class Peer:
    """A server, and what it does with a request.

    ``start(work, folder, downstream, port)`` runs what is installed in `work`, with its data in `folder`, forwarding to
    port `downstream`; in a folder that was used before it goes on with what is there. It listens on `port`, if it lets
    itself be told.
    """

    name: str
    answered: str
    does: str
    start: Callable[[Path, Path, int, int], AbstractContextManager[Running]]
    forwards: bool = True


@contextmanager
def _ours(work: Path, folder: Path, downstream: int, port: int) -> Iterator[Running]:
    with serving(folder, settings=exporter(downstream), port=port) as served:
        yield Running(served.process.pid, served.endpoint)


@contextmanager
def _bare(work: Path, folder: Path, downstream: int, port: int) -> Iterator[Running]:
    server = BareServer("parse")
    try:
        yield Running(server.process.pid, f"127.0.0.1:{server.port}")
    finally:
        server.end()


@contextmanager
def _rotel(work: Path, folder: Path, downstream: int, port: int) -> Iterator[Running]:
    ports = {"grpc": port, "http": peers.free_port()}
    command = peers.rotel(work).command(folder, ports, downstream, "grpc")
    with peers.process(command, folder, ports.values()) as process:
        yield Running(process.pid, f"127.0.0.1:{port}")


def _collector(processors: str) -> Callable[[Path, Path, int, int], AbstractContextManager[Running]]:
    """The Collector with such processors between its receiver and a sending queue that is a file."""

    @contextmanager
    def start(work: Path, folder: Path, downstream: int, port: int) -> Iterator[Running]:
        binary = peers.collector_binary(work)
        (folder / "config.yaml").write_text(
            f"""\
extensions: {{file_storage: {{directory: "{folder}", fsync: true}}}}
receivers: {{otlp: {{protocols: {{grpc: {{endpoint: "127.0.0.1:{port}"}}}}}}}}
processors:
  groupbytrace: {{wait_duration: 2s, num_traces: 1000000}}
  tail_sampling: {{decision_wait: 2s, policies: [{{name: all, type: always_sample}}]}}
  batch: {{timeout: 200ms}}
exporters:
  otlp:
    endpoint: "127.0.0.1:{downstream}"
    tls: {{insecure: true}}
    compression: none
    sending_queue: {{storage: file_storage, queue_size: 100000}}
    retry_on_failure: {{initial_interval: 200ms, max_interval: 1s}}
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
def _phoenix(work: Path, folder: Path, downstream: int, port: int) -> Iterator[Running]:
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
def _mlflow(work: Path, folder: Path, downstream: int, port: int) -> Iterator[Running]:
    mlflow = peers.python_package("mlflow", work) / "bin" / "mlflow"
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
    "bare": Peer("a bare grpc.aio server in Python", "when it is parsed", "nothing", _bare, forwards=False),
    "rotel": Peer("rotel", _IN_MEMORY, "batches, forwards", _rotel),
    "collector": Peer("Collector with file queue", _WRITTEN, "forwards from there", _collector("")),
    "groupbytrace": Peer(
        "Collector with groupbytrace and file queue",
        _IN_MEMORY,
        "puts traces together for 2 s, queues each in a file (fsync), forwards",
        _collector("groupbytrace"),
    ),
    "groupbytrace-batch": Peer(
        "Collector with groupbytrace, batch and file queue",
        _IN_MEMORY,
        "puts traces together for 2 s, queues batches of them in a file (fsync), forwards",
        _collector("groupbytrace, batch"),
    ),
    "tail_sampling": Peer(
        "Collector with tail_sampling and file queue",
        _IN_MEMORY,
        "puts traces together for 2 s, decides on each (all are kept), queues it in a file (fsync), forwards",
        _collector("tail_sampling"),
    ),
    "phoenix": Peer("Phoenix", _IN_MEMORY, _SHOWS, _phoenix, forwards=False),
    "mlflow": Peer("MLflow, by HTTP", "when it is in its database", _SHOWS, _mlflow, forwards=False),
}
ON_DEMAND = {"phoenix", "mlflow"}
