"""What a conversation costs by its length: CPU of judging its turns, each a trace, and how often it extracts one.

    python tests/system/bench/sessions.py [--turns 1 50 200] [--rounds 3]

One process without journal, store or sinks. A turn is a trace of 19 spans of about 1 KB with 6 tool calls, of one
conversation, which closes before the next one comes; two rules of scope session judge the conversation at every turn
and when it has ended. The fastest round counts.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any
from unittest import mock

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

HERE = Path(__file__).parent
sys.path.extend(map(str, HERE.parents[:2]))

from bench.agent_traces import SPANS_PER_TRACE, Stamper, marks, template  # noqa: E402  # importable by the line above

from tracegrade.assemble.closed_traces import ClosedTraces  # noqa: E402
from tracegrade.assemble.settings import TracesSettings  # noqa: E402
from tracegrade.extract.extract import extract  # noqa: E402
from tracegrade.journal.record import Encoding, Record  # noqa: E402
from tracegrade.model.signal import Signal  # noqa: E402
from tracegrade.pipeline.record_judge import RecordJudge  # noqa: E402
from tracegrade.rule.rule import Rule  # noqa: E402
from tracegrade.rule.rule_set import RuleSet  # noqa: E402

NS_PER_S = 1_000_000_000
EVERY_S = 30
RULES = (
    {"evaluator": "tool-call-order", "tool_calls_order": ["validate_user", "create_order"]},
    {"evaluator": "tool-call-count", "tool_calls_count": {"create_order": [">=", 1]}},
)


def main() -> None:
    """Measure, print a line for each number of turns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, nargs="+", default=[1, 50, 200])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rules = [
        Rule.model_validate({"id": f"rule-{number}", "scope": "session", "evaluate": [item]})
        for number, item in enumerate(RULES)
    ]
    for turns in options.turns:
        cpu_s = min(_judge(RuleSet(rules), turns) for _ in range(options.rounds))
        print(f"{turns} turns: {cpu_s * 1e3:,.0f} ms, {cpu_s / turns * 1e3:.2f} ms a turn; ", end="")
        print(f"{_extractions(RuleSet(rules), turns):,} extractions")


def _judge(rule_set: RuleSet, turns: int) -> float:
    """Seconds of CPU for a conversation of so many turns, until it has ended."""
    stamper = Stamper([template(1)], marks(1), 1)
    judge = RecordJudge(TracesSettings(), rule_set, ClosedTraces())
    payloads = [_later(stamper.next(), number * EVERY_S * NS_PER_S) for number in range(turns)]
    begun_s = time.process_time()
    for number, payload in enumerate(payloads):
        received_ns = number * EVERY_S * NS_PER_S
        for _ in judge.read(_record(number, received_ns, payload)):
            pass
        for _ in judge.tick(received_ns + EVERY_S * NS_PER_S // 2):
            pass
    assert len(list(judge.end())) == 1, "the session as it ended"
    return time.process_time() - begun_s


def _later(payload: bytes, later_ns: int) -> bytes:
    request = ExportTraceServiceRequest.FromString(payload)
    for span in request.resource_spans[0].scope_spans[0].spans:
        span.start_time_unix_nano += later_ns
        span.end_time_unix_nano += later_ns
    return request.SerializeToString()


def _record(number: int, received_ns: int, payload: bytes) -> Record:
    return Record(
        number, number + 1, received_ns, "default", Signal.TRACES, Encoding.PROTOBUF, SPANS_PER_TRACE, payload
    )


def _extractions(rule_set: RuleSet, turns: int) -> int:
    """How often traces are extracted for such a conversation."""
    counted = 0

    def counting(*given: Any) -> Any:
        nonlocal counted
        counted += 1
        return extract(*given)

    modules = [name for name, module in sys.modules.items() if getattr(module, "extract", None) is extract]
    patches = [mock.patch(f"{name}.extract", counting) for name in modules if name != "__main__"]
    for patch in patches:
        patch.start()
    try:
        _judge(rule_set, turns)
    finally:
        for patch in patches:
            patch.stop()
    return counted


if __name__ == "__main__":
    main()
