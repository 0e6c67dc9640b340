"""CPU per span of the pure front half, by stage: generated agent traces, and the captures of each framework.

    python tests/system/bench/extraction.py [--corpus DIR] [--against SOURCE_ROOT] [--spans 3000] [--rounds 5]

Each folder of captures (DIR/FRAMEWORK/*.binpb) is repeated with fresh trace ids until it has enough spans. Every stage
is run over all of them, and its best round counts. `--against` measures a second source tree in turns with this one, so
that both meet the same machine: before and after in one run. Each tree is measured by its own copy of this script.
"""

import argparse
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

HERE = Path(__file__).parent
sys.path.extend(map(str, HERE.parents[:2]))

from bench import captures  # noqa: E402  # importable by the line above
from bench.agent_traces import SPANS_PER_TRACE, Stamper, marks, template  # noqa: E402

from tracegrade.assemble.closed_traces import ClosedTraces  # noqa: E402
from tracegrade.assemble.decode import Decoder  # noqa: E402
from tracegrade.assemble.live_traces import LiveTraces  # noqa: E402
from tracegrade.assemble.settings import TracesSettings, without_bounds  # noqa: E402
from tracegrade.extract.extract import extract  # noqa: E402
from tracegrade.model.span import Span  # noqa: E402
from tracegrade.model.trace import Trace  # noqa: E402
from tracegrade.pipeline.record_judge import attribute_filter_for  # noqa: E402
from tracegrade.rule.load import RuleSet  # noqa: E402

GENERATED = "generated"
STAGES = ("decode", "assemble", "extract")
SETTINGS = without_bounds(TracesSettings())

Result = TypeVar("Result")
Times = dict[str, float]  # stage -> µs a span; "spans" -> how many were measured


def main() -> None:
    """Measure, and print a table."""
    options = _options()
    if options.json:
        print(json.dumps({name: _measure(name, options) for name in _names(options)}))
        return
    trees = {"": None} if options.against is None else {"before": options.against, "after": None}
    measured: dict[str, dict[str, Times]] = {}
    for _ in range(options.rounds):
        for label, tree in trees.items():
            found = _run(tree, options)
            measured[label] = _best(measured[label], found) if label in measured else found
    _print(measured)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, help="a folder of folders of captures")
    parser.add_argument("--against", type=Path, help="the processor/ folder of another checkout")
    parser.add_argument("--only", help="folders whose names contain this")
    parser.add_argument("--spans", type=int, default=3000, help="at least so many of each")
    parser.add_argument("--rounds", type=int, default=5, help="how often each stage is measured; the best counts")
    parser.add_argument("--json", action="store_true", help="one round, as JSON")
    return parser.parse_args()


def _names(options: argparse.Namespace) -> list[str]:
    folders = [] if options.corpus is None else sorted(p.name for p in options.corpus.iterdir() if p.is_dir())
    return [GENERATED, *(name for name in folders if options.only is None or options.only in name)]


def _run(tree: Path | None, options: argparse.Namespace) -> dict[str, Times]:
    script = Path(__file__) if tree is None else tree.resolve().parent / Path(__file__).relative_to(HERE.parents[2])
    command = [sys.executable, str(script), "--json", "--spans", str(options.spans)]
    for name in ("corpus", "only"):
        if (value := getattr(options, name)) is not None:
            command += [f"--{name}", str(value)]
    environment = dict(os.environ) if tree is None else {**os.environ, "PYTHONPATH": str(tree.resolve())}
    found: dict[str, Times] = json.loads(subprocess.check_output(command, env=environment))
    return found


def _best(one: dict[str, Times], other: dict[str, Times]) -> dict[str, Times]:
    return {name: {key: min(value, other[name][key]) for key, value in times.items()} for name, times in one.items()}


def _measure(name: str, options: argparse.Namespace) -> Times:
    payloads = _generated(options.spans) if name == GENERATED else _captured(options.corpus / name, options.spans)
    decoder = Decoder(attribute_filter_for(RuleSet([]), SETTINGS))
    for payload in payloads[: 1 + len(payloads) // 10]:  # what is learnt once a process is learnt here
        _assemble([decoder.spans(payload)])
    decode_s, decoded = _timed(lambda: [decoder.spans(payload) for payload in payloads])
    assemble_s, traces = _timed(lambda: _assemble(decoded))
    extract_s, extractions = _timed(lambda: [extract(trace) for trace in traces])
    assert len(extractions) == len(traces)
    count = sum(map(len, decoded))
    times = {stage: s / count * 1e6 for stage, s in zip(STAGES, (decode_s, assemble_s, extract_s), strict=True)}
    return {"spans": float(count), **times}


def _timed(run: Callable[[], Result]) -> tuple[float, Result]:
    gc.collect()
    gc.freeze()  # what earlier stages keep is not this one's cost
    start = time.process_time()
    result = run()
    return time.process_time() - start, result


def _assemble(decoded: Sequence[list[Span]]) -> list[Trace]:
    live = LiveTraces(SETTINGS, ClosedTraces(), "")
    for position, spans in enumerate(decoded):
        live.add(spans, "default", 0, position, position + 1)
    return list(live.close_all())


def _generated(spans: int) -> list[bytes]:
    traces = 26
    stamper = Stamper([template(traces)], marks(traces), salt=1)
    return [stamper.next() for _ in range(-(-spans // (traces * SPANS_PER_TRACE)))]


def _captured(folder: Path, spans: int) -> list[bytes]:
    once = captures.read([folder])
    stamper = Stamper(once, captures.trace_ids(once), salt=2)
    copies = -(-spans // sum(map(captures.span_count, once)))
    return [stamper.next() for _ in range(copies * len(once))]


def _print(measured: dict[str, dict[str, Times]]) -> None:
    labels = list(measured)
    columns = [f"{stage} {label}".strip() for stage in STAGES for label in labels]
    ratios = [f"x generated {label}".strip() for label in labels]
    print(f"µs of CPU a span\n\n{'captures':32}{'spans':>7}" + "".join(f"{name:>18}" for name in (*columns, *ratios)))
    for name in measured[labels[0]]:
        cells = [measured[label][name][stage] for stage in STAGES for label in labels]
        cells += [measured[label][name]["extract"] / measured[label][GENERATED]["extract"] for label in labels]
        print(f"{name:32}{measured[labels[0]][name]['spans']:>7.0f}" + "".join(f"{cell:>18.2f}" for cell in cells))


if __name__ == "__main__":
    main()
