"""What benchmarks of the whole have in common: `serve` and the servers around it as processes, on free ports.

CPU and memory are read from /proc, what came of the spans from the judge's snapshot.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.agent_traces import RESULT, TOOLS

HERE = Path(__file__).parent
OWN = HERE.parents[2] / "processor"
TICKS = os.sysconf("SC_CLK_TCK")
CATCH_UP_S = 120.0
_CPU_OF_PROCESS = 2  # the kernel's CPUCLOCK_SCHED, as clock_getcpuclockid(3) makes the clock of another process
SERVICE = "bench-shop"  # of the generated traces
IDLE_S = 4.0  # a trace whose root never comes closes so much after its last span


@dataclass(frozen=True)
class Served:
    """A running `serve`."""

    process: "subprocess.Popen[str]"
    endpoint: str
    judge: int
    data: Path

    @property
    def pids(self) -> tuple[int, int]:
        """Receive's, the judge's."""
        return self.process.pid, self.judge

    def judged_spans(self) -> float:
        """How many spans are judged or known as duplicates."""
        points = self._metric("tracegrade.spans")
        return sum(point["value"] for point in points if point["labels"]["fate"] in ("judged", "duplicate"))

    def evaluations(self) -> float:
        """How many evaluations there were."""
        return self.total("tracegrade.evaluations")

    def total(self, name: str) -> float:
        """The sum of a metric over all its labels."""
        return sum(point["value"] for point in self._metric(name))

    def wait_until_delivered(self, spans: float) -> None:
        """Wait until so many spans are judged, and every sink has taken what was closed."""
        wait_until(lambda: self.judged_spans() >= spans and self._delivered() >= self._closed())

    def _closed(self) -> float:
        return self.total("tracegrade.traces.closed")

    def _delivered(self) -> float:
        return min((point["value"] for point in self._metric("tracegrade.sink.delivered_records")), default=0)

    def _metric(self, name: str) -> list[dict[str, Any]]:
        points: list[dict[str, Any]] = json.loads((self.data / "judge.snapshot.json").read_text())["metrics"].get(
            name, []
        )
        return points


@contextmanager
def serving(
    folder: Path,
    *,
    rules: int | None = 50,
    settings: str = "",
    flags: Sequence[str] = (),
    journal_mib: int = 16384,
    port: int = 0,
    service: str = SERVICE,
    sample: float = 1.0,
    python: str = sys.executable,
    tree: Path = OWN,
) -> Iterator[Served]:
    """Run `serve`, both roles, until the end of the block.

    Args:
        folder: for rules, configuration and data.
        rules: how many are loaded; five of them match, where their `service` is the load's. None: `builtin:default`.
        settings: further lines of the configuration.
        flags: further flags of the command.
        journal_mib: what each journal may hold.
        port: of gRPC; 0: a free one. With a folder that was used before, it goes on where it was.
        service: the service that those five ask for.
        sample: the share of traces that they judge.
        python: of the environment whose `serve` is run.
        tree: the folder of the sources; of another environment, whose own are run, it does not count.
    """
    if rules is not None:
        if not (folder / "rules").exists():
            write_rules(folder / "rules", rules, service, sample)
        settings += f"rules: {{paths: ['{folder / 'rules'}']}}\n"
    config = folder / "bench.yaml"
    config.write_text(
        f"data_dir: {folder / 'data'}\n"
        f"receivers: {{otlp: {{protocols: {{grpc: {{endpoint: '127.0.0.1:{port}'}}}}}}}}\n"
        "telemetry: {endpoint: '127.0.0.1:0'}\nweb: null\n"
        f"traces: {{idle_timeout: {IDLE_S}s}}\n"
        f"journal: {{max_size_mib: {journal_mib}}}\n" + settings
    )
    command = [python, "-m", "tracegrade", "serve", "-c", str(config), *flags]
    environment = {**os.environ, "PYTHONPATH": str(tree)} if python == sys.executable else None
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        endpoint = _endpoint_of(process)
        threading.Thread(target=_pass_on, args=(process,), daemon=True).start()
        judge = _child_of(process.pid)
        wait_until(lambda: (folder / "data" / "judge.snapshot.json").exists())
        yield Served(process, endpoint, judge, folder / "data")
    finally:
        process.terminate()
        process.wait(60)


def exporter(port: int, compression: str | None = "none") -> str:
    """The configuration's line for a downstream on loopback; `compression` None: as it is by default."""
    said = "" if compression is None else f", compression: {compression}"
    return f'exporters: {{otlp: {{endpoint: "127.0.0.1:{port}", tls: {{insecure: true}}{said}}}}}\n'


class BareServer:
    """A bare OTLP server in a process of its own; `bare_server.py` says what it can do with a request."""

    def __init__(self, what: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "bare_server.py"), what], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def end(self) -> str:
        """Stop it; what it printed last."""
        self.process.terminate()
        return self.process.communicate(timeout=60)[0]


def send(endpoint: str, seconds: float, *options: object, through: Sequence[str] = ()) -> dict[str, Any]:
    """Have `load.py` send for so long, started by the command `through` if any; what it says of it."""
    command = [*through, sys.executable, HERE / "load.py", endpoint, "--seconds", seconds, *options]
    done = subprocess.run([str(part) for part in command], check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def cpu_s(pid: int) -> float:
    """User and system time of a process and of its threads that ended, in seconds: exact, where /proc counts ticks."""
    return time.clock_gettime(~pid << 3 | _CPU_OF_PROCESS)


def kernel_work(pid: int) -> dict[str, float]:
    """What a process has asked of the kernel: µs of system time, minor page faults, context switches."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    switches = sum(
        int(line.split()[1])
        for task in Path(f"/proc/{pid}/task").iterdir()
        for line in (task / "status").read_text().splitlines()
        if "ctxt_switches" in line
    )
    return {"system_us": int(fields[12]) / TICKS * 1e6, "faults": int(fields[7]), "switches": switches}


def peak_mib(pid: int) -> float:
    """The most memory a process ever had resident, in MiB."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:")) / 1024


def descendants(pid: int) -> list[int]:
    """The processes that a process started, and those that they did."""
    found = []
    for child in _children(pid):
        found += [child, *descendants(child)]
    return found


def wait_until(done: Callable[[], bool]) -> None:
    """Look four times a second."""
    deadline = time.monotonic() + CATCH_UP_S
    while not done():
        if time.monotonic() > deadline:
            raise SystemExit("the server did not catch up")
        time.sleep(0.25)


def write_rules(folder: Path, count: int, service: str = SERVICE, sample: float = 1.0) -> None:
    """So many rules, five of which match the generated traces of a service, with two evaluations each."""
    folder.mkdir()
    # As in production, most evaluations pass; the wrong order, in the last rule, is the one of ten that fails.
    references = [{"name": tool, "args": {"user_id": 123, "sku": "A-1"}} for tool in TOOLS]
    matching: list[dict[str, object]] = [
        {"evaluator": "tool-call-order", "tool_calls_order": list(dict.fromkeys(TOOLS))},
        {"evaluator": "tool-call-args", "subset": True, "tool_calls": [{"name": "create_order", "args": {"qty": 2}}]},
        {"evaluator": "tool-call-count", "tool_calls_count": {"check_inventory": ["==", 2]}},
        {"evaluator": "tool-call-accuracy", "mode": "FLEXIBLE", "reference_tool_calls": references},
        {"evaluator": "tool-call-output", "tool_outputs": [{"name": "create_order", "output": json.loads(RESULT)}]},
    ]
    wrong_order = {"evaluator": "tool-call-order", "tool_calls_order": list(reversed(TOOLS))}
    for number in range(count):
        first, second = (matching[(number + step) % len(matching)] for step in (0, 1))
        rule = {
            "id": f"bench-rule-{number}",
            "match": {"service": service if number < len(matching) else f"other-{number}"},
            "sample": sample,
            "evaluate": [first, {**(wrong_order if first is matching[-1] else second), "name": "second"}],
        }
        (folder / f"{number}.rule.yaml").write_text(json.dumps(rule))


def _endpoint_of(serve: "subprocess.Popen[str]") -> str:
    assert serve.stderr is not None
    for line in serve.stderr:
        if line.startswith("Listening: grpc "):
            return line.split()[2].rstrip(",")
    raise SystemExit("serve did not start")


def _pass_on(serve: "subprocess.Popen[str]") -> None:
    """What the server logs, onto our standard error: a pipe that nobody reads would stop it when it is full."""
    assert serve.stderr is not None
    for line in serve.stderr:
        print(line, end="", file=sys.stderr, flush=True)


def _child_of(pid: int) -> int:
    found: list[int] = []
    wait_until(lambda: bool(found.extend(_children(pid)) or found))
    return found[0]


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task")
    return [int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()]
