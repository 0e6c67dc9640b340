import json
import shutil
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from build import each, store_with
from build.judged_traces import judged, spans, tool_call, trace_id
from build.otlp import payload, spans_of
from pipeline.test_sessions import turn
from tracegrade.cli import main
from tracegrade.codec.kept_spans import encode_spans
from tracegrade.otlp.json import to_json
from tracegrade.rule.load import builtin_rules, load_rules
from tracegrade.store.open import open_store
from tracegrade.store.rule_texts import save_rule_texts

DEMO_RULE = "order-steps-out-of-order"


BROKEN = """
from tracegrade.evaluate.evaluator import Evaluator, ParameterModel

class Criteria(ParameterModel):
    pass

class Settings(ParameterModel):
    pass


def score(evidence, criteria, settings):
    # the next line raises
    return {}["amount"]

EVALUATOR = Evaluator(name="broken", summary="Broken?", Criteria=Criteria, Settings=Settings, score=score)
"""


@pytest.fixture
def rule(tmp_path: Path) -> Path:
    """A copy of a ready-made rule with its tests and traces."""
    folder = tmp_path / "rules" / DEMO_RULE
    shutil.copytree(builtin_rules() / "demo" / DEMO_RULE, folder)
    return folder


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["rules", *map(str, arguments)], catch_exceptions=False)


def rows(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


class TestCheck:
    def test_good_rules_exit_0(self, rule: Path) -> None:
        result = run("check", rule)
        assert result.exit_code == 0
        assert result.stdout.startswith("1 rule, nothing wrong (rule set ")

    def test_every_mistake_is_said_on_its_line_and_exits_2(self, rule: Path) -> None:
        change(rule / "rule.yaml", "level: high", "levle: high")
        change(rule / "rule.yaml", "tool-call-order\n", "tool-call-ordr\n")
        result = run("check", rule)
        assert result.exit_code == 2
        assert result.stdout == ""
        assert [line.partition("rule.yaml:")[2] for line in result.stderr.splitlines()] == [
            "8:1: levle: unknown key 'levle'; did you mean 'level'?",
            "14:5: evaluate[0].evaluator: no evaluator 'tool-call-ordr'; did you mean 'tool-call-order'? "
            "('tracegrade rules list --evaluators' shows all)",
        ]

    def test_json_says_how_many_rules_and_their_hash(self) -> None:
        [row] = rows(run("check", "--format", "json", "builtin:demo"))
        assert row["rules"] == 3
        assert len(row["hash"]) == 16

    def test_without_a_path_the_local_folder_is_read(self, rule: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(rule.parents[1])
        assert run("check").stdout.startswith("1 rule,")

    def test_without_a_local_folder_the_ready_made_rules_are_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        ready_made = len(list(builtin_rules().rglob("rule.yaml")))
        assert run("check").stdout.startswith(f"{ready_made} rules,")

    def test_without_a_local_folder_those_of_the_settings_are_read(
        self, rule: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "config.yaml").write_text("rules: {paths: [rules]}\n")
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        settings = ("-c", "../config.yaml")
        assert run("check", *settings).stdout.startswith("1 rule,")
        assert {row["rule"] for row in rows(run("test", *settings, "--format", "json"))} == {DEMO_RULE}
        assert run("explain", DEMO_RULE, *settings).stdout.startswith(DEMO_RULE)
        assert run("explain", *settings, f"builtin:{DEMO_RULE}").stdout.startswith(DEMO_RULE)


class TestList:
    def test_rules_are_shown_with_what_they_are(self) -> None:
        [row] = rows(run("list", "--format", "json", f"builtin:{DEMO_RULE}"))
        assert row["path"].endswith(f"rules/demo/{DEMO_RULE}/rule.yaml")
        assert {name: row[name] for name in ("rule", "category", "level", "status", "scope", "evaluators")} == {
            "rule": DEMO_RULE,
            "category": "demo",
            "level": "high",
            "status": "stable",
            "scope": "agent",
            "evaluators": ["tool-call-order"],
        }

    def test_evaluators_are_shown_with_their_fields(self) -> None:
        found = {row["evaluator"]: row["fields"] for row in rows(run("list", "--evaluators", "--format", "json"))}
        assert found["tool-call-order"][:5] == ["evaluator", "name", "threshold", "matchers", "tool_calls_order"]

    def test_the_table_names_every_rule(self) -> None:
        assert DEMO_RULE in run("list", "builtin:demo").stdout

    def test_markdown_escapes_what_would_end_a_cell(self, rule: Path) -> None:
        change(rule / "rule.yaml", "title: An order", "title: a | b, an order")
        assert "| a \\| b, an order was" in run("list", "--format", "markdown", rule).stdout


def test_the_schema_is_json() -> None:
    assert json.loads(run("schema").stdout)["title"] == "Rule"


class TestExplain:
    def test_how_soon_an_alert_fires_is_said_for_a_volume(self, rule: Path) -> None:
        told = " ".join(run("explain", DEMO_RULE, rule, "--volume", "20/hour").stdout.split())
        assert "At 480 results a day of one agent, it fires after about " in told
        wrong = run("explain", DEMO_RULE, rule, "--volume", "many")
        assert wrong.exit_code == 2
        assert "expected results of one agent such as 500/day or 20/hour, found 'many'" in wrong.stderr

    def test_check_says_the_same_of_each_alert_that_can_fire(self, rule: Path) -> None:
        checked = run("check", rule, "--volume", "20/hour").stdout.splitlines()
        assert checked[0].startswith("1 rule,")
        said, budget = checked[1:]
        assert said.startswith(f"{DEMO_RULE}: pass_rate below 0.95, ")
        assert said.endswith("; at most 1 false alarm a month.")
        told = " ".join(run("explain", DEMO_RULE, rule, "--volume", "20/hour").stdout.split())
        assert said.removeprefix(f"{DEMO_RULE}: ") in told
        assert budget.removeprefix(f"{DEMO_RULE}: ") in told
        ((alert, _),) = [row["alerts"] for row in rows(run("check", rule, "--volume", "20/hour", "--format", "json"))]
        assert (alert["rule"], alert["results_a_day"], alert["false_alarms_a_month"]) == (DEMO_RULE, 480, 1)
        assert [found["size"] for found in alert["found"]] == [0.05, 0.1]
        assert alert["found"][0]["minutes"] > alert["found"][1]["minutes"] > 0
        change(rule / "rule.yaml", "status: stable", "status: experimental")
        assert len(run("check", rule, "--volume", "20/hour").stdout.splitlines()) == 1

    def test_check_takes_the_volume_of_the_store_and_says_when_it_is_unknown(self, rule: Path, tmp_path: Path) -> None:
        check = ("check", rule, "--data-dir", tmp_path / "data")
        assert "How soon it fires is unknown, without stored results or --volume" in run(*check).stdout
        (own,) = load_rules([str(rule)]).rules
        now_ns = time.time_ns()
        traces = [judged(number, first_received_ns=now_ns, last_received_ns=now_ns) for number in range(70)]
        for trace in traces:
            for decision in trace.decisions:
                decision.pair.rule_id, decision.pair.rule_hash = own.id, own.hash
        store_with(tmp_path / "data", *traces)
        assert "At 1,680 results a day of one agent" in run(*check).stdout

    def test_a_rule_is_told_in_words(self, rule: Path) -> None:
        told = run("explain", DEMO_RULE, rule).stdout
        (row,) = rows(run("list", "--format", "json", rule))
        assert [" ".join(paragraph.split()) for paragraph in told.split("\n\n")] == [
            "order-steps-out-of-order (high, stable): An order was created before the user and the stock were checked",
            "The order agent validates the user, then looks up the stock, then creates the order. "
            "Calls made together in one message may come in any order.",
            "It judges every agent run, where all of these hold: - the service is demo-shop* - create_order was called",
            "It passes when this passes: - tool-call-order: Were the expected tools called in the expected order? "
            "Only the whole score, 1, passes. - in this order, with or without others between, are called: "
            "validate_user, then check_inventory, then create_order",
            "Beyond its stored results, people are alerted when: - pass_rate below 0.95, from 20 results on, "
            "at most one false alarm in 30d. How soon it fires is unknown, without stored results or --volume; "
            "at most 1 false alarm a month. - the error budget of 5% over 7d of pass_rate is spent too fast, "
            "from 20 results on. Where nothing failed before, it fires after about 11 minutes when 100% fail and "
            "after about 8 hours when 10% fail. Incomplete traces are judged, and left out of pass rates and alerts.",
            "A fail means nothing when: - The user was validated in an earlier turn of the same conversation, "
            "in a trace of its own",
            f"Rule hash {row['hash']}, text {row['text_hash']}, written in {row['path']}",
        ]

    def test_it_says_since_when_a_rule_judges_so_and_has_its_text(self, tmp_path: Path) -> None:
        path = tmp_path / "rule.yaml"
        engine = open_store(store_with(tmp_path))
        text = "id: one\ntitle: {}\nevaluate: [{{evaluator: loop-repetition}}]\n"
        for title, hour in (("Frist", 1), ("First", 2)):
            path.write_text(text.format(title))
            with engine.begin() as connection:
                save_rule_texts(connection, load_rules([path]), hour * 3_600_000_000_000)
        engine.dispose()
        arguments = ("explain", str(path), "--data-dir", str(tmp_path))
        said = "Judges so since 1970-01-01 01:00:00 UTC, this text "
        assert run(*arguments).stdout.endswith(f"{said}since 1970-01-01 02:00:00 UTC\n")
        path.write_text(text.format("Third"))
        assert run(*arguments).stdout.endswith(f"{said}not yet in force\n")
        path.write_text(text.format("Third") + "scope: trace\n")
        assert "Judges so" not in run(*arguments).stdout

    def test_all_that_a_rule_may_say_is_told(self, tmp_path: Path) -> None:
        path = tmp_path / "rule.yaml"
        path.write_text(
            """\
id: many-things
status: experimental
scope: tool-call
match: {tools: [a, b*], prompt: {$regex: '(?i)x\\b'}, attributes: {tier: gold}, cel: "size(calls) > 1"}
unless: {environment: staging}
sample: {share: 0.05, keep_failures: true}
evaluate:
  - {evaluator: budget, name: short, max_calls: 3, threshold: 0.5}
cases:
  - {id: one, match: {prompt: "Hello"}, expected_tool: a}
  - {id: two, match: {attributes: {lang: [de, fr]}}, expected_tool: null}
incomplete: count
"""
        )
        told = " ".join(run("explain", path).stdout.split())
        for said in (
            "many-things (medium, experimental): no title",
            "It judges every tool call, and keeps 0.05 of the traces and every fail, where all of these hold:",
            "- a or b* is the tool",
            r"- the prompt has a part that matches '(?i)x\b'",
            "- the attribute tier is gold",
            "- this is true: size(calls) > 1",
            "It leaves out those where this holds: - the environment is staging",
            "- short (budget): Did the run stay within its limits",
            "tokens and cost? A score from 0.5 on passes. - it makes at most 3 calls",
            "It also has 2 cases; a subject meets at most one",
            "- one, for the prompt Hello: tool-case:",
            'With expected_tool: "a"; only',
            "- two, for lang de or fr: tool-case:",
            "nobody is alerted: it is experimental",
            "Incomplete traces count as well.",
        ):
            assert said in told

    @pytest.mark.parametrize(
        ("fields", "told"),
        [
            ("gate: {at_least: 0.98}", "In a gate it passes when its pass rate is at least 0.98."),
            (
                "gate: {at_least: 0.98, not_worse_than: baseline, margin: 0.05}",
                "passes when its pass rate is at least 0.98 and it is not worse than in the baseline, "
                "where a fall by 5 points does not matter.",
            ),
            (
                "status: experimental\ngate: {not_worse_than: v1}",
                "it is not worse than in the baseline 'v1'; but no gate counts it, since it is experimental.",
            ),
        ],
    )
    def test_what_a_gate_requires_is_told(self, tmp_path: Path, fields: str, told: str) -> None:
        path = tmp_path / "rule.yaml"
        path.write_text(f"id: one\nevaluate: [{{evaluator: budget, max_calls: 3}}]\n{fields}\n")
        assert told in " ".join(run("explain", path).stdout.split())

    @each(
        ("fields", "told"),
        [
            (
                "evaluate: [{evaluator: constraints, constraints: [{before_each: refund, comes_a_new: approve}]}]",
                "- a new approve comes before every refund (alternate_precedence)",
            ),
            (
                "when: {tool: policy, where: {output: {ok: false}}}\nthen: [{evaluator: budget, max_calls: 3}]",
                "It does so only where policy (where output.ok is false) was called. "
                "It passes when this passes, judged once, of all calls after the first such call: - budget",
            ),
            (
                "evaluate: [{evaluator: exact-match, expected_output: {$from: find.output.id}}]",
                "- the final answer is what any earlier find returned as id",
            ),
            (
                "evaluate: [{evaluator: exact-match, expected_output: {$from: {source: find.output.id, call: last}}}]",
                "- the final answer is what the last find before returned as id",
            ),
            (
                "match: {tools: '*', prompt: [Hi, {$regex: '\\d'}]}\n"
                "evaluate: [{evaluator: exact-match, expected_output: 'no', negated: true}]",
                r"where all of these hold: - any tool was called - the prompt is Hi or has a part that matches '\d' "
                "It passes when this passes: - exact-match: Is the final answer the expected one? "
                "Only the whole score, 1, passes. - the final answer is not one that is 'no'",
            ),
            (
                "evaluate: [{evaluator: contains, search_text: {$regex: a.c}, negated: true}]",
                "1, passes. - the final answer has no part that matches 'a.c'",
            ),
            (
                "evaluate: [{evaluator: contains, search_text: abc, case_sensitive: true}]",
                "1, passes. - the final answer contains 'abc' Its",
            ),
            (
                "evaluate: [{evaluator: contains, search_text: {$from: find.output.id}, negated: true}]",
                "- the final answer does not contain what any earlier find returned as id",
            ),
            (
                "evaluate: [{evaluator: tool-call-order, tool_calls_order: [a, b], strict: true}]",
                "1, passes. - just these are called, in this order: a, then b",
            ),
            (
                "evaluate: [{evaluator: tool-call-count, tool_calls_count: {a: ['<=', 1], b: ['!=', 2]}}]",
                "- a is called at most 1 time - b is called not exactly 2 times",
            ),
            (
                "evaluate: [{evaluator: tool-permission, allowed_tools: [a], denied_tools: [c], declared_only: true}]",
                "- only a is called - c is never called - only tools that the trace's tool definitions declare",
            ),
            (
                "evaluate: [{evaluator: budget, max_errors: 1, max_duration: 90s, max_tokens: 5}]",
                "- at most 1 of its calls fail - it takes at most 90s - its model calls take at most 5 tokens",
            ),
            ("evaluate: [{evaluator: abstention, should_call_tool: false}]", "1, passes. - no tool is called"),
            (
                "evaluate: [{evaluator: loop-repetition, failed_only: true, count_retries: false}]",
                "- no call fails 3 times or more with the same arguments; one that failed before an equal one",
            ),
            (
                "evaluate: [{evaluator: tool-call-args, tool_calls: [{name: a, args: {n: 1}}]}]",
                "1, passes. - a call of a is made, where args.n is 1, and there is no other argument",
            ),
            (
                "evaluate: [{evaluator: tool-call-args, values: glob, tool_calls: [{name: a, args: {n: '1*'}}]}]",
                'With values: "glob", tool_calls: [{"name":"a","args":{"n":"1*"}}];',
            ),
            (
                "evaluate: [{evaluator: tool-call-args, tool_calls: [{name: a, args: {}}]}]",
                "1, passes. - a call of a is made without arguments",
            ),
            (
                "evaluate: [{evaluator: tool-call-output, "
                "tool_outputs: [{name: a, output: {}}, {name: b, output: x}]}]",
                "- a call of a is made, where output is {}, and there is nothing else in it - a call of b is made, "
                "where output is 'x' Its",
            ),
            (
                "evaluate: [{evaluator: tool-call-output, subset: true, tool_outputs: [{name: a, output: {n: [1]}}]}]",
                "1, passes. - a call of a is made, where output.n is [1] Its",
            ),
        ],
    )
    def test_what_may_be_read_in_two_ways_is_told_in_one(self, tmp_path: Path, fields: str, told: str) -> None:
        path = tmp_path / "rule.yaml"
        path.write_text(f"id: one\n{fields}\n")
        assert told in " ".join(run("explain", path).stdout.split())

    def test_every_ready_made_rule_can_be_told(self) -> None:
        told = run("explain", "builtin:all").stdout
        assert told.count("\nRule hash ") == len(list(builtin_rules().rglob("rule.yaml")))

    def test_an_unknown_rule_exits_2_and_names_a_near_one(self, rule: Path) -> None:
        result = run("explain", "order-steps-out-of-ordr", rule)
        assert result.exit_code == 2
        assert "did you mean 'order-steps-out-of-order'?" in result.stderr


class TestNew:
    def test_what_is_written_passes_its_own_tests(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        made = run("new", "refunds/refund-without-lookup")
        assert made.exit_code == 0, made.output
        folder = tmp_path / "rules" / "refunds" / "refund-without-lookup"
        assert sorted(path.name for path in folder.rglob("*.*")) == [
            "looked_up_then_refunded.json",
            "refunded_at_once.json",
            "rule.yaml",
            "tests.yaml",
        ]
        assert [row["outcome"] for row in rows(run("test", "--format", "json"))] == ["pass", "pass"]
        (row,) = rows(run("list", "--format", "json"))
        assert (row["rule"], row["category"], row["status"]) == ("refund-without-lookup", "refunds", "experimental")
        first = (folder / "rule.yaml").read_text().splitlines()[0]
        schema = (folder / first.partition("=")[2]).resolve()
        assert json.loads(schema.read_text()) == json.loads(run("schema").stdout)

    def test_a_rule_that_is_there_stays(self, tmp_path: Path) -> None:
        assert run("new", "a/b", "--in", tmp_path).exit_code == 0
        (tmp_path / "a" / "b" / "rule.yaml").write_text("mine")
        again = run("new", "a/b", "--in", tmp_path)
        assert again.exit_code == 2
        assert "a rule of this id exists already" in again.stderr
        assert (tmp_path / "a" / "b" / "rule.yaml").read_text() == "mine"

    @each("name", ["b", "a/b/c", "A/b", "a/", "../b", "a/b_c"])
    def test_a_name_that_is_none_is_refused(self, name: str, tmp_path: Path) -> None:
        result = run("new", name, "--in", tmp_path)
        assert result.exit_code == 2
        assert "expected CATEGORY/ID" in result.stderr
        assert ("category is missing" in result.stderr) == (name in ("b", "a/"))
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("calls", [True, False])
    def test_a_stored_trace_becomes_what_is_expected(self, tmp_path: Path, calls: bool) -> None:
        kept = spans(1) if calls else spans(1)[:1]
        store_with(tmp_path, replace(judged(1), spans=encode_spans(kept, [])))
        name = "orders/usual-order-left"
        made = run("new", name, "--in", tmp_path / "rules", "--from-trace", trace_id(1), "--data-dir", tmp_path)
        assert made.exit_code == 0, made.output
        assert "2 passed, 0 failed" in made.output
        rule = yaml.safe_load((tmp_path / "rules" / name / "rule.yaml").read_text())
        assert rule["match"] == {"service": "shop", "agent": "support"}
        assert rule["evaluate"] == [
            {"evaluator": "tool-call-order", "tool_calls_order": ["create_order"]}
            if calls
            else {"evaluator": "abstention", "should_call_tool": False}
        ]
        assert (tmp_path / "rules" / name / "traces" / f"{trace_id(1)}.json").exists()

    def test_what_could_not_be_read_of_the_trace_is_said(self, tmp_path: Path) -> None:
        agent, call = spans(1)
        nameless = replace(call, name="work", span_id=b"9" * 8, attributes={"gen_ai.operation.name": "execute_tool"})
        store_with(tmp_path, replace(judged(1), spans=encode_spans([agent, call, nameless], [])))
        options = ("--in", tmp_path / "rules", "--from-trace", trace_id(1), "--data-dir", tmp_path)
        made = run("new", "a/b", *options)
        assert "was not read: the tool of a call cannot be read" in made.output

    def test_all_agents_of_a_trace_are_expected_or_the_one_that_is_named(self, tmp_path: Path) -> None:
        agent, call = spans(1)
        booking, hold = replace(agent, span_id=b"9" * 8), replace(call, span_id=b"8" * 8, parent_span_id=b"9" * 8)
        booking.parent_span_id, hold.start_ns = agent.span_id, call.start_ns + 1
        booking.attributes = {**agent.attributes, "gen_ai.agent.name": "booking"}
        hold.attributes = {**call.attributes, "gen_ai.tool.name": "hold_seat"}
        store_with(tmp_path, replace(judged(1), spans=encode_spans([agent, call, booking, hold], [])))
        options = ("--in", tmp_path / "rules", "--from-trace", trace_id(1)[:8], "--data-dir", tmp_path)
        wanted = {
            (): ("trace", "support", ["create_order", "hold_seat"]),
            ("--agent", "booking"): ("agent", "booking", ["hold_seat"]),
        }
        for number, (chosen, expected) in enumerate(wanted.items()):
            made = run("new", f"{tmp_path / 'rules'}/a/of-{number}", *options, *chosen)
            assert made.exit_code == 0, made.output
            rule = yaml.safe_load((tmp_path / "rules" / "a" / f"of-{number}" / "rule.yaml").read_text())
            order = rule["evaluate"][0]["tool_calls_order"]
            assert (rule["scope"], rule["match"]["agent"], order) == expected
        refused = run("new", "a/other", *options, "--agent", "nobody")
        assert "no run of the trace is of this agent; agents: booking, support; leave it out" in refused.stderr

    def test_personal_data_of_a_stored_trace_is_not_written(self, tmp_path: Path) -> None:
        agent, call = spans(1)
        asked = [{"role": "user", "parts": [{"type": "text", "content": "Write to ann.lee@acme.io."}]}]
        agent.attributes["gen_ai.input.messages"] = json.dumps(asked)
        call.attributes["gen_ai.tool.call.arguments"] = json.dumps({"to": "ann.lee@acme.io", "total": 3})
        store_with(tmp_path, replace(judged(1), spans=encode_spans([agent, call], [])))
        options = ("--in", tmp_path / "rules", "--from-trace", trace_id(1), "--data-dir", tmp_path)
        made = run("new", "orders/mailed", *options)
        assert (made.exit_code, made.output.count("redacted 2 email\n")) == (0, 1), made.output
        written = (tmp_path / "rules" / "orders" / "mailed" / "traces" / f"{trace_id(1)}.json").read_text()
        assert ("ann.lee" in written, written.count("user1@example.com")) == (False, 2)
        for name, option in (("kept", "--keep=gen_ai.input.messages*"), ("whole", "--no-redact")):
            assert run("new", f"orders/{name}", *options, option).exit_code == 0
            written = (tmp_path / "rules" / "orders" / name / "traces" / f"{trace_id(1)}.json").read_text()
            assert written.count("ann.lee@acme.io") == 2  # a value that is kept stays wherever it stands
        assert "are for --from-trace" in run("new", "a/b", "--in", tmp_path / "rules", "--no-redact").stderr

    def test_a_value_that_the_rule_would_name_is_asked_about(self, tmp_path: Path) -> None:
        agent, call = spans(1)
        agent.attributes["gen_ai.agent.name"] = "ann.lee@acme.io"
        store_with(tmp_path, replace(judged(1), spans=encode_spans([agent, call], [])))
        options = ("--in", tmp_path / "rules", "--from-trace", trace_id(1), "--data-dir", tmp_path)
        made = run("new", "orders/mailed", *options)
        assert made.exit_code == 2
        assert "give --keep 'gen_ai.agent.name'" in made.stderr
        assert not (tmp_path / "rules").exists()
        made = run("new", "orders/mailed", *options, "--keep", "gen_ai.agent.name")
        assert made.exit_code == 0, made.output
        assert "keeps 1 value that looks personal or secret, at gen_ai.agent.name" in made.output

    def test_a_trace_that_is_not_stored_writes_nothing(self, tmp_path: Path) -> None:
        store_with(tmp_path, judged(1))
        made = run("new", "a/b", "--in", tmp_path / "rules", "--from-trace", trace_id(7), "--data-dir", tmp_path)
        assert made.exit_code == 2
        assert "is not in the store" in made.stderr
        assert not (tmp_path / "rules").exists()


class TestTest:
    def test_tools_may_come_under_the_other_names_that_the_settings_give(self, rule: Path, tmp_path: Path) -> None:
        for trace in (rule / "traces").iterdir():
            trace.write_text(trace.read_text().replace('"create_order"', '"shop__create_order"'))
        assert run("test", rule).exit_code == 1
        (tmp_path / "config.yaml").write_text('traces: {tool_aliases: {create_order: ["*__create_order"]}}')
        assert run("test", rule, "-c", tmp_path / "config.yaml").exit_code == 0

    BUDGET = """\
id: too-expensive
scope: trace
evaluate: [{evaluator: budget, max_cost: 0.05}]
"""

    def test_what_runs_cost_is_known_by_the_prices_of_the_settings(self, rule: Path, tmp_path: Path) -> None:
        (rule / "rule.yaml").write_text(self.BUDGET.replace("too-expensive", rule.name))
        tests = [
            {"description": name, "trace": f"{name}.json", "expect": {"budget": outcome}}
            for name, outcome in (("cheap", "pass"), ("dear", "fail"))
        ]
        (rule / "tests.yaml").write_text(yaml.safe_dump(tests))
        for name, tokens in (("cheap", 1_000), ("dear", 20_000)):
            attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o-mini"}
            numbers = {"gen_ai.usage.input_tokens": tokens, "gen_ai.usage.output_tokens": 100}
            span = {"traceId": f"{tokens:032x}", "spanId": f"{tokens:016x}", "name": "chat", "kind": 3}
            span |= {"startTimeUnixNano": "1000", "endTimeUnixNano": "2000"}
            span["attributes"] = [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]
            span["attributes"] += [{"key": key, "value": {"intValue": str(value)}} for key, value in numbers.items()]
            request = {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": [span]}]}]}
            (rule / "traces" / f"{name}.json").write_text(json.dumps(request))
        assert "found budget: not_evaluable" in run("test", rule).stdout
        settings = tmp_path / "config.yaml"
        settings.write_text("traces: {prices: {'gpt-4o*': {input: 2.5, output: 10}}}")
        assert run("test", rule, "-c", settings).stdout.endswith("2 passed, 0 failed\n")
        warned = run("check", rule)
        place = f"{rule / 'rule.yaml'}:3:32: evaluate[0].max_cost"
        assert f"Warning: {place}: costs are not known" in warned.stderr
        assert "the setting traces.prices is empty" in warned.stderr
        assert run("check", rule, "-c", settings).stderr == ""

    def test_rules_whose_tests_hold_exit_0(self, rule: Path) -> None:
        result = run("test", rule)
        assert result.exit_code == 0
        assert "6 passed, 0 failed" in result.stdout

    def test_json_has_one_object_a_test(self, rule: Path) -> None:
        found = rows(run("test", "--format", "json", rule))
        assert found[1] == {
            "rule": DEMO_RULE,
            "test": "ordered first, validated last",
            "traces": ["ordered_before_validated.json"],
            "expect": {"tool-call-order": "fail"},
            "found": {"tool-call-order": "fail"},
            "known_gap": None,
            "outcome": "pass",
            "message": "",
        }
        assert found[-1]["found"] == "not_matched"

    def failures(self, rule: Path) -> list[str]:
        result = run("test", "--format", "json", rule)
        messages = [row["message"] for row in rows(result) if row["outcome"] == "fail"]
        assert result.exit_code == (1 if messages else 0)
        return messages

    def test_another_outcome_than_expected_exits_1(self, rule: Path) -> None:
        change(rule / "rule.yaml", "[validate_user, check_inventory, create_order]", "[create_order]")
        assert self.failures(rule) == [
            "expected tool-call-order: fail, found tool-call-order: pass",
            "expected tool-call-order: fail, found tool-call-order: pass",
            "no trace that fails it",
        ]

    def test_it_says_why_there_is_no_score_where_one_was_expected(self, rule: Path) -> None:
        needed = "  - {evaluator: budget, name: tool-call-order, max_cost: 1}\n"
        text = (rule / "rule.yaml").read_text()
        (rule / "rule.yaml").write_text(text[: text.index("  - evaluator:")] + needed)
        (rule / "tests.yaml").write_text(
            "- {description: a, trace: ordered_before_validated.json, expect: {tool-call-order: pass}}\n"
            "- {description: b, trace: ordered_before_validated.json, expect: {tool-call-order: not_evaluable}}\n"
            "- {description: c, trace: ordered_before_validated.json, expect: not_matched}\n"
        )
        why = "The cost is not known: the setting traces.prices is empty; state there what each model costs."
        found = f"found tool-call-order: not_evaluable; tool-call-order: {why}"
        assert self.failures(rule)[:2] == [
            f"expected tool-call-order: pass, {found}",
            f"expected not_matched, {found}",
        ]

    def test_it_says_which_error_a_file_raises(self, rule: Path) -> None:
        text = (rule / "rule.yaml").read_text()
        item = "  - {evaluator: ./broken.py, name: tool-call-order}\n"
        (rule / "rule.yaml").write_text(text[: text.index("  - evaluator:")] + item)
        (rule / "broken.py").write_text(BROKEN)
        result = run("--allow-code", "test", "--format", "json", rule)
        assert result.exit_code == 1
        assert rows(result)[0]["message"] == (
            "expected tool-call-order: pass, found tool-call-order: error; "
            "tool-call-order: KeyError: 'amount' (./broken.py:13)"
        )

    def test_a_rule_that_no_longer_matches_fails_its_tests(self, rule: Path) -> None:
        change(rule / "rule.yaml", "demo-shop*", "other")
        found = self.failures(rule)
        assert found[0] == "expected tool-call-order: pass, found not_matched"
        assert found[-1] == "no trace that fails it and no trace that passes it"

    def test_a_rule_that_matches_too_much_fails_its_tests(self, rule: Path) -> None:
        change(rule / "rule.yaml", "  tools: [create_order]\n", "")
        assert self.failures(rule) == ["expected not_matched, found tool-call-order: fail"]

    def test_a_known_gap_must_still_miss(self, rule: Path) -> None:
        change(rule / "tests.yaml", "expect: not_matched", "expect: {tool-call-order: fail}\n  known_gap: some day")
        assert self.failures(rule) == []
        change(rule / "tests.yaml", "expect: {tool-call-order: fail}\n  known_gap", "expect: not_matched\n  known_gap")
        assert self.failures(rule) == ["the known gap is closed: remove 'known_gap'"]

    def test_a_stable_rule_of_one_s_own_needs_one_dialect_alone(self, rule: Path) -> None:
        tests = (rule / "tests.yaml").read_text()
        (rule / "tests.yaml").write_text(tests.partition("- description: the right order, as OpenInf")[0] + "\n")
        assert self.failures(rule) == []

    def test_a_ready_made_stable_rule_without_traces_of_two_dialects_fails(
        self, rule: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tracegrade.pipeline.rule_tests.builtin_rules", lambda: rule.parent)
        tests = (rule / "tests.yaml").read_text()
        (rule / "tests.yaml").write_text(tests.partition("- description: the right order, as OpenInf")[0] + "\n")
        assert self.failures(rule) == [
            "a stable rule fails and passes on traces of two dialects; fails it on 1, passes it on 1 alone"
        ]
        change(rule / "rule.yaml", "status: stable", "status: experimental")
        assert self.failures(rule) == []

    def test_reports_name_the_rule_and_the_test(self, rule: Path) -> None:
        change(rule / "tests.yaml", "expect: not_matched", "expect: {tool-call-order: pass}")
        result = run("test", "--format", "junit", rule)
        assert result.exit_code == 1
        assert f'<testsuite name="{DEMO_RULE}" tests="6" failures="1"' in result.stdout
        assert run("test", "--format", "markdown", rule).stdout.startswith("## Tests of rules\n")

    def test_a_known_gap_is_no_proof_that_a_rule_can_fail(self, rule: Path) -> None:
        change(rule / "tests.yaml", "expect: {tool-call-order: fail}", "expect: not_matched\n  known_gap: some day")
        assert self.failures(rule) == ["no trace that fails it"]

    def test_several_files_are_one_input(self, rule: Path) -> None:
        traces = rule / "traces"
        request = json.loads((traces / "validated_checked_ordered.json").read_text())
        spans = request["resourceSpans"][0]["scopeSpans"][0]["spans"]
        for name, part in (("first.json", spans[:4]), ("second.json", spans[4:])):
            request["resourceSpans"][0]["scopeSpans"][0]["spans"] = part
            (traces / name).write_text(json.dumps(request))
        change(rule / "tests.yaml", "trace: validated_checked_ordered.json", "trace: [second.json, first.json]")
        assert self.failures(rule) == []

    def test_a_session_is_tested_on_several_traces(self, tmp_path: Path) -> None:
        evaluate = [{"evaluator": "tool-call-order", "tool_calls_order": ["find_order", "refund"]}]
        (tmp_path / "traces").mkdir()
        (tmp_path / "rule.yaml").write_text(yaml.dump({"id": "looked-up", "scope": "session", "evaluate": evaluate}))
        for number, tool in enumerate(["find_order", "refund"], 1):
            sent = payload(spans_of(turn(number, "chat-1", tool, number * 1000)))
            found = to_json(ExportTraceServiceRequest.FromString(sent))
            (tmp_path / "traces" / f"{tool}.json").write_text(json.dumps(found))
        both = {"description": "in two turns", "trace": ["refund.json", "find_order.json"]}
        alone = {"description": "not at all", "trace": "refund.json"}
        expected = [both | {"expect": {"tool-call-order": "pass"}}, alone | {"expect": {"tool-call-order": "fail"}}]
        (tmp_path / "tests.yaml").write_text(yaml.dump(expected))
        assert self.failures(tmp_path) == []

    def test_of_several_subjects_the_worst_outcome_counts(self, rule: Path) -> None:
        good, bad = (
            rule / "traces" / f"{name}.json" for name in ("validated_checked_ordered", "ordered_before_validated")
        )
        good.write_text(json.dumps(json.loads(good.read_text())) + "\n" + json.dumps(json.loads(bad.read_text())))
        assert self.failures(rule) == ["expected tool-call-order: pass, found tool-call-order: fail"]

    def test_a_rule_without_tests_fails(self, rule: Path) -> None:
        (rule / "tests.yaml").unlink()
        (failure,) = self.failures(rule)
        assert failure.startswith("no tests.yaml beside rule.yaml; 'tracegrade promote --failing ")

    def test_a_named_rule_has_named_tests(self, rule: Path) -> None:
        (rule / "rule.yaml").rename(rule / "steps.rule.yaml")
        (failure,) = self.failures(rule)
        assert failure.startswith("no steps.tests.yaml beside steps.rule.yaml; ")
        (rule / "tests.yaml").rename(rule / "steps.tests.yaml")
        assert self.failures(rule) == []

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            (
                "expect: {tool-call-order: pass}",
                "expect: {tool-call-ordr: pass}",
                "3:12: [0].expect.tool-call-ordr: no evaluation 'tool-call-ordr'; did you mean 'tool-call-order'?",
            ),
            ("validated_checked_ordered.json", "missing.json", "2:3: [0].trace: no file 'missing.json' in "),
            ("- description: validated", "- descripton: validated", "1:3: [0]: key 'description' is missing"),
        ],
    )
    def test_a_mistake_in_the_tests_is_placed_and_exits_2(self, rule: Path, old: str, new: str, message: str) -> None:
        change(rule / "tests.yaml", old, new)
        result = run("test", rule)
        assert result.exit_code == 2
        assert f"tests.yaml:{message}" in result.stderr

    def test_an_outcome_that_does_not_exist_is_refused(self, rule: Path) -> None:
        change(rule / "tests.yaml", "{tool-call-order: fail}", "{tool-call-order: failed}")
        result = run("test", rule)
        assert result.exit_code == 2
        assert [line.partition("tests.yaml:")[2] for line in result.stderr.splitlines()] == [
            f"{line}:12: [{test}].expect.tool-call-order: "
            "expected 'pass', 'fail', 'not_evaluable' or 'error', found 'failed'"
            for line, test in ((6, 1), (15, 4))
        ]


class TestWarnings:
    RULE = """\
id: looks-wrong
match: {prompt: "refund*"}
evaluate: [{evaluator: tool-call-order, tool_calls_order: [find_order, refund]}]
"""

    def test_what_looks_wrong_is_warned_about_and_strictly_refused(self, tmp_path: Path) -> None:
        (tmp_path / "looks.rule.yaml").write_text(self.RULE)
        place = f"{tmp_path / 'looks.rule.yaml'}:2:9: match.prompt: 'refund*' looks like a glob"
        found = run("check", tmp_path)
        assert (found.exit_code, found.stdout[:19]) == (0, "1 rule, 1 warning (")
        assert f"Warning: {place}" in found.stderr
        strict = run("check", "--strict", tmp_path)
        assert strict.exit_code == 2
        assert f"Error: {place}" in strict.stderr
        (warning,) = json.loads(run("check", "--format", "json", tmp_path).stdout)["warnings"]
        assert (warning["line"], warning["column"]) == (2, 9)

    def test_a_folder_that_is_not_named_as_its_rule_is_warned_about(self, tmp_path: Path) -> None:
        text = "id: looks\nevaluate: [{evaluator: budget, max_calls: 3}]\n"
        for place in ("looks/rule.yaml", "seat/looks.rule.yaml", "seat/rule.yaml"):
            (file := tmp_path / place).parent.mkdir(exist_ok=True)
            file.write_text(text)
            checked = run("check", file.parent if place == "looks/rule.yaml" else file)
            assert ("Warning:" in checked.stderr) == (place == "seat/rule.yaml"), place
        assert f"{file}:1:1: id: its folder is named 'seat'; rename one of the two" in checked.stderr

    MISSPELT = """\
id: misspelt
evaluate: [{evaluator: tool-call-order, tool_calls_order: [validate_usr, create_order]}]
"""

    def misspelt(self, tmp_path: Path) -> tuple[str | Path, ...]:
        (tmp_path / "misspelt.rule.yaml").write_text(self.MISSPELT)
        return "check", tmp_path / "misspelt.rule.yaml", "--data-dir", tmp_path

    def test_a_tool_that_no_stored_trace_calls_is_warned_about(self, tmp_path: Path) -> None:
        check = self.misspelt(tmp_path)
        calls = [tool_call(), tool_call(name="validate_user")]
        store_with(tmp_path, judged(1, tool_calls=calls))
        place = f"{tmp_path / 'misspelt.rule.yaml'}:2:60: evaluate[0].tool_calls_order[0]"
        found = run(*check)
        assert (found.exit_code, found.stdout[:19]) == (0, "1 rule, 1 warning (")
        told = f"{place}: no stored trace calls 'validate_usr'; did you mean 'validate_user'?"
        assert found.stderr == f"Warning: {told}\n"
        strict = run(*check, "--strict")
        assert (strict.exit_code, strict.stderr) == (2, f"Error: {told}\n")
        (row,) = rows(run(*check, "--format", "json"))
        assert [(warning["line"], warning["column"]) for warning in row["warnings"]] == [(2, 60)]

    @each(
        "change",
        [
            pytest.param("DELETE FROM traces", id="empty"),
            pytest.param("UPDATE alembic_version SET version_num = '0001'", id="older"),
            pytest.param("UPDATE alembic_version SET version_num = '9999'", id="newer"),
            pytest.param("DROP TABLE alembic_version", id="without-version"),
            pytest.param("DROP VIEW tool_calls", id="without-calls"),
        ],
    )
    def test_a_store_that_tells_no_tool_warns_of_none(self, tmp_path: Path, change: str) -> None:
        check = self.misspelt(tmp_path)
        store_with(tmp_path, judged(1))
        assert "1 warning" in run(*check).stdout
        with closing(sqlite3.connect(tmp_path / "tracegrade.db")) as connection, connection:
            connection.execute(change)
        found = run(*check)
        assert (found.exit_code, found.stdout[:23], found.stderr) == (0, "1 rule, nothing wrong (", "")

    def test_without_a_store_nothing_is_said_of_tools_nor_made(self, tmp_path: Path) -> None:
        rule, folder = self.misspelt(tmp_path)[1], tmp_path / "none" / "here"
        assert run("check", rule, "--data-dir", folder).stdout.startswith("1 rule, nothing wrong (")
        assert not folder.parent.exists()
        (tmp_path / "tracegrade.db").write_text("no database" * 100)
        found = run(*self.misspelt(tmp_path))
        assert (found.exit_code, found.stdout[:23], found.stderr) == (0, "1 rule, nothing wrong (", "")


def test_several_rules_are_explained_at_once() -> None:
    found = run("explain", "same-call-repeated", "secret-in-arguments", "builtin:all")
    assert found.exit_code == 0, found.stderr
    assert found.stdout.startswith("same-call-repeated (")
    assert "\nsecret-in-arguments (" in found.stdout
    assert run("explain", "same-call-repeated", "secret-in-argument", "builtin:all").exit_code == 2


def test_the_fields_of_an_evaluator_are_explained() -> None:
    found = run("list", "--evaluators", "tool-call-args")
    assert "Calls may have further arguments than the expected ones." in found.stdout
    assert "did you mean 'tool-call-args'" in run("list", "--evaluators", "tool-call-arg").stderr
