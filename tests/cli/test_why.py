from pathlib import Path

import pytest

from cli.stored import run, run_json, store
from pipeline.harness import agent_span, payload
from store.judged_traces import AGENT_SPAN, judged, spans, trace_id
from tracegrade.deliver.record import JudgedTrace
from tracegrade.extract.unread import UNREAD_KEYS
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.record import Encoding, Entry
from tracegrade.match.load import load_rules
from tracegrade.model.signal import Signal
from tracegrade.store.kept_spans import encode_spans
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
    store(tmp_path, judged(1, "fail"))
    found = run_json(tmp_path, "why", trace_id(1), "--rules", str(rules))
    assert {item["rule_id"]: (item["decision"], item["reason"]) for item in found} == {
        "checkout-order": ("evaluated", ""),
        "of-another-service": ("not_matched", 'match.service does not hold: expected "bank-*"'),
        "of-another-tool": ("not_matched", 'match.tools does not hold: expected ["refund"]'),
        "of-another-tier": ("not_matched", 'match.attributes.tenant.tier does not hold: expected "gold"'),
        "excluded": ("not_matched", "excluded: all clauses of unless hold"),
        "came-later": (
            "not_judged",
            "it matches now, but was not in force (or was another) when the trace was judged",
        ),
    }
    assert all(item["subject"] == {"kind": "agent", "id": AGENT_SPAN} for item in found)


def test_rules_whose_text_was_edited_since_judged_alike(tmp_path: Path, rules: Path) -> None:
    """Rule sets that were in force are known by what they judge; one that never was is another."""
    before = load_rules([rules])
    trace = judged(1, "fail")
    store(tmp_path, JudgedTrace({**trace.trace, "rule_set_hash": before.hash}, trace.spans, [], trace.decisions))
    engine = open_store(f"sqlite:///{tmp_path / 'tracegrade.db'}")
    with engine.begin() as connection:
        save_rule_texts(connection, before, 5)
    engine.dispose()

    def other_rules() -> bool:
        return "judged by other rules" in run(tmp_path, "why", trace_id(1), "--rules", str(rules)).stdout

    assert not other_rules()
    file = rules / "came-later.rule.yaml"
    file.write_text(file.read_text() + "title: Said otherwise\nlevel: critical\n")
    assert load_rules([rules]).hash != before.hash
    assert not other_rules()
    file.write_text(file.read_text() + "scope: trace\n")
    assert other_rules()


def test_an_evaluated_pair_shows_its_evaluations(tmp_path: Path) -> None:
    store(tmp_path, judged(1, "fail"))
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
    store(tmp_path, judged(1, "not_evaluable"))
    output = run(tmp_path, "why", trace_id(1), "--rules", str(rules)).stdout
    assert f"trace {trace_id(1)} of shop, tenant default\n" in output
    assert "judged by other rules than those in force now" in output
    assert "– not_evaluable" in output
    assert "create_order has no arguments" in output
    assert 'match.service does not hold: expected "bank-*"' in output


def test_a_tool_known_by_another_name_is_told(tmp_path: Path, rules: Path) -> None:
    store(tmp_path, judged(1, "fail"))
    (tmp_path / "config.yaml").write_text("traces: {tool_aliases: {refund: [create_*]}}")
    settings = ("-c", str(tmp_path / "config.yaml"), "--rules", str(rules))
    assert "the tool create_order is refund to rules" in run(tmp_path, "why", trace_id(1), *settings).stdout
    found = {item["rule_id"]: item["decision"] for item in run_json(tmp_path, "why", trace_id(1), *settings)}
    assert found["of-another-tool"] == "not_judged"


def test_spans_that_no_dialect_reads_are_told(tmp_path: Path) -> None:
    record, kept = judged(1, "fail"), spans(1)
    kept[0].attributes = {UNREAD_KEYS: ["acme.args", "acme.tool"]}
    record.spans = encode_spans(kept, [])
    store(tmp_path, record)
    output = run(tmp_path, "why", trace_id(1)).stdout
    assert "looks like a tool call, and no\n    dialect reads it: acme.args, acme.tool\n" in output


def test_spans_that_came_too_late_are_counted(tmp_path: Path) -> None:
    store(tmp_path, judged(1, last_position=0))
    journal = LocalJournal.open(tmp_path / "journal")
    request = payload([agent_span(1, 90), agent_span(1, 91)])
    journal.append(Entry(Signal.TRACES, Encoding.PROTOBUF, "default", 2, request)).result()
    journal.close()
    output = run(tmp_path, "why", trace_id(1)).stdout
    assert "  2 spans not judged: came later than traces.reopen_for, 20" in output


def test_a_rule_whose_scope_finds_nothing_says_so(tmp_path: Path) -> None:
    (tmp_path / "calls.rule.yaml").write_text(RULE.format(id="of-calls", match="") + "scope: tool-call\n")
    record = judged(1, evaluations=[])
    record.spans = encode_spans(spans(1)[:1], [])
    store(tmp_path, record)
    (pair,) = run_json(tmp_path, "why", trace_id(1), "--rules", str(tmp_path / "calls.rule.yaml"))
    assert (pair["decision"], pair["reason"]) == ("not_matched", "no subject: the trace has no tool-call")


def test_without_rules_only_what_was_stored_is_told(tmp_path: Path) -> None:
    store(tmp_path, judged(1))
    (tmp_path / "config.yaml").write_text("rules: {paths: []}")
    assert "no rules given" in run(tmp_path, "why", trace_id(1), "-c", str(tmp_path / "config.yaml")).stdout


def test_an_unknown_trace_ends_with_1_and_says_what_may_be_the_cause(tmp_path: Path) -> None:
    store(tmp_path, judged(1))
    result = run(tmp_path, "why", trace_id(77))
    assert result.exit_code == 1
    assert f"Trace {trace_id(77)} is not in the store. It may" in result.stderr
    assert str(tmp_path) in result.stderr


def test_a_wrong_rule_ends_with_2(tmp_path: Path) -> None:
    store(tmp_path, judged(1))
    (tmp_path / "wrong.yaml").write_text("id: x\n")
    result = run(tmp_path, "why", trace_id(1), "--rules", str(tmp_path / "wrong.yaml"))
    assert result.exit_code == 2
    assert "wrong.yaml:1:1: " in result.stderr
