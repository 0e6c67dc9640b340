"""What each stage of the path costs a span, one after the other in one process and one thread.

    python tests/bench/stages.py [--requests 200] [--rules 50] [--rounds 3] [--json]

No server, no thread, no waiting: what the stages cost by themselves, for comparing a change with what was before it.
`throughput.py` measures the whole, with the threads, the kernel's work and the live traces of two seconds around it.
CPU is this process's; the share of each stage in the sum holds better from run to run than its microseconds. Traces
settle after two seconds, requests come 25 a second by the records' clock.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from bench.agent_traces import SPANS_PER_TRACE, Stamper, template  # noqa: E402  # the line above makes it importable
from bench.throughput import write_rules  # noqa: E402
from tracegrade.assemble.closed_traces import ClosedTraces  # noqa: E402
from tracegrade.assemble.settings import TracesSettings  # noqa: E402
from tracegrade.deliver.carriers import carriers  # noqa: E402
from tracegrade.deliver.events import events  # noqa: E402
from tracegrade.deliver.record import decode, encode  # noqa: E402
from tracegrade.deliver.results import resource  # noqa: E402
from tracegrade.deliver.sinks.metrics import MetricsSink  # noqa: E402
from tracegrade.extract.registry import extract  # noqa: E402
from tracegrade.journal import Encoding, Entry, JournalReader, LocalJournal, Signal  # noqa: E402
from tracegrade.judge import judge  # noqa: E402
from tracegrade.match.load import load_rules  # noqa: E402
from tracegrade.match.select import match  # noqa: E402
from tracegrade.otlp.encode import Item, requests  # noqa: E402
from tracegrade.pipeline.judged_trace import judged_trace  # noqa: E402
from tracegrade.pipeline.record_judge import RecordJudge  # noqa: E402
from tracegrade.store.open import open_store  # noqa: E402
from tracegrade.store.write import StoreWriter  # noqa: E402
from tracegrade.telemetry import Telemetry  # noqa: E402

TRACES = 26
EVERY_NS = 40_000_000


class Clock:
    """Adds up CPU time by stage."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = defaultdict(float)

    @contextmanager
    def of(self, stage: str) -> Iterator[None]:
        """Count what is done inside to `stage`."""
        begun = time.thread_time()
        try:
            yield
        finally:
            self.spent[stage] += time.thread_time() - begun


def main() -> None:
    """Measure, print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=200, help="of 26 traces each")
    parser.add_argument("--rules", type=int, default=50, help="rules loaded; five of them match")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rounds = [measure(options.requests, options.rules) for _ in range(options.rounds)]
    figures = {stage: round(median(found[stage] for found in rounds), 2) for stage in rounds[0]}
    figures["sum"] = round(sum(figures.values()), 2)
    if options.json:
        print(json.dumps(figures))
        return
    for stage, spent in figures.items():
        print(f"{stage:32} {spent:8.2f} us a span {spent / figures['sum']:6.1%}")


def measure(count: int, rules: int) -> dict[str, float]:
    """Microseconds a span by stage, over `count` requests."""
    with tempfile.TemporaryDirectory(prefix="tracegrade-bench-") as name:
        return _measure(Path(name), count, rules)


def _measure(folder: Path, count: int, rules: int) -> dict[str, float]:
    clock = Clock()
    write_rules(folder / "rules", rules)
    rule_set = load_rules([str(folder / "rules")])
    journal = LocalJournal.open(folder / "journal")
    results = LocalJournal.open(folder / "results")
    stamper = Stamper(template(TRACES), TRACES, 1)
    for _ in range(count):
        entry = Entry(Signal.TRACES, Encoding.PROTOBUF, "default", TRACES * SPANS_PER_TRACE, stamper.next())
        journal.append(entry).result()
    reader = JournalReader(folder / "journal")
    telemetry = Telemetry("bench")
    writer = StoreWriter(open_store(f"sqlite:///{folder / 'store.db'}"))
    metrics = MetricsSink(telemetry)
    judging = RecordJudge(TracesSettings(), rule_set, ClosedTraces(lambda keys: {}))
    position = reader.first()
    number = 0
    while True:
        with clock.of("journal: read"):
            records = reader.read(position, 1024 * 1024)
        if not records:
            break
        position = records[-1].end
        for record in records:
            number += 1
            with clock.of("decode"):
                spans = judging._decoder.spans(record.payload)
            now_ns = number * EVERY_NS
            with clock.of("assemble"):
                traces = judging.live.close_due(now_ns)
                judging.live.add(spans, "default", now_ns, record.position, record.end, len(record.payload))
            _judge(traces, clock, rule_set, results, writer, metrics, judging)
    _judge(judging.live.close_all(), clock, rule_set, results, writer, metrics, judging)
    journal.close()
    results.close()
    # Each of these does again what the one before it did.
    clock.spent["evaluate"] -= clock.spent["match"] + clock.spent["extract"]
    clock.spent["match"] = clock.spent["match"]
    spans_read = count * TRACES * SPANS_PER_TRACE
    return {stage: spent / spans_read * 1e6 for stage, spent in clock.spent.items()}


def _judge(traces, clock, rule_set, results, writer, metrics, judging):  # type: ignore[no-untyped-def]
    if not traces:
        return
    with clock.of("extract"):
        extractions = [extract(trace) for trace in traces]
    with clock.of("match"):
        for extraction in extractions:
            match(rule_set, extraction)
    del extractions
    with clock.of("evaluate"):
        judgements = [judge(trace, rule_set) for trace in traces]
    with clock.of("pack the results"):
        batch = [judged_trace(trace, judged, "live", "") for trace, judged in zip(traces, judgements, strict=True)]
        entries = [Entry(Signal.RESULTS, Encoding.PROTOBUF, "default", 1, encode(item)) for item in batch]
    with clock.of("results: append (this thread)"):
        results.append_all(entries).result()
    with clock.of("sink: sql"):
        writer.write(batch)
    with clock.of("sink: otlp, encode"):
        resources = [resource(item) for item in batch]
        for encoder in (carriers, events):
            items = (Item(i, resources[i], encoder(item, False)) for i, item in enumerate(batch))
            for _ in requests(items):
                pass
    with clock.of("sink: metrics"):
        metrics._count(batch) if hasattr(metrics, "_count") else None
    with clock.of("(results: decode again)"):
        for entry in entries:
            decode(entry.payload)


if __name__ == "__main__":
    main()
