"""A rule is the same rule until its judgement changes, however it is written."""

import random
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from build import each
from evaluate.criteria_of_each import CRITERIA
from tracegrade.document.yaml_text import dumped, parse
from tracegrade.evaluate.criteria import semantic
from tracegrade.evaluate.registry import EVALUATORS
from tracegrade.rule.evaluation_spec import fields_of
from tracegrade.rule.load import load_rules
from tracegrade.rule.rule import Rule

TEXTS: dict[str, Any] = {
    "title": "Said otherwise",
    "description": "Why it matters.",
    "explain": "That was wrong",
    "status": "experimental",
    "level": "critical",
    "sample": 0.5,
    "alert": [{"below": 0.5}],
    "gate": {"at_least": 0.98, "not_worse_than": "baseline", "margin": 0.05},
    "incomplete": "count",
    "false_positives": ["A test order"],
    "references": ["https://example.org/orders"],
    "tags": ["shop"],
}
JUDGES: dict[str, Any] = {
    "id": "another",
    "scope": "trace",
    "depth": 2,
    "match": {"agent": "support"},
    "unless": {"environment": "staging"},
    "evaluate": [{"evaluator": "tool-call-order", "tool_calls_order": ["a", "b"]}],
    "cases": [{"id": "one", "match": {"prompt": "Refund A-1"}, "expected_tool": "refund"}],
    "when": {"tool": "look_up", "where": {"output": {"status": "refused"}}},
    "then": [{"evaluator": "loop-repetition", "name": "after", "failed_only": True}],
}
CLAUSES: dict[str, Any] = {
    "tenant": "globex",
    "service": "shop-*",
    "environment": "staging",
    "release": ["1.0", "1.1"],
    "agent": "support",
    "tools": ["refund"],
    "prompt": {"$regex": "order"},
    "attributes": {"tenant.tier": "gold"},
    "cel": "size(tools) > 1",
}
# One item of each evaluator, each with all its settings and criteria as far as they go together; and for each field
# another value. A field that is not here is found by the first test.
ITEMS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "tool-call-order": (
        {"tool_calls_order": ["a", "b"]},
        {"tool_calls_order": ["b", "a"], "strict": True, "concurrency": "sequential"},
    ),
    "tool-call-args": (
        {"tool_calls": [{"name": "a", "args": {"x": 1}}]},
        {"tool_calls": [{"name": "a", "args": {"x": 2}}], "strict": True, "subset": True, "pairing": "positional"},
    ),
    "tool-call-output": (
        {"tool_outputs": [{"name": "a", "output": "ok"}]},
        {"tool_outputs": [{"name": "a", "output": "no"}], "strict": True, "subset": True, "pairing": "best"},
    ),
    "tool-call-count": (
        {"tool_calls_count": {"a": ["=", 1]}},
        {"tool_calls_count": {"a": [">=", 1]}, "strict": True},
    ),
    "budget": (
        {"max_calls": 3},
        {"max_calls": 4, "max_retries": 1, "max_errors": 1, "max_duration": "30s", "max_tokens": 100},
    ),
    "exact-match": (
        {"expected_output": "ok"},
        {
            "expected_output": "no",
            "case_sensitive": True,
            "negated": True,
            "target_output_key": "answer",
            "line_by_line_evaluator": True,
            "line_delimiter": ";",
        },
    ),
    "contains": (
        {"search_text": "ok"},
        {
            "search_text": "no",
            "case_sensitive": True,
            "negated": True,
            "target_output_key": "answer",
            "line_by_line_evaluator": True,
            "line_delimiter": ";",
        },
    ),
    "tool-permission": ({"allowed_tools": ["a"]}, {"allowed_tools": ["b"]}),
    "loop-repetition": ({}, {"repetition_threshold": 4, "failed_only": True}),
    "abstention": ({"should_call_tool": False}, {"should_call_tool": True}),
    "tool-case": (
        {"expected_tool": "a", "expected_params": {"x": 1}},
        {
            "expected_tool": "b",
            "expected_params": {"x": 2},
            "should_call_tool": True,
            "scoring_config": {"mode": "numeric_tolerance", "epsilon": 0.5},
        },
    ),
}


GLOB = {"$glob": "A-*"}
READY_MADE = st.deferred(lambda: st.sampled_from(load_rules(["builtin:all"]).rules))


def rule(**fields: Any) -> Rule:
    then = [{"evaluator": "constraints", "constraints": [{"never": "refund"}], "name": "after"}]
    content = {"id": "one", "evaluate": [{"evaluator": "loop-repetition"}], "when": "look_up", "then": then, **fields}
    return Rule.model_validate(content)


def item(evaluator: str, **fields: Any) -> Rule:
    return rule(evaluate=[{"evaluator": evaluator, **fields}])


def test_every_field_of_a_rule_is_of_its_text_or_of_its_judgement() -> None:
    assert {*TEXTS, *JUDGES} == set(Rule.model_fields)
    assert set(CLAUSES) == set(type(rule().match).model_fields)


@given(st.sets(st.sampled_from(sorted(TEXTS))))
def test_editing_the_text_never_changes_the_hash(edited: set[str]) -> None:
    texts = {name: TEXTS[name] for name in edited}
    assert rule(**texts).hash == rule().hash
    assert (rule(**texts).text_hash == rule().text_hash) is not edited or not edited


@each("field", JUDGES)
def test_each_field_that_judges_changes_the_hash(field: str) -> None:
    assert rule(**{field: JUDGES[field]}).hash != rule().hash


@each("side", ["match", "unless"])
@each("clause", CLAUSES)
def test_each_clause_changes_the_hash(clause: str, side: str) -> None:
    with_clause = rule(**{side: {clause: CLAUSES[clause]}})
    assert with_clause.hash != rule().hash
    other = {"attributes": {"tenant.tier": "silver"}, "cel": "size(tools) > 2"}.get(clause, ["quite-another"])
    assert rule(**{side: {clause: other}}).hash != with_clause.hash


@each(("evaluator", "field"), [(name, field) for name in ITEMS for field in ITEMS[name][1]])
def test_each_field_of_an_item_changes_the_hash(evaluator: str, field: str) -> None:
    plain, others = ITEMS[evaluator]
    assert item(evaluator, **plain | {field: others[field]}).hash != item(evaluator, **plain).hash


@each("evaluator", EVALUATORS)
def test_every_default_of_an_evaluator_may_be_written_out(evaluator: str) -> None:
    plain = example_of(evaluator)
    written = item(evaluator, **plain).evaluate[0]
    for name, model in fields_of(EVALUATORS[evaluator]).items():
        field = model.model_fields.get(name)
        if field is None or field.is_required() or name in plain or name in ("name", "threshold", "matchers"):
            continue
        default = field.get_default(call_default_factory=True)
        if isinstance(default, BaseModel):
            default = default.model_dump(mode="json")
        if default is None and (model.model_fields[name].annotation is not None and not _takes_none(model, name)):
            continue
        assert item(evaluator, **{**plain, name: default}).hash == item(evaluator, **plain).hash, name
    head = {"name": evaluator, "threshold": 1, "matchers": True}
    assert item(evaluator, **plain, **head).hash == item(evaluator, **plain).hash
    assert item(evaluator, **plain, threshold=0.5).hash != item(evaluator, **plain).hash
    assert item(evaluator, **plain, name="other").hash != item(evaluator, **plain).hash
    assert written.evaluator.name == evaluator


def _takes_none(model: type[BaseModel], name: str) -> bool:
    try:
        model.__pydantic_validator__.validate_assignment(model.model_construct(), name, None)
    except ValueError:
        return False
    return True


def example_of(evaluator: str) -> dict[str, Any]:
    """The fields of an item of it that is accepted, as few as that takes."""
    if evaluator in ITEMS:
        return ITEMS[evaluator][0]
    return CRITERIA[evaluator]


SAME: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"scope": "agent", "match": {}, "level": "medium"}),
    ({"match": {"tools": "a"}}, {"match": {"tools": ["a"]}}),
    ({"match": {"tools": ["a", "b"]}}, {"match": {"tools": ["b", "a", "a"]}}),
    ({"match": {"prompt": "Refund  A-1\n"}}, {"match": {"prompt": "Refund A-1"}}),
    ({"match": {"attributes": {"n": 1}}}, {"match": {"attributes": {"n": 1.0}}}),
    ({"match": {"cel": "size(tools) > 1"}}, {"match": {"cel": "size(tools) > 1\n", "attributes": {}}}),
    (
        {"evaluate": [{"evaluator": "tool-call-order", "tool_calls_order": ["a"]}]},
        {"evaluate": [{"toolCallsOrder": ["a"], "strict": False, "evaluator": "tool-call-order", "threshold": 1}]},
    ),
    (
        {"evaluate": [{"evaluator": "budget", "max_duration": "30s"}]},
        {"evaluate": [{"evaluator": "budget", "max_duration": "0.5m", "max_calls": None}]},
    ),
    (
        {"cases": [{"id": "c", "expected_tool": "a"}]},
        {"cases": [{"id": "c", "match": {}, "evaluate": {"evaluator": "tool-case", "expected_tool": "a"}}]},
    ),
    *(
        tuple({"evaluate": [{"evaluator": "constraints", "constraints": [constraint]}]} for constraint in pair)
        for pair in (
            ({"before": "a", "comes": "b"}, {"precedence": "a", "comes": "b"}),
            ({"between_two": "a", "comes": "b"}, {"before_each": "a", "comes_a_new": "b"}),
        )
    ),
]
OTHER: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"match": {"attributes": {"n": 1}}}, {"match": {"attributes": {"n": True}}}),
    ({"match": {"attributes": {"n": 1}}}, {"match": {"attributes": {"n": "1"}}}),
    ({"match": {"tools": "a*"}}, {"match": {"tools": "a"}}),
    ({"match": {"prompt": "a"}}, {"match": {"prompt": {"$regex": "a"}}}),
    ({"match": {"agent": "a"}}, {"unless": {"agent": "a"}}),
    ({"match": {"agent": "a"}}, {"match": {"attributes": {"agent": "a"}}}),
    (
        {"cases": [{"id": "c", "match": {"prompt": "p"}, "expected_tool": "a"}]},
        {"cases": [{"id": "c", "match": {"prompt": "p", "similarity": 0.8}, "expected_tool": "a"}]},
    ),
    (
        {"cases": [{"id": "c", "expected_tool": "a"}, {"id": "d", "expected_tool": "a"}]},
        {"cases": [{"id": "d", "expected_tool": "a"}, {"id": "c", "expected_tool": "a"}]},
    ),
    (
        {"evaluate": [{"evaluator": "tool-call-args", "tool_calls": [{"name": "a", "args": {"x": True}}]}]},
        {"evaluate": [{"evaluator": "tool-call-args", "tool_calls": [{"name": "a", "args": {"x": 1}}]}]},
    ),
    (
        {"evaluate": [{"evaluator": "tool-call-args", "tool_calls": [{"name": "a", "args": {"x": GLOB}}]}]},
        {
            "evaluate": [
                {
                    "evaluator": "tool-call-args",
                    "matchers": False,
                    "tool_calls": [{"name": "a", "args": {"x": GLOB}}],
                }
            ]
        },
    ),
]


@each(("one", "same"), SAME)
def test_what_judges_the_same_is_the_same_rule(one: dict[str, Any], same: dict[str, Any]) -> None:
    assert rule(**one).judgement == rule(**same).judgement
    assert rule(**one).hash == rule(**same).hash


@each(("one", "other"), OTHER)
def test_what_judges_otherwise_is_another_rule(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert rule(**one).hash != rule(**other).hash


@given(READY_MADE, st.integers())
def test_neither_order_of_keys_nor_formatting_changes_a_rule(ready_made: Rule, seed: int) -> None:
    shuffled = _shuffled(ready_made.written, random.Random(seed))
    assert Rule.model_validate(shuffled).hash == ready_made.hash
    again = Rule.model_validate(parse(dumped(shuffled), "rule.yaml").value)
    assert (again.hash, again.text_hash) == (ready_made.hash, ready_made.text_hash)


def _shuffled(value: Any, chance: random.Random) -> Any:
    if isinstance(value, Mapping):
        keys = list(value)
        chance.shuffle(keys)
        return {key: _shuffled(value[key], chance) for key in keys}
    return [_shuffled(item, chance) for item in value] if isinstance(value, list) else value


@given(READY_MADE, st.data())
def test_any_value_of_what_a_ready_made_rule_expects_is_part_of_it(ready_made: Rule, data: st.DataObject) -> None:
    """Names and numbers inside its items, taken one at a time, changed to another that is accepted."""
    changed = deepcopy(ready_made.written)
    places = [place for place in _leaves(changed.get("evaluate", [])) if place[1] not in ("evaluator", "description")]
    if not places:
        return
    holder, key, value = data.draw(st.sampled_from(places))
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return
    holder[key] = value + "x" if isinstance(value, str) else value + 1 if isinstance(value, int) else value / 2
    try:
        other = Rule.model_validate(changed)
    except ValueError:
        return
    assert other.hash != ready_made.hash, (key, value)


def _leaves(value: Any) -> Iterator[tuple[Any, Any, Any]]:
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(inner, dict | list):
            yield from _leaves(inner)
        else:
            yield value, key, inner


def test_the_model_that_compares_meanings_is_part_of_the_rules_that_ask_it() -> None:
    call = {"name": "a", "args": {"note": "a gift"}}
    for meant in (
        {"evaluator": "tool-call-args", "tool_calls": [{"name": "a", "args": {"note": {"$semantic": "a gift"}}}]},
        {"evaluator": "tool-call-args", "tool_calls": [call], "values": "semantic"},
        {"evaluator": "tool-case", "expected_tool": "a", "expected_params": {"x": "a"}, "param_scoring": "semantic"},
    ):
        read = []
        for version in ("one", "two"):
            with semantic.comparing_by(_Model(version)):
                read.append((rule(evaluate=[meant]), rule()))
        # Read already, and not touched by what is read after it.
        hashes = [(one.hash, other.hash) for one, other in read]
        assert hashes[0][0] != hashes[1][0], meant
        assert hashes[0][1] == hashes[1][1], meant


class _Model:
    def __init__(self, version: str) -> None:
        self.version = version

    def similarity(self, left: str, right: str) -> float:
        return float(left == right)
