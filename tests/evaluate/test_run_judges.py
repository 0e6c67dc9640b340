"""loop-repetition, tool-permission, args-schema and budget: what a run may do."""

import tracemalloc
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest

from build import call, each, score
from tracegrade.evaluate.criteria.tool_names import NameTable
from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.evaluator import Evidence, Score
from tracegrade.evaluate.registry import EVALUATORS
from tracegrade.model.handoff import Handoff
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tool_call import ToolCall, ToolError
from tracegrade.model.usage import Cost

NO_COST = Cost(None, "no model has a price")


class _Context:
    """What a trace says beside its calls."""

    def __init__(
        self,
        definitions: Any = None,
        duration_ns: int | None = None,
        tokens: int | None = None,
        agents: Collection[str] = (),
        cost: Cost = NO_COST,
    ) -> None:
        self._definitions = definitions or {}
        self._agents = agents
        self._duration_ns = duration_ns
        self._tokens = tokens
        self._cost = cost

    def tool_definitions(self) -> Mapping[str, JsonValue]:
        return self._definitions

    def agents(self) -> Collection[str]:
        return self._agents

    def duration_ns(self) -> int | None:
        return self._duration_ns

    def handoffs(self) -> Sequence[Handoff]:
        return ()

    def unread_before(self, call: ToolCall | None) -> None:
        return None

    def tokens(self) -> int | None:
        return self._tokens

    def cost(self) -> Cost:
        return self._cost


def _call(name: str, arguments: JsonValue, failed: bool = False) -> ToolCall:
    error = ToolError("E", "") if failed else None
    return ToolCall(name, name, None, arguments, "ok", 1, "ok", error, 1, 2, "01", "triage", "00")


def _judged(name: str, criteria: Any, calls: Any, context: _Context | None = None, **settings: Any) -> Score:
    evaluator = EVALUATORS[name]
    read = evaluator.read_criteria(criteria)
    return evaluator.evaluate(Evidence(calls, trace_context=context), read, evaluator.read_settings(settings))


@each(
    ("made", "threshold", "value"),
    [
        ([], 3, 1.0),
        ([("a", {"x": 1})] * 2, 3, 1.0),
        ([("a", {"x": 1})] * 3, 3, 0.5),
        ([("a", {"x": 1}), "b"] * 3, 3, 0.5),  # not adjacent
        ([("a", {"x": 1}), ("a", {"x": 1.0})], 2, 0.5),  # equal as JSON
        ([("a", {"x": 1}), ("a", {"x": True})], 2, 1.0),
        ([("a", {"x": 1, "y": 2}), ("a", {"y": 2, "x": 1})], 2, 0.5),
        ([("a", {"x": i}) for i in range(10)], 3, 1.0),
        ([("a", {"x": [1, {"y": 2}]})] * 6, 3, 0.0),
        (["a"] * 10_000, 3, 0.0),
    ],
)
def test_the_same_call_again_and_again(made: Any, threshold: int, value: float) -> None:
    assert score("loop-repetition", {}, made, repetition_threshold=threshold).score == value


@each(
    ("settings", "made", "value"),
    [
        ({"allowed_tools": ["a"]}, "", 1.0),
        ({"allowed_tools": ["a"]}, "ab", 1 / 2),
        ({"denied_tools": ["b"]}, "abb", 1 / 3),
        ({"allowed_tools": ["a", "b"], "denied_tools": ["b"]}, "ab", 1 / 2),  # a denial wins
        ({"allowed_tools": []}, "a", 0.0),
        ({"allowed_tools": ["[ab]"], "names": "glob"}, "abc", 2 / 3),
        ({"allowed_tools": ["A"]}, "a", 0.0),
    ],
)
def test_only_tools_that_are_allowed(settings: Any, made: str, value: float) -> None:
    assert score("tool-permission", {}, list(made), **settings).score == pytest.approx(value)


def test_only_tools_that_the_model_was_told_of() -> None:
    calls = [call("a"), call("b")]
    context = _Context({"a": {}, "c": {}})
    assert _judged("tool-permission", {}, calls, context, declared_only=True).score == 0.5
    assert _judged("tool-permission", {}, calls[:1], context, declared_only=True).score == 1.0
    assert _judged("tool-permission", {}, calls[:1], context, declared_only=True, denied_tools=["a"]).score == 0.0
    assert _judged("tool-permission", {}, calls, _Context(), declared_only=True).score is None  # nobody can tell
    assert _judged("tool-permission", {}, [], _Context(), declared_only=True).score == 1.0


@each(("failed", "value"), [("", 1.0), ("12", 1.0), ("123", 0.5), ("124", 1.0), ("123567", 0.0)])
def test_what_failed_is_tried_again_unchanged(failed: str, value: float) -> None:
    calls = [call("a", {"x": 2 if n == 4 else 1}, failed=str(n) in failed) for n in range(1, 8)]
    assert _judged("loop-repetition", {}, calls, failed_only=True).score == value


_CITY = {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}}


def test_arguments_are_valid_by_the_schema_of_the_rule() -> None:
    found = score("args-schema", {"schemas": {"a": _CITY}}, [("a", {"city": "x"}), ("a", {"city": 1}), ("a", {}), "b"])
    assert found.score == pytest.approx(1 / 3)
    assert [(error["position"], error["path"]) for error in found.details["errors"]] == [(1, ["city"]), (2, [])]
    assert found.details["without_schema"] == ["b"]
    assert found.explanation == "The arguments of 2 of 3 calls do not fit the schema of the tool: a."


def test_the_trace_says_what_the_rule_does_not() -> None:
    calls = [call("a", {"city": 1}), call("b", {})]
    context = _Context({"a": _CITY, "b": {"required": ["x"]}, "c": "no schema"})
    assert _judged("args-schema", {}, calls, context).score == 0.0
    assert _judged("args-schema", {"schemas": {"a": {}}}, calls, context).score == 0.5
    assert _judged("args-schema", {"schemas": {"a": {}}}, calls, context, from_trace=False).score == 1.0
    # a definition that is no schema is the sender's mistake, not the agent's
    assert _judged("args-schema", {}, calls[:1], _Context({"a": {"type": "nonsense"}})).score is None


def test_long_names_and_schemas_of_senders_are_not_kept() -> None:
    permitted = NameTable(["a"])
    tracemalloc.start()
    try:
        for number in range(50):
            name = f"{number}" + "x" * 100_000
            assert not permitted.met_by(name)
            context = _Context({"a": _CITY | {"description": name}})
            assert _judged("args-schema", {}, [call("a", {"city": 1})], context).score == 0.0
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()


def test_calls_of_tools_nobody_defined() -> None:
    assert score("args-schema", {"schemas": {"a": _CITY}}, ["b"]).score is None
    assert score("args-schema", {"schemas": {"a": _CITY}}, ["b"], unknown_tools="invalid").score == 0.0
    assert score("args-schema", {"schemas": {"a": _CITY}}, []).score == 1.0


def test_one_schema_for_all_other_tools() -> None:
    any_text = {"additionalProperties": {"type": "string"}}
    found = score(
        "args-schema", {"schemas": {"*": any_text, "a": {}}}, [("a", {"x": 1}), ("b", {"x": "y"}), ("c", {"x": 1})]
    )
    assert found.score == pytest.approx(2 / 3)
    assert found.details["without_schema"] == []
    # the trace's own definitions are another rule's matter
    assert _judged("args-schema", {"schemas": {"*": {}}}, [call("a", {})], _Context({"a": _CITY})).score == 1.0


def test_integers_of_any_size_are_integers() -> None:
    schema = {"properties": {"x": {"type": "integer", "minimum": 2**64}}}
    assert score("args-schema", {"schemas": {"a": schema}}, [("a", {"x": 2**70})]).score == 1.0


@pytest.mark.parametrize("schema", [{"type": "nonsense"}, {"$ref": "https://example.com/schema.json"}, 3])
def test_a_schema_of_a_rule_must_be_one_and_fetches_nothing(schema: Any) -> None:
    with pytest.raises(EvaluatorError, match=r"schemas\.a") as error:
        EVALUATORS["args-schema"].read_criteria({"schemas": {"a": schema}})
    assert error.value.type == "invalid_criteria"


@each(
    ("limits", "context", "value"),
    [
        ({"max_calls": 3}, None, 1.0),
        ({"max_calls": 2}, None, 0.0),
        ({"max_calls": 2, "max_retries": 1}, None, 1 / 2),
        ({"max_retries": 0}, None, 0.0),
        ({"max_errors": 0}, None, 0.0),
        ({"max_errors": 1}, None, 1.0),
        ({"max_duration": "2s"}, _Context(duration_ns=2_000_000_000), 1.0),
        ({"max_duration": "2s"}, _Context(duration_ns=2_000_000_001), 0.0),
        ({"max_tokens": 100}, _Context(tokens=101), 0.0),
        ({"max_tokens": 100}, _Context(), None),
        ({"max_tokens": 100, "max_calls": 9}, None, None),
        ({"max_tokens": 100, "max_calls": 1}, None, 0.0),  # broken already
        ({"max_cost": 0.5}, _Context(cost=Cost(0.5)), 1.0),
        ({"max_cost": 0.5}, _Context(cost=Cost(0.51)), 0.0),
        ({"max_cost": 0}, _Context(), None),
        ({"max_cost": 1, "max_calls": 1}, _Context(), 0.0),
    ],
)
def test_limits_are_kept(limits: Any, context: _Context | None, value: float | None) -> None:
    calls = [call("a"), call("a", attempt=2), call("b", failed=True)]
    assert _judged("budget", limits, calls, context).score == value


def test_a_cost_that_is_not_known_says_why() -> None:
    found = _judged("budget", {"max_cost": 1, "max_tokens": 5}, [call("a")], _Context())
    assert found.explanation == "Not recorded: tokens. The cost is not known: no model has a price."
    over = _judged("budget", {"max_cost": 0.5, "max_calls": 0}, [call("a")], _Context(cost=Cost(0.62)))
    assert over.explanation == "Over budget: 1 call (limit 0); cost 0.62 (limit 0.5)."


@each(
    ("name", "criteria", "settings"),
    [
        ("budget", {}, {}),
        ("tool-permission", {}, {}),
        ("args-schema", {}, {"from_trace": False}),
        ("tool-call-accuracy", {}, {}),
        ("param-accuracy", {"expected_params": None}, {}),
        ("schema-validation", {"parameters_schema": {}}, {}),
    ],
)
def test_what_could_never_be_scored_is_refused_in_rules(name: str, criteria: Any, settings: Any) -> None:
    evaluator = EVALUATORS[name]
    assert evaluator.never_scores(evaluator.read_criteria(criteria), evaluator.read_settings(settings))


@each(
    ("name", "arguments", "score"),
    [
        ("transfer_to_billing_desk", {}, 1.0),
        ("Billing Desk", {}, 1.0),
        ("delegate", {"member": "billing-desk"}, 1.0),
        ("delegate", {"member": {"name": "billing-desk"}}, 0.0),
        ("transfer_to_sales", {}, 0.0),
        ("ask_triage", {}, 0.0),  # the caller itself
        ("rebilling_desk", {}, 0.0),
    ],
)
def test_a_call_that_names_another_agent_needs_no_definition(name: str, arguments: Any, score: float) -> None:
    context = _Context({"find": {}}, agents=["triage", "Billing Desk", ""])
    calls = [_call(name, arguments)]
    assert _judged("tool-permission", {}, calls, context, declared_only=True).score == score


@each(
    ("failed", "score"),
    [
        ([True, True, False], 1.0),
        ([True, True, True], 0.5),
        ([False, True, True], 0.5),  # nothing succeeds after them
        ([True, False, False, False], 0.5),
        ([True, False, True, False], 1.0),
    ],
)
def test_a_call_that_was_tried_again_until_it_succeeded_is_no_loop(failed: list[bool], score: float) -> None:
    calls = [_call("find", {"id": 1}, failed=one) for one in failed]
    assert _judged("loop-repetition", {}, calls, count_retries=False).score == score
    assert _judged("loop-repetition", {}, calls).score == 0.5  # as ever: all calls count
