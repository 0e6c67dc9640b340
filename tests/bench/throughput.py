"""Spans per CPU-second through the whole path, durability on, and the ratio to receiving and parsing alone.

    python tests/bench/throughput.py [--seconds 10] [--spans 500] [--compression none] [--no-forward] [--json]

Three kinds of processes: the load generator and the downstream OTLP server (not counted), and the server under test
(all its processes counted, user and system time, from /proc). The reference is a bare grpc.aio server that parses
each request and answers, under the same load in the same run, before it and after. All is on loopback, on free ports.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from bench.agent_traces import RESULT, SPANS_PER_TRACE, TOOLS  # noqa: E402  # the line above makes it importable

TICKS = os.sysconf("SC_CLK_TCK")
CATCH_UP_S = 120.0
_KERNEL_WORK = ("us", "faults", "switches")


def main() -> None:
    """Run both, print the figures."""
    options = _options()
    # Before and after: the machine may be another one by then.
    bare = _measure_bare(options)
    with tempfile.TemporaryDirectory(prefix="tracegrade-bench-") as folder:
        ours = _measure_ours(Path(folder), options)
    for name, value in _measure_bare(options).items():
        bare[name] += value
    figures = {
        "spans": ours["spans"],
        "spans_per_cpu_s": round(ours["spans"] / ours["cpu_s"]),
        "us_per_span": round(ours["cpu_s"] / ours["spans"] * 1e6, 2),
        "receive_us_per_span": round(ours["receive_cpu_s"] / ours["spans"] * 1e6, 2),
        "judge_us_per_span": round(ours["judge_cpu_s"] / ours["spans"] * 1e6, 2),
        **{
            f"{name}_per_span": round(ours[name], 3)
            for name in ours
            if name.startswith(("receive_", "judge_")) and "cpu" not in name
        },
        "evaluations": ours["evaluations"],
        "sent_spans_per_s": round(ours["spans"] / ours["sent_in_s"]),
        "caught_up_after_s": round(ours["caught_up_after_s"], 2),
        "bare_spans_per_cpu_s": round(bare["spans"] / bare["cpu_s"]),
        "bare_us_per_span": round(bare["cpu_s"] / bare["spans"] * 1e6, 2),
        "ratio": round(bare["cpu_s"] / bare["spans"] / (ours["cpu_s"] / ours["spans"]), 4),
    }
    if options.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:24} {value:>14,}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10, help="how long to send")
    parser.add_argument("--spans", type=int, default=500, help="spans a request, about")
    parser.add_argument("--rate", type=float, default=0, help="requests a second at most; 0: as fast as answered")
    parser.add_argument("--concurrency", type=int, default=8, help="requests under way at a time")
    parser.add_argument("--rules", type=int, default=50, help="rules loaded; five of them match")
    parser.add_argument("--compression", default="none", choices=["none", "gzip"], help="of what is forwarded")
    parser.add_argument("--no-forward", action="store_true", help="without a downstream")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def _measure_ours(folder: Path, options: argparse.Namespace) -> dict[str, float]:
    downstream = None if options.no_forward else BareServer("sink")
    exporters = ""
    if downstream is not None:
        exporters = (
            f'exporters: {{otlp: {{endpoint: "127.0.0.1:{downstream.port}", tls: {{insecure: true}}, '
            f"compression: {options.compression}}}}}\n"
        )
    write_rules(folder / "rules", options.rules)
    config = folder / "bench.yaml"
    config.write_text(
        f"data_dir: {folder / 'data'}\n"
        "receivers: {otlp: {protocols: {grpc: {endpoint: '127.0.0.1:0'}}}}\n"
        "telemetry: {endpoint: '127.0.0.1:0'}\nweb: null\n"
        f"rules: {{paths: ['{folder / 'rules'}']}}\n"
        "journal: {max_size_mib: 16384}\n" + exporters
    )
    serve = subprocess.Popen(
        [sys.executable, "-m", "tracegrade", "serve", "-c", str(config)], stderr=subprocess.PIPE, text=True
    )
    try:
        endpoint = endpoint_of(serve)
        judge = child_of(serve.pid)
        wait_until(lambda: (folder / "data" / "judge.snapshot.json").exists())
        before = _cpu_s(serve.pid), _cpu_s(judge)
        work_before = _kernel_work(serve.pid), _kernel_work(judge)
        sent = _send(endpoint, options)
        begun = time.monotonic()
        traces = sent["spans"] / SPANS_PER_TRACE
        wait_until(lambda: _judged(folder / "data") >= sent["spans"] and _delivered(folder / "data") >= traces)
        caught_up = time.monotonic() - begun
        after = _cpu_s(serve.pid), _cpu_s(judge)
        work = _kernel_work(serve.pid), _kernel_work(judge)
        evaluations = _snapshot_sum(folder / "data", "tracegrade.evaluations")
    finally:
        serve.terminate()
        serve.wait(60)
        if downstream is not None:
            downstream.end()
    receive_s, judge_s = (after[i] - before[i] for i in (0, 1))
    return {
        "spans": sent["spans"],
        "sent_in_s": sent["seconds"],
        "caught_up_after_s": caught_up,
        "cpu_s": receive_s + judge_s,
        "receive_cpu_s": receive_s,
        "judge_cpu_s": judge_s,
        "evaluations": evaluations,
        **{
            f"{role}_{name}": (work[place][name] - work_before[place][name]) / sent["spans"]
            for place, role in enumerate(("receive", "judge"))
            for name in work[place]
        },
    }


def _measure_bare(options: argparse.Namespace) -> dict[str, float]:
    server = BareServer("parse")
    try:
        before = _cpu_s(server.process.pid)
        sent = _send(f"127.0.0.1:{server.port}", options)
        return {"spans": sent["spans"], "cpu_s": _cpu_s(server.process.pid) - before}
    finally:
        server.end()


def _send(endpoint: str, options: argparse.Namespace) -> dict[str, float]:
    traces = max(1, round(options.spans / SPANS_PER_TRACE))
    command = [sys.executable, str(HERE / "load.py"), endpoint, str(traces), str(options.seconds)]
    command += [str(options.concurrency), str(options.rate)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


class BareServer:
    """A bare OTLP server in a process of its own: ``sink`` answers without looking, ``parse`` parses."""

    def __init__(self, what: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "bare_server.py"), what], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def end(self) -> str:
        """Stop it; what it printed last."""
        self.process.terminate()
        return self.process.communicate(timeout=10)[0]


def write_rules(folder: Path, count: int) -> None:
    folder.mkdir()
    # As in production, most evaluations pass; the wrong order, in the last rule, is the one of ten that fails.
    references = [{"name": tool, "args": {"user_id": 123, "sku": "A-1"}} for tool in TOOLS]
    matching = [
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
            "match": {"service": "bench-shop" if number < len(matching) else f"other-{number}"},
            "evaluate": [first, {**(wrong_order if first is matching[-1] else second), "name": "second"}],
        }
        (folder / f"{number}.rule.yaml").write_text(json.dumps(rule))


def endpoint_of(serve: "subprocess.Popen[str]") -> str:
    assert serve.stderr is not None
    for line in serve.stderr:
        if line.startswith("Listening: grpc "):
            return line.split()[2].rstrip(",")
    raise SystemExit("serve did not start")


def child_of(pid: int) -> int:
    found: list[int] = []
    wait_until(lambda: bool(found.extend(map(int, _children(pid))) or found))
    return found[0]


def _children(pid: int) -> list[str]:
    return [child for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _kernel_work(pid: int) -> dict[str, float]:
    """What a process has asked of the kernel: µs of system time, minor page faults, context switches."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    switches = sum(
        int(line.split()[1])
        for task in Path(f"/proc/{pid}/task").iterdir()
        for line in (task / "status").read_text().splitlines()
        if "ctxt_switches" in line
    )
    return {"system_us": int(fields[12]) / TICKS * 1e6, "faults": int(fields[7]), "switches": switches}


def _judged(data: Path) -> float:
    return sum(
        point["value"]
        for point in _metric(data, "tracegrade.spans")
        if point["labels"]["fate"] in ("judged", "duplicate")
    )


def _delivered(data: Path) -> float:
    """How many judged traces every sink has taken."""
    return min((point["value"] for point in _metric(data, "tracegrade.sink.delivered_records")), default=0)


def _snapshot_sum(data: Path, name: str) -> float:
    return sum(point["value"] for point in _metric(data, name))


def _metric(data: Path, name: str) -> list[dict[str, object]]:
    points: list[dict[str, object]] = json.loads((data / "judge.snapshot.json").read_text())["metrics"].get(name, [])
    return points


def wait_until(done: "object") -> None:
    deadline = time.monotonic() + CATCH_UP_S
    while not done():  # type: ignore[operator]
        if time.monotonic() > deadline:
            raise SystemExit("the server did not catch up")
        time.sleep(0.25)


if __name__ == "__main__":
    main()
