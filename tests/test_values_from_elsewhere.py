"""``$from`` from trace to outcome: pass, fail or not evaluable, worked by hand in each row."""

import json
from typing import Any, ClassVar

import pytest

from build import each, span_id, trace
from tracegrade.extract.extract import extract
from tracegrade.extract.session import joined, part_of
from tracegrade.judge import judge, judge_session
from tracegrade.model.evaluation import Evaluation
from tracegrade.model.session import Session
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet

Short = dict[str, Any]
FIND = "find_order.output.order_id"
AGENT: Short = {
    "id": 1,
    "name": "invoke_agent",
    "at": [0, 900],
    "attributes": {"gen_ai.operation.name": "invoke_agent"},
}


def tool(number: int, name: str | None, arguments: Any = None, output: Any = None, **fields: Any) -> Short:
    """A tool span; content that is None was not recorded, a name that is None neither."""
    attributes: dict[str, Any] = {"gen_ai.operation.name": "execute_tool"}
    for key, value in (
        ("gen_ai.tool.name", name),
        ("gen_ai.tool.call.arguments", arguments),
        ("gen_ai.tool.call.result", output),
    ):
        if value is not None:
            attributes[key] = value if isinstance(value, str) else json.dumps(value)
    short = {"id": number, "parent": 1, "name": "execute_tool", "at": [number * 10, number * 10 + 5]}
    return {**short, "attributes": attributes, **fields}


def find(number: int, output: Any, **fields: Any) -> Short:
    return tool(number, "find_order", {"q": "pen"}, output, **fields)


def refund(number: int, order_id: Any = "A-1", **fields: Any) -> Short:
    return tool(number, "refund", {"order_id": order_id}, "done", **fields)


def item(source: Any, **arguments: Any) -> dict[str, Any]:
    return {
        "evaluator": "tool-call-args",
        "subset": True,
        "tool_calls": [{"name": "refund", "args": {"order_id": {"$from": source}, **arguments}}],
    }


def judged(spans: list[Short], evaluate: dict[str, Any], **rule: Any) -> Evaluation:
    rule_set = RuleSet([Rule.model_validate({"id": "a-rule", "evaluate": [evaluate], **rule})])
    found = judge(trace(spans), rule_set).evaluations
    return next(e for e in found if e.outcome != "pass") if any(e.outcome != "pass" for e in found) else found[0]


def said(prompt: str | None) -> Short:
    content = (
        {}
        if prompt is None
        else {"gen_ai.input.messages": json.dumps([{"role": "user", "parts": [{"type": "text", "content": prompt}]}])}
    )
    return {**AGENT, "attributes": {**AGENT["attributes"], **content}}


@each(
    ("spans", "source", "outcome"),
    [
        pytest.param([find(2, {"order_id": "A-1"}), refund(3)], FIND, "pass", id="seen"),
        pytest.param([find(2, {"order_id": "B-2"}), refund(3)], FIND, "fail", id="another value"),
        pytest.param([refund(3)], FIND, "fail", id="never called"),
        pytest.param([refund(3), find(4, {"order_id": "A-1"})], FIND, "fail", id="called too late"),
        pytest.param([find(2, None), refund(3)], FIND, "not_evaluable", id="not recorded"),
        pytest.param([find(2, "[REDACTED]"), refund(3)], FIND, "not_evaluable", id="masked"),
        pytest.param([find(2, '{"order_id": "A-'), refund(3)], FIND, "not_evaluable", id="cut off"),
        pytest.param([find(2, "order A-1 is here"), refund(3)], FIND, "not_evaluable", id="a text, and a path"),
        pytest.param([find(2, "order A-1 is here"), refund(3)], "find_order.output", "pass", id="a text searched"),
        pytest.param([find(2, "order B-2 is here"), refund(3)], "find_order.output", "fail", id="a text without it"),
        pytest.param(
            [find(2, None), find(3, {"order_id": "A-1"}), refund(4)], FIND, "pass", id="one that is readable has it"
        ),
        pytest.param(
            [find(2, None), find(3, {"order_id": "B-2"}), refund(4)], FIND, "not_evaluable", id="the other may have it"
        ),
        pytest.param([refund(3), find(4, None)], FIND, "fail", id="unreadable, and too late"),
        pytest.param([find(2, None, status="timeout"), refund(3)], FIND, "fail", id="it failed, which is known"),
        pytest.param([tool(2, None, {}, {}), refund(3)], FIND, "not_evaluable", id="an earlier call without a name"),
        pytest.param([tool(2, "other", {}), refund(3)], FIND, "fail", id="other tools do not matter"),
        pytest.param([tool(2, "other", {}), refund(3)], "*.output", "not_evaluable", id="to any tool they do"),
        pytest.param([tool(2, "other", {}, "for A-1"), refund(3)], "*.output", "pass", id="any tool"),
        pytest.param([refund(3)], "*.output", "fail", id="no tool at all"),
        pytest.param([find(2, {}), refund(3)], "find_order.arguments.q", "fail", id="arguments, another value"),
        pytest.param(
            [tool(2, "find_order", None, {}), refund(3)], "find_order.arguments.q", "not_evaluable",
            id="arguments not recorded",
        ),
        pytest.param([said("about A-1"), refund(3)], "prompt", "pass", id="in the prompt"),
        pytest.param([said("about B-2"), refund(3)], "prompt", "fail", id="not in the prompt"),
        pytest.param([said(None), refund(3)], "prompt", "not_evaluable", id="the prompt cannot be read"),
        pytest.param([said("about A-1"), find(2, None), refund(3)], ["prompt", FIND], "pass", id="one of two has it"),
        pytest.param(
            [said("about B-2"), find(2, None), refund(3)], ["prompt", FIND], "not_evaluable", id="one of two unreadable"
        ),
        pytest.param([said("about B-2"), refund(3)], ["prompt", FIND], "fail", id="neither of two"),
        pytest.param(
            [said(None), find(2, {"order_id": "B-2"}), refund(3)], ["prompt", FIND], "not_evaluable",
            id="the prompt is a source, too",
        ),
        pytest.param(
            [find(2, None), find(3, {"order_id": "B-2"}), refund(4)], {"source": FIND, "call": "last"}, "fail",
            id="the last is readable",
        ),
        pytest.param(
            [find(2, {"order_id": "A-1"}), find(3, None), refund(4)], {"source": FIND, "call": "last"}, "not_evaluable",
            id="the last is not readable",
        ),
        pytest.param(
            [find(2, None), find(3, {"order_id": "A-1"}), refund(4)], {"source": FIND, "call": "first"},
            "not_evaluable", id="the first is not readable",
        ),
        pytest.param([find(2, None), refund(3, "")], "find_order.output", "fail", id="an empty text is seen nowhere"),
    ],
)  # fmt: skip
@each("scope", ["agent", "trace", "tool-call", "session"])
def test_the_outcome_of_a_value_from_elsewhere(spans: list[Short], source: Any, outcome: str, scope: str) -> None:
    spans = spans if spans[0]["id"] == 1 else [AGENT, *spans]
    if scope != "session":
        found = judged(spans, item(source), scope=scope, match={"tools": ["refund"]})
        assert found.outcome == outcome
        return
    rule_set = RuleSet([Rule.model_validate({"id": "a-rule", "evaluate": [item(source)], "scope": "session"})])
    extraction = extract(trace(spans))
    for run in extraction.runs:
        run.session = "talk"
    part = part_of(extraction, "talk")
    assert part is not None
    ordered, calls = joined([part])
    (decision,) = judge_session(Session("talk", "default", ordered, calls, {}, "quiet", []), rule_set)
    assert [e.outcome for e in decision.evaluations] == [outcome]


@pytest.mark.parametrize(
    ("scope", "outcome"), [("agent", "not_evaluable"), ("trace", "not_evaluable"), ("tool-call", "fail")]
)
def test_a_later_call_without_a_name_may_be_the_expected_one_unless_one_call_is_judged(
    scope: str, outcome: str
) -> None:
    spans = [AGENT, find(2, {"order_id": "A-2"}), refund(3), tool(4, None, {}, {})]
    assert judged(spans, item(FIND), scope=scope, match={"tools": ["refund"]}).outcome == outcome


def test_what_was_not_called_is_said() -> None:
    found = judged([AGENT, refund(3)], item(FIND))
    assert "find_order was not called before refund" in found.explanation
    (difference,) = found.details["differences"]
    assert difference["looked_up"] == []
    assert difference["not_called"] == ["find_order"]
    assert "scope" not in difference


def test_what_was_looked_up_is_shown_with_its_call() -> None:
    calls = [find(2, {"order_id": 110.0}), tool(3, "other", {}, {}), find(4, {"order_id": 111.0}), refund(5, 120.0)]
    found = judged([AGENT, *calls], item(FIND))
    assert "not what find_order had (calls 3, 1)" in found.explanation
    assert "110" not in found.explanation
    (difference,) = found.details["differences"]
    assert difference["expected"] == '{"$from": "find_order.output.order_id"}'
    assert difference["found"] == 120.0
    assert difference["looked_up"] == [
        {"source": FIND, "call": 3, "tool": "find_order", "span_id": span_id(4), "value": 111.0},
        {"source": FIND, "call": 1, "tool": "find_order", "span_id": span_id(2), "value": 110.0},
    ]


@each(
    ("evaluate", "key"),
    [
        ({"evaluator": "tool-call-accuracy", "reference_tool_calls": [{"name": "refund", "args": {}}]}, "args"),
        ({"evaluator": "trajectory", "tool_calls": [{"name": "refund", "args": {}}]}, "args"),
        ({"evaluator": "tool-case", "expected_tool": "refund", "expected_params": {}}, "expected_params"),
        ({"evaluator": "param-accuracy", "expected_params": {}}, "expected_params"),
        ({"evaluator": "overall-score", "expected_tool": "refund", "expected_params": {}}, "expected_params"),
        ({"evaluator": "multi-turn", "expected_tool": "refund", "expected_params": {}}, "expected_params"),
        ({"evaluator": "ragas-tool-call-accuracy", "reference_tool_calls": [{"name": "refund", "args": {}}]}, "args"),
    ],
    ids=lambda value: value["evaluator"] if isinstance(value, dict) else "",
)
@each(
    ("criterion", "outcome"),
    [
        ({"$from": FIND}, "fail"),
        ({"$one_of": [{"$absent": True}, {"$from": FIND}]}, "fail"),
        ({"$from": FIND, "$type": "string"}, "fail"),
        ([{"$from": FIND}], "fail"),
        ({"$from": "prompt"}, "not_evaluable"),
    ],
    ids=["plain", "one_of", "all", "nested", "unreadable"],
)
def test_every_evaluator_that_compares_arguments_says_so(
    evaluate: dict[str, Any], key: str, criterion: Any, outcome: str
) -> None:
    wanted = {**evaluate, "threshold": 1.0}
    holder = wanted if key in wanted else dict(next(v for v in wanted.values() if isinstance(v, list))[0])
    holder[key] = {"order_id": criterion}
    for name, value in wanted.items():
        if isinstance(value, list):
            wanted[name] = [holder]
    found = judged([AGENT, refund(3, ["A-1"] if isinstance(criterion, list) else "A-1")], wanted)
    assert found.outcome == outcome
    if outcome == "fail":
        assert "find_order was not called before refund" in found.explanation


def test_an_output_from_elsewhere() -> None:
    output = {"evaluator": "tool-call-output", "tool_outputs": [{"name": "refund", "output": {"$from": FIND}}]}
    refunded = tool(3, "refund", {}, {"id": "A-1"})
    assert judged([AGENT, refunded], output).outcome == "fail"
    assert judged([AGENT, find(2, None), refunded], output).outcome == "not_evaluable"
    assert judged([AGENT, find(2, {"order_id": {"id": "A-1"}}), refunded], output).outcome == "pass"


@pytest.mark.parametrize(
    ("arguments", "threshold", "outcome"),
    [
        ({"order_id": "A-1", "amount": 5}, 1.0, "not_evaluable"),
        ({"order_id": "A-1", "amount": 6}, 1.0, "fail"),  # wrong whatever find_order gave
        ({"order_id": "A-1", "amount": 5}, 0.0, "pass"),
    ],
)
def test_a_source_that_cannot_be_read_matters_where_it_decides(
    arguments: dict[str, Any], threshold: float, outcome: str
) -> None:
    spans = [AGENT, find(2, None), tool(3, "refund", arguments, "done")]
    assert judged(spans, {**item(FIND, amount=5), "threshold": threshold}).outcome == outcome


def test_a_rule_that_must_not_hold_is_not_decided_by_what_cannot_be_read() -> None:
    never = {
        "evaluator": "trajectory",
        "negate": True,
        "tool_calls": [{"name": "refund", "args": {"order_id": {"$from": FIND}}}],
    }
    assert judged([AGENT, find(2, None), refund(3)], never).outcome == "not_evaluable"
    assert judged([AGENT, refund(3)], never).outcome == "pass"
    assert judged([AGENT, find(2, {"order_id": "A-1"}), refund(3)], never).outcome == "fail"


class TestElsewhereInTheTrace:
    sub_agent: ClassVar[Short] = {
        **AGENT, "id": 20, "parent": 1, "at": [10, 25],
        "attributes": {**AGENT["attributes"], "gen_ai.agent.name": "researcher"},
    }  # fmt: skip
    spans: ClassVar = (AGENT, sub_agent, find(2, {"order_id": "A-1"}, parent=20), refund(5))

    def test_a_run_that_made_the_call_is_named_and_the_scope_that_sees_it(self) -> None:
        found = judged([*self.spans], item(FIND), match={"tools": ["refund"]})
        assert found.outcome == "fail"
        assert "the run of researcher called it: scope: trace sees that" in found.explanation
        assert found.details["differences"][0]["scope"] == "trace"
        assert judged([*self.spans], item(FIND), scope="trace").outcome == "pass"

    def test_of_a_single_call_too(self) -> None:
        found = judged([*self.spans], item(FIND), scope="tool-call", match={"tools": ["refund"]})
        assert "scope: trace" in found.explanation

    def test_a_run_that_called_it_later_does_not_help(self) -> None:
        spans = [AGENT, {**self.sub_agent, "at": [60, 80]}, find(7, {"order_id": "A-1"}, parent=20), refund(5)]
        found = judged(spans, item(FIND), match={"tools": ["refund"]})
        assert found.outcome == "fail"
        assert "scope" not in found.explanation
