"""The schema for editors says the same as loading, as far as a schema can."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import yaml
from pydantic import ValidationError
from yamlcore import CoreLoader

from build import each
from tracegrade.evaluate.constraints.forms import FORMS, Counted, Form, NotBoth
from tracegrade.evaluate.registry import EVALUATORS
from tracegrade.rule.rule import Rule
from tracegrade.rule.schema import rule_schema


@cache
def validator() -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(rule_schema())


MISTAKES = Path(__file__).parent / "mistakes"

# What only loading sees: compiled patterns, matchers, names that must differ or exist, words with a meaning.
BEYOND_A_SCHEMA = {
    "alert_above_a_pass_rate",
    "alert_above_a_share_over_one",
    "alert_below_of_errors",
    "alert_below_of_tokens",
    "alert_on_a_drop_of_cost",
    "alert_on_a_rise_of_a_pass_rate",
    "alert_on_coverage_of_duration",
    "alert_on_tokens_of_a_tool_call",
    "alert_resolved_above_its_bound_of_tokens",
    "alert_on_the_score_of_a_rule",
    "alert_on_an_objective_of_a_score",
    "alert_on_an_objective_over_hours",
    "alert_on_an_objective_over_its_own_time",
    "alert_on_an_objective_with_false_alarms",
    "alert_on_silence_of_weeks",
    "alert_on_silence_that_falls",
    "explain_names_a_call_that_no_fail_has",
    "explain_of_several_evaluators",
    "explain_names_no_part_of_a_call",
    "explain_names_no_part_in_a_folded_text",
    "alert_on_silence_with_false_alarms",
    "alert_resolved_below_its_bound",
    "alert_with_false_alarms_within_a_day",
    "alert_of_an_evaluation_that_is_not_there",
    "bad_expression_in_an_output",
    "case_named_as_an_evaluation",
    "gate_with_a_margin_alone",
    "cel_comparing_a_text_with_a_number",
    "cel_of_an_unknown_function",
    "cel_of_an_unknown_variable",
    "cel_of_args_in_a_loop",
    "cel_of_the_cost",
    "condition_of_an_unknown_member",
    "cel_of_attributes_nobody_can_name",
    "cel_that_does_not_compile",
    "cel_that_is_no_question",
    "cel_with_a_mistyped_operator",
    "evaluation_called_pass_rate",
    "evaluation_called_tokens",
    "file_of_code_that_may_not_run",
    "depth_of_a_trace",
    "false_positive_unknown",
    "glob_without_closing_bracket",
    "schema_that_leads_elsewhere",
    "semantic_without_a_model",
    "prompt_with_a_look_ahead",
    "same_evaluation_name_in_then",
    "same_evaluation_name_twice",
    "same_of_arguments",
    "step_after_an_unknown_one",
    "when_of_one_call",
    "unless_without_clauses",
}
# What is no plain YAML document in the first place.
NOT_A_DOCUMENT = {
    "alias",
    "duplicate_key",
    "not_yaml",
    "two_documents_in_one_file",
    "threshold_not_a_number",
    "yaml_with_a_colon_in_a_text",
    "yaml_with_a_star_that_is_no_alias",
    "yaml_with_a_tab",
    "yaml_with_an_at_sign",
    "yaml_with_an_expression_in_double_quotes",
    "yaml_with_another_indentation",
}


def rule_of(**fields: Any) -> dict[str, Any]:
    return {"id": "one", "evaluate": [{"evaluator": "tool-call-order", "tool_calls_order": ["a"]}], **fields}


@each(
    "rule",
    [
        rule_of(),
        rule_of(match={"service": "a*", "tools": ["a"], "prompt": {"$regex": "x"}, "attributes": {"a": [1, True]}}),
        rule_of(unless={"environment": "staging"}, sample=1, alert=[{"below": 0.9, "over": "1h"}]),
        rule_of(alert=[{"drop": {"against": "7d"}}, {"drop": {"against": 0.9, "by": 0.05}, "false_alarm_every": "7d"}]),
        rule_of(alert=[{"coverage": {"against": "7d"}}, {"above": 0.1, "of": "not_evaluable"}]),
        rule_of(alert=[{"coverage": {"silent": "30m"}, "min_samples": 5}]),
        rule_of(alert=[{"above": 20_000, "of": "tokens"}, {"above": 0.05, "of": "cost", "resolve_at": 0.04}]),
        rule_of(alert=[{"rise": {"against": "7d", "by": by}, "of": "duration"} for by in ("30 %", "12.5%", 0.3)]),
        rule_of(
            alert=[{"slo": {"objective": 0.99}}, {"slo": {"objective": 0.9, "window": "7d"}, "of": "tool-call-order"}]
        ),
        rule_of(
            evaluate=[{"evaluator": "tool-call-args", "tool_calls": [{"name": "a", "args": {"b": {"$regex": ""}}}]}]
        ),
        rule_of(evaluate=[{"evaluator": "tool-call-count", "tool_calls_count": {"a": ["<=", 3]}, "threshold": 0.5}]),
        rule_of(evaluate=[{"evaluator": "exact-match", "matchers": False, "expected_output": {"$in": [1], "a": 1}}]),
        rule_of(evaluate=[{"evaluator": "./amounts.py", "of": {"$mine": 1}}]),
        rule_of(evaluate=[{"evaluator": "args-schema", "schemas": {"a": {"$ref": "#/$defs/b", "$defs": {"b": {}}}}}]),
        rule_of(
            evaluate=[{"evaluator": "exact-match", "expected_output": {"$schema": {"$ref": "#/$defs/b", "$defs": {}}}}]
        ),
        rule_of(evaluate=[{"evaluator": "exact-match", "expected_output": {"$literal": {"$in": [1], "a": {"$b": 1}}}}]),
        rule_of(evaluate=[{"evaluator": "exact-match", "expected_output": {"$one_of": [{"$gte": 1, "$lt": 3}, "a"]}}]),
        rule_of(evaluate=[{"evaluator": "tool-call-output", "tool_outputs": [{"name": "a", "output": None}]}]),
    ],
)
def test_rules_fit(rule: dict[str, Any]) -> None:
    validator().validate(rule)


@each("expected", [{"$in": [1]}, {"a": [{"$gte": 1, "b": 2}]}, {"$one_of": [{"$gt_": 1}]}, {"$regex": 5}])
def test_what_is_no_matcher_does_not_fit(expected: Any) -> None:
    where = {"tool": "a", "where": {"output": expected}}
    never = [{"evaluator": "constraints", "constraints": [{"never": where}]}]
    assert not validator().is_valid(rule_of(evaluate=never))
    assert not validator().is_valid(rule_of(when=where, then=never))
    case = {"id": "x", "match": {"prompt": "hi"}, "expected_tool": "a", "expected_params": {"x": expected}}
    assert not validator().is_valid({"id": "one", "cases": [case]})


@each(
    "path", [path for path in sorted(MISTAKES.glob("*.yaml")) if path.stem not in NOT_A_DOCUMENT], ids=lambda p: p.stem
)
def test_mistakes_that_a_schema_can_see_do_not_fit(path: Path) -> None:
    document = yaml.load(path.read_text(), Loader=CoreLoader)
    assert validator().is_valid(document) is (path.stem in BEYOND_A_SCHEMA)


def constraint_of(form: type[Form], way: Sequence[str], **optional: Any) -> dict[str, Any]:
    """A constraint in one of the ways to write it, with all fields that it needs."""
    needed = {"comes": "b", "also": "b", "of": "a"}
    found: dict[str, Any] = {way[0]: ["a", "b"] if form is NotBoth else 1 if issubclass(form, Counted) else "a"}
    found |= {key: needed[key] for key in needed if key in form.model_fields and way[-1] != "comes_a_new"}
    return found | ({way[-1]: "b"} if len(way) > 1 else {}) | optional


WAYS = [(form, way) for form in FORMS for way in form.ways()]


def fits(constraint: dict[str, Any]) -> bool:
    """Whether a constraint is right, for editors and when it is loaded alike."""
    rule = {"id": "one", "evaluate": [{"evaluator": "constraints", "constraints": [constraint]}]}
    try:
        Rule.model_validate(rule)
        loads = True
    except ValidationError:
        loads = False
    assert validator().is_valid(rule) is loads, constraint
    return loads


@each(("form", "way"), WAYS, ids=lambda value: value[0] if isinstance(value, list | tuple) else "")
def test_each_way_to_write_a_constraint_fits_with_every_field_of_its_own(form: type[Form], way: Sequence[str]) -> None:
    written = constraint_of(form, way)
    assert fits(written)
    conditions = {"same": {"args.id": "output.id"}, "within": "30s"}
    assert {
        key for key in conditions if fits(written | {key: conditions[key]})
    } == conditions.keys() & form.model_fields
    assert not fits(written | {"comming": "x"})
    for key in written:
        assert not fits({other: value for other, value in written.items() if other != key}), key
    for other_form, other in WAYS:
        if other_form is not form or other is not way:
            assert not fits(written | {other[0]: "a"}), other


def test_words_that_belong_together_fit_with_no_others() -> None:
    assert fits({"before_each": "a", "comes_a_new": "b"})
    assert not fits({"before_each": "a", "comes": "b"})
    assert not fits({"before": "a", "comes_a_new": "b"})
    assert not fits({"between_two": "a", "comes_a_new": "b"})
    assert not fits({"before_each": "a", "comes_a_new": "b", "comes": "c"})


def test_there_is_one_shape_for_each_evaluator() -> None:
    shapes = rule_schema()["properties"]["evaluate"]["items"]["oneOf"]
    assert [shape["properties"]["evaluator"].get("const") for shape in shapes] == [*EVALUATORS, None]
    assert all("default_evaluation_criteria" not in shape["properties"] for shape in shapes)


def test_defaults_are_written_as_in_a_file_durations_alone_as_durations() -> None:
    definitions = rule_schema()["$defs"]
    assert definitions["Rise"]["properties"]["by"]["default"] == 0.3
    assert definitions["Alert"]["properties"]["over"]["default"] == "1d"
