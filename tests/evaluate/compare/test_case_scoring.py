"""The evaluators of a suite's case: tool-selection, param-accuracy, overall-score, tool-case and their kin."""

import itertools
from typing import Any

import pytest

from build import call, each, score
from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.registry import EVALUATORS


@each(
    ("expected", "made", "value"),
    [
        ("a", ["a"], 1.0),
        ("A", ["a"], 1.0),
        (" a", ["a"], 0.0),  # nothing is trimmed
        ("a", ["b", "a"], 0.0),  # the first call alone
        (["b", "a"], ["a"], 1.0),
        ([], ["a"], 0.0),
        ([], [], 0.0),
        (None, [], 1.0),
        (None, ["a"], 0.0),
        ("a", [], 0.0),
        ("a", ['{"name": "a", "arguments": {}}'], 1.0),
        ("a", ['{"name": "a"'], 0.0),  # no JSON: that is its name
        ("天气", ["天气"], 1.0),
    ],
)
def test_the_tool_of_the_first_call_is_selected(expected: Any, made: list[str], value: float) -> None:
    assert score("tool-selection", {"expected_tool": expected}, made).score == value


PARIS = '{"name": "get_weather", "args": {"city": "Paris"}}'
ROME = '{"type": "function", "function": {"name": "get_weather", "arguments": "{\\"city\\": \\"Rome\\"}"}}'


@each(
    ("name", "first", "last", "best", "calls"),
    [
        (PARIS, 1.0, 1.0, 1.0, 1),
        (f"<tool_call>{ROME}</tool_call>", 0.6, 0.6, 0.6, 1),
        (f"```json\n[{PARIS}, {ROME}]\n```", 1.0, 0.6, 1.0, 2),
        (f'{{"tool_calls": [{ROME}, {PARIS}]}}', 0.6, 1.0, 1.0, 2),
        (f"[{PARIS}, 5]", 0.0, 0.0, 0.0, 1),  # it holds more than calls, so that is its name
    ],
)
def test_whole_calls_in_a_name_are_scored_as_those_calls(
    name: str, first: float, last: float, best: float, calls: int
) -> None:
    criteria = {"expected_tool": "get_weather", "expected_params": {"city": "Paris"}}
    made = [(name, {})]
    assert score("tool-case", criteria, made).score == first
    assert score("overall-score", criteria, made, occurrence="last").score == last
    chain = score("multi-turn", criteria, made).details
    assert (chain["completion"], chain["calls"]) == (best, calls)  # they are of one message


def test_arguments_in_their_own_field_win() -> None:
    criteria = {"expected_tool": "get_weather", "expected_params": {"city": "Rome"}}
    assert score("tool-case", criteria, [(PARIS, {"city": "Rome"})]).score == 1.0


def test_the_arguments_of_the_last_call_in_a_name_are_those_that_are_judged() -> None:
    criteria = {
        "parameters_schema": {"properties": {"city": {"const": "Paris", "type": "string"}}, "required": ["day"]}
    }
    made = [(f'[{PARIS}, {{"name": "get_weather", "args": {{"day": 1}}}}]', {})]
    found = [score("schema-validation", criteria, made, occurrence=which).details for which in ("first", "last")]
    assert [details["missing"] for details in found] == [["day"], []]


def test_the_last_call_can_be_asked_for() -> None:
    assert score("tool-selection", {"expected_tool": "a"}, ["b", "a"], occurrence="last").score == 1.0
    params = {"expected_params": {"x": 2}}
    assert score("param-accuracy", params, [("a", {"x": 1}), ("a", {"x": 2})], occurrence="last").score == 1.0


@each(
    ("mode", "expected", "actual", "agree"),
    [
        ("exact", "Paris", "paris", True),
        ("exact", 5, 5.0, True),
        ("exact", 5, "5", False),
        ("exact", 1, True, False),
        ("exact", ["A"], ["a"], False),  # nothing inside a list is folded
        ("exact", 2**70 + 1, 2**70, False),
        ("exact", None, None, True),
        ("case_insensitive", "STRASSE", "strasse", True),
        ("contains", "Paris", "paris, france", True),
        ("contains", "Paris, France", "PARIS", True),
        ("contains", "", "x", True),
        ("contains", 1, 210, True),
        ("contains", "Rome", "Paris", False),
        ("numeric_tolerance", 1.0, 1.005, True),
        ("numeric_tolerance", 1.0, 1.01, False),  # the difference is more than 0.01 in binary
        ("numeric_tolerance", "1.0", 1, True),
        ("numeric_tolerance", 10**400, 10**400, True),
        ("numeric_tolerance", 10**400, 1.0, False),
        ("numeric_tolerance", "abc", "ABC", False),
        ("numeric_tolerance", "nan", "nan", True),  # a word, and the same
        ("regex", r"\d{4}", "in 2024", True),
        ("regex", "^4", 42, True),
        ("regex", "(", "(", True),  # no pattern: the same text
        ("regex", "(", "x", False),
    ],
)
def test_modes_compare_values(mode: str, expected: Any, actual: Any, agree: bool) -> None:
    config = {"scoring_config": {"mode": mode}}
    found = score("param-accuracy", {"expected_params": {"p": expected}}, [("a", {"p": actual})], **config)
    assert found.score == float(agree)


@each(
    ("expected", "actual", "value"),
    [
        (None, {"x": 1}, None),
        ({}, {"x": 1}, 1.0),
        ({}, None, 1.0),
        ({"x": 1}, None, 0.0),
        ({"x": 1, "y": 2, "z": 3}, {"x": 1, "y": 0}, 1 / 3),
        ({"X": 1}, {"x": 1}, 0.0),
        ({"x": None}, {}, 0.0),  # missing is not null
        ({"x": {"$regex": "^P"}}, {"x": "Paris"}, 1.0),
        ({"x": {"$absent": True}, "y": 1}, {"y": 1}, 1.0),
    ],
)
def test_the_share_of_expected_parameters(expected: Any, actual: Any, value: float | None) -> None:
    made = [("a", actual)]
    assert score("param-accuracy", {"expected_params": expected}, made).score == value
    # 0.6 for the tool and 0.4 for the parameters; the tool alone where those are not scored
    whole = score("overall-score", {"expected_tool": "a", "expected_params": expected}, made)
    assert whole.score == pytest.approx(1.0 if value is None else 0.6 + 0.4 * value)
    assert (whole.details["tool_selection"], whole.details["param_accuracy"]) == (1.0, value)
    wrong = score("overall-score", {"expected_tool": "b", "expected_params": expected}, made)
    assert wrong.score == pytest.approx(0.0 if value is None else 0.4 * value)


@pytest.mark.parametrize(("word", "agree"), [("exact", False), ("contains", True), ("fuzzy", False)])
def test_param_scoring_says_it_in_one_word(word: str, agree: bool) -> None:
    params = {"expected_params": {"city": "Paris"}}
    made = [("a", {"city": "Paris, France"})]
    assert score("param-accuracy", params, made, param_scoring=word).score == float(agree)
    config = {"scoring_config": {"mode": "contains"}}  # wins
    assert score("param-accuracy", params, made, param_scoring=word, **config).score == 1.0


def test_an_unknown_mode_is_a_mistake_in_a_rule_and_the_default_where_it_was_imported() -> None:
    evaluator = EVALUATORS["param-accuracy"]
    config = {"scoring_config": {"mode": "fuzzzy"}}
    with pytest.raises(EvaluatorError, match="mode"):
        evaluator.read_settings(config)
    assert evaluator.read_settings(config, matchers=False).scoring_config.mode == "exact"


def test_a_case_says_all_of_it_itself() -> None:
    case = {"expected_tool": "a", "expected_params": {"city": "Paris"}, "scoring_config": {"mode": "contains"}}
    found = score("tool-case", case, [("a", {"city": "Paris, France"}), "b"])
    assert found.score == 1.0
    assert found.explanation == "a was called, as expected."
    found = score("tool-case", case, [("b", {"city": "Rome"})])
    assert found.score == 0.0
    assert found.explanation == "b was called, where a was expected; wrong parameters: city."


def test_a_whole_call_in_the_name_brings_its_arguments() -> None:
    case = {"expected_tool": "a", "expected_params": {"x": 1}}
    assert score("tool-case", case, ['{"name": "a", "parameters": {"x": 1}}']).score == 1.0
    # what was given as arguments counts
    assert score("tool-case", case, [('{"name": "a", "arguments": {"x": 1}}', {"x": 2})]).score == pytest.approx(0.6)


def test_a_case_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(EvaluatorError, match="contradict") as error:
        EVALUATORS["tool-case"].read_criteria({"expected_tool": "a", "should_call_tool": False})
    assert error.value.type == "invalid_criteria"


@each(
    ("made", "completion", "efficiency", "redundancy", "detour", "value"),
    [
        ([], 0.0, 0.0, 0.0, 0.0, 0.0),
        (["done"], 1.0, 1.0, 0.0, 0.0, 1.0),
        (["a", "done"], 1.0, 1.0, 0.0, 0.0, 1.0),
        (["a", "b", "done"], 1.0, 0.6667, 0.0, 0.1, 0.5667),  # 2/3 - 0.1
        (["a", "a", "done"], 1.0, 0.6667, 0.1, 0.0, 0.5667),
        (["A", "DONE"], 1.0, 1.0, 0.0, 0.0, 1.0),
        (["done", "b"], 0.0, 1.0, 0.0, 0.0, 0.0),  # the last call counts; the expected tool is no detour
        (["x"] * 20, 0.0, 0.1, 1.9, 1.9, 0.0),
    ],
)
def test_a_chain_is_scored_by_its_end_and_its_length(
    made: list[str], completion: float, efficiency: float, redundancy: float, detour: float, value: float
) -> None:
    case = {"expected_tool": "done", "expected_params": None, "valid_prerequisites": ["a"], "optimal_hops": 2}
    found = score("multi-turn", case, made)
    assert found.score == pytest.approx(value)
    keys = ("completion", "efficiency", "redundancy_penalty", "detour_penalty")
    assert [found.details[key] for key in keys] == pytest.approx([completion, efficiency, redundancy, detour])


BOOK = [("book", {"to": "Rome"}), ("book", {"to": "Oslo"})]


@each(
    ("messages", "completion", "calls", "repeats", "detours"),
    [
        ([[("book", {"to": "Oslo"}), "find"]], 1.0, 2, 0, 0),
        ([["find"], [*BOOK]], 1.0, 3, 1, 0),
        ([["find"], [BOOK[1], "other", BOOK[0]]], 1.0, 4, 0, 1),
        ([["find", "find", "look"], [BOOK[1]]], 1.0, 4, 0, 0),  # find, look, find
        ([["find", "look"], ["find", BOOK[1]]], 1.0, 4, 0, 0),
        ([["find"], ["find"], [BOOK[1]]], 1.0, 3, 1, 0),  # messages follow each other
        ([[BOOK[1]], ["find", "look"]], 0.0, 3, 0, 0),  # it was not called in the last message
        ([["other", ("find", {"to": "Oslo"})]], 0.4, 2, 0, 1),  # none is expected: the best of them
        ([["other", "other"]], 0.0, 2, 1, 1),
        # An expected call is the last also where another one would cost less.
        ([["find"], ["look"], ["find"], ["look"], [BOOK[0], ("other", {"to": "Oslo"})]], 0.6, 6, 0, 1),
    ],
)
def test_calls_of_one_message_happened_together(
    messages: Any, completion: float, calls: int, repeats: int, detours: int
) -> None:
    case = {"expected_tool": "book", "expected_params": {"to": "Oslo"}, "optimal_hops": 2}
    case["valid_prerequisites"] = ["find", "look"]
    wrong = []
    for orders in itertools.product(*map(itertools.permutations, messages)):
        made = [
            call(*((one, {}) if isinstance(one, str) else one), start_ns=turn + 1, batch=turn, turn=turn)
            for turn, order in enumerate(orders)
            for one in order
        ]
        found = score("multi-turn", case, made).details
        expected = [completion, calls, round(0.1 * repeats, 4), round(0.1 * detours, 4)]
        if [found[key] for key in ("completion", "calls", "redundancy_penalty", "detour_penalty")] != expected:
            wrong.append((orders, found))
    assert wrong == []


@each(("should", "made", "value"), [(True, "a", 1), (True, "", 0), (False, "", 1), (False, "a", 0)])
def test_abstention(should: bool, made: str, value: int) -> None:
    assert score("abstention", {"should_call_tool": should}, list(made)).score == value


_SCHEMA = {
    "type": "object",
    "required": ["city", "days"],
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "any": {},
        "opt": {"type": ["string", "null"]},
    },
}


@each(
    ("given", "present", "typed", "known"),
    [
        ({"city": "x", "days": 1}, 1.0, 1.0, 1.0),
        ({"city": "x", "days": True}, 1.0, 0.5, 1.0),  # true is no integer
        ({"city": "x", "days": 1.5}, 1.0, 0.5, 1.0),
        ({"city": "x", "days": 2**80, "opt": None, "any": []}, 1.0, 1.0, 1.0),
        ({"city": 1}, 0.5, 0.0, 1.0),
        ({"other": 1}, 0.0, 1.0, 0.0),
        ({"city": "x", "other": 1, "more": 2}, 0.5, 1.0, 1 / 3),
        ({}, 0.0, 1.0, 1.0),
    ],
)
def test_arguments_are_near_a_schema_by_three_shares(given: Any, present: float, typed: float, known: float) -> None:
    found = score("schema-validation", {"parameters_schema": _SCHEMA}, [("a", given)])
    shares = [found.details[key] for key in ("required_present", "type_correct", "hallucination_free")]
    assert shares == pytest.approx([present, typed, known], abs=1e-4)
    assert found.score == pytest.approx(0.5 * present + 0.3 * typed + 0.2 * known, abs=1e-4)


def test_an_empty_schema_or_no_call_is_not_scored() -> None:
    assert score("schema-validation", {"parameters_schema": {}}, ["a"]).score is None
    assert score("schema-validation", {"parameters_schema": _SCHEMA}, []).score is None
    assert score("schema-validation", {"parameters_schema": _SCHEMA}, ["a"], tool="b").score is None


def test_the_calls_of_one_tool_can_be_looked_at() -> None:
    made = ["a", ("b", {"city": "x", "days": 1}), ("b", {})]
    assert score("schema-validation", {"parameters_schema": _SCHEMA}, made, tool="b").score == 1.0
    assert score("schema-validation", {"parameters_schema": _SCHEMA}, made, tool="b", occurrence="last").score == 0.5


def test_meaning_without_a_model_is_refused_when_the_rule_is_read() -> None:
    with pytest.raises(EvaluatorError, match="needs a model of text embeddings"):
        EVALUATORS["param-accuracy"].read_settings({"param_scoring": "semantic"})
