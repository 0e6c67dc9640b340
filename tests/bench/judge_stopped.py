"""Promise 8: what forwarding does while the judge is stopped, against the same load while it judges.

    python tests/bench/judge_stopped.py [--seconds 8] [--rate 20] [--spans 500]

Three phases under one steady load: the judge judges; it is stopped (SIGSTOP) with the watchdog off; it is stopped with
the watchdog on, which restarts it. Latency is from the export call to the arrival at the downstream server, both on
this machine's monotonic clock.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from bench.agent_traces import SPANS_PER_TRACE  # noqa: E402  # the line above makes it importable
from bench.throughput import BareServer, child_of, endpoint_of, wait_until, write_rules  # noqa: E402


def main() -> None:
    """Run the phases, print one line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--rate", type=float, default=20, help="requests a second")
    parser.add_argument("--spans", type=int, default=500, help="spans a request, about")
    options = parser.parse_args()
    print(f"{'phase':34} {'requests':>9} {'forwarded/s':>12} {'p50 ms':>8} {'p99 ms':>8}")
    base = _phase("judging", options, watchdog=False, stop=False)
    for name, watchdog in (("judge stopped, watchdog off", False), ("judge stopped, watchdog on", True)):
        found = _phase(name, options, watchdog=watchdog, stop=True)
        ratios = [found[key] / base[key] for key in ("rate", "p50", "p99")]
        print(f"{'':34} against judging: throughput {ratios[0]:.3f}, p50 {ratios[1]:.3f}, p99 {ratios[2]:.3f}")


def _phase(name: str, options: argparse.Namespace, *, watchdog: bool, stop: bool) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="tracegrade-bench-") as folder:
        downstream = BareServer("times")
        serve = _serve(Path(folder), downstream.port, watchdog=watchdog)
        try:
            endpoint = endpoint_of(serve)
            judge = child_of(serve.pid)
            wait_until(lambda: (Path(folder) / "data" / "judge.snapshot.json").exists())
            if stop:
                os.kill(judge, signal.SIGSTOP)
            sent = _send(endpoint, options)
            time.sleep(1)
            if stop and not watchdog:
                os.kill(judge, signal.SIGCONT)
        finally:
            serve.terminate()
            serve.wait(60)
            arrived = json.loads(downstream.end())
    latencies = sorted(arrived[key] - begun for key, begun in sent["begun"].items() if key in arrived)
    assert len(latencies) == len(sent["begun"]), f"{len(sent['begun']) - len(latencies)} requests were not forwarded"
    took = max(arrived.values()) - min(sent["begun"].values())
    found = {
        "rate": len(latencies) / took,
        "p50": statistics.median(latencies) * 1e3,
        "p99": latencies[int(len(latencies) * 0.99)] * 1e3,
    }
    print(f"{name:34} {len(latencies):>9} {found['rate']:>12.2f} {found['p50']:>8.1f} {found['p99']:>8.1f}")
    return found


def _serve(folder: Path, port: int, *, watchdog: bool) -> "subprocess.Popen[str]":
    write_rules(folder / "rules", 50)
    config = folder / "bench.yaml"
    config.write_text(
        f"data_dir: {folder / 'data'}\n"
        "receivers: {otlp: {protocols: {grpc: {endpoint: '127.0.0.1:0'}}}}\n"
        "telemetry: {endpoint: '127.0.0.1:0'}\nweb: null\n"
        f"rules: {{paths: ['{folder / 'rules'}']}}\n"
        "judge: {hang_timeout: 2s}\n"
        f'exporters: {{otlp: {{endpoint: "127.0.0.1:{port}", tls: {{insecure: true}}, compression: none}}}}\n'
    )
    flags = [] if watchdog else ["--no-watchdog"]
    command = [sys.executable, "-m", "tracegrade", "serve", "-c", str(config), *flags]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def _send(endpoint: str, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    traces = max(1, round(options.spans / SPANS_PER_TRACE))
    command = [sys.executable, str(HERE / "load.py"), endpoint, str(traces), str(options.seconds)]
    command += ["4", str(options.rate), "times"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, dict[str, float]] = json.loads(done.stdout)
    return result


if __name__ == "__main__":
    main()
