"""Memory of the judge while many spans are open: resident bytes a span and a trace.

    python tests/system/bench/memory.py [--spans 1000000] [--unpacked 100000]

Traces of `throughput.py` with other words in each (19 spans of about 1 KB) are read as from a journal, and none closes.
What is printed is the process's resident set as it grows, and what it grew by since nothing was open; ``--unpacked`` is
``traces.max_unpacked_spans``, and a great number shows what packing saves.
"""

import argparse
import random
import re
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path.extend(map(str, HERE.parents[:2]))

from bench.agent_traces import SPANS_PER_TRACE, Stamper, marks, template  # noqa: E402  # importable by the line above

from tracegrade.assemble.closed_traces import ClosedTraces  # noqa: E402
from tracegrade.assemble.settings import TracesSettings  # noqa: E402
from tracegrade.journal.record import Encoding, Record, Signal  # noqa: E402
from tracegrade.pipeline.record_judge import RecordJudge  # noqa: E402
from tracegrade.rule.load import load_rules  # noqa: E402

TRACES_A_REQUEST = 26
SPANS_A_REQUEST = TRACES_A_REQUEST * SPANS_PER_TRACE
# Runs of one letter that stand for texts, which compress far better than texts do.
_FILLING = re.compile(rb"c{200}|n{300}")


def main() -> None:
    """Open spans, print a line at each tenth of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spans", type=int, default=1_000_000)
    parser.add_argument("--unpacked", type=int, default=100_000)
    options = parser.parse_args()
    settings = TracesSettings(
        settle="1h", idle_timeout="1h", max_live_spans=2 * options.spans, max_unpacked_spans=options.unpacked
    )
    judge = RecordJudge(settings, load_rules(["builtin:all"]), ClosedTraces())
    requests = _Requests()
    list(judge.read(_record(0, requests.next())))
    before, begun_s = _resident_bytes(), time.process_time()
    print(f"{before / 2**20:.0f} MiB before anything is open")
    shown = 0
    for number in range(1, options.spans // SPANS_A_REQUEST + 2):
        list(judge.read(_record(number, requests.next())))
        if (tenth := judge.live.open_spans * 10 // options.spans) > shown:
            shown = tenth
            grown, spans = _resident_bytes() - before, judge.live.open_spans
            print(
                f"{spans:,} spans of {len(judge.live):,} traces open: {(grown + before) / 2**20:.0f} MiB, "
                f"{grown / spans:.0f} bytes a span, {grown / len(judge.live):,.0f} a trace",
                flush=True,
            )
    print(f"{(time.process_time() - begun_s) / judge.live.open_spans * 1e6:.1f} us a span, making them included")


class _Requests:
    """Requests of which no two texts are alike."""

    def __init__(self) -> None:
        self._chance = random.Random(1)
        whole = template(TRACES_A_REQUEST)
        self._stamper = Stamper([whole], marks(TRACES_A_REQUEST), 1)
        self._places = [found.span() for found in _FILLING.finditer(whole)]
        words = ["".join(self._chance.choices("etaoinshrdlu", k=self._chance.randint(2, 9))) for _ in range(5000)]
        self._text = " ".join(self._chance.choices(words, k=200_000)).encode()

    def next(self) -> bytes:
        """The next one, of traces never seen before."""
        buffer = bytearray(self._stamper.next())
        for begin, end in self._places:
            at = self._chance.randrange(len(self._text) - 300)
            buffer[begin:end] = self._text[at : at + end - begin]
        return bytes(buffer)


def _record(number: int, payload: bytes) -> Record:
    return Record(number, number + 1, number, "default", Signal.TRACES, Encoding.PROTOBUF, SPANS_A_REQUEST, payload)


def _resident_bytes() -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    main()
