"""What ``tracegrade rules backtest`` takes over many stored traces.

    python tests/system/bench/backtest.py [--traces 100000] [--jobs 2] [--journal]

Stores traces of 19 spans of about 1 KB each with 6 tool calls, judged by one rule, over four weeks. Then the rule with
another threshold is judged over all of them, in a process of its own: its time on the wall, its CPU with that of its
workers, and the most memory it held, MiB. Where the machine does something else meanwhile, CPU says more.

With --journal, the traces come through a journal, about 20 KB each, and the changed rule reads an attribute that the
store did not keep: so all of them are read from the journal again.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.agent_traces import SPANS_PER_TRACE, Stamper, marks, template

from tracegrade.assemble.closed_traces import ClosedTraces
from tracegrade.assemble.settings import TracesSettings
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.record import Encoding, Entry
from tracegrade.journal.settings import JournalSettings
from tracegrade.judge import judge
from tracegrade.model.signal import Signal
from tracegrade.model.trace_result import TraceResult
from tracegrade.otlp.files.source_request import SourceRequest
from tracegrade.pipeline.record_judge import RecordJudge
from tracegrade.pipeline.trace_result import result_of, trace_result
from tracegrade.pipeline.whole_traces import read_traces
from tracegrade.rule.load import load_rules
from tracegrade.store.open import open_store
from tracegrade.store.write import StoreWriter

RULE = """\
id: steps-in-order
match: {{tools: [create_order]}}
evaluate:
  - {{evaluator: tool-call-order, tool_calls_order: [validate_user, check_inventory, create_order], threshold: {}}}
alert: [{{below: 0.9, min_samples: 30}}]
"""
_DAYS = 28
_TOGETHER = 500


def judged_live(traces: int, rule: Path) -> Iterator[TraceResult]:
    """So many traces, spread over the time until now."""
    rule_set = load_rules([rule])
    (first,) = read_traces([SourceRequest(Signal.TRACES, template(1), "made up")], rule_set.attributes_read)
    every_ns = _DAYS * 86_400 * 10**9 // traces
    begin_ns = time.time_ns() - traces * every_ns
    for number in range(traces):
        at_ns, trace_id = begin_ns + number * every_ns, number.to_bytes(16, "big")
        shift_ns = at_ns - first.start_ns
        spans = [
            replace(span, trace_id=trace_id, start_ns=span.start_ns + shift_ns, end_ns=span.end_ns + shift_ns)
            for span in first.spans
        ]
        times = {"first_received_ns": at_ns, "last_received_ns": at_ns, "closed_ns": at_ns}
        trace = replace(first, trace_id=trace_id, spans=spans, rule_set=rule_set.hash, **times)
        yield trace_result(trace, judge(trace, rule_set), "live", "settings")


def judged_from_journal(traces: int, rule: Path, folder: Path) -> Iterator[TraceResult]:
    """So many traces that a journal in `folder` holds, received within the last hour."""
    now = [time.time_ns() - 3600 * 10**9]
    settings = JournalSettings(max_size_mib=64 * 1024)
    journal = LocalJournal.open(folder / "journal", settings, lambda: now[0], monotonic_ns=lambda: 0)
    stamper = Stamper([template(1)], marks(1), 1)
    for number in range(traces):
        now[0] += 3600 * 10**9 // traces
        written = journal.append(Entry(Signal.TRACES, Encoding.PROTOBUF, "default", SPANS_PER_TRACE, stamper.next()))
        if number % _TOGETHER == 0 or number == traces - 1:  # what waits for the disk is bounded
            written.result()
    journal.close()
    judge = RecordJudge(TracesSettings(), load_rules([rule]), ClosedTraces())
    reader = JournalReader(folder / "journal")
    position = reader.first()
    while records := reader.read(position):
        for record in records:
            yield from (result_of(item, "live", "settings") for item in judge.read(record))
        position = records[-1].end
    yield from (result_of(item, "live", "settings") for item in judge.end())


def main() -> None:
    """Fill a store, and print a line."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--traces", type=int, default=100_000)
    arguments.add_argument("--jobs", type=int, default=2)
    arguments.add_argument("--journal", action="store_true")
    asked = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rule = Path(folder, "rule.yaml")
        rule.write_text(RULE.format(1.0), encoding="utf-8")
        engine = open_store(f"sqlite:///{folder}/tracegrade.db")
        writer = StoreWriter(engine)
        left = (
            judged_from_journal(asked.traces, rule, Path(folder)) if asked.journal else judged_live(asked.traces, rule)
        )
        while some := list(islice(left, _TOGETHER)):
            writer.write(some)
        engine.dispose()
        changed = RULE.format(0.5)
        if asked.journal:
            changed += "unless: {attributes: {shop.tier: gold}}\n"
        rule.write_text(changed, encoding="utf-8")
        began = time.monotonic()
        command = [sys.executable, "-m", "tracegrade", "rules", "backtest", str(rule), "--data-dir", folder]
        subprocess.run([*command, "--jobs", str(asked.jobs)], check=True)
        wall_s = time.monotonic() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s, peak_mib = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
    print(f"{asked.traces:,} traces: {wall_s:.1f} s, {cpu_s:.1f} CPU-seconds, {peak_mib:.0f} MiB")


if __name__ == "__main__":
    main()
