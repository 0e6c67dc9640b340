"""Every field of every evaluator and every matcher: it is honoured, or refused when it is read."""

from collections.abc import Callable, Iterator
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from build import each
from evaluate import matcher_examples
from evaluate.matcher_examples import Example
from tracegrade.evaluate.criteria.field_types import VERBATIM, reads_matchers
from tracegrade.evaluate.criteria.registry import MATCHERS_BY_WORD
from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.evaluator import Evaluator
from tracegrade.evaluate.evidence import Evidence
from tracegrade.evaluate.registry import EVALUATORS
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tool_call import ToolCall

# By the examples of the reference; of these it shows what needs more than one member, or a run.
EXAMPLES = {word: example for word, example in matcher_examples.EXAMPLES.items() if word in MATCHERS_BY_WORD} | {
    "$lt": Example(5, 4, 5),
    "$one_of": Example([1, 2], 2, 3),
    "$from": Example(["find.output.id", "prompt"], "abc", "xyz"),
}
# These hold whatever stands there, or only where nothing does; and $semantic needs a model that is not here.
WHATEVER = {"$any": True, "$absent": True}
EXAMPLES.pop("$semantic")
assert EXAMPLES.keys() | WHATEVER.keys() | {"$semantic"} == MATCHERS_BY_WORD.keys()


def made(*calls: tuple[str, JsonValue, JsonValue], answer: JsonValue = None) -> Evidence:
    """A run: find gives {"id": "abc"}, then the calls."""
    found = [("find", {}, {"id": "abc"}), *calls]
    read = [
        ToolCall(
            name=name,
            raw_name=name,
            call_id=None,
            arguments=arguments,
            arguments_status="ok",
            output=output,
            output_status="ok",
            error=None,
            start_ns=place,
            end_ns=place + 1,
            span_id=f"{place:016x}",
            agent="agent",
            agent_span_id="",
        )
        for place, (name, arguments, output) in enumerate(found)
    ]
    return Evidence(read, prompt="It is abc.", final_answer=answer)


def _arguments(value: JsonValue) -> Evidence:
    return made(("act", {"x": value}, None))


def _output(value: JsonValue) -> Evidence:
    return made(("act", {}, value))


def _answer(value: JsonValue) -> Evidence:
    return made(answer=value)


Make = Callable[[JsonValue], Evidence]
ACT_ARGS = {"name": "act", "args": {"x": ...}}
# Field -> the criteria with ... for the expected value, and the run in which a value is found for it.
HONOURED: dict[tuple[str, str], tuple[dict[str, Any], dict[str, Any], Make]] = {
    ("tool-call-args", "tool_calls"): ({"tool_calls": [ACT_ARGS]}, {}, _arguments),
    ("tool-call-output", "tool_outputs"): ({"tool_outputs": [{"name": "act", "output": ...}]}, {}, _output),
    ("tool-call-accuracy", "reference_tool_calls"): (
        {"reference_tool_calls": [{"name": "find", "args": {}}, ACT_ARGS]},
        {},
        _arguments,
    ),
    ("trajectory", "tool_calls"): ({"tool_calls": [{"name": "find"}, ACT_ARGS]}, {}, _arguments),
    ("ragas-tool-call-accuracy", "reference_tool_calls"): (
        {"reference_tool_calls": [{"name": "find", "args": {}}, ACT_ARGS]},
        {},
        _arguments,
    ),
    ("ragas-tool-call-f1", "reference_tool_calls"): (
        {"reference_tool_calls": [{"name": "find", "args": {}}, ACT_ARGS]},
        {},
        _arguments,
    ),
    ("param-accuracy", "expected_params"): ({"expected_params": {"x": ...}}, {"occurrence": "last"}, _arguments),
    ("overall-score", "expected_params"): (
        {"expected_tool": "act", "expected_params": {"x": ...}},
        {"occurrence": "last"},
        _arguments,
    ),
    ("tool-case", "expected_params"): (
        {"expected_tool": "act", "expected_params": {"x": ...}},
        {},
        lambda value: Evidence(_arguments(value).calls[1:], prompt="It is abc."),
    ),
    ("multi-turn", "expected_params"): (
        {"expected_tool": "act", "expected_params": {"x": ...}},
        {},
        _arguments,
    ),
    ("exact-match", "expected_output"): ({"expected_output": {"x": ...}}, {}, lambda value: _answer({"x": value})),
    ("json-similarity", "expected_output"): ({"expected_output": {"x": ...}}, {}, lambda value: _answer({"x": value})),
}


def filled(pattern: Any, value: JsonValue) -> Any:
    if pattern is ...:
        return value
    if isinstance(pattern, dict):
        return {key: filled(member, value) for key, member in pattern.items()}
    return [filled(item, value) for item in pattern] if isinstance(pattern, list) else pattern


@each("word", EXAMPLES)
@each(("name", "field"), HONOURED, ids=[name for name, _ in HONOURED])
def test_a_matcher_is_honoured_where_it_is_taken(name: str, field: str, word: str) -> None:
    evaluator, (pattern, config, make), example = EVALUATORS[name], HONOURED[name, field], EXAMPLES[word]
    criteria = evaluator.read_criteria(filled(pattern, {word: example.argument}))
    settings = evaluator.read_settings(config)
    met = evaluator.evaluate(make(example.meets), criteria, settings).score
    not_met = evaluator.evaluate(make(example.meets_not), criteria, settings).score
    assert met is not None
    assert not_met is not None
    assert met > not_met
    # As it is: equal to itself alone.
    literal = evaluator.read_criteria(filled(pattern, {"$literal": {word: example.argument}}))
    assert (evaluator.evaluate(make({word: example.argument}), literal, settings).score or 0) > (
        evaluator.evaluate(make(example.meets), literal, settings).score or 0
    )


@each("name", ["exact-match", "json-similarity"])
@each(
    ("expected", "answer", "score"),
    [
        ({"$contains": "refund"}, "No refund today.", 1),
        # The text of an answer counts, though it is the JSON of an object or a list.
        ({"$contains": "refund"}, '{"text": "No refund today."}', 1),
        ({"$regex": '^."a"'}, '["a", "b"]', 1),
        ({"$contains": "order"}, '{"text": "No refund today."}', 0),
        # And so does what it is the JSON of.
        ({"$schema": {"required": ["text"]}}, '{"text": 1}', 1),
        ({"$length": 2}, "[1, 2]", 1),
    ],
)
def test_a_matcher_of_the_whole_answer_is_met_by_its_text_or_what_it_stands_for(
    name: str, expected: JsonValue, answer: str, score: float
) -> None:
    evaluator = EVALUATORS[name]
    criteria = evaluator.read_criteria({"expected_output": expected})
    assert evaluator.evaluate(_answer(answer), criteria, evaluator.read_settings({})).score == score


def fields(evaluator: Evaluator[Any, Any]) -> Iterator[tuple[str, type[BaseModel], str]]:
    for kind, model in (("criteria", evaluator.Criteria), ("settings", evaluator.Settings)):
        for name in model.model_fields:
            yield kind, model, name


ALL_FIELDS = [(name, *field) for name, evaluator in EVALUATORS.items() for field in fields(evaluator)]


@each(("name", "kind", "model", "field"), ALL_FIELDS, ids=[f"{f[0]}/{f[3]}" for f in ALL_FIELDS])
def test_a_matcher_is_refused_where_nothing_reads_it(name: str, kind: str, model: type[BaseModel], field: str) -> None:
    evaluator, info = EVALUATORS[name], model.model_fields[field]
    read = evaluator.read_criteria if kind == "criteria" else evaluator.read_settings
    if reads_matchers(info.annotation, info.metadata):
        # Then it is honoured, holds models whose fields are checked, or has words of its own.
        inside = (name, field) in HONOURED or _holds_models(info.annotation) or field in ("values", "search_text")
        assert inside or VERBATIM in info.metadata or field in ("schemas", "default_evaluation_criteria")
        return
    for word, example in [*EXAMPLES.items(), *((word, Example(True, 0, 0)) for word in WHATEVER)]:
        matcher: JsonValue = {word: example.argument}
        for value in (matcher, [matcher], {"x": matcher}, {"x": [{"y": matcher}]}):
            with pytest.raises(EvaluatorError, match="where no matcher is read"):
                read({field: value})


def _holds_models(annotation: Any) -> bool:
    if isinstance(annotation, type):
        return issubclass(annotation, BaseModel)
    return any(map(_holds_models, get_args(annotation)))


def with_x(expected: JsonValue) -> dict[str, Any]:
    return {"tool_calls": [{"name": "a", "args": {"x": expected}}]}


@each(
    ("name", "criteria", "why"),
    [
        ("contains", {"search_text": {"$from": "find.output"}}, "expected a path to one value, such as TOOL.output.id"),
        (
            "contains",
            {"search_text": {"$gte": 3}},
            "{$regex: ...} or {$secret: true}",
        ),
        (
            "contains",
            {"search_text": {"$glob": "a*"}},
            "{$regex: ...} or {$secret: true}",
        ),
        (
            "contains",
            {"search_text": 3},
            "{$regex: ...} or {$secret: true}, found 3",
        ),
        ("tool-selection", {"expected_tool": {"$literal": "a"}}, "taken as it is written; write the value alone"),
        (
            "tool-call-order",
            {"tool_calls_order": ["a", {"$glob": "b*"}]},
            "found {$glob: ...} where no matcher is read",
        ),
        ("exact-match", {"expected_output": {"$absent": True}}, "here there is always a value"),
        ("exact-match", {"expected_output": [1, {"$absent": True}]}, "here there is always a value"),
        (
            "tool-call-args",
            {"tool_calls": [{"name": "a", "args": {"x": {"$contains": {"$from": "b.output"}}}}]},
            "$from",
        ),
        (
            "tool-call-args",
            {"tool_calls": [{"name": "a", "args": {"x": {"$case_insensitive": {"$from": "b.output"}}}}]},
            "matchers are not allowed here",
        ),
        (
            "tool-call-args",
            {"tool_calls": [{"name": "a", "args": {"x": {"$absent": True, "$gt": 1}}}]},
            "$absent never holds together with",
        ),
    ],
)
def test_a_matcher_that_can_never_hold_is_refused(name: str, criteria: dict[str, Any], why: str) -> None:
    with pytest.raises(EvaluatorError) as refused:
        EVALUATORS[name].read_criteria(criteria)
    assert why in str(refused.value)


def test_where_matchers_are_off_everything_is_taken_as_it_is() -> None:
    trajectory = EVALUATORS["trajectory"]
    settings = {"defaults": {"x": {"$gt": 1}}}
    assert trajectory.read_settings(settings, matchers=False).defaults == settings["defaults"]


def test_a_json_schema_keeps_its_own_keys() -> None:
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    assert EVALUATORS["schema-validation"].read_criteria({"parameters_schema": schema}).parameters_schema == schema
    assert EVALUATORS["args-schema"].read_criteria({"schemas": {"a": {"$ref": "#/$defs/b", "$defs": {"b": {}}}}})


@pytest.mark.parametrize(
    ("name", "settings", "why"),
    [
        ("exact-match", {"line_by_line_evaluator": True}, "line_by_line_evaluator is of texts"),
        ("json-similarity", {"line_by_line_evaluator": True}, "line_by_line_evaluator is of texts"),
        ("exact-match", {"case_sensitive": True}, "case_sensitive says nothing of a matcher"),
    ],
)
def test_a_setting_that_a_matcher_does_not_read_is_refused(name: str, settings: dict[str, Any], why: str) -> None:
    evaluator = EVALUATORS[name]
    read = evaluator.read_settings(settings)
    assert why in str(evaluator.never_scores(evaluator.read_criteria({"expected_output": {"$contains": "a"}}), read))
    assert evaluator.never_scores(evaluator.read_criteria({"expected_output": "a"}), read) is None
