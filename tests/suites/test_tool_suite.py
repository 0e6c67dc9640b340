import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from build import each
from tracegrade.cli import main
from tracegrade.document.validate import validate
from tracegrade.document.yaml_text import dumped, parse
from tracegrade.rule.rule import Rule
from tracegrade.suites.imported import SuiteError, read_document
from tracegrade.suites.tool_suite import export_suite, import_suite

WEATHER = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}
PARIS = {"prompt": "Weather in Paris?", "expected_tool": "get_weather", "expected_params": {"city": "Paris"}}
FLIGHT = {
    "prompt": "Book a flight",
    "expected_tool": "book",
    "multi_turn": True,
    "max_rounds": 5,
    "optimal_hops": 3,
    "valid_prerequisites": ["search"],
    "mock_responses": {"search": {"flights": []}},
}


def suite(*cases: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "Weather API Suite", "tools": [WEATHER], "test_cases": [*cases], **more}


def rule_of(imported: Any) -> Rule:
    """The rule as it is read from its file."""
    return validate(parse(dumped(imported.rule), "rule.yaml"), Rule)


def run(*arguments: str | Path, stdin: str = "") -> Result:
    return CliRunner().invoke(main, ["rules", *map(str, arguments)], input=stdin)


def test_a_case_of_one_turn_is_a_literal_tool_case() -> None:
    imported = import_suite(suite(PARIS, {"prompt": " "}))
    assert imported.rule["id"] == "weather-api-suite"
    assert imported.rule["cases"] == [
        {
            "id": "case-1",
            "match": {"prompt": "Weather in Paris?"},
            "matchers": False,
            "expected_tool": "get_weather",
            "expected_params": {"city": "Paris"},
        }
    ]
    assert imported.notes == ["test_cases[1] has no prompt and is left out"]
    assert imported.kept["tools"] == [WEATHER]
    assert rule_of(imported).cases is not None


@pytest.mark.parametrize("nested", [False, True])
def test_fields_of_several_turns_are_flat_or_nested(nested: bool) -> None:
    case = dict(FLIGHT)
    if nested:
        fields = ("multi_turn", "max_rounds", "optimal_hops", "valid_prerequisites", "mock_responses")
        case["multi_turn_config"] = {key: case.pop(key) for key in fields}
    imported = import_suite(suite(case))
    [found] = imported.rule["cases"]  # type: ignore[misc]
    assert found["evaluator"] == "multi-turn"
    assert (found["optimal_hops"], found["valid_prerequisites"]) == (3, ["search"])
    assert imported.kept["cases"] == {"case-1": {"max_rounds": 5, "mock_responses": {"search": {"flights": []}}}}


def test_a_category_is_kept_as_it_is_sent() -> None:
    assert import_suite(suite(PARIS | {"category": " easy "})).kept["cases"] == {"case-1": {"category": " easy "}}


def test_what_looks_like_a_matcher_is_literal() -> None:
    case = PARIS | {"expected_params": {"city": {"$regex": "^P"}}}
    cases = rule_of(import_suite(suite(case))).cases
    assert cases is not None
    (found,) = cases.all
    assert found.spec.criteria.expected_params.members["city"].source == {"$regex": "^P"}
    assert type(found.spec.criteria.expected_params.members["city"]).__name__ == "LiteralValue"


def test_a_contradiction_is_said_and_the_tool_counts() -> None:
    imported = import_suite(suite(PARIS | {"should_call_tool": False}))
    assert imported.notes == [
        "test_cases[0]: should_call_tool and expected_tool contradict each other; the tool counts"
    ]
    assert rule_of(imported).cases is not None


@each(
    ("document", "said"),
    [
        ({"test_cases": [PARIS]}, "name: expected the name"),
        (suite(), "expected at least one case"),
        (suite(PARIS, tools=[{"type": "x"}]), r"tools\[0\]: expected \{type: function"),
        (suite({"prompt": 3}), r"test_cases\[0\].prompt: expected a text, found 3"),
        (
            suite(PARIS, PARIS | {"scoring_config": {"mode": "regex"}, "expected_params": {"city": "(", "n": 3}}),
            r"^test_cases\[1\]: expected_params.city: RE2 refuses the regular expression '\(': missing \): \(; mend it",
        ),
        (
            suite(FLIGHT | {"scoring_config": {"mode": "regex"}, "expected_params": {"city": r"(a)\1"}}),
            r"^test_cases\[0\]: expected_params.city: RE2 refuses",
        ),
        ("text", 'the suite: expected an object, found "text"'),
    ],
)
def test_what_is_no_suite_is_refused_with_its_place(document: Any, said: str) -> None:
    with pytest.raises(SuiteError, match=said):
        import_suite(document)


@pytest.mark.parametrize("text", ["{", '{"a": NaN}', '{"a": 1}\n{"b"'])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(SuiteError, match="not JSON"):
        read_document(text)


def test_a_rule_that_no_suite_can_hold_is_refused() -> None:
    rule = Rule.model_validate(
        {
            "id": "r",
            "cases": [
                {"id": "c", "match": {"prompt": "x"}, "expected_tool": "a", "expected_params": {"k": {"$gte": 1}}}
            ],
        }
    )
    with pytest.raises(SuiteError, match=r"found the matcher \$gte"):
        export_suite(rule, {})


TEXT = st.text(min_size=1, max_size=12).filter(str.strip)
SCALAR = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
)
VALUE = st.recursive(
    SCALAR, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=6
)
CASE = st.fixed_dictionaries(
    {"prompt": TEXT},
    optional={
        "id": TEXT | st.integers(0, 3),
        "expected_tool": st.none() | TEXT | st.lists(TEXT, min_size=1, max_size=2),
        "expected_params": st.none() | st.dictionaries(TEXT, VALUE, max_size=3),
        "param_scoring": st.sampled_from(["exact", "contains", "fuzzy"]),
        "scoring_config": st.fixed_dictionaries({"mode": st.sampled_from(["case_insensitive", "contains"])}),
        "should_call_tool": st.booleans(),
        "category": st.sampled_from(["simple", ""]),
        "multi_turn": st.booleans(),
        "max_rounds": st.integers(1, 9),
        "optimal_hops": st.integers(0, 4),
        "valid_prerequisites": st.lists(TEXT, max_size=2),
        "mock_responses": st.dictionaries(TEXT, VALUE, max_size=2),
    },
)


@given(st.lists(CASE, min_size=1, max_size=2), st.sampled_from(["", "what it is"]))
def test_import_export_import_is_stable(cases: list[dict[str, Any]], description: str) -> None:
    first = import_suite(json.loads(json.dumps(suite(*cases, description=description, system_prompt="Be brief."))))
    exported = export_suite(rule_of(first), first.kept)
    second = import_suite(read_document(json.dumps(exported)))
    assert second.rule == first.rule
    assert second.kept == first.kept
    assert export_suite(rule_of(second), second.kept) == exported


def test_from_the_command_line_and_back(tmp_path: Path) -> None:
    file = tmp_path / "suite.json"
    file.write_text(json.dumps(suite(PARIS, FLIGHT)))
    made = run("import", file, "--in", tmp_path)
    assert made.exit_code == 0, made.output
    path = tmp_path / "imported" / "weather-api-suite" / "rule.yaml"
    assert run("check", path).exit_code == 0
    again = run("import", file, "--in", tmp_path)
    assert again.exit_code == 2
    assert "--replace overwrites it" in again.stderr
    exported = run("export", path)
    assert run("import", "-", "--in", tmp_path, "--replace", stdin=exported.stdout).exit_code == 0
    assert run("export", path).stdout == exported.stdout
    assert [case["prompt"] for case in json.loads(exported.stdout)["test_cases"]] == [PARIS["prompt"], FLIGHT["prompt"]]


def test_what_no_rule_can_be_writes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "suite.json"
    file.write_text(json.dumps(suite(PARIS | {"param_scoring": "never"})))
    made = run("import", file, "--in", tmp_path)
    assert made.exit_code == 2
    assert "param_scoring" in made.stderr
    assert not (tmp_path / "imported").exists()
