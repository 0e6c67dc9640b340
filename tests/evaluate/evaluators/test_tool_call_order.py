from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from build import call, each, score
from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.evaluator import Evidence
from tracegrade.evaluate.evaluators.tool_call_order import EVALUATOR, Criteria, Settings
from tracegrade.evaluate.evidence import Score
from tracegrade.model.tool_call import ToolCall


@each(
    ("expected", "actual", "lcs", "share"),
    [
        ("abcd", "axbd", "abd", 0.75),  # 3 of 4
        ("bac", "abac", "bac", 1.0),  # a greedy scan would take the first a
        ("abcd", "dabc", "abc", 0.75),
        ("aab", "ab", "ab", 2 / 3),
        ("ab", "aabb", "ab", 1.0),
        ("ab", "", "", 0.0),
        ("ab", "xy", "", 0.0),
    ],
)
def test_the_score_is_the_longest_common_subsequence_over_the_expected(
    expected: str, actual: str, lcs: str, share: float
) -> None:
    found = score("tool-call-order", {"tool_calls_order": list(expected)}, list(actual))
    assert found.score == pytest.approx(share)
    assert found.details == {
        "actual_tool_calls_order": list(actual),
        "expected_tool_calls_order": list(expected),
        "lcs": list(lcs),
        "lcs_length": len(lcs),
    }


@each(
    ("expected", "actual", "share"),
    [("ab", "ab", 1.0), ("ab", "axb", 0.0), ("ab", "ba", 0.0), ("ab", "a", 0.0), ("a", "", 0.0), ("abab", "abab", 1.0)],
)
def test_strict_is_the_same_sequence_or_nothing(expected: str, actual: str, share: float) -> None:
    found = score("tool-call-order", {"tool_calls_order": list(expected)}, list(actual), strict=True)
    assert found.score == share
    assert found.details["lcs"] == (list(expected) if share else [])


def _made(call: Any, text: str) -> list[ToolCall]:
    """``a (b c) d`` as calls: b and c were made together."""
    calls, batch = [], 0
    for part in text.replace("(", "( ").replace(")", " )").split():
        if part in "()":
            batch += 1
        else:
            calls.append(call(part, batch=batch if batch % 2 else None))
    return calls


@each(
    ("actual", "together", "sequential", "strict"),
    [
        ("a (c b) d", 1.0, 0.75, 1.0),
        ("(d c b a)", 1.0, 0.25, 1.0),
        ("(b a) (d c)", 1.0, 0.5, 1.0),
        ("(a c) (b d)", 0.75, 0.75, 0.0),  # a c d, or a b d: c and b are of different batches
        ("a (b x c) d", 1.0, 1.0, 0.0),
        ("d (c b) a", 0.5, 0.25, 0.0),
    ],
)
def test_calls_made_together_take_their_best_order(
    actual: str, together: float, sequential: float, strict: float
) -> None:
    criteria = {"tool_calls_order": list("abcd")}
    calls = _made(call, actual)
    assert score("tool-call-order", criteria, calls).score == together
    assert score("tool-call-order", criteria, calls, concurrency="sequential").score == sequential
    assert score("tool-call-order", criteria, calls, strict=True).score == strict


def test_batches_are_adjacent_calls_of_one_run() -> None:
    criteria = {"tool_calls_order": ["a", "b"]}
    apart = [call("b", batch=1), call("x"), call("a", batch=1)]
    assert score("tool-call-order", criteria, apart).score == 0.5
    of_two_runs = [call("b", batch=1, agent_span_id="01"), call("a", batch=1, agent_span_id="02")]
    assert score("tool-call-order", criteria, of_two_runs).score == 0.5


def test_details_show_what_was_called_together() -> None:
    found = score("tool-call-order", {"tool_calls_order": ["b"]}, _made(call, "a (b c)"))
    assert found.details["called_together"] == [["b", "c"]]


def test_details_are_bounded() -> None:
    found = score("tool-call-order", {"tool_calls_order": ["a"]}, ["b" * 10_000] + ["a"] * 5000)
    names = found.details["actual_tool_calls_order"]
    assert (len(names), len(names[0])) == (1000, 257)
    assert found.score == 1.0


def test_expecting_nothing_is_a_mistake() -> None:
    with pytest.raises(EvaluatorError, match=r"tool_calls_order: .*at least 1") as error:
        score("tool-call-order", {"tool_calls_order": []}, ["a"])
    assert error.value.type == "invalid_criteria"


@each(
    ("expected", "actual", "strict", "explanation"),
    [
        ("ab", "axb", False, "All 2 expected calls were made in the expected order."),
        ("a", "a", True, "The expected call was made in exactly the expected order, and no other."),
        (
            "abcd",
            "ba",
            False,
            "1 of 4 expected calls were made in the expected order; missing: c, d; out of order, or missing: a.",
        ),
        ("abcdefg", "", False, "0 of 7 expected calls were made in the expected order; missing: a, b, c and 4 more."),
        ("ab", "ax", True, "Call 2 was x, where b was expected."),
        ("ab", "a", True, "b was expected as call 2, and no further call was made."),
        ("a", "ab", True, "Call 2 was b, where no further call was expected."),
    ],
)
def test_the_explanation_says_what_is_wrong(expected: str, actual: str, strict: bool, explanation: str) -> None:
    found = score("tool-call-order", {"tool_calls_order": list(expected)}, list(actual), strict=strict)
    assert found.explanation == explanation


names = st.lists(st.sampled_from("abc"), max_size=8)


@given(expected=names.filter(bool), actual=names, more=names)
def test_further_calls_never_lower_the_score(expected: list[str], actual: list[str], more: list[str]) -> None:
    def share(calls: list[str]) -> float:
        made = [
            ToolCall(
                name=name,
                raw_name=name,
                call_id=None,
                arguments=None,
                arguments_status="absent",
                output=None,
                output_status="absent",
                error=None,
                start_ns=0,
                end_ns=0,
                span_id="",
                agent="",
                agent_span_id="",
            )
            for name in calls
        ]
        found = EVALUATOR.evaluate(Evidence(made), Criteria(tool_calls_order=expected), Settings()).score
        assert found is not None
        return found

    assert 0 <= share(actual) <= share([*more, *actual]) <= 1
    assert share(actual) <= share([*actual, *more])


def test_names_seen_before_are_looked_up() -> None:
    criteria = EVALUATOR.read_criteria({"tool_calls_order": list("abcd")})

    def judged(calls: list[ToolCall], **settings: Any) -> Score:
        return EVALUATOR.evaluate(Evidence(calls), criteria, EVALUATOR.read_settings(settings))

    calls = _made(call, "a (c b) d")
    first = judged(calls)
    assert judged(_made(call, "a (c b) d")) is first
    others = [judged(_made(call, "a c b d")), judged(calls, concurrency="sequential"), judged(calls, strict=True)]
    assert [found.score for found in (first, *others)] == [1.0, 0.75, 0.75, 1.0]
    assert others[0] is others[1]
    assert score("tool-call-order", {"tool_calls_order": list("abdc")}, calls).score == 0.75


@pytest.mark.parametrize("names", [["a"] * 65, ["a" * 2049]])
def test_many_or_long_names_are_not_kept_to_be_looked_up(names: list[str]) -> None:
    criteria = EVALUATOR.read_criteria({"tool_calls_order": names[:1]})
    first, second = (EVALUATOR.evaluate(Evidence(list(map(call, names))), criteria, Settings()) for _ in range(2))
    assert first == second
    assert first is not second
