"""A rule's own sentence for a fail: with values only for those who may see values, and of no weight in judging."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from build import each
from build.calls import call
from build.commands import run
from build.extractions import ROOT, extraction_of
from build.otlp import agent_span, payload, tool_span
from build.rules import rule
from build.shop import fill, refund
from tracegrade.codec.results import unpack_result
from tracegrade.codec.without_values import result_without_values
from tracegrade.deliver.carriers import carriers
from tracegrade.deliver.events import events
from tracegrade.deliver.parquet.rows import result_rows
from tracegrade.display import as_sent
from tracegrade.judge import judge, judge_extraction
from tracegrade.model.agent_run import AgentRun
from tracegrade.model.evaluation import Evaluation
from tracegrade.model.tool_call import ToolCall, ToolError
from tracegrade.model.trace_result import TraceResult
from tracegrade.pipeline.trace_result import trace_result
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet

APPROVED = {"evaluator": "constraints", "constraints": [{"before": "refund", "comes": "approve"}]}
SAYS = "{arguments.amount} was refunded without approval"
MASKED, FULL = "amount was refunded without approval", "7525 was refunded without approval"
REFUND = call("refund", {"amount": 7525})


def refund_rule(explain: str = SAYS, **fields: Any) -> Rule:
    return rule(APPROVED, explain=explain, **fields)


def evaluation_of(of: Rule, *calls: ToolCall, redacted: bool = False) -> Evaluation:
    made = [replace(one, start_ns=place * 10, span_id=f"{place:016x}") for place, one in enumerate(calls, 1)]
    extraction = extraction_of([AgentRun(ROOT, "support", calls=made)])
    extraction.redacted = redacted
    (decision,) = judge_extraction(extraction, RuleSet([of])).decisions
    return decision.evaluations[0]


def said(explain: str, *calls: ToolCall, redacted: bool = False) -> tuple[str, str]:
    found = evaluation_of(refund_rule(explain), *calls, redacted=redacted)
    assert found.outcome == "fail"
    return found.explanation, found.full_explanation


@each(
    ("explain", "made", "masked", "full"),
    [
        (SAYS, REFUND, MASKED, FULL),
        ("{args.amount} is much", REFUND, "amount is much", "7525 is much"),
        ("{arguments.to.names[1]}", call("refund", {"to": {"names": ["a", "b"]}}), "names", "b"),
        ("{tool} by {agent}: {output}", call("refund", output="paid", agent="desk"), "refund by desk: output",
         "refund by desk: paid"),
        ("{output.id}", call("refund", output='{"id": [1, true]}'), "id", "[1, true]"),
        ("{output[1].id}", call("refund", output='[0, {"id": 7}]'), "id", "7"),
        ("{error.type}, {error.message}", call("refund", error=ToolError("quota", "no 4111")),
         "error type, error message", "quota, no 4111"),
        ("no names", REFUND, "no names", "no names"),
        # not recorded, or not there
        (SAYS, call("refund"), MASKED, MASKED),
        (SAYS, call("refund", {"amount": None}), MASKED, MASKED),
        (SAYS, call("refund", {"total": 1}), MASKED, MASKED),
        ("{error.message}{output}", REFUND, "error messageoutput", "error messageoutput"),
        # text, on one line, at most 60 characters
        ("{args.amount}", call("refund", {"amount": "<b>\n*5*\x1b"}), "amount", r"<b> *5*\x1b"),
        ("{args.amount}!", call("refund", {"amount": "x" * 61}), "amount!", "x" * 59 + "…!"),
        ("{args.amount}!", call("refund", {"amount": "x" * 60}), "amount!", "x" * 60 + "!"),
        ("{args.amount}", call("refund", {"amount": "{args.card}", "card": 4111}), "amount", "{args.card}"),
    ],
)  # fmt: skip
def test_names_stand_for_parts_of_the_call_that_failed(explain: str, made: ToolCall, masked: str, full: str) -> None:
    assert said(explain, made) == (masked, full)


@each(
    "amount",
    ["[redacted]", "[hash:3f9a0c:5d41402abc4b2a76b971]", "to [redacted:email] now", {"card": "[redacted]"}],
)
def test_what_was_redacted_is_told_by_its_name(amount: Any) -> None:
    assert said(SAYS, call("refund", {"amount": amount}), redacted=True) == (MASKED, MASKED)


def test_what_the_sender_masked_is_told_by_its_name() -> None:
    assert said(SAYS, call("refund", {"amount": "***"}, arguments_status="redacted")) == (MASKED, MASKED)


def test_the_call_is_the_first_that_violates_and_not_the_first_of_its_tool() -> None:
    same = {**APPROVED, "constraints": [{"before": "refund", "comes": "approve", "same": "amount"}]}
    made = [call("approve", {"amount": 1}), call("refund", {"amount": 1}), call("refund", {"amount": 2})]
    assert evaluation_of(rule(same, explain=SAYS), *made).full_explanation == "2 was refunded without approval"


def test_with_scope_tool_call_any_evaluator_knows_the_call() -> None:
    schema = {"evaluator": "args-schema", "schemas": {"refund": {"required": ["reason"]}}}
    found = evaluation_of(rule(schema, scope="tool-call", explain=SAYS), REFUND)
    assert (found.explanation, found.full_explanation) == (MASKED, FULL)


def test_of_several_evaluators_only_the_one_whose_fail_names_a_call_is_told_so() -> None:
    budget = {"evaluator": "budget", "max_calls": 1}
    several = rule(budget, APPROVED, explain=SAYS)
    extraction = extraction_of(
        [AgentRun(ROOT, "support", calls=[replace(REFUND, span_id=f"{n:016x}") for n in (1, 2)])]
    )
    (decision,) = judge_extraction(extraction, RuleSet([several])).decisions
    of_budget, of_constraints = decision.evaluations
    assert (of_budget.outcome, of_constraints.full_explanation) == ("fail", FULL)
    assert "refunded" not in of_budget.full_explanation


def test_values_of_any_depth_and_size_are_told() -> None:
    deep: Any = 1
    for _ in range(3000):
        deep = [deep]
    assert said(SAYS, call("refund", {"amount": deep}))[1] == MASKED
    assert said(SAYS, call("refund", {"amount": list(range(10**5))}))[1].startswith("[0, 1, 2, 3")
    assert (
        said(SAYS, call("refund", {"amount": 10**6000}))[1] == "an integer of 19932 bits was refunded without approval"
    )


def test_in_what_follows_the_call_is_the_one_that_follows() -> None:
    after = rule(when="open", then=[APPROVED], explain=SAYS)
    made = [call("refund", {"amount": 1}), call("open"), call("refund", {"amount": 2})]
    assert evaluation_of(after, *made).full_explanation == "2 was refunded without approval"


def test_only_a_fail_is_told_so() -> None:
    found = evaluation_of(refund_rule(), call("approve"), REFUND)
    assert (found.outcome, found.explanation) == ("pass", "No violation in 1 check: approve comes before every refund.")
    assert evaluation_of(refund_rule(), call("approve")).outcome == "not_evaluable"


def test_it_is_the_rules_text_and_not_its_judgement() -> None:
    one, other = refund_rule(), refund_rule("another sentence")
    assert one.hash == other.hash == refund_rule("").hash
    assert one.text_hash != other.text_hash
    assert evaluation_of(one, REFUND).id == evaluation_of(other, REFUND).id


# Where it goes: each place has the value only where values may be seen.


def judged() -> TraceResult:
    trace = refund(1, 10**18, [("refund", {"amount": 7525}, {})])
    rules = RuleSet([refund_rule(match={"agent": "refund-agent"})])
    return trace_result(trace, judge(trace, rules), "live", "settings")


def evaluation_in(result: TraceResult) -> Evaluation:
    (decision,) = result.decisions
    return decision.evaluations[0]


def test_events_and_carrier_spans_have_values_only_where_these_are_included() -> None:
    result = judged()
    for include_values, wanted in ((False, MASKED), (True, FULL)):
        (event,) = events(result, include_values)
        (carrier,) = carriers(result, include_values)
        for attributes in (LogRecord.FromString(event).attributes, Span.FromString(carrier).attributes):
            found = [item.value.string_value for item in attributes if item.key.endswith(".explanation")]
            assert found == [wanted]
            assert ("7525" in repr(attributes)) is include_values


def test_parquet_has_values_only_where_these_are_included() -> None:
    result = judged()
    (without,), (with_values,) = result_rows(result, False), result_rows(result, True)
    assert MASKED in without
    assert "7525" not in repr(without)
    assert FULL in with_values


def test_the_store_keeps_both_and_loses_the_value_with_the_values() -> None:
    result = judged()
    assert evaluation_in(unpack_result(result.packed, b"")).full_explanation == FULL
    found = evaluation_in(unpack_result(result_without_values(result).packed, b""))
    assert (found.explanation, found.full_explanation, found.to_json()["explanation"]) == (MASKED,) * 3


def test_json_has_the_value_beside_the_details_and_never_without_them() -> None:
    found = evaluation_in(judged())
    assert found.to_json()["explanation"] == FULL
    assert replace(found, details={}).to_json()["explanation"] == MASKED
    assert as_sent(found, False).explanation == MASKED
    assert as_sent(found, True).explanation == FULL


def test_the_command_line_shows_the_value(tmp_path: Path) -> None:
    rules = RuleSet([refund_rule(match={"agent": "refund-agent"})])
    trace = refund(1, 10**18, [("refund", {"amount": 7525}, {})])
    fill(tmp_path, iter([(trace, None)]), rules)
    for command in (("results", "show", trace.trace_id.hex()), ("why", trace.trace_id.hex())):
        assert FULL in run(tmp_path, *command).stdout


def test_reports_for_others_to_read_have_names(tmp_path: Path) -> None:
    spans = [agent_span(1, 1), tool_span(1, 2, 1, "refund", '{"amount": 7525}')]
    (tmp_path / "traces.binpb").write_bytes(payload(spans))
    (tmp_path / "one.rule.yaml").write_text(f'id: refunds\nexplain: "{SAYS}"\nevaluate:\n  - {json.dumps(APPROVED)}\n')
    for output_format, wanted in (("markdown", MASKED), ("junit", MASKED), ("sarif", MASKED), ("table", FULL)):
        shown = run(
            tmp_path,
            *("replay", str(tmp_path / "traces.binpb"), "--rules", str(tmp_path / "one.rule.yaml")),
            *("--format", output_format),
        ).stdout
        assert wanted in " ".join(shown.split()), output_format
        assert ("7525" in shown) is (wanted == FULL)
