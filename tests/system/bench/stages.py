"""What each stage of the path costs a span, one after the other in one process and one thread.

    python tests/system/bench/stages.py [--requests 200] [--rules 50 | --defaults] [--rounds 3] [--json]

No server, no thread, no waiting: what the stages cost by themselves, for comparing a change with what was before it
(`regression.py` does so against what is committed). `throughput.py` measures the whole, with the threads, the kernel's
work and the live traces of two seconds around it. CPU is this process's; the share of each stage in the sum holds
better from run to run than its microseconds. Traces settle after two seconds, requests come 25 a second by the records'
clock.
"""

import argparse
import gc
import json
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, TypeVar
from unittest import mock

HERE = Path(__file__).parent
sys.path.extend(map(str, HERE.parents[:2]))

from bench.agent_traces import SPANS_PER_TRACE, Stamper, marks, template  # noqa: E402  # the line above makes it importable
from bench.serving import write_rules  # noqa: E402

from tracegrade.assemble.closed_traces import ClosedTraces  # noqa: E402
from tracegrade.assemble.decode import Decoder  # noqa: E402
from tracegrade.assemble.settings import TracesSettings  # noqa: E402
from tracegrade.codec.results import decode_result, encode_result  # noqa: E402
from tracegrade.deliver.carriers import carriers  # noqa: E402
from tracegrade.deliver.events import events  # noqa: E402
from tracegrade.deliver.results import resource  # noqa: E402
from tracegrade.deliver.sinks.metrics import MetricsSink  # noqa: E402
from tracegrade.extract.extract import extract  # noqa: E402
from tracegrade.journal.append import Append  # noqa: E402
from tracegrade.journal.local import LocalJournal  # noqa: E402
from tracegrade.journal.reader import JournalReader  # noqa: E402
from tracegrade.journal.record import Encoding, Entry, Signal  # noqa: E402
from tracegrade.judge import Judgement, judge  # noqa: E402
from tracegrade.match.select import match_trace  # noqa: E402
from tracegrade.model.extraction import Extraction  # noqa: E402
from tracegrade.model.trace import Trace  # noqa: E402
from tracegrade.model.trace_result import TraceResult  # noqa: E402
from tracegrade.otlp.encode import Item, requests  # noqa: E402
from tracegrade.pipeline.record_judge import RecordJudge, attribute_filter_for  # noqa: E402
from tracegrade.pipeline.trace_result import trace_result  # noqa: E402
from tracegrade.receive.validate import check  # noqa: E402
from tracegrade.rule.builtin import BUILTIN, DEFAULT  # noqa: E402
from tracegrade.rule.load import load_rules  # noqa: E402
from tracegrade.store.open import open_store  # noqa: E402
from tracegrade.store.write import StoreWriter  # noqa: E402
from tracegrade.telemetry.metrics import Telemetry  # noqa: E402

TRACES = 26
SPANS = TRACES * SPANS_PER_TRACE
EVERY_NS = 40_000_000

Result = TypeVar("Result")
Run = Callable[[str, Callable[[], Any]], Any]  # runs the work of the stage so named, gives what it gives


class Stages:
    """The path's own objects over one folder; use as a context manager."""

    def __init__(self, folder: Path, rules: int | None, every_ns: int = EVERY_NS) -> None:
        """Open everything.

        Args:
            folder: an empty one, for journals, store and rules.
            rules: how many are loaded; five of them match. None: `builtin:default`.
            every_ns: how long after one request the next comes, by the records' clock.
        """
        if rules is not None:
            write_rules(folder / "rules", rules)
        self._rule_set = load_rules([BUILTIN + DEFAULT if rules is None else str(folder / "rules")])
        # Handing over to the journals' own threads costs more on idle cores than on busy ones: they sleep throughout.
        self._asleep = mock.patch("tracegrade.journal.committer.TICK_S", 3600.0)
        self._asleep.start()
        self._journal = LocalJournal.open(folder / "journal")
        self._results = LocalJournal.open(folder / "results", name="results")
        self._reader = JournalReader(folder / "journal")
        self._position = self._reader.first()
        self._stamper = Stamper([template(TRACES)], marks(TRACES), 1)
        self._decoder = Decoder(attribute_filter_for(self._rule_set, TracesSettings()))
        self._judge = RecordJudge(TracesSettings(), self._rule_set, ClosedTraces(lambda keys: {}))
        self._store = open_store(f"sqlite:///{folder / 'store.db'}")
        self._writer = StoreWriter(self._store)
        self._metrics = MetricsSink(Telemetry("bench"))
        self._every_ns = every_ns
        self._now_ns = 0

    def __enter__(self) -> "Stages":
        return self

    def __exit__(self, *_: object) -> None:
        self._journal.close()
        self._results.close()
        self._asleep.stop()
        self._store.dispose()

    def take_request(self, run: Run) -> None:
        """Another request through every stage, with the traces that it closes."""
        payload = self._stamper.next()
        run("receive: check", lambda: check(Signal.TRACES, Encoding.PROTOBUF, payload))
        entry = Entry(Signal.TRACES, Encoding.PROTOBUF, "default", SPANS, payload)
        run("journal: append", lambda: _commit(self._journal, [entry]))
        (record,) = run("journal: read", lambda: self._reader.read(self._position))
        self._position = record.end
        spans = run("decode", lambda: self._decoder.spans(record.payload))
        self._now_ns += self._every_ns

        def assemble() -> list[Trace]:
            closed = list(self._judge.live.close_due(self._now_ns))
            self._judge.live.add(spans, "default", self._now_ns, record.position, record.end, len(record.payload))
            return closed

        self._take_traces(run("assemble", assemble), run)

    def end(self, run: Run) -> None:
        """The traces that are still open."""
        self._take_traces(list(self._judge.live.close_all()), run)

    def _take_traces(self, traces: list[Trace], run: Run) -> None:
        if not traces:
            return
        extractions = run("extract", lambda: [extract(trace) for trace in traces])
        matches = run("match", lambda: [list(match_trace(self._rule_set, extraction)) for extraction in extractions])
        with _judging_from(extractions, matches):
            judgements: list[Judgement] = run("evaluate", lambda: [judge(trace, self._rule_set) for trace in traces])

        def pack() -> tuple[list[TraceResult], list[Entry]]:
            batch = [trace_result(trace, judged, "live", "") for trace, judged in zip(traces, judgements, strict=True)]
            return batch, [
                Entry(Signal.RESULTS, Encoding.PROTOBUF, "default", 1, encode_result(item)) for item in batch
            ]

        batch, entries = run("pack the results", pack)
        run("results: append", lambda: _commit(self._results, entries))
        run("sink: sql", lambda: self._writer.write(batch))
        run("sink: otlp, encode", lambda: _otlp_requests(batch))
        run("sink: metrics", lambda: _finish(self._metrics.deliver(batch)))
        run("(results: decode again)", lambda: [decode_result(entry.payload) for entry in entries])


@contextmanager
def _judging_from(extractions: Sequence[Extraction], matches: Sequence[Any]) -> Iterator[None]:
    """Have `judge` begin with what was extracted and matched, so that evaluating is measured by itself."""
    extracted, matched = iter(extractions), iter(matches)
    with mock.patch.multiple(
        "tracegrade.judge", extract=lambda *_: next(extracted), match_trace=lambda *_: next(matched)
    ):
        yield


def _commit(journal: LocalJournal, entries: Sequence[Entry]) -> None:
    """What the journal's own thread does with entries that came together."""
    done: Future[int] = Future()
    journal.committer.commit([Append(entries, done)])
    done.result(0)


def _otlp_requests(batch: Sequence[TraceResult]) -> None:
    resources = [resource(item) for item in batch]
    for encoder in (carriers, events):
        for _ in requests(Item(i, resources[i], encoder(item, False)) for i, item in enumerate(batch)):
            pass


def _finish(coroutine: Any) -> None:
    """Run a coroutine that never waits, without a loop's cost."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise AssertionError("it waits for something")


def main() -> None:
    """Measure, print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=200, help="of 26 traces each")
    parser.add_argument("--rules", type=int, default=50, help="rules loaded; five of them match")
    parser.add_argument("--defaults", action="store_true", help="builtin:default in place of these rules")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    gc.disable()  # as the judge does
    rounds = [measure(options.requests, None if options.defaults else options.rules) for _ in range(options.rounds)]
    figures = {stage: round(median(found[stage] for found in rounds), 2) for stage in rounds[0]}
    figures["sum"] = round(sum(figures.values()), 2)
    if options.json:
        print(json.dumps(figures))
        return
    for stage, spent in figures.items():
        print(f"{stage:32} {spent:8.2f} us a span {spent / figures['sum']:6.1%}")


def measure(count: int, rules: int | None) -> dict[str, float]:
    """Microseconds a span by stage, over `count` requests."""
    gc.collect()
    spent: dict[str, float] = defaultdict(float)

    def timed(stage: str, work: Callable[[], Result]) -> Result:
        begun = time.process_time()
        result = work()
        spent[stage] += time.process_time() - begun
        return result

    with tempfile.TemporaryDirectory(prefix="tracegrade-bench-") as name, Stages(Path(name), rules) as stages:
        for _ in range(count):
            stages.take_request(timed)
        stages.end(timed)
    return {stage: seconds / (count * SPANS) * 1e6 for stage, seconds in spent.items()}


if __name__ == "__main__":
    main()
