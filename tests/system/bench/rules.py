"""What loaded rules cost that do not match: one trace judged under a few rules and under 10,000, the same 10 matching.

    python tests/system/bench/rules.py [--loaded 10000] [--rounds 7] [--traces 300]

The rules that match are the same in both, and the few hold one more of each kind measured, so that the same clauses are
asked for. The others differ from the traces in one kind of clause, or in all of them in
turn (``mixed``). Both rule sets meet the same traces by turns in one process, and the best round of each counts:
``match`` is matching alone, ``judge`` extraction, matching and evaluation.
"""

import argparse
import gc
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.extend(map(str, HERE.parents[:2]))

from bench.agent_traces import Stamper, marks, template  # noqa: E402  # importable by the line above

from tracegrade.assemble.closed_traces import ClosedTraces  # noqa: E402
from tracegrade.assemble.decode import Decoder  # noqa: E402
from tracegrade.assemble.live_traces import LiveTraces  # noqa: E402
from tracegrade.assemble.settings import TracesSettings, without_bounds  # noqa: E402
from tracegrade.extract.extract import extract  # noqa: E402
from tracegrade.judge import judge  # noqa: E402
from tracegrade.match.select import match_trace  # noqa: E402
from tracegrade.model.trace import Trace  # noqa: E402
from tracegrade.pipeline.record_judge import attribute_filter_for  # noqa: E402
from tracegrade.rule.rule import Rule  # noqa: E402
from tracegrade.rule.rule_set import RuleSet  # noqa: E402

MATCHING = 10
TRACES_A_REQUEST = 26

# By kind: the clauses of the rule of that number, which match no trace of the bench.
OTHERS: dict[str, Callable[[int], dict[str, Any]]] = {
    "service": lambda n: {"match": {"service": f"other-{n}"}},
    "service glob": lambda n: {"match": {"service": f"other-{n}-*"}},
    "agent": lambda n: {"match": {"service": "bench-*", "agent": f"agent-{n}"}},
    "tools": lambda n: {"match": {"service": "bench-shop", "tools": [f"tool_{n}", f"tool_{n}_too"]}},
    "tools glob": lambda n: {"match": {"service": "bench-shop", "tools": f"tool_{n}_*"}},
    "attributes": lambda n: {"match": {"attributes": {"tenant.id": f"t-{n}"}}},
    "many attributes": lambda n: {"match": {"attributes": {f"flag.{n}": True}}},
    "release": lambda n: {"match": {"service": "bench-shop", "release": f"9.{n}.*"}},
    "prompt": lambda n: {"match": {"prompt": f"Order {n} pens"}},
    "prompt regex": lambda n: {"match": {"service": f"other-{n % 100}", "prompt": {"$regex": f"order {n}"}}},
    "tool-call": lambda n: {"scope": "tool-call", "match": {"tools": f"tool_{n}"}},
    "cel": lambda n: {"match": {"agent": f"agent-{n % 100}", "cel": f"trace.span_count > {n}"}},
}


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loaded", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--traces", type=int, default=300)
    options = parser.parse_args()
    traces = list(_traces(options.traces))
    print(f"{'rules that do not match':24} {'match, µs':>20} {'ratio':>6} {'judge, µs':>20} {'ratio':>6}")
    for kind in (*OTHERS, "mixed"):
        few = RuleSet([*_matching(), *_others(kind, len(OTHERS) if kind == "mixed" else 1)])
        many = RuleSet([*_matching(), *_others(kind, options.loaded - MATCHING)])
        matched = _by_turns(lambda rules: _match_all(rules, traces), few, many, options.rounds)
        judged = _by_turns(lambda rules: _judge_all(rules, traces), few, many, options.rounds)
        cells = [_cell(times, len(traces)) for times in (matched, judged)]
        print(f"{kind:24} {cells[0]} {cells[1]}", flush=True)


def _matching() -> Iterator[Rule]:
    for number in range(MATCHING):
        yield _rule(f"matching-{number}", {"match": {"service": "bench-*", "tools": ["create_order"]}})


def _others(kind: str, count: int) -> Iterator[Rule]:
    kinds = list(OTHERS.values()) if kind == "mixed" else [OTHERS[kind]]
    for number in range(count):
        yield _rule(f"other-{number}", kinds[number % len(kinds)](number))


def _rule(rule_id: str, fields: dict[str, Any]) -> Rule:
    evaluate = [{"evaluator": "tool-call-order", "tool_calls_order": ["validate_user", "create_order"]}]
    return Rule.model_validate({"id": rule_id, "evaluate": evaluate, **fields})


def _traces(count: int) -> Iterator[Trace]:
    settings = without_bounds(TracesSettings())
    rules = RuleSet([*_matching(), *_others("mixed", 1000)])
    decoder = Decoder(attribute_filter_for(rules, settings))
    live = LiveTraces(settings, ClosedTraces(), "")
    stamper = Stamper([template(TRACES_A_REQUEST)], marks(TRACES_A_REQUEST), 1)
    for place in range(-(-count // TRACES_A_REQUEST)):
        live.add(decoder.spans(stamper.next()), "default", 0, place, place + 1)
    yield from live.close_all()


def _match_all(rules: RuleSet, traces: list[Trace]) -> float:
    extractions = [extract(trace) for trace in traces]
    begun = time.process_time()
    for extraction in extractions:
        found = list(match_trace(rules, extraction))
        assert len(found) == MATCHING
    return time.process_time() - begun


def _judge_all(rules: RuleSet, traces: list[Trace]) -> float:
    begun = time.process_time()
    for trace in traces:
        judge(trace, rules)
    return time.process_time() - begun


def _by_turns(measure: Callable[[RuleSet], float], few: RuleSet, many: RuleSet, rounds: int) -> tuple[float, float]:
    gc.collect()
    gc.disable()
    times = [(measure(few), measure(many)) for _ in range(rounds)]
    gc.enable()
    return min(time for time, _ in times), min(time for _, time in times)


def _cell(times: tuple[float, float], traces: int) -> str:
    few, many = (time / traces * 1e6 for time in times)
    return f"{few:9.1f} {many:10.1f} {many / few:6.2f}"


if __name__ == "__main__":
    main()
