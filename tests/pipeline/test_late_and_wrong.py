"""Spans that come late, again, or wrong: what is judged is what a clean run judges (promises 2 and 3)."""

import random
from hashlib import blake2b

import pytest

from build import each, rest_long
from build.canonical import canonical_line
from build.harness import Run, records
from build.otlp import Content, agent_span, otlp_span, tool_span
from tracegrade.assemble.settings import TracesSettings
from tracegrade.pipeline.replay import replay_records
from tracegrade.rule.load import load_rules
from tracegrade.rule.rule_set import RuleSet

SETTINGS = TracesSettings(settle="1s", idle_timeout="3s", max_age="20s", reopen_for="600s")
HOUR_NS = 3600 * 10**9
Batches = list[tuple[float, list[Content]]]


@pytest.fixture(scope="module")
def rule_set() -> RuleSet:
    return load_rules(["builtin:demo"])


def order_trace(trace: int = 1, tools_ahead_ns: int = 0) -> list[Content]:
    """An agent run whose calls the rules judge; the clock of its tools may go ahead."""
    calls = (
        ("validate_user", '{"user_id": 123}'),
        ("check_inventory", '{"sku": "A-1", "qty": 2}'),
        ("create_order", '{"user_id": 123, "sku": "A-1", "qty": 2}'),
    )
    spans: list[Content] = [agent_span(trace, 1)]
    for number, (tool, arguments) in enumerate(calls, 2):
        start = number + tools_ahead_ns
        spans.append(tool_span(trace, number, 1, tool, arguments, start=start, end=start + 100))
    return spans


def judged(rule_set: RuleSet, batches: Batches) -> Run:
    run = Run(rule_set, SETTINGS)
    run.read(records(batches))
    run.end()
    return run


WHOLE = order_trace()
ROOT, *CHILDREN = WHOLE
LATE: dict[str, Batches] = {
    "in time": [(0.0, WHOLE)],
    "a second": [(0.0, WHOLE[:2]), (1.0, WHOLE[2:])],
    "a minute": [(0.0, WHOLE[:2]), (60.0, WHOLE[2:])],
    "nearly reopen_for": [(0.0, WHOLE[:2]), (600.0, WHOLE[2:])],
    "root a minute late": [(0.0, CHILDREN), (60.0, [ROOT])],
    "root twice": [(0.0, WHOLE), (30.0, [ROOT])],
    "one by one, a minute between": [(60.0 * number, [span]) for number, span in enumerate(WHOLE)],
    "the same batch ten times": [(0.5 * number, WHOLE) for number in range(10)],
    "the same batch ten times, a minute between": [(60.0 * number, WHOLE) for number in range(10)],
    "backwards": [(0.0, [span]) for span in reversed(WHOLE)],
}


@each("batches", LATE.values(), ids=LATE)
def test_lateness_and_repetition_change_no_result(rule_set: RuleSet, batches: Batches) -> None:
    clean = judged(rule_set, LATE["in time"])
    run = judged(rule_set, batches)
    assert run.store.canonical() == clean.store.canonical()
    assert len(clean.store.canonical()) == 4
    (trace,) = run.store.traces.values()
    assert (trace.trace.complete, trace.trace.revision) == (True, len(WHOLE))


def test_what_comes_beyond_reopen_for_is_counted_and_changes_nothing(rule_set: RuleSet) -> None:
    run = judged(rule_set, [(0.0, WHOLE[:2]), (700.0, WHOLE[2:])])
    assert run.judge.live.span_dispositions["too_late", ""] == 2
    assert run.store.canonical() == judged(rule_set, [(0.0, WHOLE[:2])]).store.canonical()


@each(
    ("spans", "missing"),
    [
        (CHILDREN, ["root", "parent:" + (1).to_bytes(8, "big").hex()]),
        ([ROOT, otlp_span(1, 9, 999)], ["parent:" + (999).to_bytes(8, "big").hex()]),
    ],
    ids=["the root never comes", "a parent never comes"],
)
def test_what_never_comes_is_named(rule_set: RuleSet, spans: list[Content], missing: list[str]) -> None:
    (trace,) = judged(rule_set, [(0.0, spans)]).store.traces.values()
    assert (trace.trace.missing, trace.trace.complete) == (missing, False)


@each("skew_ns", [-HOUR_NS, HOUR_NS], ids=["an hour behind", "an hour ahead"])
def test_a_skewed_clock_of_the_tools_changes_no_outcome(rule_set: RuleSet, skew_ns: int) -> None:
    def outcomes(tools_ahead_ns: int) -> list[tuple[str, str]]:
        run = judged(rule_set, [(0.0, order_trace(tools_ahead_ns=tools_ahead_ns))])
        (trace,) = run.store.traces.values()
        return sorted((evaluation.evaluation, evaluation.outcome) for evaluation in trace.evaluations)

    assert outcomes(2 * HOUR_NS + skew_ns) == outcomes(2 * HOUR_NS) == outcomes(0)


@pytest.mark.parametrize("seed", rest_long([1, 2], usual=[1]))
def test_live_and_replay_are_equal_by_hash_over_many_shuffled_traces(
    rule_set: RuleSet, seed: int, request: pytest.FixtureRequest
) -> None:
    traces = 10_000 if request.config.getoption("--full-size") else 100
    spans = [span for trace in range(1, traces + 1) for span in order_trace(trace)]
    random.Random(seed).shuffle(spans)
    # 50 s from the first to the last, also with many: traces close and are opened again, and none is too late.
    pause_s, together = 1.0, max(20, len(spans) // 50)
    parts = [spans[begin : begin + together] for begin in range(0, len(spans), together)]
    batches: Batches = [(pause_s * number, part) for number, part in enumerate(parts)]
    live = judged(rule_set, batches).store.canonical()
    replayed = {
        item.trace.trace_id: [canonical_line(evaluation.to_json()) for evaluation in item.judgement.evaluations]
        for item in replay_records(records(batches), SETTINGS, rule_set, "replay")
    }
    clean = judged(rule_set, [(0.0, order_trace(trace)) for trace in range(1, traces + 1)]).store.canonical()
    assert len(live) == 4 * traces
    assert hash_of(live) == hash_of(clean) == hash_of(sorted(line for lines in replayed.values() for line in lines))


def hash_of(lines: list[str]) -> str:
    return blake2b("\n".join(lines).encode()).hexdigest()
