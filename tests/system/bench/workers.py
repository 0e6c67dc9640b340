"""What several judges cost: a span that is another judge's, and CPU a span of each process with one judge and with two.

    python tests/system/bench/workers.py [--requests 100] [--rounds 3]                 skipping, in one process
    python tests/system/bench/workers.py --serve [--requests 150] [--workers 1 2]      the processes of serve, in turns

Skipping is reading the journal, parsing a record and a look at each trace id, of records none of whose traces are of
the judge's share. Each further judge costs so much for each span that is not its own. CPU is user and system time; the
machine's other work changes it, so read what stands beside each other in one run.
"""

import argparse
import gc
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from statistics import median

import grpc

HERE = Path(__file__).parent
sys.path.extend(map(str, HERE.parents[:2]))

from bench.agent_traces import SPANS_PER_TRACE, Stamper, marks, template  # noqa: E402  # the line above makes it importable
from bench.serving import cpu_s, descendants, wait_until, write_rules  # noqa: E402
from reliability.load import count_stored  # noqa: E402

from build.served import TRACES as EXPORT  # noqa: E402
from build.served import Server  # noqa: E402
from tracegrade.assemble.closed_traces import ClosedTraces  # noqa: E402
from tracegrade.assemble.settings import TracesSettings  # noqa: E402
from tracegrade.assemble.share import ALL, Share, Shares  # noqa: E402
from tracegrade.codec.keyed_request import KeyedRequest  # noqa: E402
from tracegrade.journal.local import LocalJournal  # noqa: E402
from tracegrade.journal.reader import JournalReader  # noqa: E402
from tracegrade.journal.record import Encoding, Entry, Signal  # noqa: E402
from tracegrade.pipeline.record_judge import RecordJudge  # noqa: E402
from tracegrade.rule.load import load_rules  # noqa: E402

TRACES = 26
SPANS = TRACES * SPANS_PER_TRACE
NOBODYS = Share(1, 2**32 + 1)  # a share that no trace is in: of every trace, all is another judge's
READ_BYTES = 1024 * 1024


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=100, help=f"of {SPANS} spans each")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rules", type=int, default=50)
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    options = parser.parse_args()
    if not options.serve:
        _skipping(options)
        return
    print("| judge.workers | process | µs of CPU a span |")
    print("| --- | --- | ---: |")
    for _ in range(options.rounds):
        for workers in options.workers:
            for name, cost in _served(workers, options).items():
                print(f"| {workers} | {name} | {cost:.2f} |", flush=True)


def _skipping(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="tracegrade-bench-") as name:
        folder = Path(name)
        write_rules(folder / "rules", options.rules)
        rules = load_rules([str(folder / "rules")])
        journal = LocalJournal.open(folder / "journal")
        stamper = Stamper([template(TRACES)], marks(TRACES), 1)
        for _ in range(options.requests):
            entry = Entry(Signal.TRACES, Encoding.PROTOBUF, "default", SPANS, stamper.next())
            journal.append(entry).result()
        found: dict[str, list[float]] = defaultdict(list)
        for _ in range(options.rounds):
            for what, took in (
                ("read and parsed only", lambda: _parse_all(folder)),
                ("all of it is another's", lambda: _read_all(folder, rules, NOBODYS)),
                ("all of it is its own", lambda: _read_all(folder, rules, ALL)),
            ):
                gc.collect()
                gc.disable()  # as in serve, where it is rare
                found[what].append(took() / (options.requests * SPANS) * 1e6)
                gc.enable()
        journal.close()
    for what, costs in found.items():
        print(f"{what:24} {median(costs):6.2f} µs a span, of {', '.join(f'{cost:.2f}' for cost in costs)}")


def _parse_all(folder: Path) -> float:
    """The CPU time of reading the journal and parsing what is in it."""
    reader = JournalReader(folder / "journal")
    begun = time.process_time()
    position = reader.first()
    while records := reader.read(position, READ_BYTES):
        for record in records:
            KeyedRequest.FromString(record.payload)
        position = records[-1].end
    took = time.process_time() - begun
    reader.close()
    return took


def _read_all(folder: Path, rules: "object", share: Share) -> float:
    """The CPU time of reading the journal with this share, without closing anything."""
    judge = RecordJudge(TracesSettings(), rules, ClosedTraces(), shares=Shares(share))  # type: ignore[arg-type]
    reader = JournalReader(folder / "journal")
    begun = time.process_time()
    position = reader.first()
    while records := reader.read(position, READ_BYTES):
        for record in records:
            list(judge.read(record))
        position = records[-1].end
    took = time.process_time() - begun
    reader.close()
    return took


def _served(workers: int, options: argparse.Namespace) -> dict[str, float]:
    """µs of CPU a span by process, until everything is stored."""
    with tempfile.TemporaryDirectory(prefix="tracegrade-bench-") as name:
        folder = Path(name)
        write_rules(folder / "rules", options.rules)
        rules = {"paths": [str(folder / "rules")]}
        server = Server(folder, judge={"workers": workers}, rules=rules, traces={"settle": "2s"}, web=None)
        server.start()
        assert server.process is not None
        try:
            parts = ["judge"] if workers == 1 else [*(f"judge-{k}-of-{workers}" for k in range(workers)), "delivery"]
            wait_until(lambda: all((server.data / f"{part}.snapshot.json").exists() for part in parts))
            pids = {"receive": server.process.pid} | {_part_of(pid): pid for pid in descendants(server.process.pid)}
            before = {part: cpu_s(pid) for part, pid in pids.items()}
            stamper = Stamper([template(TRACES)], marks(TRACES), 1)
            with grpc.insecure_channel(server.endpoints["grpc"]) as channel:
                send = channel.unary_unary(EXPORT)
                for _ in range(options.requests):
                    send(stamper.next(), timeout=60)
            wait_until(lambda: count_stored(server) >= options.requests * TRACES)
            spans = options.requests * SPANS
            costs = {part: (cpu_s(pid) - before[part]) / spans * 1e6 for part, pid in pids.items()}
        finally:
            server.stop()
    return {**costs, "together": sum(costs.values())}


def _part_of(pid: int) -> str:
    words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    return words[words.index("--part") + 1] if "--part" in words else words[words.index("--role") + 1]


if __name__ == "__main__":
    main()
