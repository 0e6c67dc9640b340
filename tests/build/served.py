"""A real ``tracegrade serve`` and a real OTLP server behind it, on loopback and free ports."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.request import urlopen

import grpc
from click.testing import CliRunner, Result

from build.canonical import canonical_line
from tracegrade.cli import main
from waiting import eventually

TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
LOGS = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
METRICS = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"


class Downstream(grpc.GenericRpcHandler):
    """An OTLP/gRPC server that keeps every request as the bytes that came."""

    def __init__(self, port: int = 0) -> None:
        self.requests: dict[str, list[bytes]] = {TRACES: [], LOGS: [], METRICS: []}
        self.metadata: list[dict[str, str]] = []
        self.fail_every = 0  # every so-many-th request is refused as unavailable
        self.trouble: Callable[[bytes, grpc.ServicerContext], bytes] | None = None  # answers or aborts
        self._count = 0
        self._lock = threading.Lock()
        self._server = grpc.server(ThreadPoolExecutor(4), options=[("grpc.max_receive_message_length", -1)])
        self._server.add_generic_rpc_handlers((self,))
        self.port = self._server.add_insecure_port(f"127.0.0.1:{port}")
        self._server.start()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        method = handler_call_details.method

        def export(request: bytes, context: grpc.ServicerContext) -> bytes:
            answer = self.trouble(request, context) if self.trouble is not None else b""
            with self._lock:
                self._count += 1
                if self.fail_every and self._count % self.fail_every == 0:
                    context.abort(grpc.StatusCode.UNAVAILABLE, "now and then")
                self.requests[method].append(request)
                self.metadata.append(dict(context.invocation_metadata()))
            return answer

        return grpc.unary_unary_rpc_method_handler(export)

    def stop(self) -> None:
        self._server.stop(None).wait()


class Server:
    """One ``tracegrade serve`` over a data folder; may be killed and started again."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.data = folder / "data"
        self.config = folder / "config.yaml"
        self.endpoints: dict[str, str] = {}
        self.process: subprocess.Popen[str] | None = None
        self.log = ""
        self.under: list[str] = []  # a command that becomes the one given to it
        defaults: dict[str, Any] = {
            "data_dir": str(self.data),
            "receivers": {
                "otlp": {"protocols": {"grpc": {"endpoint": "127.0.0.1:0"}, "http": {"endpoint": "127.0.0.1:0"}}}
            },
            "telemetry": {"endpoint": "127.0.0.1:0"},
            "web": {"endpoint": "127.0.0.1:0"},
            "traces": {"settle": "300ms", "idle_timeout": "3s"},
            "rules": {"paths": ["builtin:demo"]},
        }
        self.config.write_text(json.dumps(defaults | settings))  # JSON is YAML

    def start(self, *flags: str, role: str = "all") -> None:
        serve = [sys.executable, "-m", "tracegrade", "serve", "-c", str(self.config), "--role", role]
        command = [*self.under, *serve, *flags]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log += line
            if line.startswith("Listening: "):
                shown = line.removeprefix("Listening: ").partition(". Data")[0]
                self.endpoints = dict(part.split(" ") for part in shown.split(", "))
                break
        else:
            with self.process.stderr:
                self.process.wait()
            raise AssertionError(f"serve did not start:\n{self.log}")
        self._reader = threading.Thread(target=self._keep_log, args=(self.process.stderr,), daemon=True)
        self._reader.start()

    def _keep_log(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                self.log += line

    @property
    def judge_pid(self) -> int:
        """The judge's process id."""
        assert self.process is not None
        return eventually(lambda: next(filter(_is_judge, children(self.process.pid)), 0), "a judge process")

    def kill(self) -> None:
        """kill -9 of the receive process, and wait until its judge has noticed."""
        assert self.process is not None
        judges = children(self.process.pid)
        self.process.kill()
        self.process.wait()
        for judge in judges:
            eventually(lambda pid=judge: not alive(pid), "the judge to end with its parent")
        self._reader.join()

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait()
        self._reader.join()
        return code

    def page(self) -> str:
        """The metrics page: one snapshot of both roles."""
        with urlopen(f"http://{self.endpoints['telemetry']}/metrics") as response:
            return str(response.read().decode())

    def metric(self, name: str, role: str, *, page: str | None = None, **labels: str) -> float:
        """The sum of a metric's series that carry `labels`, on `page` or on the page of now."""
        wanted = {f'{key}="{value}"' for key, value in (labels | {"role": role}).items()}
        total = 0.0
        for line in (page or self.page()).splitlines():
            series, _, value = line.rpartition(" ")
            found, _, shown = series.partition("{")
            if found == name and wanted <= set(shown.rstrip("}").split(",")):
                total += float(value)
        return total

    def cli(self, *arguments: str) -> Result:
        """A command beside the running server, in this process: to start another costs ten times what it does."""
        return CliRunner().invoke(main, arguments, catch_exceptions=False)

    def canonical(self, *command: str) -> list[str]:
        """The canonical results that a command shows, sorted."""
        shown = self.cli(*command, "--format", "json", "-c", str(self.config))
        assert shown.exit_code == 0, shown.stderr
        return sorted(canonical_line(json.loads(line)) for line in shown.stdout.splitlines())


@contextmanager
def served(folder: Path, *flags: str, **settings: Any) -> Iterator[Server]:
    """A started server, stopped at the end."""
    server = Server(folder, **settings)
    server.start(*flags)
    try:
        yield server
    finally:
        if server.process is not None and server.process.poll() is None:
            server.stop()


def children(pid: int) -> list[int]:
    """Process ids of the children of `pid`."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        found += map(int, task.read_text().split())
    return found


def _is_judge(pid: int) -> bool:
    """Whether the process has become a judge: stopped before its exec, it would stop its parent too (vfork)."""
    try:
        return b"\0--role\0judge\0" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


def alive(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def export(endpoint: str, payload: bytes, *, method: str = TRACES, timeout_s: float = 600.0, **metadata: str) -> bytes:
    """One raw OTLP/gRPC call."""
    with grpc.insecure_channel(endpoint) as channel:
        call = channel.unary_unary(method)
        return call(payload, timeout=timeout_s, metadata=list(metadata.items()))


def exporter(downstream: Downstream, **settings: Any) -> dict[str, Any]:
    """The settings of an exporter to `downstream`."""
    retry = {"initial_interval": "50ms", "max_interval": "200ms", "max_elapsed_time": "0s"}
    return {
        "otlp": {
            "endpoint": f"127.0.0.1:{downstream.port}",
            "tls": {"insecure": True},
            "retry_on_failure": retry,
            **settings,
        }
    }
