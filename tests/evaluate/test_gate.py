from typing import Any

import pytest

from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.evaluator import Evidence
from tracegrade.evaluate.gate import gate
from tracegrade.evaluate.registry import EVALUATORS
from tracegrade.model.tool_call import ToolCall

_CRITERIA: dict[str, Any] = {
    "tool-call-order": {"tool_calls_order": ["a"]},
    "tool-call-count": {"tool_calls_count": {"a": ["=", 1]}},
    "tool-call-args": {"tool_calls": [{"name": "a", "args": {}}]},
    "tool-call-accuracy": {"reference_tool_calls": [{"name": "a"}]},
    "tool-call-output": {"tool_outputs": [{"name": "a", "output": "x"}]},
}


def _gate(name: str, *calls: ToolCall) -> str | None:
    evaluator = EVALUATORS[name]
    return gate(evaluator, evaluator.read_criteria(_CRITERIA[name]), evaluator.Settings(), Evidence(calls))


@pytest.mark.parametrize("name", ["tool-call-args", "tool-call-accuracy"])
@pytest.mark.parametrize(
    ("status", "why"),
    [
        ("ok", None),
        ("repaired", None),
        ("python_repr", None),
        ("absent", "the arguments of a call were not recorded (a, span 00000000000000aa)"),
        ("text", "the arguments of a call are not an object (a, span 00000000000000aa)"),
        ("truncated", "the arguments of a call were cut off by the sender (a, span 00000000000000aa)"),
        ("redacted", "the arguments of a call were masked by the sender (a, span 00000000000000aa)"),
    ],
)
def test_arguments_must_be_readable(call: Any, name: str, status: str, why: str | None) -> None:
    assert _gate(name, call("a", {}, arguments_status=status)) == why


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ("ok", None),
        ("text", None),
        ("python_repr", None),
        ("absent", "the output of a call was not recorded (a, span 00000000000000aa)"),
        ("truncated", "the output of a call was cut off by the sender (a, span 00000000000000aa)"),
        ("redacted", "the output of a call was masked by the sender (a, span 00000000000000aa)"),
    ],
)
def test_outputs_must_be_readable(call: Any, status: str, why: str | None) -> None:
    assert _gate("tool-call-output", call("a", output_status=status)) == why


def test_a_failed_call_needs_no_output(call: Any) -> None:
    assert _gate("tool-call-output", call("a", failed=True)) is None
    assert _gate("tool-call-output", call("a", failed=True, output_status="redacted")) is not None


@pytest.mark.parametrize("name", ["tool-call-order", "tool-call-count"])
def test_names_alone_are_always_readable(call: Any, name: str) -> None:
    assert _gate(name, call("a")) is None


@pytest.mark.parametrize("name", sorted(_CRITERIA))
def test_calls_of_other_names_do_not_matter(call: Any, name: str) -> None:
    assert _gate(name, call("b")) is None


@pytest.mark.parametrize("name", sorted(_CRITERIA))
def test_a_trace_without_calls_is_judged(name: str) -> None:
    assert _gate(name) is None


def test_the_first_call_that_lacks_something_is_named(call: Any) -> None:
    found = _gate("tool-call-args", call("a", {}), call("a", span_id="01"), call("a", span_id="02"))
    assert found == "the arguments of a call were not recorded (a, span 01)"


def test_default_criteria_say_what_is_compared(call: Any) -> None:
    evaluator = EVALUATORS["tool-call-args"]
    settings = evaluator.read_settings({"defaultEvaluationCriteria": _CRITERIA["tool-call-args"]})
    assert gate(evaluator, None, settings, Evidence([call("a")])) is not None
    with pytest.raises(EvaluatorError, match="no evaluation criteria"):
        gate(evaluator, None, evaluator.Settings(), Evidence([call("a")]))


def test_the_gate_covers_every_evaluator() -> None:
    assert _CRITERIA.keys() == EVALUATORS.keys()
