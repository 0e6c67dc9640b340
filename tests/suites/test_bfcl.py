import json
from typing import Any

import pytest

from build import each
from tracegrade.document.validate import validate
from tracegrade.document.yaml_text import dumped, parse
from tracegrade.evaluate.evaluator import Evidence
from tracegrade.model.tool_call import ToolCall
from tracegrade.rule.rule import Rule
from tracegrade.suites.bfcl import export_bfcl, import_bfcl, is_bfcl
from tracegrade.suites.imported import SuiteError, read_document

FUNCTION = {"name": "get_weather", "parameters": {"type": "dict", "properties": {"city": {"type": "string"}}}}


def entry(case_id: str, answer: Any = None, **more: Any) -> dict[str, Any]:
    found = {"id": case_id, "question": [[{"role": "user", "content": f"{case_id}?"}]], "function": [FUNCTION], **more}
    return found if answer is None else found | {"ground_truth": answer}


def rule_of(*entries: dict[str, Any], **more: Any) -> tuple[Rule, Any]:
    imported = import_bfcl([*entries], "simple", **more)
    return validate(parse(dumped(imported.rule), "rule.yaml"), Rule), imported


@each(
    ("answer", "made", "passes"),
    [
        ([{"f": {"city": ["Paris", "Paris, France"]}}], [("f", {"city": "paris, france"})], True),
        ([{"f": {"city": ["Paris"]}}], [("f", {"city": "London"})], False),
        ([{"f": {"city": ["Paris"], "days": [3, ""]}}], [("f", {"city": "Paris"})], True),
        ([{"f": {"city": ["Paris"], "days": [3]}}], [("f", {"city": "Paris"})], False),
        ([{"f": {"city": ["Paris"]}}], [("f", {"city": "Paris", "days": 3})], False),
        ([{"f": {"temp": [20.0]}}], [("f", {"temp": 20})], True),
        ([{"f": {"days": [3]}}], [("f", {"days": "3"})], False),
        ([{"f": {"tags": [["a", "b"]]}}], [("f", {"tags": ["b", "a"]})], False),
        ([{"f": {"opts": [{"u": ["C", "celsius"]}]}}], [("f", {"opts": {"u": "Celsius"}})], True),
        ([{"f": {"x": ["a"]}}, {"f": {"x": ["b"]}}], [("f", {"x": "b"}), ("f", {"x": "a"})], True),
        ([{"f": {"x": ["a"]}}], [("f", {"x": "a"}), ("f", {"x": "a"})], False),
        ([{"f": {"x": [{"$regex": ["a"]}]}}], [("f", {"x": "a"})], False),
    ],
)
def test_calls_are_judged_by_their_acceptable_values(answer: Any, made: Any, passes: bool) -> None:
    rule, _ = rule_of(entry("simple_0", answer))
    assert rule.cases is not None
    spec = rule.cases.all[0].spec
    calls = [
        ToolCall(name, name, None, arguments, "ok", None, "absent", None, 0, 0, "aa", "", "")
        for name, arguments in made
    ]
    found = spec.evaluator.evaluate(Evidence(calls), spec.criteria, spec.settings).score
    assert found is not None
    assert (found == 1.0) is passes


def test_answers_may_come_in_a_file_of_their_own_and_entries_without_are_named() -> None:
    entries = [
        entry("simple_0"),
        entry("simple_1"),
        entry("multi_turn_0", [["cd(folder='x')"]]),
        entry("irrelevance_0"),
    ]
    answers = [{"id": "simple_0", "ground_truth": [{"f": {"x": [1]}}]}]
    rule, imported = rule_of(*entries, answers=answers)
    assert rule.cases is not None
    assert [(case.id, case.spec.evaluator.name) for case in rule.cases.all] == [
        ("simple_0", "tool-call-accuracy"),
        ("irrelevance_0", "abstention"),
    ]
    assert imported.notes == [
        "[1] (simple_1) has no answer and is left out",
        "[2] (multi_turn_0) has an answer that is a program and is left out",
    ]
    with pytest.raises(SuiteError, match="at least one entry"):
        import_bfcl([entry("simple_0")], "simple")


def test_what_is_exported_is_imported_as_the_same_rule() -> None:
    answer = [{"f": {"a": ["x", ""], "b": [1, 2.5, True, None], "c": [{"d": ["y"]}], "e": [["z"]], "g": [""]}}]
    rule, imported = rule_of(entry("simple_0", answer), entry("irrelevance_1"))
    exported = export_bfcl(rule, imported.kept)
    assert exported[0] == entry("simple_0", answer)
    again = import_bfcl(json.loads(json.dumps(exported)), "simple")
    assert (again.rule, again.kept) == (imported.rule, imported.kept)


def test_a_list_and_lines_are_such_files_and_a_suite_is_not() -> None:
    lines = "\n".join(json.dumps(entry(f"simple_{n}", [{"f": {}}])) for n in range(2))
    assert is_bfcl(read_document(lines))
    assert is_bfcl(entry("simple_0"))
    assert not is_bfcl({"name": "x", "test_cases": []})
