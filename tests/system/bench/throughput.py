"""Spans per CPU-second through the whole path, durability on, and the ratio to receiving and parsing alone.

    python tests/system/bench/throughput.py [--seconds 10] [--spans 500] [--compression none] [--no-forward] [--json]
    python tests/system/bench/throughput.py --curve [--seconds 4]               1, 10, 50, 500 and 5,000 spans a request
    python tests/system/bench/throughput.py --corpus DIR [--seconds 10]         captures of real frameworks, all in turn

Three kinds of processes: the load generator and the downstream OTLP server (not counted), and the server under test
(all its processes counted, user and system time, from /proc). The reference is a bare grpc.aio server that parses
each request and answers, under the same load in the same run, before it and after. All is on loopback, on free ports.
`--seconds 60` shows what holds for longer.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

sys.path.extend(map(str, Path(__file__).parents[1:3]))

from bench.serving import BareServer, cpu_s, exporter, kernel_work, send, serving  # importable by the line above

CURVE = (1, 10, 50, 500, 5000)

Figures = dict[str, float]


def main() -> None:
    """Run both, print the figures."""
    options = _options()
    if not options.curve:
        figures = _point(options)
        if options.json:
            print(json.dumps(figures))
            return
        for name, value in figures.items():
            print(f"{name:24} {value:>14,}")
        return
    print("| spans a request | spans per CPU-second | µs a span: receive, judge | bare, µs a span | ratio |")
    print("| --- | --- | --- | --- | --- |")
    for spans in CURVE:
        options.spans = spans
        print(f"| {spans:,} | {_row(_point(options))} |", flush=True)


def _row(figures: Mapping[str, float]) -> str:
    cells = f"{figures['spans_per_cpu_s']:,} | {figures['receive_us_per_span']}, {figures['judge_us_per_span']}"
    return f"{cells} | {figures['bare_us_per_span']} | {figures['ratio']}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10, help="how long to send, at each point")
    parser.add_argument("--spans", type=int, default=500, help="spans a request, about")
    parser.add_argument("--curve", action="store_true", help=f"at {CURVE} spans a request; prints a table")
    parser.add_argument("--corpus", type=Path, help="a folder of folders of captures to send instead")
    parser.add_argument("--rate", type=float, default=0, help="requests a second at most; 0: as fast as answered")
    parser.add_argument("--concurrency", type=int, default=8, help="requests under way at a time")
    parser.add_argument("--rules", type=int, default=50, help="rules loaded; five of them match")
    parser.add_argument("--compression", default="none", choices=["none", "gzip"], help="of what is forwarded")
    parser.add_argument("--no-forward", action="store_true", help="without a downstream")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def _point(options: argparse.Namespace) -> Figures:
    """Everything about one kind of load."""
    # Before and after: the machine may be another one by then.
    bare = _measure_bare(options)
    with tempfile.TemporaryDirectory(prefix="tracegrade-bench-") as folder:
        ours = _measure_ours(Path(folder), options)
    for name, value in _measure_bare(options).items():
        bare[name] += value
    return {
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


def _measure_ours(folder: Path, options: argparse.Namespace) -> Figures:
    with ExitStack() as cleanup:
        settings = ""
        if not options.no_forward:
            downstream = BareServer("sink")
            cleanup.callback(downstream.end)
            settings = exporter(downstream.port, options.compression)
        served = cleanup.enter_context(serving(folder, rules=options.rules, settings=settings))
        before = [(cpu_s(pid), kernel_work(pid)) for pid in served.pids]
        sent = _send(served.endpoint, options)
        begun = time.monotonic()
        served.wait_until_delivered(sent["spans"])
        caught_up = time.monotonic() - begun
        after = [(cpu_s(pid), kernel_work(pid)) for pid in served.pids]
        evaluations = served.evaluations()
    receive_s, judge_s = (after[role][0] - before[role][0] for role in (0, 1))
    return {
        "spans": sent["spans"],
        "sent_in_s": sent["seconds"],
        "caught_up_after_s": caught_up,
        "cpu_s": receive_s + judge_s,
        "receive_cpu_s": receive_s,
        "judge_cpu_s": judge_s,
        "evaluations": evaluations,
        **{
            f"{role}_{name}": (after[place][1][name] - before[place][1][name]) / sent["spans"]
            for place, role in enumerate(("receive", "judge"))
            for name in after[place][1]
        },
    }


def _measure_bare(options: argparse.Namespace) -> Figures:
    server = BareServer("parse")
    try:
        before = cpu_s(server.process.pid)
        sent = _send(f"127.0.0.1:{server.port}", options)
        return {"spans": sent["spans"], "cpu_s": cpu_s(server.process.pid) - before}
    finally:
        server.end()


def _send(endpoint: str, options: argparse.Namespace) -> Figures:
    load: list[object] = ["--spans", options.spans, "--concurrency", options.concurrency, "--rate", options.rate]
    if options.corpus is not None:
        load += ["--corpus", options.corpus]
    return send(endpoint, options.seconds, *load)


if __name__ == "__main__":
    main()
