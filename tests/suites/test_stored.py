"""Suites as the store holds them: the same as their file, checked when they come, stable over export and import."""

from typing import Any

import pytest

from build import each
from tracegrade.rule.reading import FILES_ALONE
from tracegrade.suites.imported import SuiteError
from tracegrade.suites.store.suites import StoredCase, StoredSuite
from tracegrade.suites.stored import (
    MOST_CASES,
    case_document,
    document_of,
    notes_of,
    read_suite,
    runnable_suite,
    with_case,
    with_case_fields,
    with_cases,
    with_fields,
)
from tracegrade.suites.suite import suite_of_document

WEATHER = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}
PARIS = {"prompt": "Weather in Paris?", "expected_tool": "get_weather", "expected_params": {"city": "Paris"}}
FLIGHT = {
    "prompt": "Book a flight",
    "expected_tool": ["book", "reserve"],
    "multi_turn": True,
    "max_rounds": 5,
    "optimal_hops": 3,
    "valid_prerequisites": ["search"],
    "mock_responses": {"search": {"flights": []}},
}
NOTHING = {"id": "joke", "prompt": "Tell me a joke", "expected_tool": None, "should_call_tool": False}
FULL = {
    "name": " Weather API Suite",
    "description": "of cities",
    "system_prompt": "Use the tools.",
    "tools": [WEATHER],
    "test_cases": [PARIS, {"prompt": " "}, FLIGHT, NOTHING, {**PARIS, "param_scoring": "fuzzy", "category": "easy"}],
}


def read(document: Any) -> StoredSuite:
    return read_suite(document, "default", "0123456789ab", 7).suite


def test_a_stored_suite_runs_as_its_file_does() -> None:
    stored, file = runnable_suite(read(FULL)), suite_of_document(FULL, "suite.json")
    assert (stored.hash, stored.rule.hash, stored.name) == (file.hash, file.rule.hash, file.name)
    assert (stored.cases, stored.tools, stored.system_prompt) == (file.cases, file.tools, file.system_prompt)
    assert stored.source == "suite:0123456789ab"


def test_import_export_import_changes_nothing() -> None:
    first = read(FULL)
    again = read(document_of(first))
    assert again == first
    assert [case.id for case in first.cases] == ["case-1", "case-2", "joke", "case-4"]
    assert document_of(again)["test_cases"][1] == {"id": "case-2", **FLIGHT}  # type: ignore[index]


def test_what_is_left_out_is_said() -> None:
    cases = [{"prompt": ""}, {**PARIS, "expected_parms": {}}, {**PARIS, "max_rounds": 3}]
    document = {**FULL, "version": 2, "test_cases": cases}
    assert read_suite(document, "default", "a", 7).notes == [
        "'version' is not known and left out",
        "test_cases[0] has no prompt and is left out",
        "test_cases[1]: 'expected_parms' is not known and left out; did you mean 'expected_params'?",
        "test_cases[2]: max_rounds is left out: it is for cases of several turns, which say multi_turn",
    ]


def test_a_suite_may_have_neither_cases_nor_tools_and_is_run_when_it_has_cases() -> None:
    suite = read({"name": "x"})
    assert (suite.cases, suite.tools) == ([], [])
    with pytest.raises(SuiteError, match=r"^suite:0123456789ab: test_cases: expected at least one case"):
        runnable_suite(suite)
    assert runnable_suite(with_cases(suite, [PARIS], 8)).cases[0].id == "case-1"


@each(
    ("document", "message"),
    [
        (3, "the suite: expected an object, found 3"),
        (
            [{"function": []}],
            "a list of BFCL cannot be run; 'tracegrade rules import' makes a rule of it; expected a suite with tools",
        ),
        ({}, "name: expected the name of the suite, found nothing"),
        ({"name": "  "}, "name: expected the name of the suite, found nothing"),
        ({"name": 3}, "name: expected a text, found 3"),
        ({"name": "a\nb"}, "name: expected at most 200 characters in one line, found 'a\\nb'"),
        ({"name": "x" * 201}, f"name: expected at most 200 characters in one line, found '{'x' * 60}'"),
        ({"name": "x", "description": "a\0"}, "description: expected at most 100000 characters, none of them NUL"),
        ({"name": "x", "tools": [3]}, "tools[0]: expected an object, found 3"),
        ({"name": "x", "tools": {}}, "tools: expected a list, found {}"),
        (
            {"name": "x", "tools": [{"type": "function", "function": {}}]},
            "tools[0]: expected {type: function, function: {name, parameters}}",
        ),
        (
            {"name": "x", "tools": [WEATHER] * 2},
            "tools[1].function.name: tools[0] is called 'get_weather' already; expected names that differ",
        ),
        ({"name": "x", "tools": [WEATHER] * 1001}, "tools: expected at most 1000, found 1001"),
        ({"name": "x", "test_cases": [PARIS, 3]}, "test_cases[1]: expected an object, found 3"),
        (
            {"name": "x", "test_cases": [PARIS, {**PARIS, "expected_params": [1]}]},
            "test_cases[1]: expected_params: expected an object, found a list of 1",
        ),
        (
            {"name": "x", "test_cases": [{**FLIGHT, "max_rounds": 101}]},
            "test_cases[0]: max_rounds: expected a number of at most 100, found 101",
        ),
    ],
)
def test_what_is_no_suite_is_refused_in_one_sentence(document: Any, message: str) -> None:
    with pytest.raises(SuiteError) as caught:
        read(document)
    assert str(caught.value) == message


def test_too_many_cases_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_CASES == 10_000
    monkeypatch.setattr("tracegrade.suites.stored.MOST_CASES", 3)
    suite = read({"name": "x"})
    with pytest.raises(SuiteError, match="test_cases: expected at most 3, found 4"):
        with_cases(suite, [PARIS] * 4, 8)


def test_fields_that_are_not_given_stay() -> None:
    suite = read(FULL)
    changed = with_fields(suite, {"system_prompt": "Never in words."}, 9)
    assert changed.system_prompt == "Never in words."
    assert (changed.name, changed.tools, changed.cases, changed.updated_ns) == (suite.name, suite.tools, suite.cases, 9)
    with pytest.raises(SuiteError, match=r"^name: expected the name"):
        with_fields(suite, {"name": None}, 9)


def test_new_cases_come_last_and_take_no_id_of_another() -> None:
    suite = with_cases(read(FULL), [PARIS, {**PARIS, "id": "mine"}, PARIS], 8)
    assert [case.id for case in suite.cases][4:] == ["case-5", "mine", "case-6"]
    with pytest.raises(SuiteError, match=r"^the case: the suite has a case 'mine' already"):
        with_cases(suite, [{**PARIS, "id": "mine"}], 8)


def test_a_case_is_replaced_in_its_place() -> None:
    suite = with_case(read(FULL), "case-2", PARIS, 9)
    assert case_document(suite.cases[1]) == {"id": "case-2", **PARIS}
    assert len(suite.cases) == 4
    assert with_case(suite, "case-2", {**PARIS, "id": "case-2"}, 9) == suite
    with pytest.raises(SuiteError, match=r"^the case: its id 'case-2' cannot be changed, found 'b'"):
        with_case(suite, "case-2", {**PARIS, "id": "b"}, 9)


@each(
    ("case", "message"),
    [
        ("a", 'the case: expected an object, found "a"'),
        ({"expected_tool": "x"}, "the case: prompt: expected what a user says to the model, found nothing"),
        ({"prompt": 3}, "the case: prompt: expected a text, found 3"),
        (
            {**PARIS, "expected_parms": {}},
            "the case: 'expected_parms' is not a field of a case; did you mean 'expected_params'?",
        ),
        ({**PARIS, "id": "a\0"}, "the case: id: expected characters that can be printed, found 'a\\x00'"),
        (
            {**FLIGHT, "multi_turn": False},
            "the case: valid_prerequisites: is for cases of several turns; set multi_turn, or leave it out",
        ),
        ({**FLIGHT, "mock_responses": [1]}, "the case: mock_responses: expected an object, found a list of 1"),
        (
            {**PARIS, "param_scoring": "x"},
            "the case: param_scoring: expected 'exact', 'fuzzy', 'contains' or 'semantic', found 'x'",
        ),
    ],
)
def test_a_case_that_could_not_be_run_is_refused_in_one_sentence(case: Any, message: str) -> None:
    with pytest.raises(SuiteError) as caught:
        with_cases(read(FULL), [case], 8)
    assert str(caught.value) == message


def test_texts_that_no_store_can_hold_are_refused() -> None:
    with pytest.raises(SuiteError, match=r"^name: expected text that UTF-8 can hold, found half of a surrogate pair$"):
        read({"name": "x\ud800"})
    with pytest.raises(SuiteError, match=r"^the case: expected_params\.a: expected text that UTF-8 can hold"):
        with_cases(read({"name": "x"}), [{**PARIS, "expected_params": {"a": "\udfff"}}], 8)


def test_a_case_says_what_is_expected_and_null_is_no_call() -> None:
    suite = read({"name": "x"})
    with pytest.raises(SuiteError, match=r"^the case: expected_tool: expected the tool .*, found nothing$"):
        with_cases(suite, [{"prompt": "x"}], 8)
    for case in ({"expected_tool": None}, {"should_call_tool": False}):
        assert with_cases(suite, [{"prompt": "x", **case}], 8).cases[0].body["expected_tool"] is None
    imported = read_suite({"name": "x", "test_cases": [{"prompt": "a"}, {"prompt": "b"}]}, "default", "a", 7)
    assert imported.notes == ["2 test cases have no expected_tool: that is taken as null, no call expected"]
    assert read_suite(document_of(imported.suite), "default", "a", 7).notes == []


def test_what_a_case_says_twice_is_the_same() -> None:
    for case, said in (
        ({**PARIS, "should_call_tool": False}, "should_call_tool: false contradicts expected_tool"),
        (
            {**FLIGHT, "multi_turn": False, "multi_turn_config": {"max_rounds": 2}},
            "multi_turn: false contradicts multi_turn_config",
        ),
        ({**FLIGHT, "multi_turn_config": {"max_rounds": 2}}, "max_rounds: differs from the one in multi_turn_config"),
    ):
        with pytest.raises(SuiteError, match=f"^the case: {said}"):
            with_cases(read({"name": "x"}), [case], 8)


def test_what_was_stored_before_goes_on_and_its_other_fields_change() -> None:
    old = {"prompt": "x", "expected_tool": "book", "scoring_config": {"mode": "contain"}, "expected_params": {"a": 1}}
    tools = [{"type": "function", "function": {"name": 3, "parameters": []}}]
    suite = StoredSuite(
        tenant="default", id="a", name="x", tools=tools, cases=[StoredCase("c", old)], created_ns=1, updated_ns=1
    )
    assert notes_of(suite, FILES_ALONE) == [
        "tools[0].function.name: expected a text, found 3",
        "tools[0].function.parameters: expected an object, found an empty list",
        "case 'c': scoring_config.mode: expected 'exact', 'case_insensitive', 'contains', 'numeric_tolerance' or "
        "'regex', found 'contain'",
    ]
    changed = with_case_fields(suite, suite.cases[0], {"prompt": "y"}, 8)
    assert changed.cases[0].body == {**old, "prompt": "y"}
    assert with_fields(suite, {"name": "y", "tools": tools}, 8).tools == tools
    with pytest.raises(SuiteError, match=r"^the case: scoring_config\.mode: expected 'exact'"):
        with_case_fields(suite, suite.cases[0], {"scoring_config": {"mode": "contains "}}, 8)
