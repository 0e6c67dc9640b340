"""A member of arguments or outputs that was redacted leaves open what asks for it, and nothing else."""

import json
from itertools import cycle, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from build import each
from build.otlp import otlp_span, payload
from test_redacted_verdicts import outcome, redacted, tool_spans
from tracegrade.assemble.settings import TracesSettings
from tracegrade.model.signal import Signal
from tracegrade.otlp.files.source_request import SourceRequest
from tracegrade.pipeline.replay import replay_sources
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet

VALID, NAME, MAIL = ["output", "valid"], ["output", "user", "name"], ["output", "user", "mail"]
AMOUNT, TO, CITY = ["args", "amount"], ["args", "to"], ["args", "home", "city"]


def run(found: Any, paid: list[Any]) -> list[SourceRequest]:
    """find, which gives `found`, and then each payment."""
    calls = [("find", {"who": "ann"}, found), *(("pay", each, "done") for each in paid)]
    root = otlp_span(1, 1, end=9_000, gen_ai__operation__name="invoke_agent")
    return [SourceRequest(Signal.TRACES, payload([root, *tool_spans(calls)]), "made")]


FOUND = {"valid": False, "user": {"name": "Ann", "mail": "ann@corp.io"}, "total": 50}
PAID = {"amount": 50, "to": "ann@corp.io", "home": {"city": "Rome", "zip": "7"}}
PAY_ARGS: dict[str, Any] = {"evaluator": "tool-call-args", "subset": True}
FIND_OUTPUT: dict[str, Any] = {"evaluator": "tool-call-output", "subset": True}
INVALID = {"tool": "find", "where": {"output": {"valid": False}}}


def constraint(**written: Any) -> dict[str, Any]:
    return {"evaluator": "constraints", "vacuous": "pass", "constraints": [written]}


@each("action", ["mask", "hash", "drop"])
@each(
    ("evaluate", "place", "expected"),
    [
        (constraint(not_both=[INVALID, "pay"]), {"outputs": "user.name"}, "fail"),
        (constraint(before="pay", comes="find", same={"to": "output.user.mail"}), {"outputs": "total"}, "pass"),
        (constraint(before="pay", comes="find", same={"to": "output.user.mail"}), {"arguments": "home.city"}, "pass"),
        (constraint(never={"tool": "pay", "where": {"args": {"amount": {"$gt": 40}}}}), {"arguments": "city"}, "fail"),
        (constraint(never={"tool": "pay", "where": {"output": "no"}}), {"arguments": "*"}, "pass"),
    ],
)  # fmt: skip
def test_what_does_not_ask_for_it_is_judged_as_before(
    evaluate: dict[str, Any], place: dict[str, str], expected: str, action: str
) -> None:
    requests = run(FOUND, [PAID])
    assert outcome(evaluate, requests) == expected
    assert outcome(evaluate, redacted(requests, {"detectors": [], "places": [{**place, "action": action}]})) == expected


@each("action", ["mask", "hash", "drop"])
@each(
    ("evaluate", "place"),
    [
        (constraint(not_both=[INVALID, "pay"]), {"outputs": "valid"}),
        (constraint(never={"tool": "pay", "where": {"args": {"amount": {"$gt": 40}}}}), {"arguments": "amount"}),
        (constraint(never={"tool": "pay", "where": {"args": {"cc": {"$absent": True}}}}), {"arguments": "cc"}),
        (constraint(never={"tool": "pay", "where": {"args": {"home": {"$length": 2}}}}), {"arguments": "home"}),
        ({**PAY_ARGS, "tool_calls": [{"name": "pay", "args": {"home": PAID["home"]}}]}, {"arguments": "city"}),
        ({**PAY_ARGS, "tool_calls": [{"name": "pay", "args": {"amount": 50}}]}, {"arguments": "amount"}),
    ],
)
def test_what_asks_for_it_is_not_evaluable(evaluate: dict[str, Any], place: dict[str, str], action: str) -> None:
    requests = run(FOUND, [{**PAID, "cc": "bob"}])
    assert outcome(evaluate, requests) in ("pass", "fail")
    hidden = redacted(requests, {"detectors": [], "places": [{**place, "action": action}]})
    stays = {"hash": ("$absent", "$length"), "mask": ("$absent",), "drop": ()}[action]
    if not any(word in json.dumps(evaluate) for word in stays):  # whether it was there, how many: that is known still
        assert outcome(evaluate, hidden) == "not_evaluable"


@pytest.mark.parametrize("action", ["mask", "hash"])
def test_a_schema_asks_for_what_it_names(action: str) -> None:
    hidden = {"detectors": [], "places": [{"arguments": "home.city", "action": action}]}
    for name, closed, expected in (("zip", False, "pass"), ("zip", True, "fail"), ("city", False, "not_evaluable")):
        home = {"properties": {name: {"type": "string"}}, "additionalProperties": not closed}
        evaluate = {"evaluator": "args-schema", "schemas": {"pay": {"properties": {"home": home}}}}
        assert outcome(evaluate, redacted(run(FOUND, [PAID]), hidden)) == expected


def test_masks_that_look_alike_say_nothing() -> None:
    hidden = redacted(
        run(FOUND, [PAID, {**PAID, "to": "eve@corp.io"}, {**PAID, "to": "tom@corp.io"}]),
        {"detectors": [], "places": [{"arguments": "to", "action": "mask"}, {"outputs": "mail", "action": "mask"}]},
    )
    for evaluate in (
        {"evaluator": "loop-repetition"},
        constraint(before="pay", comes="find", same={"to": "output.user.mail"}),
        {**PAY_ARGS, "tool_calls": [{"name": "pay", "args": {"to": "[redacted]"}}]},
        {**PAY_ARGS, "tool_calls": [{"name": "pay", "args": {"to": {"$from": "find.output.user.mail"}}}]},
        {"evaluator": "data-flow", "returned_by": "find", "given_to": "pay", "looked_for": "output"},
        {"evaluator": "trajectory", "tool_calls": ["find"], "match": "in_order",
         "efficiency": {"redundant": "same_call", "redundancy_penalty": 1.0}},
    ):  # fmt: skip
        assert outcome(evaluate, hidden) == "not_evaluable"


def test_words_of_a_mask_are_no_words_of_what_it_stands_for() -> None:
    requests = run("Write to ann@corp.io", [{"to": "email"}])
    evaluate = {**PAY_ARGS, "tool_calls": [{"name": "pay", "args": {"to": {"$from": "find.output"}}}]}
    assert outcome(evaluate, requests) == "fail"
    assert outcome(evaluate, redacted(requests, {})) == "not_evaluable"


def test_a_value_comes_from_a_member_that_was_not_redacted() -> None:
    evaluate = {**PAY_ARGS, "tool_calls": [{"name": "pay", "args": {"to": {"$from": "find.output.user.mail"}}}]}
    hidden = {
        "detectors": [],
        "places": [{"outputs": "name", "action": "mask"}, {"outputs": "total", "action": "drop"}],
    }
    assert outcome(evaluate, redacted(run(FOUND, [PAID]), hidden)) == "pass"
    assert outcome(evaluate, redacted(run(FOUND, [{**PAID, "to": "eve@corp.io"}]), hidden)) == "fail"


@pytest.mark.parametrize("action", ["mask", "drop"])
def test_an_expression_of_one_tool_is_true_whatever_of_others_was_redacted(action: str) -> None:
    evaluate = {"evaluator": "condition", "expression": "calls.all(c, c.name != 'pay' || c.arguments.amount == 50)"}
    for place in ({"arguments": "who"}, {"outputs": "*"}, {"arguments": "home.city"}):
        hidden = {"detectors": [], "places": [{**place, "action": action}]}
        assert outcome(evaluate, redacted(run(FOUND, [PAID]), hidden)) == "pass"
        assert outcome(evaluate, redacted(run(FOUND, [{**PAID, "amount": 7}]), hidden)) == "fail"


# Any rule over any run, redacted anyhow.
SCALARS = st.sampled_from([1, 50, "ann", "Rome", True, None])
OUTPUTS = st.fixed_dictionaries(
    {"valid": SCALARS}, optional={"total": SCALARS, "user": st.fixed_dictionaries({"name": SCALARS})}
)
ARGUMENTS = st.fixed_dictionaries(
    {"amount": SCALARS}, optional={"to": SCALARS, "home": st.fixed_dictionaries({"city": SCALARS})}
)
MATCHED = SCALARS | st.sampled_from(
    [{"$gt": 20}, {"$any": True}, {"$absent": True}, {"$regex": "n"}, {"$type": "string"}, {"$one_of": [1, "ann"]}]
)
FROM = st.sampled_from(["find.output.valid", "find.output.user.name", "find.output.total", "find.output"])
ARGS_WHERE = st.sampled_from([("amount",), ("to",), ("home", "city")])
OUTPUT_WHERE = st.sampled_from([("valid",), ("total",), ("user", "name")])


def nested(path: tuple[str, ...], value: Any) -> Any:
    return {path[0]: value if len(path) == 1 else nested(path[1:], value)}


@st.composite
def evaluations(draw: st.DrawFn) -> tuple[dict[str, Any], set[str]]:
    """An evaluation, and the names of the members that it reads."""
    path, out, value = draw(ARGS_WHERE), draw(OUTPUT_WHERE), draw(MATCHED)
    if value == {"$absent": True} and len(path) + len(out) > 2:
        value = 1  # only members may lack
    args, output = nested(path, value), nested(out, value)
    source = draw(FROM)
    found = {"find.output": {"valid", "total", "name"}}.get(source, {source.rpartition(".")[2]})
    same = draw(st.sampled_from([".".join(("output", *out))]))
    paid, gave = {"tool": "pay", "where": {"args": args}}, {"tool": "find", "where": {"output": output}}
    agree = constraint(before="pay", comes="find", same={f"args.{'.'.join(path)}": same})
    calls = [{"name": "pay", "args": args}] * draw(st.integers(1, 2))
    flow = [{"name": "pay", "args": nested(path, {"$from": source})}]
    expression, reading = draw(st.sampled_from(EXPRESSIONS))
    said = {"evaluator": "condition", "expression": expression}
    within = draw(st.sampled_from([{"type": "string"}, {"enum": [50, "Rome"]}, {"not": {"type": "integer"}}]))
    for name in reversed(path):
        within = {"properties": {name: within}, "additionalProperties": draw(st.booleans())}
    schema = {"evaluator": "args-schema", "schemas": {"pay": within}}
    return draw(
        st.sampled_from(
            [
                (said, reading),
                (schema, {path[-1]}),
                (constraint(never=paid), {path[-1]}),
                (constraint(not_both=[gave, "pay"]), {out[-1]}),
                (constraint(before=paid, comes=gave), {path[-1], out[-1]}),
                (agree, {path[-1], out[-1]}),
                ({**PAY_ARGS, "tool_calls": calls}, {path[-1]}),
                ({**PAY_ARGS, "tool_calls": flow}, {path[-1], *found}),
                ({**FIND_OUTPUT, "tool_outputs": [{"name": "find", "output": output}]}, {out[-1]}),
                ({"evaluator": "tool-call-accuracy", "mode": "flexible", "reference_tool_calls": calls}, {path[-1]}),
                ({"evaluator": "partial-order", "steps": ["find", {"tool": "pay", "args": args}]}, {path[-1]}),
                ({"evaluator": "param-accuracy", "expected_params": args, "occurrence": "last"}, {path[-1]}),
            ]
        )
    )


ALL_ARGUMENTS = {"amount", "to", "city"}
# Expressions, with what they read.
EXPRESSIONS: list[tuple[str, set[str]]] = [
    ("calls.all(c, c.name != 'pay' || c.arguments.amount <= 20)", {"amount"}),
    ("calls.exists(c, c.name == 'pay' && c.arguments.to == 'ann')", {"to"}),
    ("calls.exists(c, has(c.arguments.to))", {"to"}),
    ("'to' in calls[1].arguments", {"to"}),
    ("calls.filter(c, c.name == 'pay')[0].arguments.to == 'ann'", {"to"}),
    ("calls[size(calls) - 1].arguments.home.city == 'Rome'", {"city"}),
    ("calls.filter(c, c.name == 'find')[0].output.user.name == 'ann'", {"name"}),
    ("calls.exists(c, c.name == 'find' && c.output.valid == true)", {"valid"}),
    ("calls.map(c, c.output).exists(o, has(o.total))", {"total", "valid", "name"}),
    ("size(calls[1].arguments) == 2", ALL_ARGUMENTS),
    ("calls.exists(c, c.arguments == {'amount': 50})", ALL_ARGUMENTS),
    ("calls.exists(c, c.arguments.exists(k, k == 'to'))", ALL_ARGUMENTS),
    ("[calls[1], calls[0]].exists(c, c.arguments.amount == 50)", {*ALL_ARGUMENTS, "valid", "name", "total"}),
    ("(calls + calls)[1].arguments.amount == 50", {*ALL_ARGUMENTS, "valid", "name", "total"}),
    ("calls.all(c, c.attempt == 1)", ALL_ARGUMENTS),
    ("size(calls) > 2", set()),
]
NAMES = ["valid", "total", "name", "amount", "to", "city"]


ACTIONS = ["mask", "hash", "drop"]
GONE = [*([name] for name in NAMES), NAMES]


@pytest.mark.parametrize(
    "redactions",
    [list(zip(GONE, cycle(ACTIONS), strict=False)), pytest.param(list(product(GONE, ACTIONS)), marks=pytest.mark.long)],
    ids=["few", "all"],
)
def test_no_expression_is_wrong_of_what_it_cannot_see(redactions: list[tuple[list[str], str]]) -> None:
    wrong = []
    for expression, read in EXPRESSIONS:
        evaluate = {"evaluator": "condition", "expression": expression}
        for requests in (run(FOUND, [PAID]), run({"valid": True}, [{"amount": 50}, {"amount": 7, "to": "ann"}])):
            before = outcome(evaluate, requests)
            for gone, action in redactions:
                places = [{part: name, "action": action} for name in gone for part in ("arguments", "outputs")]
                after = outcome(evaluate, redacted(requests, {"detectors": [], "places": places}))
                is_told = after == before or action == "drop" or read.intersection(gone)
                if after not in (before, "not_evaluable") or not is_told:
                    wrong.append((expression, gone, action, before, after))
    assert wrong == []


@given(
    evaluations(), OUTPUTS, st.lists(ARGUMENTS, min_size=1, max_size=3), st.sets(st.sampled_from(NAMES), min_size=1),
    st.sampled_from(["mask", "hash", "drop"]),
)  # fmt: skip
@settings(max_examples=2 * settings().max_examples)
def test_a_verdict_stays_or_becomes_open(
    evaluation: tuple[dict[str, Any], set[str]], found: Any, paid: list[Any], gone: set[str], action: str
) -> None:
    evaluate, read = evaluation
    requests = run(found, paid)
    places = [{part: name, "action": action} for name in sorted(gone) for part in ("arguments", "outputs")]
    before, after = (
        outcome(evaluate, requests),
        outcome(evaluate, redacted(requests, {"detectors": [], "places": places})),
    )
    assert after in (before, "not_evaluable")
    if action != "drop" and not gone & read:
        assert after == before


@given(evaluations(), OUTPUTS, st.lists(ARGUMENTS, min_size=1, max_size=3), st.sampled_from(["mask", "hash"]))
@settings(max_examples=2 * settings().max_examples)
def test_so_does_one_over_texts_of_which_a_detector_took_a_part(
    evaluation: tuple[dict[str, Any], set[str]], found: Any, paid: list[Any], action: str
) -> None:
    evaluate, _ = evaluation
    requests = run(found, paid)
    hidden = redacted(requests, {"detectors": [], "action": action, "patterns": {"some": "50|ome|ann"}})
    assert outcome(evaluate, hidden) in (outcome(evaluate, requests), "not_evaluable")


TOOL = "the name of a tool was redacted, and a clause asks for it"


@each("action", ["mask", "hash"])
@each(
    ("match", "attribute", "reason"),
    [
        ({"tools": ["pay"]}, "gen_ai.tool.name", TOOL),
        ({"tools": ["pa*"]}, "gen_ai.tool.name", TOOL),
        ({"cel": '"pay" in tools'}, "gen_ai.tool.name", "tools was redacted, and the expression reads it"),
        ({"service": "demo-shop"}, "service.name", "the name of the service was redacted, and a clause asks for it"),
    ],
)  # fmt: skip
def test_a_clause_on_a_name_that_was_redacted_is_open(match: Any, attribute: str, reason: str, action: str) -> None:
    requests, places = run(FOUND, [PAID]), [{"attribute": attribute, "action": action}]
    hidden = redacted(requests, {"detectors": [], "places": places})
    count = {"evaluator": "budget", "max_calls": 9}  # whatever the names are
    rules = [{"match": match}, {"unless": match}]
    before, after = ([decision(rule, count, each) for rule in rules] for each in (requests, hidden))
    assert before == [("evaluated", ""), ("not_matched", "")]
    assert after == [("not_evaluable", reason)] * 2


def decision(rule: dict[str, Any], evaluate: dict[str, Any], requests: list[SourceRequest]) -> tuple[str, str]:
    """What became of one rule, and why."""
    rules = RuleSet([Rule.model_validate({"id": "a-rule", **rule, "evaluate": [evaluate]})])
    (judged,) = replay_sources(requests, TracesSettings(), rules, "test")
    made = judged.decisions
    return (made[0].kind, made[0].reason) if made else ("not_matched", "")


def test_an_agent_whose_name_was_redacted_may_have_made_any_call() -> None:
    spans = [
        otlp_span(1, 1, end=900, gen_ai__operation__name="invoke_agent", gen_ai__agent__name="billing"),
        otlp_span(1, 2, 1, start=10, end=20, gen_ai__operation__name="execute_tool", gen_ai__tool__name="pay"),
    ]
    requests = [SourceRequest(Signal.TRACES, payload(spans), "made")]
    places = [{"attribute": "gen_ai.agent.name", "action": "mask"}]
    for agent, expected in (("billing", "fail"), ("support", "pass"), ("*re*", "pass")):
        evaluate = constraint(never={"tool": "pay", "where": {"agent": agent}})
        assert outcome(evaluate, requests) == expected
        assert outcome(evaluate, redacted(requests, {"detectors": [], "places": places})) == "not_evaluable"


FAILED = json.dumps({"content": "no such account", "status": "error", "tool_call_id": "c1", "type": "tool"})
NO_ERROR: list[dict[str, Any]] = [
    constraint(never={"tool": "pay", "where": {"error": True}}),
    {"evaluator": "trajectory", "include_failed": False, "calls": [">=", 1]},
    {"evaluator": "trajectory", "failed_calls": ["=", 0]},
    {"evaluator": "budget", "max_errors": 0},
    {"evaluator": "condition", "expression": "calls.all(c, !c.failed)"},
    {"evaluator": "condition", "expression": "calls.all(c, c.error == '')"},
    {"evaluator": "loop-repetition", "failed_only": True, "repetition_threshold": 2},
]


def paying(status: int, *outputs: str) -> list[SourceRequest]:
    """Calls of pay with these outputs, as instrumentations write them; `status` is that of their spans."""
    spans = [otlp_span(1, 1, end=9_000, gen_ai__operation__name="invoke_agent")]
    for number, output in enumerate(outputs, 2):
        span = otlp_span(
            1, number, 1, start=number * 100, end=number * 100 + 50, openinference__span__kind="TOOL", tool__name="pay",
            input__value=json.dumps({"amount": 50}), output__value=output,
        )  # fmt: skip
        span.status.code = status
        span.status.message = "refused" if status == 2 else ""
        spans.append(span)
    return [SourceRequest(Signal.TRACES, payload(spans), "made")]


@each("action", ["mask", "drop"])
@each("evaluate", NO_ERROR, ids=str)
def test_whether_a_call_failed_is_open_where_its_output_would_say_so(evaluate: dict[str, Any], action: str) -> None:
    hidden = {"detectors": [], "places": [{"outputs": "*", "action": action}]}
    assert outcome(evaluate, paying(0, FAILED, FAILED)) == "fail"
    assert outcome(evaluate, redacted(paying(0, FAILED, FAILED), hidden)) == "not_evaluable"
    assert outcome(evaluate, paying(0, "paid", "paid")) == "pass"
    assert outcome(evaluate, redacted(paying(0, "paid", "paid"), hidden)) == "not_evaluable"


@each("evaluate", NO_ERROR, ids=str)
def test_whether_a_call_failed_is_known_where_its_span_says_so(evaluate: dict[str, Any]) -> None:
    for place in ({"outputs": "*"}, {"attribute": "output.value"}, {"attribute": "exception.*"}):
        hidden = {"detectors": [], "places": [{**place, "action": "mask"}]}
        assert outcome(evaluate, redacted(paying(1, "paid", "paid"), hidden)) == "pass"
        assert outcome(evaluate, redacted(paying(2, "no", "no"), hidden)) == "fail"
    # Nor is it open where something else went.
    assert outcome(evaluate, redacted(paying(0, "paid", "paid to ann@corp.io"), {})) == "pass"
