"""``rules try``: each step of a rule on traces of files and of the store."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from build import store_with
from build.backtested import stored
from build.commands import run
from build.judged_traces import trace_id
from tracegrade.cli import main

RULE = """
id: refund-after-refusal
match: {service: help-desk, tools: [issue_refund], attributes: {tier: gold}}
unless: {environment: staging}
when: find_order
then: [{evaluator: constraints, constraints: [{never: issue_refund}]}]
"""


@pytest.fixture
def traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert invoke("rules", "new", "support/refund-at-once").exit_code == 0
    (tmp_path / "one.rule.yaml").write_text(RULE)
    return tmp_path / "rules/support/refund-at-once/traces"


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def tried(rule: str, *sources: Path) -> list[dict[str, Any]]:
    result = invoke("rules", "try", rule, *map(str, sources), "--format", "json")
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_each_clause_says_what_it_found(traces: Path) -> None:
    (found,) = tried("one.rule.yaml", traces / "looked_up_then_refunded.json")
    assert [(step["clause"], step["found"], step["holds"]) for step in found["steps"]] == [
        ("service", "help-desk", True),
        ("tools", ["find_order", "send_mail", "issue_refund"], True),
        ("attributes.tier", None, False),
        ("unless.environment", None, False),
        ("when", "call 1 (find_order)", True),
    ]
    assert (found["decision"], found["clause"], found["evaluations"]) == ("not_matched", "attributes.tier", [])


def test_files_are_read_as_the_settings_say(traces: Path, tmp_path: Path) -> None:
    source = str(traces / "looked_up_then_refunded.json")
    scope = json.loads(Path(source).read_text())["resourceSpans"][0]["scopeSpans"][0]["scope"]["name"]
    (tmp_path / "config.yaml").write_text(f"traces: {{ignore_scopes: [{scope}]}}")
    assert ": 3 tool calls" in invoke("rules", "try", "one.rule.yaml", source).stdout
    assert ": 3 tool calls" not in invoke("rules", "try", "one.rule.yaml", source, "-c", "config.yaml").stdout


def test_a_trace_of_a_tenant_says_whose_it_is(traces: Path) -> None:
    source = str(traces / "looked_up_then_refunded.json")
    assert (
        "of help-desk, tenant shop: 3 tool calls"
        in invoke("rules", "try", "one.rule.yaml", source, "--tenant", "shop").stdout
    )
    assert "of help-desk: 3 tool calls" in invoke("rules", "try", "one.rule.yaml", source).stdout


def test_a_rule_that_matches_says_what_it_judged(traces: Path) -> None:
    text = RULE.replace(", attributes: {tier: gold}", "")
    Path("one.rule.yaml").write_text(text + "sample: 0.0001\n")  # who tries a rule wants to see it judge
    both = tried("one.rule.yaml", traces)
    by_outcome = {found["outcome"]: found for found in both}
    assert by_outcome.keys() == {"fail", None}
    assert [item["outcome"] for item in by_outcome["fail"]["evaluations"]] == ["fail"]
    assert by_outcome[None]["clause"] == "when"
    shown = invoke("rules", "try", "one.rule.yaml", str(traces)).stdout
    assert "not_matched: when does not hold" in shown
    assert "issue_refund is never called" in shown


def test_a_rule_on_sessions_is_tried_on_them(traces: Path) -> None:
    Path("one.rule.yaml").write_text("id: one\nscope: session\nevaluate: [{evaluator: loop-repetition}]\n")
    assert tried("one.rule.yaml", traces) == []
    assert "It is part of no session" in invoke("rules", "try", "one.rule.yaml", str(traces)).stdout


def test_the_turns_of_a_session_are_shown_as_they_followed_each_other(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert invoke("rules", "new", "support/no-proof", "--recipe", "conversation").exit_code == 0
    rule = Path("rules/support/no-proof")
    turns = json.loads((rule / "traces" / "proof_checked_in_an_earlier_turn.json").read_text())["resourceSpans"]
    for name, order in (("forth", turns), ("back", turns[::-1])):
        Path(f"{name}.json").write_text(json.dumps({"resourceSpans": order}))
        shown = invoke("rules", "try", str(rule / "rule.yaml"), f"{name}.json").stdout
        assert 0 < shown.index("check_proof") < shown.index("issue_refund")
        said = " ".join(shown.split())
        assert ("in session call" in said, " 1 check_proof" in said, " 2 issue_refund" in said) == (True, True, True)


def test_a_stored_trace_is_tried_by_its_id(tmp_path: Path) -> None:
    store_with(tmp_path, stored(3, "1.0"))
    judged = "evaluate: [{evaluator: condition, expression: size(calls) == 1}]"
    (tmp_path / "one.rule.yaml").write_text(f"id: one\n{judged}\n")
    known = trace_id(3)
    result = run(tmp_path, "rules", "try", str(tmp_path / "one.rule.yaml"), known, "--format", "json")
    assert result.exit_code == 0, result.output
    assert (found := json.loads(result.stdout))["outcome"] == "pass"
    assert found["trace_id"] == known
    missing = run(tmp_path, "rules", "try", str(tmp_path / "one.rule.yaml"), "ab" * 16)
    assert missing.exit_code == 1
    assert f"Trace {'ab' * 16} is not in the store" in missing.stderr


@pytest.mark.parametrize(
    ("rule", "source", "why"),
    [
        ("builtin:all", "x.json", "expected one rule at 'builtin:all', found "),
        ("no-such-rule", "x.json", "no rule 'no-such-rule' here"),
        ("one.rule.yaml", "x.json", "x.json: cannot be read"),
    ],
)
def test_what_cannot_be_tried_is_refused(traces: Path, rule: str, source: str, why: str) -> None:
    result = invoke("rules", "try", rule, source)
    assert result.exit_code == 2
    assert why in result.output


def test_a_constraint_of_which_nothing_can_be_told_is_not_shown_as_broken(traces: Path) -> None:
    lines = "[{before: find_order, comes: login}, {never: {tool: issue_refund, where: {args: {amount: {$gt: 100}}}}}]"
    Path("one.rule.yaml").write_text(f"id: one\nevaluate: [{{evaluator: constraints, constraints: {lines}}}]\n")
    written = (traces / "looked_up_then_refunded.json").read_text()
    Path("unread.json").write_text(written.replace("gen_ai.tool.call.arguments", "not.recorded"))
    said = " ".join(invoke("rules", "try", "one.rule.yaml", "unread.json").stdout.split())
    assert "✗ constraint 1 login comes before every find_order" in said
    assert "✗ constraint 2" not in said
    assert "constraint 2 issue_refund (where args.amount is more than 100) is never called" in said
    assert "cannot be decided: the arguments of a call were not recorded (issue_refund" in said


def test_each_constraint_names_its_calls_by_the_numbers_of_the_table(traces: Path) -> None:
    lines = "[{never: issue_refund}, {before: issue_refund, comes: find_order}, {after: x, comes: y}]"
    then = f"when: find_order\nthen: [{{evaluator: constraints, constraints: {lines}}}]\n"
    Path("one.rule.yaml").write_text(f"id: one\ntitle: A refund was made\nscope: trace\n{then}")
    shown = invoke("rules", "try", "one.rule.yaml", str(traces / "looked_up_then_refunded.json")).stdout
    said = " ".join(shown.split())
    # Only what follows the first call is judged; the numbers are still those of the whole table.
    assert "✗ constraint 1 issue_refund is never called call 3 (issue_refund) " in said
    assert "✗ constraint 2 find_order comes before every issue_refund call 3 (issue_refund) " in said
    assert " constraint 3 y comes after every x did not apply " in said
    assert said.endswith("fail: A refund was made")
    trace = json.loads((traces / "looked_up_then_refunded.json").read_text())
    span = trace["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    assert f"one on trace {span['traceId']} of support" in said


def test_the_table_numbers_calls_as_the_verdicts_of_the_rules_scope_do(traces: Path) -> None:
    path = traces / "looked_up_then_refunded.json"
    trace = json.loads(path.read_text())
    spans = trace["resourceSpans"][0]["scopeSpans"][0]["spans"]
    other = json.loads(json.dumps(spans[0]).replace("support", "mailer")) | {"spanId": "ab" * 8}
    other["parentSpanId"] = spans[0]["spanId"]
    spans[2]["parentSpanId"] = other["spanId"]  # of three calls the second is the sub-agent's
    spans.append(other)
    path.write_text(json.dumps(trace))
    constraints = "{evaluator: constraints, constraints: [{never: issue_refund}]}"
    numbered = {
        "agent": ("in run", ["1", "1", "2"], "call 2 (issue_refund)"),
        "trace": ("in trace", ["1", "2", "3"], "call 3 (issue_refund)"),
        "tool-call": ("in run", ["1", "1", "2"], ""),
    }
    for scope, (head, numbers, verdict) in numbered.items():
        item = constraints if verdict else "{evaluator: budget, max_calls: 3}"
        Path("one.rule.yaml").write_text(f"id: one\nscope: {scope}\nevaluate: [{item}]\n")
        shown = invoke("rules", "try", "one.rule.yaml", str(path)).stdout
        lines = shown.splitlines()
        table = [
            next(line for line in lines if f" {tool} " in line) for tool in ("find_order", "send_mail", "issue_refund")
        ]
        assert [line.split()[0] for line in table] == numbers, shown
        assert head in shown, shown
        assert verdict in shown, shown


def test_each_step_and_each_value_that_was_read_is_shown(traces: Path) -> None:
    steps = "{evaluator: partial-order, steps: [issue_refund, find_order]}"
    condition = "{evaluator: condition, expression: 'size(calls) > 2 && service == \"help-desk\"'}"
    Path("one.rule.yaml").write_text(f"id: one\nevaluate: [{steps}, {condition}]\n")
    shown = invoke("rules", "try", "one.rule.yaml", str(traces / "looked_up_then_refunded.json")).stdout
    said = " ".join(shown.split())
    assert "✗ step 1 issue_refund out of order: call 3 (issue_refund) " in said
    assert "✓ step 2 find_order made: call 1 (find_order) " in said
    assert "reads calls 3 items reads service help-desk" in said


def test_a_single_call_is_named_with_its_tool(traces: Path) -> None:
    Path("one.rule.yaml").write_text(
        "id: one\nscope: tool-call\nmatch: {tools: issue_refund}\nevaluate: [{evaluator: budget, max_calls: 3}]\n"
    )
    shown = invoke("rules", "try", "one.rule.yaml", str(traces / "looked_up_then_refunded.json")).stdout
    assert "one on a call of issue_refund of support (span " in shown


def test_what_failed_what_was_asked_and_what_nothing_gave_is_shown(traces: Path) -> None:
    path = traces / "looked_up_then_refunded.json"
    trace = json.loads(path.read_text())
    root, first = trace["resourceSpans"][0]["scopeSpans"][0]["spans"][:2]
    first["status"] = {"code": 2, "message": "no such order"}
    first["attributes"] = [each for each in first["attributes"] if each["key"] != "gen_ai.tool.call.result"]
    for each in root["attributes"]:
        if each["key"] == "gen_ai.output.messages":
            said = [{"role": "assistant", "parts": [{"type": "text", "content": "You get 25.50 EUR for ORD-7."}]}]
            each["value"] = {"stringValue": json.dumps(said)}
    path.write_text(json.dumps(trace))
    failed = "{never: {tool: find_order, where: {error: true, args: {order_id: ORD-7}}}}"
    Path("one.rule.yaml").write_text(
        f"id: one\nevaluate:\n  - {{evaluator: constraints, constraints: [{failed}]}}\n  - evaluator: grounded-answer\n"
        "  - {evaluator: partial-order, steps: [find_order], extra: count}\n"
    )
    shown = " ".join(invoke("rules", "try", "one.rule.yaml", str(path)).stdout.split())
    assert '1 find_order {"order_id":"ORD-7"} failed: no such order ' in shown
    assert "✗ constraint 1 failed find_order (where args.order_id is 'ORD-7') is never called call 1" in shown
    assert "✗ amount 25.50 nothing gave it ✓ id ORD-7 given by the prompt" in shown
    assert "; extra calls: " in shown
    assert "✗ no step call 3 (issue_refund)" in shown
