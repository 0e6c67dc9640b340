from typing import Any

import pytest

from build import call, each, score
from tracegrade.model.tool_call import ToolError


def _expect(*calls: tuple[str, Any]) -> dict[str, Any]:
    return {"tool_outputs": [{"name": name, "output": output} for name, output in calls]}


@each(
    ("expected", "actual", "equal"),
    [
        ("done", "done", True),
        ("done", "Done", False),
        ("done", "done\n", False),
        # JSON texts of the same value, and values against texts
        ('{"x":1,"y":2}', '{"y": 2, "x": 1.0}', True),
        ('{"x":1}', {"x": 1}, True),
        ({"x": 1}, '{"x": 1}', True),
        ({"x": 1}, {"x": 1.0}, True),
        ({"x": 1}, '{"x": 1, "y": 2}', False),
        ("[1, 2]", [1, 2], True),
        ([1, 2], "[2, 1]", False),
        # scalars as the sender wrote them, and as they were decoded
        ("42", 42, True),
        ("true", True, True),
        ("true", "True", False),
        (42, "42", True),
        (True, 1, False),
        ("1.0", "1", False),
        # null and absent are the empty text
        ("", None, True),
        (None, None, True),
        (None, "", True),
        (None, "null", False),
        ("null", None, False),
        ("x", None, False),
        # matchers
        ({"status": {"$regex": "^ok"}}, '{"status": "okay"}', True),
        ({"$regex": "okay"}, '{"status": "okay"}', True),  # a text is searched as it is
        ({"$regex": "okay"}, {"status": "okay"}, False),
        ({"$literal": {"$regex": "a"}}, '{"$regex": "a"}', True),
    ],
)
def test_outputs_are_compared_whole(expected: Any, actual: Any, equal: bool) -> None:
    found = score("tool-call-output", _expect(("a", expected)), [call("a", output=actual)])
    assert found.score == float(equal)
    assert bool(found.details["differences"]) is not equal


@each(
    ("expected", "actual", "share", "strict"),
    [
        ("a1 a2", "a1 a2", 1.0, 1.0),
        ("a2 a1", "a1 a2", 1.0, 0.0),  # strict compares the second with the second
        ("a2", "a1 a2", 1.0, 0.0),  # a retry
        ("a1", "a1 a2", 1.0, 1.0),  # further calls are free
        ("b2 a1", "a1 b2", 1.0, 1.0),  # order across tools never matters
        ("a1 a1", "a1", 0.5, 0.0),
        ("a1 b1 c1", "a1 b2 c1", 2 / 3, 0.0),
        ("a1", "b1", 0.0, 0.0),
        ("", "", 1.0, 1.0),
        ("", "a1", 0.0, 0.0),
        ("a1", "", 0.0, 0.0),
    ],
)
def test_the_score_is_the_share_of_expected_outputs(expected: str, actual: str, share: float, strict: float) -> None:
    criteria = _expect(*((part[0], part[1]) for part in expected.split()))
    calls = [call(part[0], output=part[1]) for part in actual.split()]
    assert score("tool-call-output", criteria, calls).score == pytest.approx(share)
    assert score("tool-call-output", criteria, calls, strict=True).score == strict


def test_every_expected_output_is_justified() -> None:
    found = score(
        "tool-call-output",
        _expect(("a", {"status": "ok", "n": [1]}), ("a", "done"), ("b", 1)),
        [call("a", output='{"status": "failed", "n": [1]}'), call("a", output="over")],
    )
    assert found.details["explained_tool_calls_outputs"] == {
        "a_0": 'Actual: "{\\"status\\": \\"failed\\", \\"n\\": [1]}", Expected: {"status": "ok", "n": [1]}, Score: 0.0',
        "a_1": 'Actual: "over", Expected: "done", Score: 0.0',
        "b_0": "Actual: not called, Expected: 1, Score: 0.0",
    }
    assert found.details["differences"] == [
        {"call": "a_0", "path": "output.status", "problem": "different", "expected": "ok", "found": "failed"},
        {"call": "a_1", "path": "output", "problem": "different", "expected": "done", "found": "over"},
    ]
    assert found.explanation == (
        "0 of 3 expected calls were made with the expected output; missing: b; "
        "mismatched: a output.status (different), a (no. 2) output (different)."
    )


def test_a_subset_has_the_expected_members_whatever_else_there_is() -> None:
    criteria = _expect(("a", {"status": "ok", "n": {"$gte": 1}}), ("b", "done"))
    calls = [call("a", output='{"status": "ok", "n": 2, "eta": 3}'), call("b", output="done")]
    assert score("tool-call-output", criteria, calls).score == 0.5
    assert score("tool-call-output", criteria, calls, subset=True).score == 1.0
    calls[0].output = {"status": "ok", "eta": 3}
    lacking = score("tool-call-output", criteria, calls, subset=True)
    assert lacking.score == 0.5
    assert "a output.n (missing)" in lacking.explanation
    assert "eta" not in lacking.explanation


def test_a_call_that_failed_without_an_output_is_described_by_its_error() -> None:
    failed = [call("a", error=ToolError("CardExpired", "in 10/26")), call("b", error=ToolError("", ""))]
    found = score("tool-call-output", _expect(("a", {"status": "paid"}), ("b", "done")), failed)
    assert [item["found"] for item in found.details["differences"]] == ["CardExpired: in 10/26", "failed"]
    assert found.details["explained_tool_calls_outputs"] == {
        "a_0": 'Actual: CardExpired: in 10/26, Expected: {"status": "paid"}, Score: 0.0',
        "b_0": 'Actual: failed, Expected: "done", Score: 0.0',
    }
    found = score(
        "trajectory", {"tool_calls": [{"name": "a", "output": {"status": "paid"}}]}, failed[:1], outputs="exact"
    )
    assert [item["found"] for item in found.details["differences"]] == ["CardExpired: in 10/26"]
