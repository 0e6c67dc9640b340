"""What was hashed can be compared with other hashes alone: whatever a rule says of it else is not evaluable."""

import json
from typing import Any

from build import each, trace
from build.redaction import KEY
from tracegrade.judge import judge
from tracegrade.redact.stand_in import Keys
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet
from tracegrade.semconv import REDACTED

OF = Keys(KEY).of("default")
ID, OTHER, SEVEN, MAIL = (OF.hash_of(value) for value in ("A-1", "A-2", "7", "ann@corp.io"))


def outcome(expected: Any, given: Any, found: Any = None, **evaluation: Any) -> tuple[str, str]:
    """The outcome, and why, of a rule that expects pay to be called so; `found` is what find gave before."""
    root = {"gen_ai.operation.name": "invoke_agent", REDACTED: "{}"}
    spans: list[dict[str, Any]] = [{"id": 1, "at": [0, 99], "attributes": root}]
    for number, (name, arguments, output) in enumerate((("find", {}, found), ("pay", given, "done")), 2):
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.arguments": json.dumps(arguments),
            "gen_ai.tool.call.result": json.dumps(output),
        }
        spans.append({"id": number, "parent": 1, "at": [number * 10, number * 10 + 5], "attributes": attributes})
    usual = {"evaluator": "tool-call-args", "tool_calls": [{"name": "pay", "args": expected}]}
    asked = evaluation or usual
    rule = Rule.model_validate({"id": "a-rule", "evaluate": [asked]})
    (judged,) = judge(trace(spans), RuleSet([rule])).evaluations
    return judged.outcome, judged.reason


@each(
    "expected",
    [
        {"n": 7},
        {"n": "7"},
        {"n": {"$gt": 5}},
        {"n": {"$gt": "5"}},
        {"n": {"$numeric_tolerance": 7}},
        {"n": {"$lt": "5"}},
        {"n": {"$length": 1}},
        {"n": {"$type": "number"}},
        {"n": {"$type": "string"}},
        {"n": {"$regex": "^A"}},
        {"n": {"$glob": "A*"}},
        {"n": {"$contains": "A"}},
        {"n": {"$case_insensitive": "a"}},
        {"n": {"$one_of": [7, 8]}},
        {"n": {"$schema": {"type": "number"}}},
    ],
)
def test_a_hash_against_what_a_rule_says_is_not_evaluable(expected: Any) -> None:
    found, why = outcome(expected, {"n": SEVEN})
    assert found == "not_evaluable"
    assert why.startswith("an argument of a call was hashed, and can only be compared with other hashes (pay, span ")


def test_nested_values_and_words_of_texts_are_hashes_too() -> None:
    assert outcome({"a": {"b": [1, "x"]}}, {"a": {"b": [1, ID]}})[0] == "not_evaluable"
    assert outcome({"a": "order A-1"}, {"a": f"order {ID}"})[0] == "not_evaluable"


def test_what_is_wrong_beside_a_hash_stays_wrong() -> None:
    assert outcome({"n": 7, "m": 1}, {"n": SEVEN, "m": 2})[0] == "fail"
    assert outcome({"n": 7, "m": 1}, {"n": SEVEN})[0] == "fail"
    assert outcome({"n": 7}, {"n": 8})[0] == "fail"


def test_what_is_right_with_a_hash_stays_right() -> None:
    assert outcome({"n": {"$any": True}}, {"n": SEVEN})[0] == "pass"
    assert outcome({"n": ID}, {"n": ID})[0] == "pass"
    assert outcome({"n": {"$contains": "order"}}, {"n": f"order {ID}"})[0] == "pass"
    assert outcome({"n": {"$regex": "^order"}}, {"n": f"order {ID}"})[0] == "pass"


def test_where_a_value_came_from_is_known() -> None:
    expected = {"id": {"$from": "find.output.id"}}
    assert outcome(expected, {"id": ID}, {"id": ID})[0] == "pass"
    assert outcome(expected, {"id": OTHER}, {"id": ID})[0] == "fail"
    assert outcome({"to": {"$from": "find.output"}}, {"to": MAIL}, f"of {MAIL}, now")[0] == "pass"


def test_a_schema_of_numbers_cannot_tell() -> None:
    asked: dict[str, Any] = {"evaluator": "args-schema", "schemas": {"pay": {"properties": {"n": {"type": "number"}}}}}
    assert outcome(None, {"n": SEVEN}, **asked)[0] == "not_evaluable"
