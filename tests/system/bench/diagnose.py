"""What it costs to say what broke when an alert begins to fire, over a store of many results.

    python tests/system/bench/diagnose.py [--results 100000] [--rounds 5] [--url sqlite:///FILE]

Stores traces of 19 spans and 6 tool calls over eight days; in the last two hours a new release fails on one tool. Then
it makes the diagnosis again and again, without attributes and with two, and prints the best time and what was found.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

sys.path.extend(map(str, Path(__file__).parents[2:4]))

from sqlalchemy import Engine  # importable by the line above

from build.judged_traces import AGENT_SPAN, MINUTE_NS, START_NS, judged, spans, tool_call
from build.stored_alerts import ALERT
from tracegrade.alert.diagnose.diagnose import diagnose
from tracegrade.alert.notify.message import lines
from tracegrade.codec.kept_spans import encode_spans
from tracegrade.model.trace_result import RunSummary, TraceResult
from tracegrade.store.alerts import Facts
from tracegrade.store.diagnosis import Diagnosis
from tracegrade.store.open import open_store, reading
from tracegrade.store.write import StoreWriter

DAYS = 8
FELL_MINUTES = 120
END_NS = START_NS + DAYS * 1440 * MINUTE_NS
BEGAN_NS = END_NS - FELL_MINUTES * MINUTE_NS
SPANS, CALLS, CUSTOMERS, TOGETHER = 19, 6, 40, 500
ATTRIBUTES = ("app.customer", "app.request")


def results(count: int) -> Iterator[TraceResult]:
    """Traces spread evenly over the eight days, each with one result: one in 50 fails, and half of what broke."""
    for number in range(count):
        at_ns = START_NS + number * (END_NS - START_NS) // count
        is_new = at_ns >= BEGAN_NS and number % 2 == 0
        calls_refund = number % 3 == 0
        broke = is_new and calls_refund
        times = {"first_received_ns": at_ns, "last_received_ns": at_ns}
        release = "1.1" if is_new else "1.0"
        calls = [tool_call(name="refund" if calls_refund and place == 0 else f"tool_{place}") for place in range(CALLS)]
        runs = [RunSummary(AGENT_SPAN, "support", model="large" if is_new else "small", prompt_hash=f"{number:016x}")]
        outcome = "fail" if number % 50 == 7 or broke else "pass"
        trace = judged(number, outcome, release=release, tool_calls=calls, runs=runs, **times)
        root, child = spans(number)
        root.attributes |= {"app.customer": f"customer-{number % CUSTOMERS}", "app.request": f"request-{number}"}
        kept = [root, *(replace(child, span_id=place.to_bytes(8, "big")) for place in range(1, SPANS))]
        yield replace(trace, spans=encode_spans(kept, []))


def fill(engine: Engine, count: int) -> None:
    """Store the results, some at a time."""
    writer = StoreWriter(engine)
    batch: list[TraceResult] = []
    for result in results(count):
        batch.append(result)
        if len(batch) == TOGETHER:
            writer.write(batch)
            batch = []
    writer.write(batch)


def measure(engine: Engine, attributes: Sequence[str], rounds: int) -> tuple[float, float, Diagnosis]:
    """The processor time of the best round and of the first, s; and the diagnosis."""
    alert = replace(ALERT, release=None, starts_ns=END_NS, updated_ns=END_NS, facts=Facts(since_ns=BEGAN_NS))
    spent = []
    for _ in range(rounds):
        before = time.process_time()
        with reading(engine) as connection:
            found = diagnose(connection, alert, count_incomplete=False, slices=attributes)
        spent.append(time.process_time() - before)
    return min(spent), spent[0], found


def main() -> None:
    """Measure, and print what it costs and what it says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--url", help="an empty store; a temporary SQLite file if none")
    chosen = parser.parse_args()
    with ExitStack() as cleanup:
        folder = cleanup.enter_context(tempfile.TemporaryDirectory())
        engine = open_store(chosen.url or f"sqlite:///{Path(folder) / 'tracegrade.db'}")
        cleanup.callback(engine.dispose)
        fill(engine, chosen.results)
        print(f"{chosen.results:,} results in {DAYS} days, {FELL_MINUTES} minutes since the fall")
        for attributes in ((), ATTRIBUTES):
            best, first, found = measure(engine, attributes, chosen.rounds)
            told = f"{len(attributes)} attributes" if attributes else "without attributes"
            print(f"{told}: {1000 * best:.0f} ms of processor time (first {1000 * first:.0f} ms)")
        facts = Facts(reasons=found.reasons, slices=found.slices, changed=[change.text for change in found.changes])
        print("\n".join(line for line in lines(replace(ALERT, facts=facts)) if ": " in line and "Trace" not in line))


if __name__ == "__main__":
    main()
