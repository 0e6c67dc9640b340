"""Values that were hashed: equal hashes are equal values, and all else that a rule says of them cannot be told."""

from typing import Any

import pytest

from build import each
from build.extractions import ROOT, call_of, extraction_of
from tracegrade.extract.tool_calls import number_attempts
from tracegrade.judge import judge_extraction
from tracegrade.model.agent_run import AgentRun
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tool_call import ToolCall
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet

HASH, OTHER = "[hash:3f9a0c:5d41402abc4b2a76b971]", "[hash:3f9a0c:00000000000000000000]"


def made(name: str, arguments: JsonValue = None, output: JsonValue = None) -> ToolCall:
    call = call_of(name, f"{len(name):016x}")
    call.arguments, call.output = arguments or {}, output
    call.output_status = "absent" if output is None else "ok"
    return call


def decided(rule: dict[str, Any], calls: list[ToolCall], answer: str = "done") -> tuple[str, str]:
    for place, call in enumerate(calls, 1):
        call.start_ns, call.end_ns = place * 10, place * 10 + 1
    run = AgentRun(ROOT, "support", prompt="Please", final_answer=answer, calls=calls)
    extraction = extraction_of([run])
    extraction.redacted = True
    decisions = judge_extraction(extraction, RuleSet([Rule.model_validate({"id": "one", **rule})])).decisions
    if not decisions:
        return "not_matched", ""
    return decisions[0].outcome or decisions[0].kind, decisions[0].reason


def constraint(written: dict[str, Any]) -> dict[str, Any]:
    return {"evaluate": [{"evaluator": "constraints", "constraints": [written]}]}


def mail_to(what: JsonValue) -> dict[str, Any]:
    return {"tool": "mail", "where": {"args": {"to": what}}}


MAIL = made("mail", {"to": HASH})
HASHED = "an argument of a call was hashed, and can only be compared with other hashes (mail, span 0000000000000004)"


@each(
    "written",
    [
        {"never": mail_to("tom@ours.com")},
        {"never": mail_to({"$regex": "@ours"})},
        {"never": mail_to({"$gte": 100})},
        {"at_least": 1, "of": mail_to("tom@ours.com")},
        {"before": mail_to("tom@ours.com"), "comes": "ask"},
        {"not_both": [mail_to("tom@ours.com"), "find"]},
    ],
)
def test_what_a_constraint_says_of_a_hashed_value_is_unknown(written: dict[str, Any]) -> None:
    assert decided(constraint(written), [made("find"), MAIL]) == ("not_evaluable", HASHED)


@each(
    ("written", "calls", "outcome"),
    [
        ({"before": "mail", "comes": "find", "same": "to"}, [made("find", {"to": HASH}), MAIL], "pass"),
        ({"before": "mail", "comes": "find", "same": "to"}, [made("find", {"to": OTHER}), MAIL], "fail"),
        ({"never": mail_to(HASH)}, [MAIL], "fail"),
        ({"never": mail_to({"$any": True})}, [MAIL], "fail"),
        ({"never": mail_to({"$absent": True})}, [MAIL], "pass"),
        # What was hashed is another part than the one that is looked at.
        ({"never": {"tool": "mail", "where": {"error": True, "args": {"to": "x"}}}}, [MAIL], "pass"),
        ({"never": {"tool": "mail", "where": {"args": {"cc": "x"}}}}, [made("mail", {"cc": "y"}, HASH)], "pass"),
    ],
)
def test_what_can_be_told_of_hashes_is(written: dict[str, Any], calls: list[ToolCall], outcome: str) -> None:
    assert decided(constraint(written), calls)[0] == outcome


def test_whether_a_call_with_a_hashed_output_is_meant_is_unknown() -> None:
    rule = {
        "when": {"tool": "policy", "where": {"output": {"status": "refused"}}},
        "then": [{"evaluator": "constraints", "constraints": [{"never": "refund"}]}],
    }
    outcome, reason = decided(rule, [made("policy", {}, {"status": HASH}), made("refund")])
    assert outcome == "not_evaluable"
    assert reason.startswith("the output of a call was hashed")
    assert decided(rule, [made("policy", {}, {"status": "ok", "by": HASH}), made("refund")])[0] == "not_matched"


@each(
    ("output", "answer", "outcome"),
    [
        ({"total": HASH}, "It is 25.50 EUR.", "not_evaluable"),
        ({"total": 20}, f"{HASH} gets 25.50 EUR.", "not_evaluable"),
        ({"total": 25.5}, "It is 25.50 EUR.", "pass"),
        ({"total": 25.5, "by": HASH}, "It is 25.50 EUR.", "pass"),
        ({"total": 20}, "It is 25.50 EUR.", "fail"),
    ],
)
def test_an_answer_may_be_given_by_what_was_hashed(output: JsonValue, answer: str, outcome: str) -> None:
    rule = {"evaluate": [{"evaluator": "grounded-answer"}]}
    assert decided(rule, [made("find", {}, output)], answer)[0] == outcome


@pytest.mark.parametrize(("found", "outcome"), [(HASH, "pass"), (OTHER, "fail"), ("5", "not_evaluable")])
def test_calls_that_a_constraint_does_not_mean_say_nothing_of_its_hashes(found: str, outcome: str) -> None:
    rule = constraint({"before": "mail", "comes": "find", "same": "to"})
    calls = [made("log", {"to": "console"}), made("find", {"to": found}), made("mail", {"to": HASH})]
    assert decided(rule, calls)[0] == outcome


OPS_AND_ANN = [{"name": "mail", "args": {"to": to}} for to in ("ops", "ann@ours.com")]


@each(
    "evaluate",
    [
        {"evaluator": "tool-call-args", "tool_calls": OPS_AND_ANN},
        {"evaluator": "tool-call-accuracy", "reference_tool_calls": OPS_AND_ANN},
        {"evaluator": "trajectory", "match": "any_order", "tool_calls": OPS_AND_ANN},
        {
            "evaluator": "tool-call-output",
            "tool_outputs": [{"name": "mail", "output": output} for output in ("ops", "ann@ours.com")],
        },
        {"evaluator": "partial-order", "steps": [{"parallel": [{"tool": "mail", **one} for one in
            ({"args": each["args"]} for each in OPS_AND_ANN)]}]},
    ],
    ids=lambda evaluate: evaluate["evaluator"],
)  # fmt: skip
def test_a_hashed_value_may_be_what_one_call_is_expected_to_have_or_another(evaluate: dict[str, Any]) -> None:
    # Taken for the first that is expected, the hash would leave "ops" to the second.
    calls = [made("mail", {"to": HASH}, HASH), made("mail", {"to": "ops"}, "ops")]
    assert decided({"evaluate": [evaluate]}, calls)[0] == "not_evaluable"
    others = [made("mail", {"to": "ann@ours.com"}, "ann@ours.com"), made("mail", {"to": "ops"}, "ops")]
    assert decided({"evaluate": [evaluate]}, others)[0] == "pass"


TWO_MAILS = [{"name": "mail", "args": {"to": to}} for to in ({"$regex": "@ours"}, {"$regex": "^ann@"})]
LITERAL_MAILS = [{"name": "mail", "args": {"to": to}} for to in ("ops", "ann@ours.com")]


@each(
    ("expected", "settings", "made_to", "threshold", "outcome"),
    [
        (TWO_MAILS, {}, [HASH, "ann@ours.com"], 1.0, "not_evaluable"),  # the hash may be any of ours
        (TWO_MAILS, {}, [HASH, "eve@evil.com"], 1.0, "fail"),  # whatever it is, the other is neither
        (TWO_MAILS, {}, [HASH, "ann@ours.com"], 0.5, "pass"),  # one is, whatever the other is
        (TWO_MAILS, {}, [HASH, "ann@ours.com", "tom@ours.com"], 1.0, "pass"),
        (TWO_MAILS, {}, [HASH, HASH], 0.5, "not_evaluable"),
        (TWO_MAILS, {"pairing": "first"}, [HASH, "eve@evil.com"], 1.0, "not_evaluable"),  # a scan may lose a call
        (LITERAL_MAILS, {"pairing": "best"}, [HASH, "eve"], 1.0, "fail"),
        (LITERAL_MAILS, {"pairing": "positional"}, ["eve", HASH], 1.0, "fail"),
        (LITERAL_MAILS, {"pairing": "positional"}, ["ops", HASH], 1.0, "not_evaluable"),
    ],
)
@each("name", ["tool-call-args", "trajectory"])
def test_a_hash_leaves_open_what_it_could_change(
    name: str, expected: Any, settings: Any, made_to: list[str], threshold: float, outcome: str
) -> None:
    how = {"match": "any_order", "score": "recall", "pairing": "best"} if name == "trajectory" else {}
    evaluate = {"evaluator": name, "threshold": threshold, "tool_calls": expected, **how, **settings}
    assert decided({"evaluate": [evaluate]}, [made("mail", {"to": to}) for to in made_to])[0] == outcome


def test_a_value_from_a_source_that_cannot_be_read_may_be_that_of_another_call() -> None:
    expected = [{"name": "mail", "args": {"to": {"$from": "find.output"}}}, {"name": "mail", "args": {"to": "ops"}}]
    rule = {"evaluate": [{"evaluator": "tool-call-args", "tool_calls": expected}]}
    calls = [made("find"), made("mail", {"to": "ops"}), made("mail", {"to": "ann"})]
    assert decided(rule, calls)[0] == "not_evaluable"
    assert decided(rule, [made("find", output="ann"), *calls[1:]])[0] == "pass"
    assert decided(rule, [made("find", output="eve"), *calls[1:]])[0] == "fail"


@each(
    "evaluate",
    [
        {"evaluator": "budget", "max_retries": 1},
        {"evaluator": "loop-repetition"},
        {"evaluator": "condition", "expression": "calls.all(c, c.attempt < 3)"},
    ],
    ids=lambda evaluate: evaluate["evaluator"],
)
@each(
    ("recipients", "outcome"),
    [
        ([HASH, OTHER, "[hash:3f9a0c:11111111111111111111]"], "pass"),
        ([HASH, HASH, HASH], "fail"),
        ([HASH, HASH, "ann@ours.com"], "not_evaluable"),  # which may be what was hashed in the others
        ([HASH, HASH, ["ann@ours.com"]], "pass"),
    ],
)
def test_calls_of_which_some_were_hashed_may_be_alike(
    evaluate: dict[str, Any], recipients: list[JsonValue], outcome: str
) -> None:
    calls = [made("mail", {"to": to, "about": "bill"}) for to in recipients]
    number_attempts(calls)
    assert decided({"evaluate": [evaluate]}, calls)[0] == outcome
