"""Programs of others: installed into a temporary folder by name, run on loopback, ended by process id."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from waiting import WITHIN_S, eventually


class NotInstalled(Exception):
    """A peer is not to be had here: no registry answers, or a tool that it needs is missing."""


@dataclass(frozen=True)
class Place:
    """Where peers are installed, and where runs keep their data."""

    installed: Path
    runs: Path

    def new(self, name: str) -> Path:
        """A fresh folder for one run."""
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.runs))


@dataclass(frozen=True)
class Row:
    """One exchange that went as it should."""

    peer: str
    exchanged: str
    result: str


@dataclass(frozen=True)
class Forwarder:
    """A collector that may stand before or behind us.

    ``command(folder, ports, target, protocol)`` is its command line: it listens on ``ports["grpc"]`` and
    ``ports["http"]`` of loopback and forwards to port `target` of loopback by `protocol` (grpc or http), with gzip.
    """

    name: str
    command: Callable[[Path, Mapping[str, int], int, str], Sequence[str]]

    @contextmanager
    def running(self, folder: Path, target: int, protocol: str) -> Iterator[dict[str, int]]:
        """The ports on which it listens."""
        folder.mkdir(parents=True, exist_ok=True)
        ports = {"grpc": free_port(), "http": free_port()}
        with process(self.command(folder, ports, target, protocol), folder, ports.values()):
            yield ports


@contextmanager
def process(
    command: Sequence[str | Path], folder: Path, ports: Iterable[int], **environment: str
) -> Iterator["subprocess.Popen[bytes]"]:
    """A program that runs in `folder` and listens on `ports`; ended at the end."""
    with (folder / "output.txt").open("w") as output:
        running = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            cwd=folder,
            env=os.environ | environment,
        )
    try:
        for port in ports:
            _wait_listening(running, port, folder / "output.txt")
        yield running
    finally:
        running.terminate()
        try:
            running.wait(10)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()


def free_port() -> int:
    """A port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_listening(process: "subprocess.Popen[bytes]", port: int, output: Path) -> None:
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError(f"{process.args}: does not listen on {port}:\n{output.read_text()[-2000:]}")


def install(command: Sequence[str | Path], folder: Path, within_s: float = WITHIN_S, **environment: str) -> None:
    """Run an installer in `folder`.

    Raises:
        NotInstalled: the tool is missing, fails, or takes too long.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if shutil.which(command[0]) is None:
        raise NotInstalled(f"{command[0]} is not on this machine")
    try:
        subprocess.run(
            [str(part) for part in command],
            cwd=folder,
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=within_s,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        said = " / ".join((error.stderr or error.stdout).strip().splitlines())
        raise NotInstalled(f"{' '.join(map(str, command))}: {said[:400]}") from None
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"{' '.join(map(str, command))}: took longer than {within_s} s") from None


# The peers


def node_modules(work: Path) -> Path:
    """A folder in which Node finds the OpenTelemetry SDK."""
    folder = work / "node"
    if not (folder / "node_modules").exists():
        install(
            [
                "npm",
                "install",
                "--no-audit",
                "--no-fund",
                "--prefix",
                ".",
                "@opentelemetry/api",
                "@opentelemetry/resources",
                "@opentelemetry/sdk-trace-base",
                "@opentelemetry/exporter-trace-otlp-http",
            ],
            folder,
        )
    return folder


def python_package(name: str, work: Path, *options: str) -> Path:
    """An environment of its own with a package in it."""
    environment = work / name
    if not (environment / "bin").exists():
        install([sys.executable, "-m", "venv", environment], work)
        install([environment / "bin" / "pip", "install", "-q", *options, name], work)
    return environment


def rotel(work: Path) -> Forwarder:
    """The rotel collector (Rust). It has only pre-releases, and its own environment."""
    environment = python_package("rotel", work, "--pre")
    found = list(environment.glob("lib/python3*/site-packages/rotel/rotel-agent"))
    if not found:
        raise NotInstalled("the rotel package holds no agent for this platform")

    def command(folder: Path, ports: Mapping[str, int], target: int, protocol: str) -> Sequence[str]:
        return [
            str(found[0]),
            "start",
            f"--pid-file={folder / 'pid'}",
            f"--log-file={folder / 'log.txt'}",
            f"--otlp-grpc-endpoint=127.0.0.1:{ports['grpc']}",
            f"--otlp-http-endpoint=127.0.0.1:{ports['http']}",
            "--exporter=otlp",
            f"--otlp-exporter-endpoint=http://127.0.0.1:{target}",
            f"--otlp-exporter-protocol={protocol}",
            "--otlp-exporter-retry-initial-backoff=200ms",
            "--otlp-exporter-retry-max-backoff=1s",
        ]

    return Forwarder("rotel", command)


_BUILT_WITHIN_S = 3000.0

# The newest release all of whose modules the module proxy had when this was written.
COLLECTOR = "v0.149.0"
COLLECTOR_STABLE = "v1.55.0"
# The same with the Kafka exporter, of which the proxy had no earlier release.
KAFKA_COLLECTOR = "v0.155.0"
KAFKA_COLLECTOR_STABLE = "v1.61.0"
_CORE = "go.opentelemetry.io/collector"
_CONTRIB = "github.com/open-telemetry/opentelemetry-collector-contrib"


def otel_collector(work: Path) -> Forwarder:
    """The OpenTelemetry Collector (Go)."""
    binary = collector_binary(work)

    def command(run_folder: Path, ports: Mapping[str, int], target: int, protocol: str) -> Sequence[str]:
        config = run_folder / "config.yaml"
        config.write_text(_collector_config(ports, target, protocol))
        return [str(binary), f"--config={config}"]

    return Forwarder("OpenTelemetry Collector", command)


def collector_binary(work: Path) -> Path:
    """The Collector, built with its own builder: some minutes the first time."""
    return _built(work / "collector", COLLECTOR, _builder_config())


def kafka_collector_binary(work: Path) -> Path:
    """A Collector with the Kafka exporter and what ``deploy/kafka/collector.yaml`` names beside it."""
    return _built(work / "kafka-collector", KAFKA_COLLECTOR, _kafka_builder_config())


def _built(folder: Path, version: str, config: str) -> Path:
    binary, builder_config = folder / "dist" / "otelcol", folder / "builder.yaml"
    if not binary.exists() or builder_config.read_text() != config:
        folder.mkdir(parents=True, exist_ok=True)
        builder_config.write_text(config)
        builder = f"{_CORE}/cmd/builder@{version}"
        install(["go", "install", builder], folder, GOBIN=str(folder), GOFLAGS="-p=2")
        install([folder / "builder", "--config", "builder.yaml"], folder, GOFLAGS="-p=2")
    return binary


def _builder_config() -> str:
    return f"""\
dist: {{name: otelcol, output_path: ./dist}}
receivers: [{{gomod: {_CORE}/receiver/otlpreceiver {COLLECTOR}}}]
extensions: [{{gomod: {_CONTRIB}/extension/storage/filestorage {COLLECTOR}}}]
processors:
  - gomod: {_CORE}/processor/batchprocessor {COLLECTOR}
  - gomod: {_CONTRIB}/processor/groupbytraceprocessor {COLLECTOR}
  - gomod: {_CONTRIB}/processor/tailsamplingprocessor {COLLECTOR}
exporters:
  - gomod: {_CORE}/exporter/otlpexporter {COLLECTOR}
  - gomod: {_CORE}/exporter/otlphttpexporter {COLLECTOR}
{_providers(COLLECTOR_STABLE)}"""


def _kafka_builder_config() -> str:
    return f"""\
dist: {{name: otelcol, output_path: ./dist}}
receivers: [{{gomod: {_CORE}/receiver/otlpreceiver {KAFKA_COLLECTOR}}}]
extensions: [{{gomod: {_CONTRIB}/extension/storage/filestorage {KAFKA_COLLECTOR}}}]
exporters: [{{gomod: {_CONTRIB}/exporter/kafkaexporter {KAFKA_COLLECTOR}}}]
{_providers(KAFKA_COLLECTOR_STABLE)}"""


def _providers(version: str) -> str:
    return f"""\
providers:
  - gomod: {_CORE}/confmap/provider/envprovider {version}
  - gomod: {_CORE}/confmap/provider/fileprovider {version}
  - gomod: {_CORE}/confmap/provider/yamlprovider {version}
"""


def _collector_config(ports: Mapping[str, int], target: int, protocol: str) -> str:
    kind, endpoint = (
        ("otlp", f"127.0.0.1:{target}") if protocol == "grpc" else ("otlphttp", f"http://127.0.0.1:{target}")
    )
    pipeline = f"{{receivers: [otlp], processors: [batch], exporters: [{kind}]}}"
    return f"""\
receivers:
  otlp:
    protocols:
      grpc: {{endpoint: "127.0.0.1:{ports["grpc"]}"}}
      http: {{endpoint: "127.0.0.1:{ports["http"]}"}}
processors: {{batch: {{timeout: 200ms}}}}
exporters:
  {kind}:
    endpoint: "{endpoint}"
    tls: {{insecure: true}}
    retry_on_failure: {{initial_interval: 200ms, max_interval: 1s}}
service:
  telemetry: {{metrics: {{level: none}}, logs: {{level: warn}}}}
  pipelines: {{traces: {pipeline}, logs: {pipeline}, metrics: {pipeline}}}
"""


# The first two are the modules of what deploy/compose names: Jaeger 2.13.0 and Prometheus 3.13.3.
JAEGER = "v1.76.0"
PROMETHEUS = "v0.313.3"
COMPOSE = "v2.16.2"


def jaeger_binary(work: Path) -> Path:
    """Jaeger (Go): ten minutes of a core the first time."""
    return _go_program("github.com/jaegertracing/jaeger/cmd/jaeger", JAEGER, work)


def prometheus_binary(work: Path) -> Path:
    """Prometheus (Go), newer than Debian's, without its page: two minutes of a core the first time."""
    return _go_program("github.com/prometheus/prometheus/cmd/prometheus", PROMETHEUS, work, "-tags=remove_all_sd")


def compose_loader(work: Path) -> Path:
    """What reads a compose file for the engine: ends with 1 where it does not know a key, and says which."""
    folder = work / "go" / "compose-go"
    if not (folder / "cmd").exists():
        install(["go", "install", f"github.com/compose-spec/compose-go/v2/cmd@{COMPOSE}"], folder, GOBIN=str(folder))
    return folder / "cmd"


def _go_program(package: str, version: str, work: Path, *flags: str) -> Path:
    """A program, built in a module of its own: those whose module replaces others cannot be installed by name."""
    name = package.rpartition("/")[2]
    folder = work / "go" / name
    if not (folder / name).exists():
        if not (folder / "go.mod").exists():
            install(["go", "mod", "init", f"{name}-build"], folder)
        install(["go", "get", "-tool", f"{package}@{version}"], folder, GOFLAGS="-mod=mod")
        build = ["go", "build", *flags, "-o", name, package]
        install(build, folder, within_s=_BUILT_WITHIN_S, GOFLAGS="-mod=mod -p=2")
    return folder / name


@contextmanager
def alertmanager(work: Path, folder: Path, config: str) -> Iterator[str]:
    """Alertmanager's address, with this content of its file. From Debian's package."""
    unpacked = debian_package("prometheus-alertmanager", work)
    folder.mkdir(exist_ok=True)
    (folder / "alertmanager.yml").write_text(config)
    port = free_port()
    # It reads its own templates where the package would have put them: there, but for this process alone.
    in_place = f'mount --bind "{unpacked}/usr/share" /usr/share && exec "$@"'
    command = [
        *("unshare", "--map-root-user", "--mount", "sh", "-c", in_place, "sh"),
        unpacked / "usr" / "bin" / "prometheus-alertmanager",
        "--config.file=alertmanager.yml",
        "--storage.path=data",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    ]
    with process(command, folder, [port]):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def prometheus(work: Path, folder: Path) -> Iterator[str]:
    """Prometheus' address; its file is `folder`'s ``prometheus.yml``. From Debian's package."""
    port = free_port()
    command = [
        debian_package("prometheus", work) / "usr" / "bin" / "prometheus",
        "--config.file=prometheus.yml",
        "--storage.tsdb.path=data",
        f"--web.listen-address=127.0.0.1:{port}",
        "--enable-feature=exemplar-storage",
    ]
    with process(command, folder, [port]):
        address = f"http://127.0.0.1:{port}"
        eventually(lambda: _answers(f"{address}/-/ready"), "Prometheus to be ready")
        yield address


def _answers(address: str) -> bool:
    try:
        with urlopen(address, timeout=5):
            return True
    except HTTPError:
        return False


def promtool(work: Path) -> Path:
    """Prometheus' linter, from Debian's package."""
    return debian_package("prometheus", work) / "usr" / "bin" / "promtool"


def amtool(work: Path) -> Path:
    """Alertmanager's linter, from Debian's package."""
    return debian_package("prometheus-alertmanager", work) / "usr" / "bin" / "amtool"


def debian_package(name: str, work: Path) -> Path:
    """The folder into which a package was taken apart, without installing it."""
    folder = work / name
    if not (folder / "usr").exists():
        install(["apt-get", "download", name], folder)
        install(["dpkg", "-x", next(folder.glob("*.deb")), folder], folder)
    return folder
