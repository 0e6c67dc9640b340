from typing import Any

from build import each, score

_ONE = [("a", {"x": 1})]
_TWO = [("a", {"x": 1}), ("a", {"x": 2})]


@each(
    ("evaluator", "criteria", "settings", "calls", "explanation"),
    [
        ("budget", {"max_calls": 0}, {}, _ONE, "Over budget: 1 call (limit 0)."),
        ("budget", {"max_calls": 0}, {}, _TWO, "Over budget: 2 calls (limit 0)."),
        ("trajectory", {"counts": {"a": [">=", 2]}}, {}, _ONE, "a was called once (expected at least"),
        ("trajectory", {"counts": {"a": ["<", 2]}}, {}, _TWO, "a was called twice (expected less than"),
        ("trajectory", {"calls": [">=", 2]}, {}, _ONE, "1 call (expected >="),
        ("trajectory", {"calls": ["<", 2]}, {}, _TWO, "2 calls (expected <"),
        ("trajectory", {}, {"efficiency": {"optimal_calls": 1}}, _TWO, "2 calls where 1 is enough"),
        ("ragas-tool-call-f1", {"reference_tool_calls": _ONE}, {}, _TWO, "1 of 2 calls matches the 1 reference call."),
        ("ragas-tool-call-f1", {"reference_tool_calls": _TWO}, {}, _TWO, "2 of 2 calls match the 2 reference calls."),
        ("tool-call-accuracy", {"reference_tool_calls": _ONE}, {}, _TWO, "1 of 2 calls matches the 1 reference call."),
        ("tool-call-accuracy", {"reference_tool_calls": _TWO}, {}, [*_TWO, "b"], "2 of 3 calls match the 2"),
    ],
)  # fmt: skip
def test_nouns_and_verbs_agree_with_numbers(
    evaluator: str,
    criteria: dict[str, Any],
    settings: dict[str, Any],
    calls: list[Any],
    explanation: str,
) -> None:
    calls_of = {
        key: [{"name": name, "args": args} for name, args in value] if key == "reference_tool_calls" else value
        for key, value in criteria.items()
    }
    assert explanation in score(evaluator, calls_of or None, calls, **settings).explanation
