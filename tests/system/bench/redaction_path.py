"""What redaction costs on the whole path: CPU a span of `serve` without it, and with all detectors, in turns.

    python tests/system/bench/redaction_path.py [--seconds 4] [--rounds 3] [--corpus DIR] [--vary] [--old PYTHON]

The load, the servers around it and what is counted are those of `throughput.py`, once `serve` has seen some seconds of
it. Prints each round, and the ratio of the sums. The same texts come again and again, which what remembers them likes;
with `--vary`, words in all of them are others each time. With `--old`, the Python of another checkout's environment
runs a third `serve`, without redaction: what the path costs where nobody asks for it.
"""

import argparse
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

sys.path.extend(map(str, Path(__file__).parents[1:3]))

from bench.serving import BareServer, cpu_s, exporter, send, serving  # importable by the line above

_WARM_S = 2
ALL = "redaction: {detectors: all}\n"


def main() -> None:
    """Measure in turns, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4, help="how long to send, each time")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured")
    parser.add_argument("--rate", type=float, default=10, help="requests of 500 spans a second")
    parser.add_argument("--corpus", type=Path, help="a folder of folders of captures to send instead")
    parser.add_argument("--vary", action="store_true", help="other words in each text, each time it is sent")
    parser.add_argument("--old", help="the Python of another checkout")
    options = parser.parse_args()
    kinds = {"none": (sys.executable, ""), "all": (sys.executable, ALL)}
    if options.old:
        kinds["old"] = (options.old, "")
    cpu: Counter[str] = Counter()
    receive: Counter[str] = Counter()
    spans: Counter[str] = Counter()
    for number in range(options.rounds):
        for kind, (python, settings) in kinds.items():
            sent, of_receive, of_judge = _measured(python, settings, options)
            spans[kind] += sent
            receive[kind] += of_receive
            cpu[kind] += of_receive + of_judge
            each = f"receive {of_receive / sent * 1e6:6.2f}, judge {of_judge / sent * 1e6:6.2f} µs a span"
            print(f"{number + 1} {kind:5} {each}, {sent} spans", flush=True)
    by_span = {kind: cpu[kind] / spans[kind] * 1e6 for kind in kinds}
    for kind, found in by_span.items():
        print(f"{kind:5} {found:6.2f} µs a span, receive {receive[kind] / spans[kind] * 1e6:6.2f}")
    print(f"all / none {by_span['all'] / by_span['none']:.3f}")
    if options.old:
        print(f"none / old {by_span['none'] / by_span['old']:.3f}")


def _measured(python: str, settings: str, options: argparse.Namespace) -> tuple[int, float, float]:
    """Spans, and the CPU seconds of both roles."""
    with ExitStack() as cleanup:
        folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="tracegrade-bench-")))
        downstream = BareServer("sink")
        cleanup.callback(downstream.end)
        whole = exporter(downstream.port) + settings
        served = cleanup.enter_context(serving(folder, settings=whole, python=python))
        load: list[object] = ["--spans", 500, "--concurrency", 8, "--rate", options.rate]
        if options.corpus is not None:
            load += ["--corpus", options.corpus]
        if options.vary:
            load += ["--vary"]
        warm = send(served.endpoint, _WARM_S, *load)
        served.wait_until_delivered(warm["spans"])
        before = [cpu_s(pid) for pid in served.pids]
        sent = send(served.endpoint, options.seconds, *load)
        served.wait_until_delivered(warm["spans"] + sent["spans"])
        of_receive, of_judge = (cpu_s(pid) - begun for pid, begun in zip(served.pids, before, strict=True))
    return int(sent["spans"]), of_receive, of_judge


if __name__ == "__main__":
    main()
