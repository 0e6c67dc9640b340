import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from build import each
from build.otlp import otlp_span, payload, tool_span
from build.replayed import CHECK, CREATE, RULE, request, write_rule, write_source
from tracegrade.cli import main
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.record import Encoding, Entry
from tracegrade.model.signal import Signal
from tracegrade.pipeline import latest_results
from tracegrade.rule.builtin import DEFAULT_RULES


@pytest.fixture
def rule(tmp_path: Path) -> str:
    return write_rule(tmp_path)


@pytest.fixture
def source(tmp_path: Path) -> str:
    """One trace in order, one out of order."""
    return write_source(tmp_path, request(1, CHECK, CREATE), request(2, CREATE, CHECK, service="other"))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["replay", *arguments])


def lines(result: Result) -> list[dict[str, object]]:
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_file_is_judged_and_summed_up(rule: str, source: str) -> None:
    result = run(source, "--rules", rule)
    assert result.exit_code == 0, result.stderr
    assert "2 traces judged, 0 of them incomplete" in result.stdout
    assert "50.0%" in result.stdout
    assert "✗ fail" in result.stdout


def test_json_is_one_evaluation_a_line(rule: str, source: str) -> None:
    found = lines(run(source, "--rules", rule, "--format", "json"))
    assert [(e["trace_id"], e["outcome"], e["score"], e["run"]) for e in found] == [
        (f"{1:032x}", "pass", 1.0, "replay"),
        (f"{2:032x}", "fail", 0.5, "replay"),
    ]
    assert {e["close_reason"] for e in found} == {"end_of_input"}


def test_what_is_more_than_memory_is_for_lies_on_disk(rule: str, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = (source, "--rules", rule, "--format", "json")
    expected = run(*arguments).stdout
    monkeypatch.setattr(latest_results, "_IN_MEMORY", 1)
    assert run(*arguments).stdout == expected
    monkeypatch.setattr("tempfile.tempdir", "/nowhere/at/all")
    failed = run(*arguments)
    assert (failed.exit_code, failed.stdout) == (3, "")
    assert "/nowhere/at/all: No such file or directory: what is found is held there" in failed.stderr


def test_reports_hold_what_was_judged(rule: str, source: str) -> None:
    junit = run(source, "--rules", rule, "--format", "junit")
    assert '<testsuite name="create-before-check" tests="2" failures="1"' in junit.stdout
    sarif = json.loads(run(source, "--rules", rule, "--format", "sarif").stdout)
    (found,) = sarif["runs"][0]["results"]
    assert found["ruleId"] == "create-before-check"
    assert found["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == rule
    markdown = run(source, "--rules", rule, "--format", "markdown", "--fail-under", "0.9", "--min-results", "1")
    assert markdown.exit_code == 1
    assert "| create-before-check | 1 | 1 |  |  |" in markdown.stdout


@each(
    ("flags", "traces"),
    [
        (("--service", "other"), [2]),
        (("--agent", "order-agent"), [1, 2]),
        (("--agent", "nobody"), []),
        (("--trace-id", f"{1:032X}"), [1]),
        (("--trace-id", f"{1:032X}"[:-1]), [1, 2]),
        (("--since", "1970-01-01"), [1, 2]),
        (("--since", "2020-01-01"), []),
        (("--until", "1970-01-02"), [1, 2]),
    ],
)
def test_only_selected_traces_are_shown(rule: str, source: str, flags: tuple[str, ...], traces: list[int]) -> None:
    found = lines(run(source, "--rules", rule, "--format", "json", *flags))
    assert [int(str(e["trace_id"]), 16) for e in found] == traces


def test_only_traces_of_a_session_are_shown(rule: str, tmp_path: Path) -> None:
    requests = []
    for trace, session in ((1, "chat-7"), (2, "chat-70"), (3, "other")):
        asked = {
            "gen_ai__operation__name": "invoke_agent",
            "gen_ai__agent__name": "a",
            "gen_ai__conversation__id": session,
        }
        requests.append(payload([otlp_span(trace, 1, end=99, **asked), tool_span(trace, 2, 1, CREATE)], "shop"))
    source = write_source(tmp_path, *requests)
    for session, traces in (("chat-7", [1]), ("chat-", []), ("nosuch", [])):
        found = lines(run(source, "--rules", rule, "--format", "json", "--session", session))
        assert [int(str(e["trace_id"]), 16) for e in found] == traces


@pytest.mark.parametrize(("bound", "code"), [("0.5", 0), ("0.6", 1)])
def test_the_overall_gate_fails_under_its_bound(rule: str, source: str, bound: str, code: int) -> None:
    result = run(source, "--rules", rule, "--fail-under-overall", bound)
    assert result.exit_code == code
    assert "pass rate 0.5000 of 2 rule outcomes" in result.stderr


@pytest.mark.parametrize("gate", ["--fail-under", "--fail-under-overall"])
def test_a_gate_that_nothing_passed_or_failed_cannot_tell(rule: str, source: str, gate: str) -> None:
    result = run(source, "--rules", rule, gate, "0.5", "--service", "nowhere")
    assert result.exit_code == 3
    assert "Cannot tell" in result.stderr


# One file: 40 traces, of which 4 create an order unchecked.
RULES = {
    "create-before-check": "match: {tools: [create_order]}\nlevel: critical\n",
    "checked-first": "match: {tools: [check_inventory]}\nlevel: low\n",
    "checked-at-all": "match: {tools: [check_inventory]}\n",
    "new-one": "status: experimental\n",
    "refunds": "match: {tools: [refund]}\n",
}
EXPECTED = {
    "create-before-check": "[check_inventory, create_order]",
    "checked-first": "[check_inventory]",
    "checked-at-all": "[check_inventory]",
    "new-one": "[refund]",
    "refunds": "[refund]",
}


@pytest.fixture
def many(tmp_path: Path) -> tuple[str, str]:
    """The folder of several rules, and a file of forty traces: a critical rule fails on four, others on none."""
    folder = tmp_path / "several"
    for rule_id, head in RULES.items():
        (folder / rule_id).mkdir(parents=True)
        evaluate = f"  - {{evaluator: tool-call-order, tool_calls_order: {EXPECTED[rule_id]}}}\n"
        (folder / rule_id / "rule.yaml").write_text(f"id: {rule_id}\n{head}evaluate:\n{evaluate}")
    requests = [request(n + 1, *((CREATE, CHECK) if n < 4 else (CHECK, CREATE))) for n in range(40)]
    return str(folder), write_source(tmp_path, *requests, name="many.binpb")


@each(
    ("flags", "code", "said"),
    [
        # 0.9 of the critical rule's results hide behind 1.0 of the others: all together 116 of 120.
        ((), 1, "Gate failed: 1 rule under 0.95: create-before-check (0.9000 of 40 results). 2 rules of 3 at 0.95"),
        (("--level", "critical"), 1, "1 rule under 0.95: create-before-check"),
        (
            ("--min-results", "41"),
            3,
            "Cannot tell: 3 rules without a verdict: checked-at-all (1.0000 of 40 results, fewer than 41",
        ),
        (("--require", "refunds"), 1, "1 rule without a verdict: refunds (required, and matched nothing)"),
        (("--release", "unknown"), 3, "no stable rule that the gate holds for matched anything"),
        (("--level", "low", "--agent", "nobody"), 3, "Cannot tell"),
    ],
)
def test_each_stable_rule_answers_for_itself(
    many: tuple[str, str], flags: tuple[str, ...], code: int, said: str
) -> None:
    rules, traces = many
    result = run(traces, "--rules", rules, "--fail-under", "0.95", *flags)
    assert result.exit_code == code
    assert said in result.stderr


def test_a_gate_that_only_experimental_rules_meet_says_how_to_gate_them(many: tuple[str, str]) -> None:
    rules, traces = many
    result = run(traces, "--rules", f"{rules}/new-one", "--fail-under", "0.95")
    assert result.exit_code == 3
    assert "only experimental rules matched anything; a rule is gated once its file says status: stable" in (
        " ".join(result.stderr.split())
    )


@each(("level", "code"), [("info", 1), ("medium", 0), ("low", 0), ("critical", 0)])
def test_the_overall_gate_counts_rules_of_its_level_and_above(many: tuple[str, str], level: str, code: int) -> None:
    rules, traces = many
    # 36 of 40 critical, 40 of 40 each medium and low, 0 of 40 experimental medium.
    bound = {"info": "0.8", "low": "0.7", "medium": "0.6", "critical": "0.9"}[level]
    done = run(traces, "--rules", rules, "--fail-under-overall", bound, "--level", level, "--format", "junit")
    suites = ElementTree.fromstring(done.stdout)
    assert (done.exit_code, [suite.get("failures") for suite in suites if suite.get("name") == "gate"]) == (
        code,
        [str(code)],
    )


def test_every_format_lists_every_rule_with_rate_interval_and_the_gate_s_word(many: tuple[str, str]) -> None:
    rules, traces = many

    def shown(output_format: str) -> Result:
        return run(traces, "--rules", rules, "--fail-under", "0.95", "--format", output_format)

    table = shown("table").stdout
    for text in ("90.0%", "75.4-96.7%", "✗ fail", "✓ pass", "– experimental", "– matched nothing", *RULES):
        assert text in table
    markdown = shown("markdown").stdout
    assert "**Gate: fail.** 1 rule under 0.95: create-before-check (0.9000 of 40 results)." in markdown
    row = "| create-before-check | 36 | 4 |  |  |  | 40 | 90.0% | 75.4-96.7% | critical | stable | fail |"
    assert row in markdown
    assert "| refunds |  |  |  |  |  | 0 |  |  | medium | stable | matched nothing |" in markdown

    suites = {suite.get("name"): suite for suite in ElementTree.fromstring(shown("junit").stdout)}
    assert suites.keys() == {*RULES, "gate"}
    of_rule = suites["create-before-check"]
    numbers = {item.get("name"): item.get("value") for item in of_rule.iter("property")}
    assert (numbers["pass_rate"], numbers["results"], numbers["gate"]) == ("0.9", "40", "fail")
    *_, gate = of_rule.iter("testcase")
    assert (gate.get("name"), [child.tag for child in gate]) == ("gate", ["failure"])
    assert (of_rule.get("tests"), of_rule.get("failures")) == ("41", "5")
    assert not list(suites["refunds"].iter("testcase"))
    (failure,) = suites["gate"].iter("failure")
    assert str(failure.get("message")).startswith("1 rule under 0.95: create-before-check (0.9000 of 40 results). ")

    driver = json.loads(shown("sarif").stdout)["runs"][0]
    listed = {rule["id"]: rule["properties"] for rule in driver["tool"]["driver"]["rules"]}
    assert listed.keys() == RULES.keys()
    assert (listed["new-one"]["gate"], listed["new-one"]["status"]) == ("not_gated", "experimental")
    assert [found["ruleId"] for found in driver["results"] if found["message"]["text"].startswith("gate: ")] == [
        "create-before-check"
    ]
    (told,) = driver["invocations"][0]["toolExecutionNotifications"]
    assert (told["level"], told["message"]["text"]) == ("error", f"gate: {failure.get('message')}")

    found = shown("json")
    assert {"rule_id", "evaluation", "outcome"} <= json.loads(found.stdout.splitlines()[0]).keys()
    *of_rules, whole = map(json.loads, found.stderr.splitlines())
    assert [line["rule_id"] for line in of_rules] == sorted(RULES)
    words = {line["rule_id"]: line["gate"] for line in of_rules}
    assert (words["create-before-check"], words["checked-first"], words["refunds"]) == ("fail", "pass", "not_gated")
    assert (whole["gate"], len(whole["reasons"])) == ("fail", 2)


@pytest.mark.parametrize(("says", "code", "results"), [("", 3, 0), ("incomplete: count\n", 1, 1)])
def test_incomplete_traces_are_no_results_unless_the_rule_counts_them(
    tmp_path: Path, says: str, code: int, results: int
) -> None:
    (tmp_path / "rule.yaml").write_text(RULE + says)
    lost_root = payload([tool_span(1, 2, 1, CREATE)], "shop")
    (tmp_path / "traces.binpb").write_bytes(lost_root)
    gate = ("--fail-under", "0.5", "--min-results", "1", "--format", "json")
    result = run(str(tmp_path / "traces.binpb"), "--rules", str(tmp_path / "rule.yaml"), *gate)
    assert result.exit_code == code
    of_rule = json.loads(result.stderr.splitlines()[0])
    assert (of_rule["results"], of_rule["incomplete"]) == (results, 1 - results)


@pytest.mark.parametrize(("by", "groups"), [("service", ["other", "shop"]), ("agent", ["order-agent"])])
def test_the_summary_counts_by_what_is_asked_for(rule: str, source: str, by: str, groups: list[str]) -> None:
    table = run(source, "--rules", rule, "--by", by).stdout
    assert [line.split()[0] for line in table.splitlines()[3:] if line.split()][1 : len(groups) + 1] == groups
    markdown = run(source, "--rules", rule, "--by", by, "--format", "markdown").stdout
    assert f"| {by} | pass |" in markdown


@each(
    ("flags", "said"),
    [
        (("--level", "high"), "need a gate: --fail-under"),
        (("--require", "create-before-check", "--fail-under-overall", "0.5"), "--require needs --fail-under"),
        (("--fail-under", "0.5", "--require", "create-befor-check"), "did you mean 'create-before-check'?"),
        (("--fail-under", "0.5", "--require", "create-before-check", "--level", "high"), "is of level medium"),
        (("--by", "agent", "--format", "json"), "--by agent groups the summary"),
    ],
)
def test_a_gate_that_could_not_be_obeyed_is_refused(rule: str, source: str, flags: tuple[str, ...], said: str) -> None:
    result = run(source, "--rules", rule, *flags)
    assert result.exit_code == 2
    assert said in result.stderr


def test_the_journal_is_replayed_with_the_live_clock(rule: str, tmp_path: Path) -> None:
    journal = LocalJournal.open(tmp_path / "data" / "journal")
    for data in (request(1, CREATE, CHECK), request(2, CHECK, CREATE)):
        journal.append(Entry(Signal.TRACES, Encoding.PROTOBUF, "default", 3, data)).result()
    beside = run("--rules", rule, "--data-dir", str(tmp_path / "data"), "--format", "json")
    journal.close()
    assert [(e["trace_id"], e["outcome"]) for e in lines(beside)] == [(f"{1:032x}", "fail"), (f"{2:032x}", "pass")]


def test_a_folder_without_a_journal_is_said_to_have_none(rule: str, tmp_path: Path) -> None:
    result = run("--rules", rule, "--data-dir", str(tmp_path / "nothing"))
    assert result.exit_code == 2
    assert "no journal here" in result.stderr


def test_without_rules_named_the_default_ones_judge(source: str) -> None:
    judged = {row["rule_id"] for row in lines(run(source, "--format", "json"))}
    assert "same-call-repeated" in judged
    assert judged <= DEFAULT_RULES


def test_without_rules_there_is_nothing_to_judge_by(source: str, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("rules: {paths: []}")
    result = run(source, "-c", str(config))
    assert result.exit_code == 2
    assert "--rules PATH" in result.stderr


def test_a_wrong_rule_is_refused_with_its_place(source: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(RULE.replace("tool-call-order,", "tool-call-ordr,"))
    result = run(source, "--rules", str(path))
    assert result.exit_code == 2
    assert f"{path}:4:6: evaluate[0].evaluator: no evaluator 'tool-call-ordr'" in result.stderr
