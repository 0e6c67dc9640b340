"""Promise 8: what forwarding does while the judge is stopped, against the same load while it judges.

    python tests/system/bench/judge_stopped.py [--seconds 8] [--rate 20] [--spans 500]

Three phases under one steady load: the judge judges; it is stopped (SIGSTOP) with the watchdog off; it is stopped with
the watchdog on, which restarts it. Latency is from the export call to the arrival at the downstream server, both on
this machine's monotonic clock.
"""

import argparse
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.extend(map(str, Path(__file__).parents[1:3]))

from bench.serving import BareServer, exporter, send, serving  # importable by the line above


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
    downstream = BareServer("times")
    settings = "judge: {hang_timeout: 2s}\n" + exporter(downstream.port)
    flags = [] if watchdog else ["--no-watchdog"]
    with tempfile.TemporaryDirectory(prefix="tracegrade-bench-") as folder:
        with serving(Path(folder), settings=settings, flags=flags) as served:
            if stop:
                os.kill(served.judge, signal.SIGSTOP)
            load = ("--spans", options.spans, "--rate", options.rate, "--concurrency", 4, "--times")
            sent = send(served.endpoint, options.seconds, *load)
            time.sleep(1)
            if stop and not watchdog:
                os.kill(served.judge, signal.SIGCONT)
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


if __name__ == "__main__":
    main()
