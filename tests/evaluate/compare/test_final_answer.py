"""exact-match, contains and json-similarity: the judges of a run's final answer."""

from typing import Any

import pytest

from build import each
from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.evaluator import Evidence, Score
from tracegrade.evaluate.registry import EVALUATORS
from tracegrade.model.tool_call import ToolCall


def _judged(name: str, criteria: Any, answer: Any, **settings: Any) -> Score:
    evaluator = EVALUATORS[name]
    evidence = Evidence([], final_answer=answer, as_given=True)
    return evaluator.evaluate(evidence, evaluator.read_criteria(criteria), evaluator.read_settings(settings))


@each(
    ("expected", "answer", "settings", "same"),
    [
        ("HELLO", "hello", {}, True),
        ("HELLO", "hello", {"case_sensitive": True}, False),
        ("hello ", "hello", {}, False),
        ("", None, {}, True),  # without the gate an answer that cannot be read is empty
        (None, None, {}, True),
        ("null", None, {}, False),
        ({"a": 1}, '{"a": 1.0}', {}, True),
        ({"a": 1}, {"a": 1, "b": 2}, {}, False),
        ({"a": 1}, {"a": True}, {}, False),
        (5, 5.0, {}, True),
        (5, "5", {}, True),
        ("x", "y", {"negated": True}, True),
        ({"r": "x"}, {"r": "x", "z": 1}, {"target_output_key": "r"}, True),
        ({"r": [{"id": 1}]}, '{"r": [{"id": 1, "z": 0}]}', {"target_output_key": "r[0].id"}, True),
        ({"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}, {"target_output_key": ["a", "b"]}, True),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, {"target_output_key": ["a", "b"]}, False),
        ('{"r": "x"}', {"r": "X"}, {"target_output_key": "r"}, True),
        ({"r": "x"}, "no object", {"target_output_key": "r"}, False),
        ({"r": "x"}, {}, {"target_output_key": "r", "negated": True}, False),  # what is not there is never right
        ({"$regex": "^Order [0-9]+"}, "Order 12 is on its way", {}, True),
        ({"id": {"$regex": "^[0-9]+$"}}, '{"id": "12"}', {}, True),
        ({"id": {"$regex": "^[0-9]+$"}}, {"id": "x"}, {"target_output_key": "id"}, False),
    ],
)
def test_exact_match(expected: Any, answer: Any, settings: Any, same: bool) -> None:
    assert _judged("exact-match", {"expected_output": expected}, answer, **settings).score == float(same)


@each(
    ("text", "answer", "settings", "there"),
    [
        ("world", "Hello World", {}, True),
        ("world", "Hello World", {"case_sensitive": True}, False),
        ("", "", {}, True),
        ("error", "all good", {"negated": True}, True),
        ("ok", {"s": "all ok", "z": "no"}, {"target_output_key": "s"}, True),
        ("no", '{"s": "all ok", "z": "no"}', {"target_output_key": "s"}, False),
        ('"a": 1', {"a": 1}, {}, True),
        ("天气", "今天天气很好", {}, True),
    ],
)
def test_contains(text: str, answer: Any, settings: Any, there: bool) -> None:
    assert _judged("contains", {"search_text": text}, answer, **settings).score == float(there)


@each(
    ("search_text", "output", "answer", "outcome"),
    [
        ({"$from": "find.output.id"}, {"id": "ORD-7"}, "Your order ord-7 is on its way", "pass"),
        ({"$from": "find.output.id"}, {"id": "ORD-7"}, "Your order ORD-71 is on its way", "fail"),
        ({"$from": "find.output.id"}, {"id": 1200}, "It costs EUR 1,200.00", "pass"),
        ({"$from": "find.output.items[*].id"}, {"items": [{"id": "A"}, {"id": "B"}]}, "Only B is left", "pass"),
        ({"$from": "find.output.id"}, {"name": "x"}, "Your order is on its way", "fail"),
        ({"$from": "other.output.id"}, {"id": "ORD-7"}, "Your order ORD-7", "fail"),
        ({"$from": "find.output.id"}, None, "Your order ORD-7", "not_evaluable"),
        ({"$from": ["prompt", "find.output.id"]}, None, "x", "refused"),
        ({"$regex": "ORD-[0-9]+"}, None, "Your order ORD-7", "pass"),
        ({"$regex": "^ORD-[0-9]+"}, None, "Your order ORD-7", "fail"),
    ],
)
def test_contains_what_comes_from_elsewhere(search_text: Any, output: Any, answer: str, outcome: str) -> None:
    status = "absent" if output is None else "ok"
    find = ToolCall("find", "find", None, {}, "ok", output, status, None, 1, 2, "00000000000000aa", "", "")
    evidence = Evidence([find], final_answer=answer)
    contains = EVALUATORS["contains"]
    if outcome == "refused":
        with pytest.raises(EvaluatorError, match="found 'prompt'"):
            contains.read_criteria({"search_text": search_text})
        return
    criteria, settings = contains.read_criteria({"search_text": search_text}), contains.Settings()
    score = contains.evaluate(evidence, criteria, settings)
    assert score.outcome(1.0) == outcome
    if outcome == "not_evaluable":
        assert score.ends[:2] == (0.0, 1.0)
    if outcome == "fail" and "$from" in search_text:
        assert score.details["looked_up" if search_text["$from"].startswith("find") else "not_called"]


@each(
    ("expected", "answer", "matched", "total"),
    [
        ({"t": 100}, {"t": 95}, 0.95, 1),  # 1 - 5/100
        ({"t": -10}, {"t": 10}, 0.0, 1),  # 1 - 20/10, at least 0
        ({"t": 0}, {"t": 0.0}, 1.0, 1),
        ({"t": 0}, {"t": 1}, 0.0, 1),
        ({"t": 10**400}, {"t": 1.5}, 0.0, 1),
        ({"t": 10**400}, {"t": 10**400}, 1.0, 1),
        ("completed", "complete", 8 / 9, 1),  # one edit in nine
        ("", "", 1.0, 1),
        ("a", 1, 0.0, 1),
        ({"a": True}, {"a": 1}, 0.0, 1),
        (None, None, 1.0, 1),
        (None, "", 0.0, 1),
        ({"a": None}, {}, 0.0, 1),
        ({"a": {"b": [1, 2, 3]}}, '{"a": {"b": [1, 2]}}', 2.0, 3),
        ({"a": {"b": [1, 2, 3]}}, {"a": 1}, 0.0, 3),
        ({"a": [1, 2]}, {"a": 5}, 0.0, 2),
        ({"a": [1, 2]}, {"a": "12"}, 0.0, 2),
        ({"a": {"b": 1}}, {"a": "b"}, 0.0, 1),
        ({"a": 1}, {"a": 1, "b": 2}, 1.0, 1),
        ({"a": {"$regex": "^x"}, "b": 1}, {"a": "xy", "b": 1}, 2.0, 2),
    ],
)
def test_json_similarity(expected: Any, answer: Any, matched: float, total: int) -> None:
    found = _judged("json-similarity", {"expected_output": expected}, answer)
    assert found.score == pytest.approx(matched / total)
    assert found.details["matched_leaves"] == pytest.approx(matched)
    assert found.details["total_leaves"] == total


def test_nothing_expected_is_there() -> None:
    assert _judged("json-similarity", {"expected_output": {}}, {"a": 1}).score == 1.0


@pytest.mark.parametrize(
    ("name", "criteria", "value"),
    [
        ("exact-match", {"expected_output": "a\n\nb\nc"}, 2 / 3),  # a and b; blank lines are left out, c has none
        ("contains", {"search_text": "a\nx"}, 1 / 2),
        ("json-similarity", {"expected_output": "a\nB"}, 1 / 2),
    ],
)
def test_lines_are_judged_one_by_one(name: str, criteria: Any, value: float) -> None:
    found = _judged(name, criteria, "a\nb\n", line_by_line_evaluator=True)
    assert found.score == pytest.approx(value)
    assert len(found.details["lines"]) >= 2  # type: ignore[arg-type]


def test_a_key_that_is_not_expected_is_a_mistake() -> None:
    with pytest.raises(EvaluatorError, match="no part 'x'") as error:
        _judged("exact-match", {"expected_output": {"a": 1}}, {"x": 1}, target_output_key="x")
    assert error.value.type == "invalid_criteria"
    with pytest.raises(EvaluatorError, match=r"no part 'a\[1\]'"):
        _judged("exact-match", {"expected_output": {"a": [1]}}, {"a": [1, 2]}, target_output_key="a[1]")
    with pytest.raises(EvaluatorError, match="expected a path"):
        EVALUATORS["exact-match"].read_settings({"target_output_key": "."})
