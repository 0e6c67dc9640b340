"""What traces that no rule judges cost, against the same load judged in full.

    python tests/system/bench/not_judged.py [--seconds 5] [--rounds 2] [--rate 25] [--json]

The same load goes to three installations in turns, as often as there are rounds: one whose rules judge every trace, one
whose rules have `sample: 0.05`, and one whose rules name other services. CPU is of all their processes, receive and
judge; each ratio is against the first. Beside each stands the share of spans that was not decoded.
"""

import argparse
import json
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

sys.path.extend(map(str, Path(__file__).parents[1:3]))

from bench.serving import SERVICE, BareServer, cpu_s, exporter, send, serving  # importable by the line above

KINDS: dict[str, tuple[str, float]] = {
    "judged in full": (SERVICE, 1.0),
    "sample: 0.05": (SERVICE, 0.05),
    "no rule names it": ("another-shop", 1.0),
}


def main() -> None:
    """Run all in turns, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5, help="how long to send, each time")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--spans", type=int, default=500, help="spans a request, about")
    parser.add_argument("--rate", type=float, default=25, help="requests a second; 0: as fast as answered")
    parser.add_argument("--compression", default="none", choices=["none", "gzip"], help="of what is forwarded")
    parser.add_argument("--no-forward", action="store_true", help="without a downstream")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
    for _ in range(options.rounds):
        for kind, (service, sample) in KINDS.items():
            with tempfile.TemporaryDirectory(prefix="tracegrade-bench-") as folder:
                found[kind].append(_measure(Path(folder), options, service, sample))
    means = {kind: _mean(rounds) for kind, rounds in found.items()}
    full = means["judged in full"]
    for figures in means.values():
        figures["ratio"] = figures["us_per_span"] / full["us_per_span"]
    if options.json:
        print(json.dumps(means))
        return
    print(f"{'':18} {'receive':>8} {'judge':>8} {'µs a span':>10} {'ratio':>7} {'not decoded':>12}")
    for kind, figures in means.items():
        print(
            f"{kind:18} {figures['receive_us']:8.2f} {figures['judge_us']:8.2f} {figures['us_per_span']:10.2f}"
            f" {figures['ratio']:7.3f} {figures['not_decoded']:12.1%}"
        )


def _measure(folder: Path, options: argparse.Namespace, service: str, sample: float) -> dict[str, float]:
    with ExitStack() as cleanup:
        settings = ""
        if not options.no_forward:
            downstream = BareServer("sink")
            cleanup.callback(downstream.end)
            settings = exporter(downstream.port, options.compression)
        served = cleanup.enter_context(serving(folder, settings=settings, service=service, sample=sample))
        before = [cpu_s(pid) for pid in served.pids]
        sent = send(served.endpoint, options.seconds, "--spans", options.spans, "--rate", options.rate)
        served.wait_until_delivered(sent["spans"])
        receive_s, judge_s = (cpu_s(pid) - begun for pid, begun in zip(served.pids, before, strict=True))
        not_decoded = served.total("tracegrade.spans.not_decoded")
    spans = sent["spans"]
    return {
        "receive_us": receive_s / spans * 1e6,
        "judge_us": judge_s / spans * 1e6,
        "us_per_span": (receive_s + judge_s) / spans * 1e6,
        "not_decoded": not_decoded / spans,
    }


def _mean(rounds: list[dict[str, float]]) -> dict[str, float]:
    return {name: sum(figures[name] for figures in rounds) / len(rounds) for name in rounds[0]}


if __name__ == "__main__":
    main()
