"""Clocks of milliseconds: what nothing tells apart takes its best order, whatever reads order.

Each example makes a run whose calls follow each other within a few milliseconds, judges it by what truly happened,
cuts all times to milliseconds, gives the spans ids and ends at random, and judges again: what was right stays right.
"""

import itertools
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from build import each, trace
from tracegrade.evaluate.evaluator import Evidence
from tracegrade.evaluate.registry import EVALUATORS
from tracegrade.evaluate.timeline import Timeline, fewest_repeats
from tracegrade.extract.extract import extract
from tracegrade.model.tool_call import ToolCall

# Shrinking judges each example some thousand times more.
_QUICKLY = (Phase.explicit, Phase.reuse, Phase.generate)
NAMES = ["find", "refund", "mail"]


def tool_call(name: str, start_ns: int, place: int, value: int = 0, **fields: Any) -> ToolCall:
    arguments = {"n": value}
    values: dict[str, Any] = {"agent": "", "agent_span_id": "", "batch": None, **fields}
    return ToolCall(
        name, name, None, arguments, "ok", {"id": value}, "ok", None, start_ns, start_ns, f"{place:016x}", **values
    )


class TestGroups:
    @pytest.mark.parametrize(
        ("calls", "together", "tied"),
        [
            ([(5, None, None), (6, None, None)], [[0], [1]], [[0], [1]]),
            ([(5, None, 0), (5, None, 0)], [[0, 1]], [[0, 1]]),  # one start, no message
            ([(5, None, 0), (5, None, 1)], [[0, 1]], [[0, 1]]),  # in two runs
            ([(5, 0, 0), (5, 0, 0)], [[0, 1]], [[0], [1]]),  # one message: together, and its order is known
            ([(5, 0, 0), (5, 1, 1)], [[0], [1]], [[0], [1]]),  # messages tell
            ([(5, 0, 0), (5, 0, 1)], [[0, 1]], [[0, 1]]),  # two messages whose order nothing tells
            ([(5, 0, 0), (5, 1, 1), (5, None, 2)], [[0, 1, 2]], [[0, 1, 2]]),  # the last is tied with both
            ([(4, 0, 0), (5, 0, 0), (5, None, 1)], [[0, 1, 2]], [[0], [1, 2]]),
            ([(0, None, None), (0, None, None)], [[0], [1]], [[0], [1]]),  # no times: in the order given
            ([(0, 0, 0), (0, 0, 1)], [[0, 1]], [[0, 1]]),  # read from messages
            ([(5, None, 0), (6, None, 0)], [[0, 1]], [[0], [1]]),  # they overlap
        ],
    )
    def test_what_is_together_and_what_is_tied(self, calls: Any, together: Any, tied: Any) -> None:
        made = [tool_call("a", start, i, turn=turn, batch=batch) for i, (start, turn, batch) in enumerate(calls)]
        timeline = Timeline(Evidence(made))
        assert (timeline.groups("batches"), timeline.groups("sequential")) == (together, tied)
        assert timeline.is_total("batches") is (len(together) == len(made))
        assert timeline.is_total("sequential") is (len(tied) == len(made))


@given(st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=4), min_size=1, max_size=4))
def test_the_fewest_repeats_are_those_of_the_best_order(groups: list[list[str]]) -> None:
    orders = itertools.product(*(set(itertools.permutations(group)) for group in groups))
    flat = [[name for part in order for name in part] for order in orders]
    fewest = min(sum(one == other for one, other in itertools.pairwise(order)) for order in flat)
    assert fewest_repeats(groups) == fewest


def _spans(
    calls: Sequence[tuple[str, int, int]], ids: Sequence[int], ends: Sequence[int], asked: bool, resolution: int
) -> list[dict[str, Any]]:
    """Spans of an agent that made these calls (name, value, start in microseconds), each asked for by a message."""
    shown: list[dict[str, Any]] = [
        {"id": 1, "at": [0, 100], "attributes": {"gen_ai.operation.name": "invoke_agent"}},
    ]

    def at(microseconds: int) -> float:
        return microseconds // resolution * resolution / 1000

    for place, (name, value, start) in enumerate(calls):
        call_id = f"call-{place}" if asked else None
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.arguments": json.dumps({"n": value}),
            "gen_ai.tool.call.result": json.dumps({"id": value}),
        }
        if call_id is not None:
            attributes["gen_ai.tool.call.id"] = call_id
            part = {"type": "tool_call", "id": call_id, "name": name, "arguments": {"n": value}}
            said = json.dumps([{"role": "assistant", "parts": [part]}])
            chat = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": said}
            shown.append(
                {"id": 100 + ids[place], "parent": 1, "at": [at(start - 60), at(start - 20)], "attributes": chat}
            )
        times = [at(start), at(start + ends[place])]
        shown.append({"id": 10 + ids[place], "parent": 1, "at": times, "attributes": attributes})
    return shown


def _criteria(calls: Sequence[tuple[str, int, int]]) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """What holds of these calls in this order: evaluator, criteria, settings."""
    names = [name for name, _, _ in calls]
    expected = [{"name": name, "args": {"n": value}} for name, value, _ in calls]
    # Each takes its value from the output of the call before it.
    flow = [{"name": name, "args": {"n": {"$from": f"{names[i - 1]}.output.id"}}} if i else name
            for i, name in enumerate(names)]  # fmt: skip
    (first, value, _), (last, last_value, _) = calls[0], calls[-1]
    return [
        ("tool-call-order", {"tool_calls_order": names}, {}),
        ("tool-call-order", {"tool_calls_order": names}, {"concurrency": "sequential"}),
        ("tool-call-order", {"tool_calls_order": names}, {"strict": True}),
        ("tool-call-order", {"tool_calls_order": names}, {"strict": True, "concurrency": "sequential"}),
        *(
            ("trajectory", {"tool_calls": expected}, {"match": match, "concurrency": concurrency})
            for match in ("exact", "in_order")
            for concurrency in ("batches", "sequential")
        ),
        ("trajectory", {"tool_calls": expected}, {"match": "unordered", "pairing": "positional"}),
        ("trajectory", {"tool_calls": [expected[0]]}, {"match": "any_order", "occurrence": "first"}),
        ("trajectory", {"tool_calls": [expected[-1]]}, {"match": "any_order", "occurrence": "last"}),
        ("trajectory", {"required": [names[:2]]}, {}),
        ("trajectory", {"steps": ["=", len(calls)]}, {}),
        ("trajectory", {"tool_calls": flow}, {"args": "superset"}),
        ("tool-call-args", {"tool_calls": expected}, {"pairing": "positional"}),
        ("tool-call-output", {"tool_outputs": [{"name": n, "output": {"id": v}} for n, v, _ in calls]},
         {"strict": True}),
        ("ragas-tool-call-accuracy", {"reference_tool_calls": expected}, {}),
        ("tool-case", {"expected_tool": first, "expected_params": {"n": value}}, {}),
        ("overall-score", {"expected_tool": last, "expected_params": {"n": last_value}}, {"occurrence": "last"}),
        ("tool-selection", {"expected_tool": first}, {}),
        ("param-accuracy", {"expected_params": {"n": last_value}}, {"occurrence": "last"}),
        ("schema-validation", {"parameters_schema": {"properties": {"n": {"type": "integer"}}}}, {}),
        ("multi-turn", {"expected_tool": last, "expected_params": {"n": last_value}, "optimal_hops": len(calls),
                        "valid_prerequisites": names}, {}),
    ]  # fmt: skip


def _judged(spans: Sequence[dict[str, Any]], name: str, criteria: dict[str, Any], how: dict[str, Any]) -> float:
    evaluator = EVALUATORS[name]
    read, config = evaluator.read_criteria(criteria), evaluator.read_settings(how)
    evidence = Evidence(extract(trace(list(spans))).calls)
    found = evaluator.evaluate(evidence, read, config)
    assert found.score is not None
    assert found.range is None
    return found.score


@given(
    st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 1), st.integers(100, 900)), min_size=2, max_size=5),
    st.booleans(),
    st.data(),
)
@settings(phases=_QUICKLY)
def test_a_run_that_was_right_stays_right_when_clocks_have_milliseconds(
    drawn: list[tuple[str, int, int]], asked: bool, data: st.DataObject
) -> None:
    starts = itertools.accumulate(gap for _, _, gap in drawn)
    calls = [(name, value, 1000 + start) for (name, value, _), start in zip(drawn, starts, strict=True)]
    # A value that flows from call to call is the same in all of them.
    ids = data.draw(st.permutations(range(len(calls))))
    ends = data.draw(st.lists(st.integers(0, 80), min_size=len(calls), max_size=len(calls)))
    plain = list(range(len(calls)))
    true, cut = _spans(calls, plain, [10] * len(calls), asked, 1), _spans(calls, ids, ends, asked, 1000)
    shuffled = data.draw(st.permutations(cut))
    for name, criteria, how in _criteria(calls):
        before, after = _judged(true, name, criteria, how), _judged(cut, name, criteria, how)
        assert after >= before - 1e-9, (name, criteria, how)
        assert _judged(shuffled, name, criteria, how) == after
    never = [pair for pair in itertools.product(NAMES, NAMES) if list(pair) not in _adjacent(calls)]
    for pair in never:
        criteria = {"forbidden": [list(pair)]}
        assert _judged(cut, "trajectory", criteria, {}) == 1.0


def _adjacent(calls: Sequence[tuple[str, int, int]]) -> list[list[str]]:
    return [[one[0], other[0]] for one, other in itertools.pairwise(calls)]


def from_find(calls: list[ToolCall], which: str = "any") -> float | None:
    evaluator = EVALUATORS["tool-call-args"]
    criterion = {"$from": {"source": "find.output.id", "call": which}}
    read = evaluator.read_criteria({"tool_calls": [{"name": "refund", "args": {"n": criterion}}]})
    return evaluator.evaluate(Evidence(calls), read, evaluator.Settings()).score


@each("ends", [(0, 0), (9, 0), (0, 9)])
@each("batch", [(None, None), (0, 0), (0, 1)])
def test_a_tied_call_may_be_the_source_whatever_their_ends(ends: tuple[int, int], batch: tuple[Any, Any]) -> None:
    refund = tool_call("refund", 5, 1, 7, batch=batch[0])
    find = tool_call("find", 5, 2, 7, batch=batch[1])
    refund.end_ns, find.end_ns = ends
    assert from_find([refund, find]) == 1.0
    assert from_find([find, refund]) == 1.0


def test_calls_of_one_message_never_serve_each_other() -> None:
    find, refund = (tool_call(name, 5, i, 7, batch=0, turn=0) for i, name in enumerate(("find", "refund")))
    assert from_find([find, refund]) == 0.0
    assert from_find([refund, find]) == 0.0
    find.start_ns = 1  # one came first, and the model had not seen it
    assert from_find([find, refund]) == 0.0


def test_messages_tell_calls_apart_that_start_at_one_time() -> None:
    find, refund = tool_call("find", 5, 1, 7, batch=1, turn=1), tool_call("refund", 5, 2, 7, batch=0, turn=0)
    assert from_find([refund, find]) == 0.0
    find.turn, refund.turn = 0, 1
    assert from_find([find, refund]) == 1.0


@each(
    ("which", "value", "seen"),
    [
        ("first", 1, True), ("first", 2, True), ("first", 3, False), ("first", 4, False),
        ("last", 1, False), ("last", 3, True), ("last", 4, True), ("any", 2, True), ("any", 5, False),
    ],
)  # fmt: skip
def test_of_tied_calls_each_may_be_the_first_or_last(which: str, value: int, seen: bool) -> None:
    calls = [
        tool_call("find", 3, 1, 1),
        tool_call("find", 3, 2, 2),
        tool_call("find", 4, 3, 3),
        tool_call("refund", 5, 4, value),
        tool_call("find", 5, 5, 4),  # tied with the refund: it may have come before
        tool_call("find", 6, 6, 5),
    ]
    assert from_find(calls, which) == float(seen)


def test_many_calls_at_one_time_are_judged_within_the_bound() -> None:
    calls = [tool_call(NAMES[i % 3], 5, i, i) for i in range(20_000)]
    evidence = Evidence(calls)
    expected = ["mail", "refund", "find"] * 15
    order = EVALUATORS["tool-call-order"]
    for how in ({}, {"concurrency": "sequential"}):
        read = order.read_criteria({"tool_calls_order": [*expected, "other"]})
        assert order.evaluate(evidence, read, order.read_settings(how)).score == 45 / 46
    trajectory = EVALUATORS["trajectory"]
    read = trajectory.read_criteria({"tool_calls": [*expected, "other"]})
    found = trajectory.evaluate(evidence, read, trajectory.read_settings({"score": "recall"}))
    assert found.score == 45 / 46
