import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import build
from build import store_with
from build.commands import run, run_json
from build.judged_traces import AGENT_SPAN, judged, spans, trace_id
from build.otlp import agent_span, payload
from tracegrade.codec.kept_spans import encode_spans
from tracegrade.codec.results import new_result
from tracegrade.deletion.request import Deletions
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.record import Encoding, Entry
from tracegrade.judge import judge
from tracegrade.model.signal import Signal
from tracegrade.pipeline.trace_result import trace_result
from tracegrade.rule.load import load_rules
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.open import open_store
from tracegrade.store.rule_texts import save_rule_texts

RULE = """
id: {id}
match: {{{match}}}
evaluate:
  - {{evaluator: tool-call-order, tool_calls_order: [validate_user, create_order]}}
"""


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    folder = tmp_path / "rules"
    folder.mkdir()
    for rule_id, match in (
        ("checkout-order", "service: shop"),
        ("of-another-service", "service: bank-*"),
        ("of-another-tool", "tools: [refund]"),
        ("of-another-tier", "attributes: {tenant.tier: gold}"),
        ("came-later", "agent: support"),
    ):
        (folder / f"{rule_id}.rule.yaml").write_text(RULE.format(id=rule_id, match=match))
    (folder / "excluded.rule.yaml").write_text(RULE.format(id="excluded", match="") + "unless: {service: shop}\n")
    return folder


def test_every_rule_has_its_decision_and_its_reason(tmp_path: Path, rules: Path) -> None:
    store_with(tmp_path, judged(1, "fail"))
    found = run_json(tmp_path, "why", trace_id(1), "--rules", str(rules))
    assert {item["rule_id"]: (item["decision"], item["reason"]) for item in found} == {
        "checkout-order": ("evaluated", ""),
        "of-another-service": ("not_matched", 'match.service does not hold: expected "bank-*"'),
        "of-another-tool": ("not_matched", 'match.tools does not hold: expected ["refund"]'),
        "of-another-tier": ("not_matched", 'match.attributes.tenant.tier does not hold: expected "gold"'),
        "excluded": ("not_matched", "excluded: all clauses of unless hold"),
        "came-later": (
            "not_judged",
            "it matches, but was added or changed after the trace was judged",
        ),
    }
    assert all(item["subject"] == {"kind": "agent", "id": AGENT_SPAN} for item in found)


def test_last_is_the_trace_that_was_judged_last(tmp_path: Path, rules: Path) -> None:
    store_with(tmp_path, judged(1, "pass"), judged(2, "fail"))
    chosen = "--rules", str(rules)
    assert run_json(tmp_path, "why", "--last", *chosen) == run_json(tmp_path, "why", trace_id(2), *chosen)
    assert run_json(tmp_path, "why", "--last", *chosen) != run_json(tmp_path, "why", trace_id(1), *chosen)


def test_last_of_an_empty_store_is_refused(tmp_path: Path) -> None:
    store_with(tmp_path)
    assert "the store has no trace yet" in run(tmp_path, "why", "--last").stderr


def test_rules_whose_text_was_edited_since_judged_alike(tmp_path: Path, rules: Path) -> None:
    """Rule sets that were in force are known by what they judge; one that never was is another."""
    before = load_rules([rules])
    trace = judged(1, "fail")
    store_with(tmp_path, new_result(replace(trace.trace, rule_set_hash=before.hash), trace.spans, [], trace.decisions))
    engine = open_store(store_with(tmp_path))
    with engine.begin() as connection:
        save_rule_texts(connection, before, 5)
    engine.dispose()

    def other_rules() -> bool:
        return "judged by another rule set" in run(tmp_path, "why", trace_id(1), "--rules", str(rules)).stdout

    assert not other_rules()
    file = rules / "came-later.rule.yaml"
    file.write_text(file.read_text() + "title: Said otherwise\nlevel: critical\n")
    assert load_rules([rules]).hash != before.hash
    assert not other_rules()
    file.write_text(file.read_text() + "scope: trace\n")
    assert other_rules()


def test_an_evaluated_pair_shows_its_evaluations(tmp_path: Path) -> None:
    store_with(tmp_path, judged(1, "fail"))
    pair, *others = run_json(tmp_path, "why", trace_id(1))
    assert {other["decision"] for other in others} <= {"not_matched", "not_judged"}  # of the rules in force by default
    assert pair["outcome"] == "fail"
    assert pair["evaluations"] == [
        {
            "evaluation": "tool-call-order",
            "case": None,
            "outcome": "fail",
            "score": 0.25,
            "threshold": 0.9,
            "explanation": "1 of 4 expected calls came in order.",
            "reason": "",
        }
    ]


def test_the_table_says_it_in_words(tmp_path: Path, rules: Path) -> None:
    store_with(tmp_path, judged(1, "not_evaluable"))
    output = run(tmp_path, "why", trace_id(1), "--rules", str(rules)).stdout
    assert f"trace {trace_id(1)} of shop, tenant default\n" in output
    assert "judged by another rule set than the one loaded now" in output
    assert "– not_evaluable" in output
    assert "create_order has no arguments" in output
    assert 'match.service does not hold: expected "bank-*"' in output


def test_a_tool_known_by_another_name_is_told(tmp_path: Path, rules: Path) -> None:
    store_with(tmp_path, judged(1, "fail"))
    (tmp_path / "config.yaml").write_text("traces: {tool_aliases: {refund: [create_*]}}")
    settings = ("-c", str(tmp_path / "config.yaml"), "--rules", str(rules))
    assert "the tool create_order is refund to rules" in run(tmp_path, "why", trace_id(1), *settings).stdout
    found = {item["rule_id"]: item["decision"] for item in run_json(tmp_path, "why", trace_id(1), *settings)}
    assert found["of-another-tool"] == "not_judged"


def test_spans_that_no_dialect_reads_are_told(tmp_path: Path) -> None:
    kept = spans(1)
    kept[0] = replace(kept[0], attributes={}, unread_keys=("acme.args", "acme.tool"))
    store_with(tmp_path, replace(judged(1, "fail"), spans=encode_spans(kept, [])))
    said = "was not read: it looks like a tool call, and no dialect reads it; attributes: acme.args, acme.tool; switch"
    assert said in run(tmp_path, "why", trace_id(1)).stdout
    assert said in run(tmp_path, "traces", "show", trace_id(1)).stdout
    ((span,),) = [item["unread"] for item in run_json(tmp_path, "traces", "show", trace_id(1))]
    assert span["keys"] == ["acme.args", "acme.tool"]


def test_of_many_spans_that_no_dialect_reads_the_first_are_told_and_the_others_counted(tmp_path: Path) -> None:
    unread = replace(spans(1)[0], attributes={}, unread_keys=("acme.args", "acme.tool"))
    kept = [spans(1)[0], *(replace(unread, span_id=bytes([9] * 7 + [number])) for number in range(1, 6))]
    store_with(tmp_path, replace(judged(1, "fail"), spans=encode_spans(kept, [])))
    output = run(tmp_path, "why", trace_id(1)).stdout
    assert output.count("was not read: it looks like a tool call") == 3
    assert "  and 2 more spans not read: 'tracegrade doctor' counts them by scope\n" in output


def test_spans_that_came_too_late_are_counted(tmp_path: Path) -> None:
    store_with(tmp_path, judged(1, last_position=0))
    journal = LocalJournal.open(tmp_path / "journal")
    request = payload([agent_span(1, 90), agent_span(1, 91)])
    journal.append(Entry(Signal.TRACES, Encoding.PROTOBUF, "default", 2, request)).result()
    journal.close()
    output = run(tmp_path, "why", trace_id(1)).stdout
    assert "  2 spans not judged: came later than traces.reopen_for, 20" in output


def test_a_rule_whose_scope_finds_nothing_says_so(tmp_path: Path) -> None:
    (tmp_path / "calls.rule.yaml").write_text(RULE.format(id="of-calls", match="") + "scope: tool-call\n")
    store_with(tmp_path, replace(judged(1, evaluations=[]), spans=encode_spans(spans(1)[:1], [])))
    (pair,) = run_json(tmp_path, "why", trace_id(1), "--rules", str(tmp_path / "calls.rule.yaml"))
    assert (pair["decision"], pair["reason"]) == ("not_matched", "no subject: the trace has no tool-call")


def test_without_rules_only_what_was_stored_is_told(tmp_path: Path) -> None:
    store_with(tmp_path, judged(1))
    (tmp_path / "config.yaml").write_text("rules: {paths: []}")
    assert "no rules given" in run(tmp_path, "why", trace_id(1), "-c", str(tmp_path / "config.yaml")).stdout


def test_an_unknown_trace_ends_with_1_and_says_what_may_be_the_cause(tmp_path: Path) -> None:
    store_with(tmp_path, judged(1))
    result = run(tmp_path, "why", trace_id(77))
    assert result.exit_code == 1
    assert f"Trace {trace_id(77)} is not in the store. It may" in result.stderr
    assert str(tmp_path) in result.stderr


def test_a_deleted_trace_is_said_to_be_deleted_and_when(tmp_path: Path) -> None:
    store_with(tmp_path, judged(1))
    Deletions(tmp_path).tombstones().add([bytes.fromhex(trace_id(78))], 1_767_225_600 * 10**9, forget_before_ns=0)
    result = run(tmp_path, "why", trace_id(78))
    assert result.exit_code == 1
    assert result.stderr == f"Trace {trace_id(78)} was deleted on request, 2026-01-01 00:00:00 UTC.\n"


def test_a_wrong_rule_ends_with_2(tmp_path: Path) -> None:
    store_with(tmp_path, judged(1))
    (tmp_path / "wrong.yaml").write_text("id: x\n")
    result = run(tmp_path, "why", trace_id(1), "--rules", str(tmp_path / "wrong.yaml"))
    assert result.exit_code == 2
    assert "wrong.yaml:1:1: " in result.stderr


def test_a_value_from_elsewhere_is_shown_with_its_call_and_with_the_turn_that_made_it(tmp_path: Path) -> None:
    def tool(number: int, name: str, arguments: str, result: str) -> dict[str, Any]:
        return {"id": number, "parent": 1, "at": [number, number + 1], "attributes": {
            "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name,
            "gen_ai.tool.call.arguments": arguments, "gen_ai.tool.call.result": result,
        }}  # fmt: skip

    agent = {"id": 1, "attributes": {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "talk"}}
    find, refund = tool(2, "find", "{}", '{"id": 110.0}'), tool(3, "refund", '{"id": 120.0}', "ok")
    args = {"id": {"$from": "find.output.id"}}
    item = {"evaluator": "tool-call-args", "tool_calls": [{"name": "refund", "args": args}]}
    order = {"evaluator": "constraints", "constraints": [{"before": "refund", "comes": "find"}]}
    rules = RuleSet(
        [
            Rule.model_validate({"id": name, "match": {"tools": ["refund"]}, "evaluate": [each]})
            for name, each in (("a-rule", item), ("order", order))
        ]
    )
    records = []
    for number, calls in ((1, [find]), (2, [refund]), (3, [find, refund])):
        trace = build.trace(
            [{**span, "at": [number * 100 + at for at in span.get("at", [0, 9])]} for span in [agent, *calls]],
            bytes(15) + bytes([number]),
        )
        records.append(trace_result(trace, judge(trace, rules), "live", ""))
    assert "earlier turn" not in str(records[1].decisions)  # what is stored depends on the trace alone
    store_with(tmp_path, *records)
    never, other = (run(tmp_path, "why", f"{number:032x}").output for number in (2, 3))
    assert " ".join(never.split()).count("find was called in an earlier turn of the session") == 2  # by each rule
    assert "scope: session" in never
    assert 'found 120.0, expected {"$from": "find.output.id"}: 110.0 in call 1 (find)' in " ".join(other.split())
    assert "earlier turn" not in other
    pair = next(p for p in run_json(tmp_path, "why", f"{3:032x}") if p["outcome"] == "fail")
    assert pair["evaluations"][0]["differences"][0]["looked_up"][0]["value"] == 110.0


def test_calls_that_one_clause_kept_out_are_told_once_and_each_is_listed(tmp_path: Path) -> None:
    def call(number: int, name: str) -> dict[str, Any]:
        attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
        return {"id": number, "parent": 1, "at": [number, number + 1], "attributes": attributes}

    agent = {"id": 1, "attributes": {"gen_ai.operation.name": "invoke_agent"}}
    names = ["find", "find", "refund", "find", "refund"]
    trace = build.trace([agent, *(call(number, name) for number, name in enumerate(names, 2))], bytes(15) + b"\x01")
    item = {"evaluator": "tool-call-order", "tool_calls_order": ["refund"]}
    rules = [
        {"id": "of-refunds", "match": {"tools": ["refund"]}},
        {"id": "of-others", "match": {"tools": ["ship"]}},
    ]
    files = []
    for rule in rules:
        files.append(tmp_path / f"{rule['id']}.rule.yaml")
        files[-1].write_text(json.dumps({**rule, "scope": "tool-call", "evaluate": [item]}))
    store_with(tmp_path, trace_result(trace, judge(trace, load_rules(files)), "live", ""))
    options = [word for file in files for word in ("--rules", str(file))]
    lines = [" ".join(line.split()) for line in run(tmp_path, "why", "00000000", *options).stdout.splitlines()]
    told = [line for line in lines if " of-refunds " in line or " of-others " in line]
    judged_well = "score 1, threshold 1. The expected call was made in the expected order."
    assert sorted(told) == [
        'not_matched of-others 5 tool-calls match.tools does not hold: expected ["ship"]',
        'not_matched of-refunds 3 tool-calls match.tools does not hold: expected ["refund"]',
        f"✓ pass of-refunds tool-call 0000000000000004 {judged_well}",
        f"✓ pass of-refunds tool-call 0000000000000006 {judged_well}",
    ]
    decisions = [pair["decision"] for pair in run_json(tmp_path, "why", f"{1:032x}", *options)]
    assert decisions == ["evaluated"] * 2 + ["not_matched"] * 8
    of_one = run_json(tmp_path, "why", f"{1:032x}", "--rule", "of-others", *options)
    assert {pair["rule_id"] for pair in of_one} == {"of-others"}
    pairs = run_json(tmp_path, "why", f"{1:032x}", *options)
    kept_out = [(pair["rule_id"], pair["subject"]["id"]) for pair in pairs if pair["decision"] == "not_matched"]
    assert sorted(kept_out) == [
        *(("of-others", f"{number:016x}") for number in range(2, 7)),
        *(("of-refunds", f"{number:016x}") for number in (2, 3, 5)),
    ]
