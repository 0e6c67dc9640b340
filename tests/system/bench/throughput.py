"""Spans per CPU-second through the whole path, durability on, and the ratio to receiving and parsing alone.

    python tests/system/bench/throughput.py [--seconds 10] [--spans 500] [--rounds 1] [--no-forward] [--json]
    python tests/system/bench/throughput.py --against TREE --rounds 7           in turns with another source tree
    python tests/system/bench/throughput.py --curve [--seconds 4]               1, 10, 50, 500 and 5,000 spans a request
    python tests/system/bench/throughput.py --corpus DIR [--seconds 10]         captures of real frameworks, all in turn

Three setups, in turns: `defaults` judges by `builtin:default` and sends as an exporter does unless told otherwise,
which to this machine is without compression; `gzip` is the same with the compression that it has to another machine;
`bench` judges by 50 rules of which five match, ten evaluations a trace, and does not compress, which is the load of the
other benchmarks. `--setup` chooses some. In all, every request is answered once it is durable, forwarded to a
downstream OTLP server, judged, stored in SQLite and its results sent.

Three kinds of processes: the load generator and the downstream OTLP server (not counted), and the server under test
(all its processes counted, user and system time, from /proc). The reference is a bare grpc.aio server that parses
each request and answers, under the same load in the same run, before it and after. All is on loopback, on free ports.
Figures are medians of the rounds; those of `--against` are ratios within a round, this tree's to the other's.
`--seconds 60` shows what holds for longer.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

sys.path.extend(map(str, Path(__file__).parents[1:3]))

from bench.serving import (  # importable by the line above
    OWN,
    BareServer,
    cpu_s,
    exporter,
    kernel_work,
    peak_mib,
    send,
    serving,
)

CURVE = (1, 10, 50, 500, 5000)
# Figures whose ratio to another tree's is shown, and what each is counted per.
RATIOS = (("cpu_s", "spans"), ("receive_cpu_s", "spans"), ("judge_cpu_s", "spans"), ("peak_mib", "servers"))

Figures = dict[str, float]


@dataclass(frozen=True)
class Setup:
    """How the server is set up: rules loaded (None: `builtin:default`), compression of what it sends (None: unsaid)."""

    rules: int | None
    compression: str | None


SETUPS = {"defaults": Setup(None, None), "gzip": Setup(None, "gzip"), "bench": Setup(50, "none")}


def main() -> None:
    """Run all, print the figures."""
    options = _options()
    if options.curve:
        _curve(options)
        return
    rounds = [
        {name: _point(options, SETUPS[name], options.trees) for name in options.setups} for _ in range(options.rounds)
    ]
    found = {name: _medians([each[name] for each in rounds]) for name in options.setups}
    if options.json:
        print(json.dumps(found))
        return
    print(f"{'':24}" + "".join(f" {name:>14}" for name in found))
    for figure in next(iter(found.values())):
        print(f"{figure:24}" + "".join(f" {figures[figure]:>14,}" for figures in found.values()))


def _medians(rounds: Sequence[Figures]) -> Figures:
    return {name: round(median(figures[name] for figures in rounds), 4) for name in rounds[0]}


def _curve(options: argparse.Namespace) -> None:
    print("| setup | spans a request | spans per CPU-second | µs a span: receive, judge | bare, µs a span | ratio |")
    print("| --- | --- | --- | --- | --- | --- |")
    for spans in CURVE:
        options.spans = spans
        for name in options.setups:
            print(f"| {name} | {spans:,} | {_row(_point(options, SETUPS[name], [OWN]))} |", flush=True)


def _row(figures: Mapping[str, float]) -> str:
    cells = f"{figures['spans_per_cpu_s']:,} | {figures['receive_us_per_span']}, {figures['judge_us_per_span']}"
    return f"{cells} | {figures['bare_us_per_span']} | {figures['ratio']}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10, help="how long to send, at each point")
    parser.add_argument("--rounds", type=int, default=1, help="how often each setup is measured")
    parser.add_argument("--setup", choices=SETUPS, action="append", help="only this one, or these")
    parser.add_argument("--against", type=Path, help="the processor/ folder of another source tree")
    parser.add_argument("--spans", type=int, default=500, help="spans a request, about")
    parser.add_argument("--curve", action="store_true", help=f"at {CURVE} spans a request; prints a table")
    parser.add_argument("--corpus", type=Path, help="a folder of folders of captures to send instead")
    parser.add_argument("--rate", type=float, default=0, help="requests a second at most; 0: as fast as answered")
    parser.add_argument("--concurrency", type=int, default=8, help="requests under way at a time")
    parser.add_argument("--no-forward", action="store_true", help="without a downstream")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.setups = options.setup or [*SETUPS]
    options.trees = [OWN] if options.against is None else [OWN, options.against.resolve()]
    return options


def _point(options: argparse.Namespace, setup: Setup, trees: Sequence[Path]) -> Figures:
    """Everything about one kind of load; with a second tree, also the ratios to it."""
    # Before and after: the machine may be another one by then.
    bare = _measure_bare(options)
    ours, *others = [_measure(tree, options, setup) for tree in trees]
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
        "peak_mib": round(ours["peak_mib"], 1),
        "evaluations": ours["evaluations"],
        "sent_spans_per_s": round(ours["spans"] / ours["sent_in_s"]),
        "caught_up_after_s": round(ours["caught_up_after_s"], 2),
        "bare_spans_per_cpu_s": round(bare["spans"] / bare["cpu_s"]),
        "bare_us_per_span": round(bare["cpu_s"] / bare["spans"] * 1e6, 2),
        "ratio": round(bare["cpu_s"] / bare["spans"] / (ours["cpu_s"] / ours["spans"]), 4),
        **{
            f"{name} to other": round(ours[name] / ours[per] / (other[name] / other[per]), 4)
            for other in others
            for name, per in RATIOS
        },
    }


def _measure(tree: Path, options: argparse.Namespace, setup: Setup) -> Figures:
    with ExitStack() as cleanup:
        folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="tracegrade-bench-")))
        settings = ""
        if not options.no_forward:
            downstream = BareServer("sink")
            cleanup.callback(downstream.end)
            settings = exporter(downstream.port, setup.compression)
        served = cleanup.enter_context(serving(folder, rules=setup.rules, settings=settings, tree=tree))
        before = [(cpu_s(pid), kernel_work(pid)) for pid in served.pids]
        sent = _send(served.endpoint, options)
        begun = time.monotonic()
        served.wait_until_delivered(sent["spans"])
        caught_up = time.monotonic() - begun
        after = [(cpu_s(pid), kernel_work(pid)) for pid in served.pids]
        evaluations = served.evaluations()
        peak = sum(map(peak_mib, served.pids))
    receive_s, judge_s = (after[role][0] - before[role][0] for role in (0, 1))
    return {
        "spans": sent["spans"],
        "sent_in_s": sent["seconds"],
        "caught_up_after_s": caught_up,
        "cpu_s": receive_s + judge_s,
        "receive_cpu_s": receive_s,
        "judge_cpu_s": judge_s,
        "evaluations": evaluations,
        "peak_mib": peak,
        "servers": 1,
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
