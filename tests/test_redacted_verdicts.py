"""What was redacted may leave a verdict open; it never turns one into its opposite."""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import cycle, product
from pathlib import Path
from typing import Any

import pytest

from build import each
from build.otlp import otlp_span, payload
from build.redaction import KEY, request_redactor
from tracegrade.assemble.settings import TracesSettings
from tracegrade.evaluate.registry import EVALUATORS
from tracegrade.model.signal import Signal
from tracegrade.otlp.files.report import SourceReport
from tracegrade.otlp.files.source_request import SourceRequest
from tracegrade.otlp.files.sources import read_sources
from tracegrade.pipeline.judged import evaluations_of
from tracegrade.pipeline.replay import replay_sources
from tracegrade.pipeline.rule_tests import Found, found_in
from tracegrade.rule.load import builtin_rules, load_rules
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet

PLACES: dict[str, list[dict[str, str]]] = {
    "arguments": [{"arguments": "*"}],
    "one argument": [{"arguments": "amount"}],
    "outputs": [{"outputs": "*"}],
    "messages": [{"messages": "content"}, {"messages": "text"}],
    "all": [{"arguments": "*"}, {"outputs": "*"}, {"messages": "content"}, {"messages": "text"}],
}
REDACTED: dict[str, dict[str, Any]] = {
    f"{action} {name}": {"detectors": [], "places": [{**place, "action": action} for place in places]}
    for name, places in PLACES.items()
    for action in ("mask", "hash", "drop")
} | {
    "hash what is found": {"action": "hash"},
    "hash numbers": {"detectors": [], "action": "hash", "patterns": {"number": "[0-9]+"}},
    "mask numbers": {"detectors": [], "action": "mask", "patterns": {"number": "[0-9]+"}},
}


def redacted(requests: list[SourceRequest], settings: dict[str, Any]) -> list[SourceRequest]:
    redactor = request_redactor(key=KEY, **settings)
    return [replace(one, payload=redactor.redacted(one.signal, one.payload, "default").payload) for one in requests]


PAY, FIND = {"name": "pay", "args": {"amount": 50, "to": "ann@corp.io"}}, {"name": "find", "args": {"who": "ann"}}
ANSWER = "Paid 50 to ann@corp.io."


def run(**changed: Any) -> list[SourceRequest]:
    """One run: find who is to be paid, pay, and say so. `changed`: what of that is otherwise."""
    made = {"who": "ann", "amounts": [50], "to": "ann@corp.io", "found": "ann@corp.io", "answer": ANSWER, **changed}

    def messages(role: str, text: str) -> str:
        return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])

    spans = [
        otlp_span(
            1, 1, end=9_000, gen_ai__operation__name="invoke_agent",
            gen_ai__input__messages=messages("user", "Pay 50 to ann."),
            gen_ai__output__messages=messages("assistant", made["answer"]),
        )
    ]  # fmt: skip
    calls: list[tuple[str, Any, Any]] = [("find", {"who": made["who"]}, {"to": made["found"]})]
    calls += [("pay", {"amount": amount, "to": made["to"]}, "done") for amount in made["amounts"]]
    return [SourceRequest(Signal.TRACES, payload(spans + tool_spans(calls)), "made")]


def tool_spans(calls: list[tuple[str, Any, Any]]) -> list[Any]:
    """The spans of calls, each of a name, arguments and an output."""
    return [
        otlp_span(
            1, number, 1, start=number * 100, end=number * 100 + 50, gen_ai__operation__name="execute_tool",
            gen_ai__tool__name=name, gen_ai__tool__call__arguments=json.dumps(arguments),
            gen_ai__tool__call__result=json.dumps(output),
        )
        for number, (name, arguments, output) in enumerate(calls, 2)
    ]  # fmt: skip


ARGUMENTS = {"evaluator": "tool-call-args", "subset": True}
SCORED = {"expected_tool": "pay", "expected_params": {"amount": 50}}
LAST = {"occurrence": "last"}
FLOW = {"evaluator": "data-flow", "returned_by": "find", "given_to": "pay", "looked_for": "output"}
LARGE = {"tool": "pay", "where": {"args": {"amount": {"$gt": 100}}}}
CONDITION = "calls.all(c, c.name != 'pay' || c.arguments.amount <= 100)"
DEAR: dict[str, Any] = {"amounts": [500]}


def paid(**arguments: Any) -> list[dict[str, Any]]:
    return [{"name": "pay", "args": arguments}]


def by_schema(**properties: Any) -> dict[str, Any]:
    return {"evaluator": "args-schema", "schemas": {"pay": {"properties": properties}}}


# The evaluation, what of the run makes it pass, and what makes it fail.
EVALUATED: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({**ARGUMENTS, "tool_calls": paid(amount=50)}, {}, DEAR),
    ({**ARGUMENTS, "tool_calls": paid(amount={"$lte": 100})}, {}, DEAR),
    ({**ARGUMENTS, "tool_calls": paid(amount={"$type": "number"})}, {}, {"amounts": ["fifty"]}),
    ({**ARGUMENTS, "tool_calls": paid(to={"$regex": "^[^@]+$"})}, {"to": "ann"}, {}),
    ({**ARGUMENTS, "tool_calls": paid(to={"$glob": "???"})}, {"to": "ann"}, {}),
    ({**ARGUMENTS, "tool_calls": paid(to={"$length": {"$lt": 5}})}, {"to": "ann"}, {}),
    ({**ARGUMENTS, "tool_calls": paid(to={"$similarity": "ann@corp.ie"})}, {}, {"to": "a person whom nobody knows"}),
    ({**ARGUMENTS, "tool_calls": paid(to={"$from": "find.output.to"})}, {}, {"to": "eve@corp.io"}),
    ({**ARGUMENTS, "tool_calls": paid(amount={"$from": "prompt"})}, {}, DEAR),
    ({"evaluator": "tool-call-accuracy", "reference_tool_calls": [FIND, PAY]}, {}, DEAR),
    (
        {"evaluator": "tool-call-output", "tool_outputs": [{"name": "find", "output": {"to": "ann@corp.io"}}]},
        {},
        {"found": "eve"},
    ),
    ({"evaluator": "trajectory", "tool_calls": [FIND, PAY]}, {}, DEAR),
    ({"evaluator": "trajectory", "tool_calls": [FIND, PAY], "negate": True}, DEAR, {}),
    ({"evaluator": "partial-order", "steps": [{"tool": "pay", "args": {"amount": 50}}]}, {}, DEAR),
    ({"evaluator": "ragas-tool-call-accuracy", "reference_tool_calls": [FIND, PAY]}, {}, DEAR),
    ({"evaluator": "ragas-tool-call-f1", "reference_tool_calls": [FIND, PAY]}, {}, DEAR),
    ({"evaluator": "param-accuracy", "expected_params": {"amount": 50}, **LAST}, {}, DEAR),
    ({"evaluator": "overall-score", **SCORED, **LAST}, {}, DEAR),
    ({"evaluator": "tool-case", "expected_tool": "find", "expected_params": {"who": "ann"}}, {}, {"who": "eve"}),
    ({"evaluator": "multi-turn", **SCORED, "valid_prerequisites": ["find"], "optimal_hops": 2}, {}, DEAR),
    (
        {
            "evaluator": "schema-validation",
            "tool": "pay",
            "parameters_schema": {"properties": {"amount": {"type": "number"}, "to": {}}},
        },
        {},
        {"amounts": ["fifty"]},
    ),
    (by_schema(amount={"maximum": 100}), {}, DEAR),
    (
        {"evaluator": "constraints", "constraints": [{"never": {"tool": "pay", "where": {"args": {"$secret": True}}}}]},
        {},
        {"to": "api_key=a1b2c3d4"},
    ),
    (by_schema(to={"not": {"pattern": "@"}}), {"to": "ann"}, {}),
    ({"evaluator": "exact-match", "expected_output": ANSWER}, {}, {"answer": "Paid 500."}),
    ({"evaluator": "exact-match", "expected_output": ANSWER, "negated": True}, {"answer": "Paid 500."}, {}),
    ({"evaluator": "contains", "search_text": "ann@corp.io"}, {}, {"answer": "Paid 50."}),
    ({"evaluator": "contains", "search_text": "ann@corp.io", "negated": True}, {"answer": "Paid 50."}, {}),
    ({"evaluator": "contains", "search_text": {"$from": "find.output.to"}}, {}, {"answer": "Paid 50."}),
    ({"evaluator": "json-similarity", "expected_output": ANSWER}, {}, {"answer": "Paid 500."}),
    ({"evaluator": "grounded-answer", "vacuous": "pass"}, {}, {"answer": "Paid 7,512 to ann@corp.io."}),
    ({"evaluator": "loop-repetition"}, {"amounts": [1, 2, 3]}, {"amounts": [1, 1, 1]}),
    (FLOW, {"to": "eve@corp.io"}, {}),
    ({**FLOW, "unless_in_prompt": True}, {"to": "eve@corp.io"}, {}),
    ({**FLOW, "min_length": 20}, {}, {"found": "ann.of.the.north@corp.io", "to": "ann.of.the.north@corp.io"}),
    (
        {"evaluator": "constraints", "vacuous": "pass", "constraints": [{"before": LARGE, "comes": "approve"}]},
        {},
        DEAR,
    ),
    (
        {"evaluator": "constraints", "constraints": [{"before": "pay", "comes": "find", "same": {"to": "output.to"}}]},
        {},
        {"to": "eve@corp.io"},
    ),
    ({"evaluator": "condition", "expression": CONDITION}, {}, DEAR),
    (
        {"evaluator": "condition", "expression": "calls.all(c, c.attempt == 1)"},
        {"amounts": [1, 2]},
        {"amounts": [1, 1]},
    ),
    ({"evaluator": "condition", "expression": "!answer.contains('@')"}, {"answer": "Paid 50."}, {}),
    ({"evaluator": "budget", "max_retries": 0}, {"amounts": [1, 2]}, {"amounts": [1, 1]}),
]


def outcome(evaluate: dict[str, Any], requests: list[SourceRequest]) -> str:
    rule = Rule.model_validate({"id": "a-rule", "evaluate": [{"threshold": 1.0, **evaluate}]})
    judged = replay_sources(requests, TracesSettings(), RuleSet([rule]), "test")
    (found,) = [evaluation.outcome for each in judged for evaluation in evaluations_of(each)]
    return found


def test_every_evaluator_that_reads_values_is_looked_at() -> None:
    reading = {name for name, evaluator in EVALUATORS.items() if evaluator.reads | evaluator.asks}
    assert reading <= {evaluate["evaluator"] for evaluate, _, _ in EVALUATED}


# Each evaluation and each redaction, and in the long run each of the one with each of the other.
FEW = [(one, list(REDACTED)[number % len(REDACTED)]) for number, one in enumerate(EVALUATED)]
ALL = list(product(EVALUATED, REDACTED))


@pytest.mark.parametrize("pairs", [FEW, pytest.param(ALL, marks=pytest.mark.long)], ids=["few", "all"])
def test_no_verdict_is_turned_into_its_opposite(pairs: list[tuple[Any, str]]) -> None:
    wrong = []
    for (evaluate, passing, failing), redaction in pairs:
        for expected, changed in (("pass", passing), ("fail", failing)):
            requests = run(**changed)
            before, after = outcome(evaluate, requests), outcome(evaluate, redacted(requests, REDACTED[redaction]))
            if before != expected or after not in (expected, "not_evaluable"):
                wrong.append((evaluate, redaction, f"expected {expected}, found {before}, then {after}"))
    assert wrong == []


NAMES: dict[str, Any] = {"detectors": [], "places": [{"attribute": "gen_ai.tool.name", "action": "mask"}]}
AGENTS: dict[str, Any] = {"detectors": [], "places": [{"attribute": "gen_ai.agent.name", "action": "mask"}]}


@each(
    "evaluate",
    [
        {"evaluator": "tool-call-order", "tool_calls_order": ["find", "pay"]},
        {"evaluator": "tool-call-count", "tool_calls_count": {"pay": ["=", 1]}},
        {"evaluator": "tool-permission", "allowed_tools": ["find", "pay"]},
        {"evaluator": "constraints", "constraints": [{"first": "find"}]},
        {"evaluator": "trajectory", "tool_calls": ["find", "pay"]},
        {"evaluator": "condition", "expression": "calls.exists(c, c.name == 'pay')"},
    ],
    ids=lambda value: value["evaluator"],
)
def test_a_tool_whose_name_was_redacted_may_be_any(evaluate: dict[str, Any]) -> None:
    assert outcome(evaluate, run()) == "pass"
    assert outcome(evaluate, redacted(run(), NAMES)) == "not_evaluable"


def test_an_agent_whose_name_was_redacted_may_be_any() -> None:
    spans = [
        otlp_span(1, 1, end=900, gen_ai__operation__name="invoke_agent", gen_ai__agent__name="triage"),
        otlp_span(
            1, 2, 1, start=10, end=20, gen_ai__operation__name="execute_tool", gen_ai__tool__name="transfer_to_orders"
        ),
        otlp_span(1, 3, 1, start=30, end=800, gen_ai__operation__name="invoke_agent", gen_ai__agent__name="orders"),
    ]
    requests = [SourceRequest(Signal.TRACES, payload(spans), "made")]
    for allowed, expected in (("orders", "pass"), ("billing", "fail")):
        rule = Rule.model_validate(
            {
                "id": "a-rule",
                "scope": "trace",
                "evaluate": [{"evaluator": "handoffs", "may_pass_to": {"triage": [allowed]}}],
            }
        )
        assert judged_by(rule, requests) == {"handoffs": expected}
        assert judged_by(rule, redacted(requests, AGENTS)) == {"handoffs": "not_evaluable"}


@cache
def ready_made() -> list[tuple[Rule, list[SourceRequest], Found]]:
    """Each trace beside a ready-made rule, as it came, and what the rule says of it."""
    found = []
    for path in sorted(builtin_rules().rglob("rule.yaml")):
        (rule,) = load_rules([str(path)]).rules
        for trace in sorted((path.parent / "traces").iterdir()):
            requests = list(read_sources([str(trace)], SourceReport()))
            found.append((rule, requests, judged_by(rule, requests)))
    return found


def judged_by(rule: Rule, requests: list[SourceRequest]) -> Found:
    return found_in(rule, list(replay_sources(requests, TracesSettings(), RuleSet([rule]), "test")))


# What is said of what was found, of all values, and of those that were hashed.
THOROUGH = ("mask all", "hash all", "drop all", "hash outputs", "hash what is found")


def opposites(redactions: list[str]) -> Iterator[str]:
    """The verdicts that turn round, where each trace is redacted by the next of `redactions`."""
    for (rule, requests, before), redaction in zip(ready_made(), cycle(redactions), strict=False):
        after = judged_by(rule, redacted(requests, REDACTED[redaction]))
        where = f"{redaction}, {rule.id}, {Path(requests[0].origin).name}"
        if isinstance(before, str) or isinstance(after, str):
            if before != after and not (isinstance(after, dict) and set(after.values()) == {"not_evaluable"}):
                yield f"{where}: {before} became {after}"
            continue
        for name, outcome in before.items():
            if after.get(name) not in (outcome, "not_evaluable"):
                yield f"{where}: {name} {outcome} became {after.get(name)}"


def test_ready_made_rules_say_the_same_or_that_they_cannot_tell() -> None:
    assert list(opposites(list(THOROUGH))) == []


@pytest.mark.long
@each("redaction", THOROUGH)
def test_ready_made_rules_say_so_of_every_redaction(redaction: str) -> None:
    assert list(opposites([redaction])) == []
