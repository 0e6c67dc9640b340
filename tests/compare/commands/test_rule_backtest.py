"""What changed rules would have said of stored traces."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from build import each, store_with
from build.backtested import RULE, SINCE, stored, write_rule
from build.commands import run
from build.judged_traces import trace_id
from tracegrade.assemble.settings import TracesSettings
from tracegrade.pipeline.record_judge import attribute_filter_for
from tracegrade.rule.load import load_rules
from tracegrade.store.open import open_store
from tracegrade.store.rule_texts import save_rule_texts

PLAIN = RULE.partition("alert:")[0]
"""Previews of alerts take longer than all else here."""


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Of release 1.0 all is well; of 2.0 half call twice, which the rule did not see. One fail was none."""
    store_with(
        tmp_path,
        *(stored(number, "1.0", outcome="fail" if number == 1 else "pass") for number in range(1, 11)),
        *(stored(number, "2.0", calls=2 if number % 2 else 1) for number in range(11, 21)),
    )
    write_rule(tmp_path / "rules", PLAIN)
    return tmp_path


def backtested(data_dir: Path, *arguments: str) -> dict[str, Any]:
    result = run(data_dir, "rules", "backtest", *arguments, *SINCE, "--format", "json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_what_newly_fails_and_passes_is_counted_and_shown(data_dir: Path) -> None:
    found = backtested(data_dir, str(write_rule(data_dir / "rules")))
    assert (found["against"], found["traces"], found["not_kept"]) == ("live", 20, 0)
    (rule,) = found["rules"]
    assert (rule["state"], rule["before"]["pass_rate"], rule["after"]["pass_rate"]) == ("changed", 0.95, 0.75)
    fails, passes = rule["changes"]["newly_fails"], rule["changes"]["newly_passes"]
    assert (fails["subjects"], passes["subjects"]) == (5, 1)
    assert len(fails["examples"]) == 3
    assert {item["trace_id"] for item in fails["examples"]} <= {trace_id(number) for number in range(11, 21, 2)}
    assert all("create_order" in item["explanation"] for item in fails["examples"])
    assert [item["trace_id"] for item in passes["examples"]] == [trace_id(1)]
    by_release = {group["release"]: group for group in rule["groups"]}
    assert (by_release["1.0"]["before"]["pass_rate"], by_release["1.0"]["after"]["pass_rate"]) == (0.9, 1.0)
    assert (by_release["2.0"]["before"]["pass_rate"], by_release["2.0"]["after"]["pass_rate"]) == (1.0, 0.5)
    assert rule["alerts"] == []  # five of twenty are too few to tell


def test_alerts_that_would_have_fired_are_shown(tmp_path: Path) -> None:
    store_with(tmp_path, *(stored(number, "1.0", calls=1 + number // 100) for number in range(40, 200)))
    (rule,) = backtested(tmp_path, str(write_rule(tmp_path / "rules")))["rules"]
    (alert,) = rule["alerts"]
    assert (alert["rule_id"], alert["state"]) == ("order-checked", "firing")
    result = run(tmp_path, "rules", "backtest", str(tmp_path / "rules"), *SINCE)
    assert "pass rate 0% is below 90%" in result.stdout


def test_filters_choose_traces(data_dir: Path) -> None:
    found = backtested(data_dir, str(data_dir / "rules"), "--release", "2.0")
    assert (found["traces"], found["rules"][0]["after"]["pass_rate"]) == (10, 0.5)
    result = run(data_dir, "rules", "backtest", str(data_dir / "rules"), "--agent", "nobody", *SINCE)
    assert result.exit_code == 3
    assert result.stderr.startswith("Error: no trace of agent 'nobody' between")


def test_against_other_rules_those_that_judge_alike_are_left_alone(data_dir: Path, tmp_path: Path) -> None:
    then = write_rule(tmp_path / "then", PLAIN.replace("'<=', 1", "'<=', 2"))
    (rule,) = backtested(data_dir, str(data_dir / "rules"), "--against", str(then))["rules"]
    assert (rule["before"]["pass_rate"], rule["after"]["pass_rate"]) == (1.0, 0.75)
    retitled = write_rule(tmp_path / "retitled", PLAIN.replace("made twice", "made too often"))
    result = run(data_dir, "rules", "backtest", str(data_dir / "rules"), "--against", str(retitled), *SINCE)
    assert result.exit_code == 0
    assert "order-checked: left alone" in result.stdout
    assert "no rule changed" in result.stdout


def test_only_a_rule_with_another_hash_is_changed(data_dir: Path, tmp_path: Path) -> None:
    """One that judges live as it is, since after the first traces came, is not; one of an id not known is new."""
    rules = write_rule(tmp_path / "three", PLAIN)
    for rule_id in ("young", "unknown"):
        write_rule(rules, PLAIN.replace("order-checked", rule_id), rule_id)
    with open_store(store_with(data_dir)).begin() as connection:
        save_rule_texts(connection, load_rules([rules / "young"]), 1_900_000_000_000_000_000)
    found = backtested(data_dir, str(rules))
    assert {rule["rule_id"]: rule["state"] for rule in found["rules"]} == {"order-checked": "changed", "unknown": "new"}
    assert "--rule young judges what came before, too" in found["left_alone"]["young"]
    shown = run(data_dir, "rules", "backtest", str(rules), *SINCE).stdout
    assert shown.startswith("1 changed rule, 1 new rule on 20 stored traces")
    assert "unknown (new)" in shown
    (named,) = backtested(data_dir, str(rules), "--rule", "young")["rules"]
    assert named["state"] == "same"


def test_against_a_revision_of_git(data_dir: Path, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    rules = write_rule(repository / "rules", PLAIN.replace("'<=', 1", "'<=', 2"))

    def git(*arguments: str) -> None:
        own = ("-c", "user.name=x", "-c", "user.email=x@example.com")
        subprocess.run(("git", *own, *arguments), cwd=repository, check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    git("add", "-A")
    git("commit", "-q", "-m", "first")
    write_rule(rules, PLAIN)
    (rule,) = backtested(data_dir, str(rules), "--against", "HEAD")["rules"]
    assert (rule["before"]["pass_rate"], rule["after"]["pass_rate"]) == (1.0, 0.75)
    result = run(data_dir, "rules", "backtest", str(rules), "--against", "v9", *SINCE)
    assert result.exit_code == 2
    assert "no revision of it in the git repository" in result.stderr


def test_a_rule_that_reads_what_was_not_kept_is_judged_on_nothing(data_dir: Path) -> None:
    rules = write_rule(data_dir / "reads", PLAIN.replace("match: {", "match: {attributes: {team: blue}, "))
    result = run(data_dir, "rules", "backtest", str(rules), *SINCE)
    assert result.exit_code == 3
    said = "the store did not keep what the rules read of any of the 20 traces"
    assert result.stderr == f"Error: {said}, and there is no journal in {data_dir}\n"


def test_what_other_rules_in_force_had_kept_is_judged(tmp_path: Path) -> None:
    """The filter of spans is that of all rules that were in force, of which the changed one is only one."""
    text = PLAIN.replace("match: {", "match: {attributes: {team: blue}, ")
    rules = write_rule(tmp_path / "rules", text)
    other = PLAIN.replace("order-checked", "other-one").replace("match: {", "match: {attributes: {shop.tier: gold}, ")
    (rules / "other.rule.yaml").write_text(other, encoding="utf-8")
    in_force = load_rules([rules])
    kept = attribute_filter_for(in_force, TracesSettings()).hash
    found = [stored(number, "1.0", kept=kept if number > 5 else "other", team="blue") for number in range(1, 11)]
    store_with(tmp_path, *found)
    engine = open_store(store_with(tmp_path))
    with engine.begin() as connection:
        save_rule_texts(connection, in_force, 1)
    engine.dispose()
    write_rule(rules, text.replace("'<=', 1", "'<=', 0"))
    found_now = backtested(tmp_path, str(rules))
    assert (found_now["traces"], found_now["not_kept"]) == (5, 5)
    assert found_now["rules"][0]["after"]["fail"] == 5


@each(
    ("arguments", "code", "message"),
    [
        (["rules", "--since", "2999-01-01"], 2, "--since is in the future"),
        (["rules", "--since", "2026-01-02", "--until", "2026-01-01"], 2, "--since is not before --until"),
        (["rules", "--since", "2020-01-01", "--until", "2020-01-02"], 3, "no trace between"),
        (["of-sessions", *SINCE], 3, "no trace of a session between"),
        (["rules", *SINCE, "--rule", "order-chekced"], 2, "--rule order-chekced: no such rule here; did you mean"),
        (["nowhere", *SINCE], 2, "no such file or folder"),
        (["rules", *SINCE, "--against", "v1"], 2, "--against v1: no folder of this name"),
    ],
)
def test_what_cannot_be_tested_is_said_in_a_sentence(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, message: str
) -> None:
    monkeypatch.chdir(data_dir)
    write_rule(data_dir / "of-sessions", PLAIN + "scope: session\n")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(data_dir.parent))
    result = run(data_dir, "rules", "backtest", *arguments)
    assert result.exit_code == code, result.output
    assert message in result.stderr


def test_the_table_and_markdown_say_what_the_json_says(data_dir: Path) -> None:
    table = run(data_dir, "rules", "backtest", str(data_dir / "rules"), *SINCE).stdout
    assert "order-checked  95.00%  75.00%  5           1" in table
    assert "1 changed rule on 20 stored traces" in table
    markdown = run(data_dir, "rules", "backtest", str(data_dir / "rules"), *SINCE, "--format", "markdown").stdout
    assert markdown.startswith("## Backtest: 5 subjects newly fail, 1 newly pass\n")
