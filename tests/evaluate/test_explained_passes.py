"""A pass says what was judged: calls, names and numbers, not how the evaluator works."""

from typing import Any

from tracegrade.judge_case import judge_case

OK, BAD = {"name": "find", "args": {"id": "7"}}, {"name": "find", "args": {"id": "8"}, "error": "no"}
PATTERN = {"$regex": "(?i)^error"}
PASSES: list[tuple[str, dict[str, Any], dict[str, Any], list[dict[str, Any]], str]] = [
    ("trajectory", {"calls": [">=", 1]}, {"include_failed": False}, [OK], "No call failed; 1 call, expected >= 1."),
    (
        "trajectory",
        {"calls": [">=", 1]},
        {"include_failed": False},
        [OK, BAD],
        "1 of 2 calls failed; 1 call, expected >= 1.",
    ),
    (
        "trajectory",
        {"tool_calls": [{"name": "drop"}]},
        {"negate": True, "match": "any_order"},
        [OK],
        "None of 1 call is as it must not be.",
    ),
    ("trajectory", {"forbidden": ["drop"]}, {}, [OK], "Not called: drop."),
    ("exact-match", {"expected_output": PATTERN}, {"negated": True}, [], "The answer is not a forbidden one."),
    ("contains", {"search_text": PATTERN}, {"negated": True}, [], "The answer contains nothing forbidden."),
    ("contains", {"search_text": {"$secret": True}}, {"negated": True}, [], "The answer contains nothing forbidden."),
    (
        "constraints",
        {"constraints": [{"never": {"where": {"args": {"$secret": True}}}}]},
        {},
        [OK],
        "Kept 1 of 1 time: any tool (args has a part that is a secret) is never called.",
    ),
    ("contains", {"search_text": "fine"}, {}, [], 'The answer contains "fine".'),
    (
        "args-schema",
        {"schemas": {"*": {"not": {"required": ["password"]}}}},
        {},
        [OK, OK],
        "The arguments of 2 calls hold nothing forbidden.",
    ),
    ("budget", {"max_calls": 3}, {}, [OK], "Within the limits: 1 call of 3."),
    ("abstention", {"should_call_tool": False}, {}, [], "No tool was called, as expected."),
    ("tool-permission", {}, {"allowed_tools": ["find"]}, [OK, OK], "All 2 calls were allowed."),
    (
        "data-flow",
        {"returned_by": "find", "given_to": "send"},
        {},
        [OK | {"output": "a-long-value"}, {"name": "send", "args": {"to": "other"}}],
        "Nothing that find returned was given to send.",
    ),
]


def test_a_pass_says_what_was_judged() -> None:
    wrong = []
    for evaluator, criteria, config, calls, expected in PASSES:
        case = {"criteria": criteria, "config": config | {"matchers": True}, "calls": calls, "final_answer": "all fine"}
        result = judge_case({"evaluator": evaluator, "gate": True, "prompt": "find it", **case}).to_json()
        if (result["outcome"], result["explanation"]) != ("pass", expected):
            wrong.append((evaluator, result["outcome"], result["explanation"], expected))
    assert wrong == []
