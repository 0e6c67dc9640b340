from typing import Any

import pytest

from build import call, each
from tracegrade.evaluate.criteria.compile import compile_expected
from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.evaluator import Evidence
from tracegrade.evaluate.registry import EVALUATORS
from tracegrade.evaluate.work import Work
from tracegrade.model.tool_call import ToolCall
from tracegrade.model.tri import Unknown

ARGS = EVALUATORS["tool-call-args"]
PRICED = {"name": "order", "args": {"price": {"$from": "check.output.price"}}}
ACCURACY = EVALUATORS["tool-call-accuracy"]


def scored(calls: list[ToolCall], source: Any, prompt: str | None = None, **evidence: Any) -> float | None:
    """The score of tool-call-args for one order whose price comes from `source`."""
    criteria = ARGS.read_criteria({"tool_calls": [{"name": "order", "args": {"price": {"$from": source}}}]})
    found = Evidence(calls, prompt, **evidence)
    return ARGS.evaluate(found, criteria, ARGS.Settings()).score


@each(
    ("output", "path", "price", "seen"),
    [
        ({"price": 9.5}, ".price", 9.5, True),
        ({"price": 9.5}, ".price", 9, False),
        ({"price": 17}, ".price", "17", True),  # models write numbers as texts
        ({"price": "17"}, ".price", 17, True),
        ({"price": True}, ".price", 1, False),
        ({"items": [{"p": 1}, {"p": 2}]}, ".items[1].p", 2, True),
        ({"items": [{"p": 1}, {"p": 2}]}, ".items[0].p", 2, False),
        ({"items": [{"p": 1}, {"p": 2}]}, ".items[*].p", 2, True),
        ({"a": {"p": 1}, "b": {"p": 2}}, "[*].p", 2, True),
        ('{"price": 9.5}', ".price", 9.5, True),  # the JSON text of an object
        ("no price", ".price", 9.5, False),
        ({"price": {"net": 1}}, ".price", {"net": 1}, True),
        ({"a": {"b": [9.5]}}, "", 9.5, True),  # anywhere
        ({"a": {"b": [9.5]}}, "", {"x": 9.5}, True),
        ({"a": {"b": [9.5]}}, "", [9.5, 1], False),
        ({"a": 9.5}, "", [], False),
        ("It costs 1,250.50 today", "", 1250.5, True),
        ("It costs 15 today", "", 5, False),
        ("It costs 1.5 today", "", 5, False),
        ("version 1.2.3", "", 1.2, False),
        ("Blue  PEN", "", "blue pen", True),
        ("blueprint", "", "blue", False),
        ("东京塔很高", "", "东京", True),  # written without spaces
        ({"a": None}, "", None, False),
        ({"a": ""}, "", "", False),
    ],
)
def test_a_value_comes_from_an_earlier_output(output: Any, path: str, price: Any, seen: bool) -> None:
    calls = [call("check", {}, output=output), call("order", {"price": price})]
    assert scored(calls, f"check.output{path}") == float(seen)


def test_any_tool_may_be_the_source() -> None:
    calls = [call("check", {}, output={"cost": 9.5}), call("order", {"price": 9.5})]
    assert scored(calls, "*.output") == 1.0
    assert scored(calls, "*.arguments") == 0.0
    assert scored(calls[1:], "*.output") == 0.0
    with pytest.raises(EvaluatorError, match="without a path"):
        scored(calls, "*.output.cost")


def test_only_earlier_calls_count() -> None:
    checked, ordered = call("check", {}, output={"price": 5}), call("order", {"price": 5})
    assert scored([checked, ordered], "check.output.price") == 1
    assert scored([ordered, checked], "check.output.price") == 0


def test_calls_made_together_know_nothing_of_each_other() -> None:
    calls = [call("check", {}, output={"price": 5}, batch=1), call("order", {"price": 5}, batch=1)]
    assert scored(calls, "check.output.price") == 0
    calls[1].batch = 2
    assert scored(calls, "check.output.price") == 1


@each(
    ("which", "price", "seen"),
    [
        ("any", 1, True),
        ("any", 2, True),
        ("first", 1, True),
        ("first", 2, False),
        ("last", 1, False),
        ("last", 2, True),
    ],
)
def test_which_earlier_call_counts(which: str, price: int, seen: bool) -> None:
    calls = [
        call("check", {}, output={"price": 1}),
        call("check", {}, output={"price": 2}),
        call("order", {"price": price}),
        call("check", {}, output={"price": 3}),
    ]
    assert scored(calls, {"source": "check.output.price", "call": which}) == float(seen)


def test_the_calls_before_a_second_call_are_not_those_before_the_first() -> None:
    calls = [call("order", {"price": 5}), call("check", {}, output={"price": 5}), call("order", {"price": 5})]
    details = ACCURACY.evaluate(
        Evidence(calls),
        ACCURACY.read_criteria({"reference_tool_calls": [PRICED]}),
        ACCURACY.Settings(),
    ).details
    assert details["matched"] == [False, False, True]


def test_a_value_comes_from_the_prompt_or_from_another_call() -> None:
    calls = [call("check", {"item": "pen"}, output="ok"), call("order", {"price": "pen"})]
    assert scored(calls, "prompt", "Two pens") == 0
    assert scored(calls, "prompt", "A PEN, please") == 1
    assert scored(calls, ["prompt", "check.arguments.item"], "no") == 1


def test_of_a_single_call_the_run_is_known() -> None:
    calls = [call("check", {}, output={"price": 5}), call("order", {"price": 5})]
    assert scored(calls[1:], "check.output.price") == 0
    assert scored(calls[1:], "check.output.price", whole_run=Evidence(calls)) == 1


def test_what_is_not_as_seen_is_named_by_its_path() -> None:
    criteria = ARGS.read_criteria({"tool_calls": [PRICED]})
    calls = [call("check", {}, output={"price": 5}), call("order", {"price": 6})]
    score = ARGS.evaluate(Evidence(calls), criteria, ARGS.Settings())
    assert "order args.price (different)" in score.explanation
    assert score.details["differences"] == [
        {
            "call": "order_0",
            "path": "args.price",
            "problem": "different",
            "expected": '{"$from": "check.output.price"}',
            "found": 6,
            "looked_up": [
                {"source": "check.output.price", "call": 1, "tool": "check", "span_id": "00000000000000aa", "value": 5}
            ],
            "origin": "not what check had (call 1)",
        }
    ]


@each(
    ("name", "settings"),
    [("tool-call-args", {}), ("tool-call-args", {"subset": True})]
    + [
        ("trajectory", {"match": match, "pairing": pairing})
        for match in ("exact", "in_order", "any_order")
        for pairing in ("first", "best", "positional")
    ],
)
def test_what_is_said_to_be_looked_up_stands_before_the_call_compared(name: str, settings: dict[str, Any]) -> None:
    evaluator = EVALUATORS[name]
    read = evaluator.Settings.model_validate(settings)
    criteria = evaluator.read_criteria({"tool_calls": [PRICED]})
    between = [call("check", {}, output={"price": n}) for n in (5, 7)]
    order = call("order", {"price": 7})  # what check says afterwards

    def difference(*calls: ToolCall) -> dict[str, Any]:
        score = evaluator.evaluate(Evidence(list(calls)), criteria, read)
        found: Any = score.details["differences"]
        assert len(found) == 1
        return dict(found[0])

    said = difference(between[0], order, between[1])
    assert [(at["call"], at["value"]) for at in said["looked_up"]] == [(1, 5)]
    assert difference(order, *between)["origin"] == "check was not called before order"


class TestUnknown:
    criteria = ARGS.read_criteria({"tool_calls": [PRICED]})

    def why(self, *calls: ToolCall, as_given: bool = False) -> str:
        """Why the score is unknown; "" where it is known."""
        score = ARGS.evaluate(Evidence(calls, as_given=as_given), self.criteria, ARGS.Settings())
        assert (score.outcome(1.0) == "not_evaluable") is bool(score.ends.why)
        return score.ends.why

    def test_what_cannot_be_read_is_named(self) -> None:
        expected = "an expected value comes from check.output.price, and the output of a call {} (check, span 01)"
        for status, why in (
            ("absent", "was not recorded"),
            ("truncated", "was cut off by the sender"),
            ("redacted", "was redacted"),
            ("text", "is text, which has no members"),
        ):
            check = call("check", {}, output="5 or so", output_status=status, span_id="01")
            assert self.why(check, call("order", {"price": 5})) == expected.format(why)

    def test_what_was_never_called_is_known(self) -> None:
        assert not self.why(call("order", {"price": 5}))

    def test_what_came_later_does_not_matter(self) -> None:
        assert not self.why(call("order", {"price": 5}), call("check", {}))

    def test_without_the_expected_call_there_is_nothing_to_trace(self) -> None:
        assert not self.why(call("check", {}), call("other"))

    def test_a_call_without_a_name_may_be_any(self) -> None:
        assert self.why(call("", {}, span_id="02"), call("order", {"price": 5})) == (
            "an expected value comes from check.output.price, and the tool of an earlier call cannot be read (span 02)"
        )

    def test_by_hand_nothing_is_unknown(self) -> None:
        assert not self.why(call("check", {}), call("order", {"price": 5}), as_given=True)


@each(
    ("source", "value", "position", "met"),
    [
        ("find.output.id", 8, 2, False),
        ("find.output.id", 7, 2, True),
        ("find.output.id", "8", 3, True),
        ({"source": "find.output.id", "call": "first"}, "8", 3, False),
    ],
)
def test_the_worked_example_of_the_module(source: Any, value: Any, position: int, met: bool) -> None:
    calls = [
        call("find", {}, output={"id": 7}, batch=0),
        call("find", {}, output={"id": 8}, batch=1),
        call("pay", {"id": 8}, batch=1),
        call("pay", {"id": "8"}, batch=2),
    ]
    work = Work(evidence=Evidence(calls))
    work.position = position
    assert compile_expected({"$from": source}).matches(value, work) is met


def test_in_the_worked_example_a_source_that_was_cut_off_leaves_it_unknown() -> None:
    cut = call("find", {}, output='{"id"', output_status="truncated", batch=0)
    calls = [cut, call("find", {}, output={"id": 8}, batch=1), call("pay", {"id": 8}, batch=1)]
    work = Work(evidence=Evidence(calls))
    work.position = 2
    found = compile_expected({"$from": "find.output.id"}).matches(8, work)
    assert isinstance(found, Unknown)
    assert (found.kind, found.part, found.source) == ("truncated", "output", "find.output.id")
