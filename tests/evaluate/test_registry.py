from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from build import each, score
from evaluate.criteria_of_each import CRITERIA
from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.evaluator import Evaluator, Evidence
from tracegrade.evaluate.registry import EVALUATORS, PLACES
from tracegrade.model.tool_call import ToolCall

_FOLDER = Path(import_module("tracegrade.evaluate.evaluators").__path__[0])


def test_the_folder_holds_the_evaluators_of_the_registry_and_nothing_else() -> None:
    names = [path.stem for path in _FOLDER.glob("*.py") if path.stem != "__init__"]
    members = [vars(import_module(f"tracegrade.evaluate.evaluators.{name}")) for name in names]
    found = [member for module in members for member in module.values() if isinstance(member, Evaluator)]
    assert sorted(found, key=lambda evaluator: evaluator.name) == [EVALUATORS[name] for name in sorted(EVALUATORS)]
    assert [evaluator.name for evaluator in EVALUATORS.values()] == list(EVALUATORS)
    assert {place.partition(".")[0] for place in PLACES.values()} == set(names)


@each("evaluator", EVALUATORS.values(), ids=list(EVALUATORS))
def test_every_field_of_an_evaluator_is_written_either_way(evaluator: Evaluator[Any, Any]) -> None:
    assert not evaluator.Criteria.model_fields.keys() & evaluator.Settings.model_fields.keys()
    for model in (evaluator.Criteria, evaluator.Settings):
        for name in model.model_fields:
            assert name in model.model_json_schema()["properties"]


def test_camel_case_is_taken_as_well() -> None:
    accuracy = EVALUATORS["tool-call-accuracy"]
    assert accuracy.read_settings({"argumentMatchThreshold": 0.5}) == accuracy.Settings(argument_match_threshold=0.5)
    order = EVALUATORS["tool-call-order"]
    settings = order.read_settings({"defaultEvaluationCriteria": {"toolCallsOrder": ["a"]}})
    assert settings.default_evaluation_criteria == order.Criteria(tool_calls_order=["a"])
    with pytest.raises(EvaluatorError, match="unknown key 'toolCallsOrder'"):
        order.read_criteria({"tool_calls_order": ["a"], "toolCallsOrder": ["b"]})


def test_default_criteria_serve_when_none_are_given_and_are_replaced_whole() -> None:
    default = {"tool_calls_order": ["a", "b"]}
    assert score("tool-call-order", None, ["a", "b"], default_evaluation_criteria=default).score == 1.0
    found = score("tool-call-order", {"tool_calls_order": ["c"]}, ["a", "b"], default_evaluation_criteria=default)
    assert found.score == 0.0


# All criteria of these have defaults: without any they have nothing to score.
_NOTHING_REQUIRED = {"tool-call-accuracy", "trajectory", "args-schema", "budget", "handoffs"}
# These need none.
_WITHOUT_CRITERIA = {"loop-repetition", "tool-permission", "grounded-answer"}


@each("name", sorted(EVALUATORS.keys() - _WITHOUT_CRITERIA))
def test_no_criteria_at_all_is_an_error_or_nothing_to_score(name: str) -> None:
    if name in _NOTHING_REQUIRED:
        assert score(name, None, ["a"]).score is None
        return
    required = [field for field, info in EVALUATORS[name].Criteria.model_fields.items() if info.is_required()]
    with pytest.raises(EvaluatorError, match=f"{name}: no evaluation criteria; give {', '.join(required)}") as error:
        score(name, None, ["a"])
    assert error.value.type == "no_criteria"


def test_wrong_default_criteria_are_wrong_criteria() -> None:
    with pytest.raises(EvaluatorError, match=r"default_evaluation_criteria\.tool_calls_order") as error:
        score("tool-call-order", None, [], default_evaluation_criteria={"tool_calls_order": []})
    assert error.value.type == "invalid_criteria"


def test_criteria_are_literal_on_request() -> None:
    args = EVALUATORS["tool-call-args"]
    written = {"tool_calls": [{"name": "a", "args": {"x": {"$gte": 1}}}]}
    criteria = args.read_criteria(written, matchers=False)
    assert criteria.tool_calls[0].args.source == {"x": {"$gte": 1}}
    assert criteria.model_dump(exclude_none=True) == written
    written["tool_calls"][0]["args"]["x"] = {"$gtee": 1}
    assert args.read_criteria(written, matchers=False).model_dump(exclude_none=True) == written
    with pytest.raises(EvaluatorError, match="no matcher"):
        args.read_criteria(written)


names = st.sampled_from("ab")
arguments = st.dictionaries(st.sampled_from("xy"), st.integers(0, 1), max_size=2)
expectations = st.lists(st.tuples(names, arguments), min_size=1, max_size=4)


_SOME_SETTINGS: dict[str, list[Any]] = {
    "strict": [False, True],
    "subset": [False, True],
    "strict_order": [False, True],
    "match": ["exact", "in_order", "any_order", "unordered", "subset"],
    "args": ["exact", "superset", "subset", "ignore"],
    "score": ["binary", "recall", "precision", "f1"],
    "call_credit": ["binary", "fractional", {"threshold": 0.5}],
    "pairing": ["first", "best", "positional"],
    "occurrence": ["first", "last"],
    "repetition_threshold": [2, 3],
    "allowed_tools": [["a"], None],
    "negate": [False, True],
}


@given(expected=expectations, actual=expectations, data=st.data())
def test_scores_are_within_0_and_1_and_the_same_each_time(expected: Any, actual: Any, data: st.DataObject) -> None:
    references = {"reference_tool_calls": [{"name": name, "args": args} for name, args in expected]}
    first = {"expected_tool": expected[0][0]}
    case = {**first, "expected_params": expected[0][1]}
    criteria: dict[str, dict[str, Any]] = {
        "tool-call-order": {"tool_calls_order": [name for name, _ in expected]},
        "tool-call-args": {"tool_calls": [{"name": name, "args": args} for name, args in expected]},
        "tool-call-output": {"tool_outputs": [{"name": name, "output": args} for name, args in expected]},
        "tool-call-count": {"tool_calls_count": {name: ["=", len(args)] for name, args in expected}},
        "tool-call-accuracy": references,
        "trajectory": {"tool_calls": [{"name": name, "args": args} for name, args in expected]},
        "ragas-tool-call-accuracy": references,
        "ragas-tool-call-f1": references,
        "tool-selection": first,
        "param-accuracy": {"expected_params": expected[0][1]},
        "overall-score": case,
        "tool-case": case,
        "multi-turn": case,
        "abstention": {"should_call_tool": True},
        "schema-validation": {"parameters_schema": {"required": list(expected[0][1]), "properties": {"x": {}}}},
        "exact-match": {"expected_output": expected[0][1]},
        "contains": {"search_text": expected[0][0]},
        "json-similarity": {"expected_output": expected[0][1]},
        "loop-repetition": {},
        "tool-permission": {},
        "args-schema": {"schemas": {name: {"required": list(args)} for name, args in expected}},
        "budget": {"max_calls": len(expected)},
        "constraints": {"constraints": [{"at_most": 1, "of": name} for name, _ in expected]},  # these always apply
    }
    criteria = CRITERIA | criteria
    name = data.draw(st.sampled_from(sorted(EVALUATORS)))
    evaluator = EVALUATORS[name]
    settings = evaluator.read_settings(
        {
            field: data.draw(st.sampled_from(values))
            for field, values in _SOME_SETTINGS.items()
            if field in evaluator.Settings.model_fields
        }
    )
    calls = [
        ToolCall(
            name=called,
            raw_name=called,
            call_id=None,
            arguments=args,
            arguments_status="ok",
            output=args,
            output_status="ok",
            error=None,
            start_ns=0,
            end_ns=0,
            span_id="",
            agent="",
            agent_span_id="",
            batch=data.draw(st.none() | st.integers(0, 1)),
        )
        for called, args in actual
    ]
    read = evaluator.read_criteria(criteria[name])
    first = evaluator.evaluate(Evidence(calls, final_answer='{"x": 1}'), read, settings)
    if name == "args-schema" and first.score is None:
        assert not {call.name for call in calls} & criteria[name]["schemas"].keys()
        return
    if name == "grounded-answer":
        assert first.score is None  # the answer names nothing above 10
        return
    assert first.score is not None
    assert 0 <= first.score <= 1
    assert first.explanation.endswith(".")
    again = Evidence(calls, final_answer='{"x": 1}')
    assert evaluator.evaluate(again, evaluator.read_criteria(criteria[name]), settings) == first


@each(
    "name",
    [
        *("tool-call-order", "tool-call-args", "tool-call-output", "tool-call-count"),
        *("exact-match", "contains", "json-similarity"),
    ],
)
def test_a_config_may_describe_itself(name: str) -> None:
    settings = EVALUATORS[name].read_settings({"name": "Mine", "description": "what it is for"})
    assert settings.description == "what it is for"
