from typing import Any

import pytest

from build import call, each
from evaluate.criteria_of_each import CRITERIA
from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.evaluator import Evidence
from tracegrade.evaluate.registry import EVALUATORS
from tracegrade.model.tool_call import ToolCall

# These judge the final answer.
_READ_ANSWER = {"exact-match", "contains", "json-similarity", "grounded-answer"}
# With the criteria of each, these compare the arguments of one call.
_READ_ARGUMENTS = [
    "tool-call-args",
    "tool-call-accuracy",
    "trajectory",
    "partial-order",
    "ragas-tool-call-accuracy",
    "ragas-tool-call-f1",
    "param-accuracy",
    "overall-score",
    "tool-case",
    "multi-turn",
    "schema-validation",
    "args-schema",
]


def _unknown(name: str, criteria: Any, settings: Any, evidence: Evidence) -> str | None:
    """Why the least and the most that the score can be differ; None where they do not."""
    evaluator = EVALUATORS[name]
    read = None if criteria is None else evaluator.read_criteria(criteria)
    found = evaluator.evaluate(evidence, read, evaluator.read_settings(settings))
    if found.range is None and name == "json-similarity":  # which takes the answer as it is
        return None if found.score is not None else found.explanation
    return found.range.why if found.range is not None and found.range.least < found.range.most else None


def _of(name: str, *calls: ToolCall) -> str | None:
    return _unknown(name, CRITERIA[name], {}, Evidence(calls, final_answer="x"))


@each("name", _READ_ARGUMENTS)
@each(
    ("status", "why"),
    [
        ("ok", None),
        ("repaired", None),
        ("python_repr", None),
        ("absent", "the arguments of a call were not recorded (a, span 00000000000000aa)"),
        ("text", "the arguments of a call are not an object (a, span 00000000000000aa)"),
        ("truncated", "the arguments of a call were cut off by the sender (a, span 00000000000000aa)"),
        ("elsewhere", "the arguments of a call are stored elsewhere (a, span 00000000000000aa)"),
        ("redacted", "the arguments of a call were redacted (a, span 00000000000000aa)"),
    ],
)
def test_arguments_must_be_readable(name: str, status: str, why: str | None) -> None:
    assert _of(name, call("a", {}, arguments_status=status)) == why


@each(
    ("status", "why"),
    [
        ("ok", None),
        ("text", None),
        ("python_repr", None),
        ("absent", "the output of a call was not recorded (a, span 00000000000000aa)"),
        ("truncated", "the output of a call was cut off by the sender (a, span 00000000000000aa)"),
        ("elsewhere", "the output of a call is stored elsewhere (a, span 00000000000000aa)"),
        ("redacted", "the output of a call was redacted (a, span 00000000000000aa)"),
    ],
)
def test_outputs_must_be_readable(status: str, why: str | None) -> None:
    assert _of("tool-call-output", call("a", output_status=status)) == why


def test_a_failed_call_needs_no_output() -> None:
    assert _of("tool-call-output", call("a", failed=True)) is None
    assert _of("tool-call-output", call("a", failed=True, output_status="redacted")) is not None


@pytest.mark.parametrize("name", ["tool-call-order", "tool-call-count"])
def test_names_alone_are_always_readable(name: str) -> None:
    assert _of(name, call("a")) is None


# These read one call whatever its name.
_BY_POSITION = {"param-accuracy", "overall-score", "tool-case", "multi-turn", "schema-validation"}


@each("name", sorted(CRITERIA.keys() - _BY_POSITION - _READ_ANSWER))
def test_calls_of_other_names_do_not_matter(name: str) -> None:
    assert _of(name, call("b")) is None


@each("name", sorted(CRITERIA.keys() - _READ_ANSWER))
def test_a_trace_without_calls_is_judged(name: str) -> None:
    assert _of(name) is None


def test_the_first_call_that_lacks_something_is_named() -> None:
    found = _of("tool-call-args", call("a", {"x": 1}), call("a", span_id="01"), call("a", span_id="02"))
    assert found == "the arguments of a call were not recorded (a, span 01)"


def test_default_criteria_say_what_is_compared() -> None:
    default = {"defaultEvaluationCriteria": CRITERIA["tool-call-args"]}
    assert _unknown("tool-call-args", None, default, Evidence([call("a")])) is not None
    with pytest.raises(EvaluatorError, match="no evaluation criteria"):
        _unknown("tool-call-args", None, {}, Evidence([call("a")]))


def test_what_cannot_be_read_leaves_open_only_what_depends_on_it() -> None:
    evaluator = EVALUATORS["tool-call-args"]
    both = evaluator.read_criteria({"tool_calls": [{"name": "a", "args": {}}, {"name": "b", "args": {}}]})
    found = evaluator.evaluate(Evidence([call("a")]), both, evaluator.Settings())
    assert (found.outcome(1.0), found.outcome(0.5)) == ("fail", "not_evaluable")
    assert found.range == (0.0, 0.5, "the arguments of a call were not recorded (a, span 00000000000000aa)")


def test_calls_whose_arguments_cannot_be_read_may_be_the_same_or_not() -> None:
    evaluator = EVALUATORS["ragas-tool-call-f1"]
    criteria = evaluator.read_criteria({"reference_tool_calls": [{"name": "a"}]})
    found = evaluator.evaluate(Evidence([call("a", {}), call("b"), call("b")]), criteria, evaluator.Settings())
    assert found.ends[:2] == (0.5, 0.6667)  # of three distinct calls, or of two


def test_by_hand_nothing_is_unknown() -> None:
    assert _unknown("tool-call-args", CRITERIA["tool-call-args"], {}, Evidence([call("a")], as_given=True)) is None


def test_there_are_criteria_of_every_evaluator() -> None:
    assert CRITERIA.keys() == EVALUATORS.keys()


def _judged(name: str, criteria: Any, settings: Any, *calls: ToolCall) -> str | None:
    return _unknown(name, criteria, settings, Evidence(calls))


@each(
    ("name", "criteria", "settings", "made", "judged"),
    [
        # trajectory: what the settings compare
        ("trajectory", {"tool_calls": [{"name": "a", "args": {}}]}, {"args": "ignore"}, ["a"], True),
        ("trajectory", {"tool_calls": ["a"]}, {}, ["a"], True),
        ("trajectory", {"tool_calls": ["a", {"name": "b", "args": {}}]}, {}, ["a"], True),
        ("trajectory", {"tool_calls": [{"name": "a*", "args": {}}]}, {"names": "glob"}, ["ab"], False),
        ("trajectory", {"tool_calls": [{"name": "a", "output": 1}]}, {}, ["a"], True),
        ("trajectory", {"tool_calls": [{"name": "a", "output": 1}]}, {"outputs": "exact"}, ["a"], False),
        ("trajectory", {"forbidden": ["b"]}, {}, ["a"], True),
        ("trajectory", {"forbidden": ["b"]}, {"efficiency": {"redundancy_penalty": 0.2}}, ["a", "a"], False),
        ("trajectory", {"tool_calls": [{"name": "a", "args": {}}]}, {"occurrence": 1}, ["a"], True),
        # a case: the one call that is scored, and only where parameters are
        ("tool-case", {"expected_tool": "a", "expected_params": None}, {}, ["a"], True),
        ("tool-case", {"expected_tool": "a", "expected_params": {}}, {}, ["a"], True),
        ("tool-case", {"expected_tool": "a", "expected_params": {"x": 1}}, {}, ["b"], False),
        ("tool-case", {"expected_tool": "a", "expected_params": {"x": 1}}, {}, [], True),
        ("schema-validation", {"parameters_schema": {"required": ["x"]}}, {"tool": "b"}, ["a"], True),
        ("loop-repetition", {}, {}, ["a", "a"], True),
        ("loop-repetition", {}, {}, ["a", "a", "a"], False),
        ("loop-repetition", {}, {}, ["a", "b", "c"], True),
    ],
)
def test_calls_matter_where_they_are_compared(
    name: str, criteria: Any, settings: Any, made: list[str], judged: bool
) -> None:
    assert (_judged(name, criteria, settings, *map(call, made)) is None) is judged


def test_only_the_call_that_is_scored_matters() -> None:
    criteria = {"expected_tool": "a", "expected_params": {"x": 1}}
    first_read, second_read = [call("a", {"x": 1}), call("a")], [call("a"), call("a", {"x": 1})]
    assert _judged("tool-case", criteria, {}, *first_read) is None
    assert _judged("multi-turn", criteria, {}, *first_read) is not None
    assert _judged("tool-case", criteria, {}, *second_read) is not None
    assert _judged("multi-turn", criteria, {}, *second_read) is None
    # Of one message, the expected calls.
    together = [call("a", {"x": 1}, batch=0, turn=0), call("b", batch=0, turn=0)]
    assert _judged("multi-turn", criteria, {}, *together) is None
    assert _judged("multi-turn", criteria | {"expected_tool": "b"}, {}, *together) is not None


@each("name", sorted(_READ_ANSWER))
def test_an_answer_must_be_readable(name: str) -> None:
    assert _unknown(name, CRITERIA[name], {}, Evidence([])) == "the final answer cannot be read"
    assert _unknown(name, CRITERIA[name], {}, Evidence([], "", final_answer="")) is None
