from typing import Any

from build import each
from tracegrade.rule.rule import Rule
from tracegrade.rule.warnings import unknown_tools, warnings_of

ORDER = {"evaluator": "tool-call-order", "tool_calls_order": ["a", "b"]}
ONE = {"evaluator": "tool-call-order", "tool_calls_order": ["a"]}
CASE = {"evaluator": "tool-case", "expected_tool": "a"}


PAID = ({"x": 1}, {"x": 1, "y": 2})


def contended(field: str, part: str, *expected: Any, **settings: Any) -> Rule:
    """A rule that expects calls of one tool: `expected` of this part of them, or calls as they are written."""
    of = {"tool_outputs": "tool-call-output", "reference_tool_calls": "tool-call-accuracy"}
    evaluator = settings.pop("evaluator", of.get(field, "tool-call-args"))
    calls = [{"name": "pay", part: each} if part else each for each in expected]
    return rule({"evaluator": evaluator, field: calls, **settings})


def rule(*evaluate: dict[str, Any], **fields: Any) -> Rule:
    return Rule.model_validate({"id": "one", **({"evaluate": list(evaluate)} if evaluate else {}), **fields})


@each(
    ("of", "found"),
    [
        (rule(ONE, match={"prompt": "refund*"}), [(("match", "prompt"), "looks like a glob")]),
        (rule(ONE, unless={"prompt": ["x", "[ab]c"]}), [(("unless", "prompt", 1), "looks like a glob")]),
        (rule(ONE, match={"prompt": "What is the weather? And where?"}), []),
        (rule(ONE, match={"prompt": {"$regex": "refund.*"}}), []),
        (rule(ONE, match={"service": "shop-*"}), []),
        (
            rule({"evaluator": "tool-permission", "denied_tools": ["a", "delete_*"]}),
            [(("evaluate", 0, "denied_tools", 1), "names are compared as they are; write names: glob")],
        ),
        (rule({"evaluator": "tool-permission", "denied_tools": ["delete_*"], "names": "glob"}), []),
        (
            rule({"evaluator": "tool-call-order", "tool_calls_order": ["find_*", "a"]}),
            [(("evaluate", 0, "tool_calls_order", 0), "'find_*' looks like a glob")],
        ),
        (
            rule({"evaluator": "tool-call-count", "tool_calls_count": {"delete_*": ["=", 0]}}),
            [(("evaluate", 0, "tool_calls_count", "delete_*"), "'constraints' and 'trajectory' take globs")],
        ),
        (rule({"evaluator": "constraints", "constraints": [{"never": "delete_*"}]}), []),
        (
            rule(ONE, status="experimental", gate={"at_least": 1}),
            [(("gate",), "counts a rule that is experim")],
        ),
        (rule(ONE, gate={"at_least": 1}), []),
        (rule(ONE, status="experimental", alert=[{"below": 0.9}]), [(("alert",), "an experimental rule never alerts")]),
        (rule(ONE, alert=[{"below": 0.9}]), []),
        (rule(ORDER, scope="tool-call"), [(("evaluate", 0, "tool_calls_order"), "2 calls are expected")]),
        (rule(ORDER), []),
        (rule(ONE, scope="tool-call"), []),
        (
            rule(ONE, scope="tool-call", match={"tools": ["b*"]}),
            [(("evaluate", 0, "tool_calls_order", 0), "'a' is expected, and match.tools leaves its calls out")],
        ),
        (rule(ONE, scope="tool-call", match={"tools": ["a*"]}), []),
        # Of a run, match.tools says that one of these was called, and leaves no other out.
        (rule(ONE, match={"tools": ["b"]}), []),
        (rule(ONE, unless={"tools": ["a"]}), [(("evaluate", 0, "tool_calls_order", 0), "unless.tools leaves out")]),
        (rule(ONE, unless={"tools": ["a"], "service": "x"}), []),
        (
            rule(
                cases=[
                    {"id": "x", "match": {"prompt": "hello"}, **CASE},
                    {"id": "y", "match": {"prompt": " hello "}, **CASE},
                    {"id": "z", "match": {"prompt": "hello", "attributes": {"a": 1}}, **CASE},
                ]
            ),
            [(("cases", 1, "match", "prompt"), "case 'x' has the same prompt")],
        ),
    ],
)
def test_what_looks_wrong_is_named_with_its_place(of: Rule, found: list[tuple[Any, str]]) -> None:
    warnings = list(warnings_of(of))
    assert [location for location, _ in warnings] == [location for location, _ in found]
    assert all(part in said for (_, said), (_, part) in zip(warnings, found, strict=True))


def test_a_tool_that_no_stored_trace_has_is_named_with_the_nearest() -> None:
    of = rule(
        {"evaluator": "tool-call-order", "tool_calls_order": ["find_order", "refnd"]},
        {"evaluator": "tool-call-args", "tool_calls": [{"name": "ship_orders", "args": {}}]},
        {"evaluator": "tool-call-count", "tool_calls_count": {"never": ["=", 0], "wanted": [">=", 1]}},
        match={"tools": ["refund*", "reserve*"]},
    )
    stored = {"": {"find_order"}, "shop": {"refund", "ship_order"}}
    found = dict(unknown_tools(of, stored))
    assert found == {
        ("match", "tools", 1): "no stored trace calls 'reserve*'; expected one of find_order, refund, ship_order",
        ("evaluate", 0, "tool_calls_order", 1): "no stored trace calls 'refnd'; did you mean 'refund'?",
        ("evaluate", 1, "tool_calls", 0): "no stored trace calls 'ship_orders'; did you mean 'ship_order'?",
        ("evaluate", 2, "tool_calls_count", "wanted"): (
            "no stored trace calls 'wanted'; expected one of find_order, refund, ship_order"
        ),
    }
    assert not list(unknown_tools(of, {}))


def test_only_the_tools_of_services_that_the_rule_matches_are_compared() -> None:
    item = {"evaluator": "tool-call-order", "tool_calls_order": ["ask_approval"]}
    stored = {"claims-bot": {"request_approval", "pay"}, "travel-bot": {"book"}}
    found = {
        service: [said for _, said in unknown_tools(rule(item, match={"service": service}), stored)]
        for service in ("travel-*", "claims-bot", "new-bot")
    }
    assert found == {
        "travel-*": ["no stored trace calls 'ask_approval'; expected one of book"],
        "claims-bot": ["no stored trace calls 'ask_approval'; did you mean 'request_approval'?"],
        "new-bot": [],  # none of its traces came, so nothing is known
    }


TRAJECTORY = {"evaluator": "trajectory", "match": "any_order", "pairing": "first"}


@each(
    ("of", "field"),
    [
        (contended("tool_calls", "args", *PAID, subset=True), "tool_calls"),
        (contended("tool_calls", "args", {"x": 1}, {"y": 2}, subset=True), "tool_calls"),
        (contended("tool_calls", "args", {"x": {"$gte": 0}}, {"x": {"$gte": 5}}, pairing="first"), "tool_calls"),
        (contended("tool_calls", "args", {"x": {"$gte": 0}}, {"x": 5}, pairing="first"), "tool_calls"),
        (contended("tool_outputs", "output", *PAID, subset=True), "tool_outputs"),
        (contended("tool_outputs", "output", {"x": 1}, '{"x": 1, "y": 2}', subset=True), "tool_outputs"),
        (contended("reference_tool_calls", "args", {"x": 1, "y": 2}, {"x": 1, "y": 3}, mode="flexible",
                   argument_match_threshold=0.5), "reference_tool_calls"),
        (contended("tool_calls", "args", *PAID, args="superset", **TRAJECTORY), "tool_calls"),
        (contended("tool_calls", "args", *PAID, call_credit="fractional", **TRAJECTORY), "tool_calls"),
        (contended("tool_calls", "", {"name": ["pay", "wire"]}, "pay", **TRAJECTORY), "tool_calls"),
        (contended("tool_calls", "", "p*", "pay", names="glob", **TRAJECTORY), "tool_calls"),
        # No call is as two expect, or it does not matter which of them takes it, or no scan gives it to one.
        (contended("tool_calls", "args", *PAID), ""),
        (contended("tool_calls", "args", {"x": 1}, {"x": 1.0}, {"x": 2, "y": 2}, subset=True), ""),
        (contended("tool_calls", "args", {"x": {"$gte": 6}}, {"x": 5}, pairing="first"), ""),
        (contended("tool_calls", "args", {"x": {"$gte": 0}}, {"x": {"$gte": 5}}), ""),
        (contended("tool_calls", "args", *PAID, subset=True, pairing="best"), ""),
        (contended("tool_outputs", "output", {"x": 1}, '{"x": 1}'), ""),
        (contended("tool_outputs", "output", *PAID, subset=True, strict=True), ""),
        (contended("reference_tool_calls", "args", {"x": 1, "y": 2}, {"x": 1, "y": 3}, mode="flexible"), ""),
        (contended("tool_calls", "args", *PAID, args="superset", **{**TRAJECTORY, "pairing": "best"}), ""),
        (contended("tool_calls", "args", *PAID, args="superset", **{**TRAJECTORY, "match": "in_order"}), ""),
        (contended("tool_calls", "", "pay", "pay", "wire", **TRAJECTORY), ""),
    ],
)  # fmt: skip
def test_expected_calls_that_may_take_each_others_calls_are_named(of: Rule, field: str) -> None:
    found = list(warnings_of(of))
    assert [location for location, _ in found] == ([("evaluate", 0, field, 1)] if field else [])
    assert all("expected calls 1 and 2 may take each other's calls" in said for _, said in found)
