"""Every command that reads rules runs the code beside them where the settings say so, and nowhere else."""

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from build import each, store_with
from build.backtested import SINCE, stored
from build.code_files import EVALUATOR, changed, write_rule
from build.replayed import request, write_source
from build.without_parts import of_all_parts
from tracegrade.cli import main
from tracegrade.pipeline import workers

REFUSED = "./few_calls.py is code, which runs only with 'rules.allow_code: true', found false"
STRICTER = changed("found <= criteria.most", "found < criteria.most")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the rule, traces of one and of two calls in a file and in a store, and settings that allow code."""
    monkeypatch.chdir(tmp_path)
    write_rule(tmp_path / "rules")
    write_source(tmp_path, request(1, "pay"), request(2, "pay", "pay"))
    store_with(tmp_path, *(stored(number, "1.0", calls=number) for number in (1, 2)))
    settings = {"data_dir": ".", "rules": {"paths": ["rules"], "allow_code": True}}
    (tmp_path / "s.yaml").write_text(json.dumps(settings))
    (tmp_path / "off.yaml").write_text(json.dumps({**settings, "rules": {"paths": ["rules"]}}))
    return tmp_path


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


READING = [
    "config check",
    "rules check",
    "rules test",
    "rules explain few",
    "rules try few traces.binpb",
    "rules backtest rules --since 2020-01-01",
    "rules backtest rules --against rules --since 2020-01-01",
    "replay traces.binpb --format json",
    "gate live",
    "baseline save b traces.binpb",
    "compare live live --rejudge",
    "check -- python -c print(1)",
    "suite run rules --agent-url http://127.0.0.1:9/",
    "why 00000000000000000000000000000001",
    "doctor",
    "alerts preview rules",
    "alerts slo",
    "promote --failing few --rule few",
    "serve",
]


@of_all_parts
@each("command", READING)
def test_where_the_settings_do_not_allow_it_the_rule_is_refused(
    place: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACEGRADE_CONFIG", "off.yaml")
    result = invoke(*command.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"rules/rule.yaml:3:5: evaluate[0].evaluator: {REFUSED}" in result.stderr


@of_all_parts
@each(
    ("command", "exit_code", "said"),
    [
        ("config check", 0, "1 rule, 0 exporters, code of rules: {place}/rules/few_calls.py"),
        ("rules check", 0, "1 rule, nothing wrong"),
        ("rules explain few", 0, "few-calls of ./few_calls.py: Are there few? With most: 1; only the whole score"),
        ("rules try few traces.binpb", 0, "There were 2 calls."),
        ("rules backtest rules --since 2020-01-01", 0, "few"),
        ("replay traces.binpb", 0, "few-calls"),
        ("alerts slo", 0, ""),
        ("doctor", 1, "rules few"),
    ],
)
@of_all_parts
def test_where_they_allow_it_the_code_runs(place: Path, command: str, exit_code: int, said: str) -> None:
    result = invoke(*command.split(), "-c", "s.yaml")
    assert said.replace("{place}", str(place)) in " ".join(result.stdout.split())
    assert (result.exit_code, result.stderr.count(REFUSED)) == (exit_code, 0), result.output


@each("command", ["check", "list", "explain few", "test rules"])
def test_the_option_of_rules_allows_it_too(place: Path, command: str) -> None:
    assert REFUSED in invoke("rules", *command.split()).stderr
    result = invoke("rules", "--allow-code", *command.split())
    assert result.stderr == ""
    assert "few" in result.stdout or "1 rule" in result.stdout


def test_the_tests_of_a_rule_run_it(place: Path) -> None:
    (place / "rules" / "traces").mkdir()
    (place / "rules" / "traces" / "one.binpb").write_bytes((place / "traces.binpb").read_bytes())
    (place / "rules" / "tests.yaml").write_text(
        "- {description: the worse of both, trace: one.binpb, expect: {few-calls: fail}}\n"
    )
    result = invoke("rules", "test", "-c", "s.yaml")
    assert "the worse of both  ✓ pass  few-calls: fail" in result.stdout, result.output


def test_workers_of_a_replay_run_it_and_what_they_find_is_stored_as_by_one_process(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "SPANS_HERE", 0)
    found = []
    for jobs in ("1", "2"):
        data = ("--data-dir", f"by-{jobs}", "--format", "json")
        done = invoke("replay", "traces.binpb", "-c", "s.yaml", "--jobs", jobs, "--experiment", "tuning", *data)
        assert done.exit_code == 0, done.output
        found.append((done.stdout, invoke("results", "list", "--run", "tuning/1", *data).stdout))
    assert found[0] == found[1]
    for shown in found[0]:
        assert sorted(json.loads(line)["score"] for line in shown.splitlines()) == [0.0, 1.0]


def in_this_process(jobs: int, mp_context: object, **begin: Any) -> ThreadPoolExecutor:
    """A worker that is no process of its own, and is begun as one is."""
    return ThreadPoolExecutor(1, **begin)


@of_all_parts
def test_a_backtest_takes_the_file_of_either_side(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "SPANS_HERE", 0)
    monkeypatch.setattr(workers, "ProcessPoolExecutor", in_this_process)
    repository = place / "rules"
    for line in ("init -q -b main", "add -A", "-c user.name=x -c user.email=x@example.com commit -q -m first"):
        subprocess.run(("git", *line.split()), cwd=repository, check=True, capture_output=True)
    write_rule(place / "then")
    assert "no rule changed" in invoke("rules", "backtest", "rules", "-c", "s.yaml", "--against", "HEAD", *SINCE).stdout
    (repository / "few_calls.py").write_text(STRICTER)
    by_settings, by_option = ("backtest", "-c", "s.yaml"), ("--allow-code", "backtest", "-c", "off.yaml")
    for allowed, other in ((by_settings, "HEAD"), (by_settings, "then"), (by_option, "HEAD")):
        asked = ("rules", *allowed, "rules", "--against", other, "--jobs", "2", "--format", "json")
        result = invoke(*asked, *SINCE)
        assert result.exit_code == 0, result.output
        (rule,) = json.loads(result.stdout)["rules"]
        assert (rule["before"]["pass_rate"], rule["after"]["pass_rate"]) == (0.5, 0.0), asked


@pytest.mark.skipif(os.name != "posix", reason="only POSIX says who else may write")
def test_whoever_else_can_write_what_runs_is_warned_of(place: Path) -> None:
    """Everybody, in a folder, a rule or a file of code; in the group of this process are those who may."""
    (place / "rules" / "sub").mkdir()
    for part in ("rules", "rules/sub", "rules/rule.yaml", "rules/few_calls.py"):
        before = (place / part).stat().st_mode
        (place / part).chmod(before | 0o020)
        assert invoke("config", "check", "s.yaml").stderr == ""
        (place / part).chmod(before | 0o002)
        assert f"other users can write {place / part}: whoever can" in invoke("config", "check", "s.yaml").stderr
        (place / part).chmod(before)
    assert "other users" not in invoke("config", "check", "s.yaml").stderr


def test_an_error_in_the_code_stops_a_command_with_its_line(place: Path) -> None:
    (place / "rules" / "few_calls.py").write_text(EVALUATOR + "\nnowhere\n")
    result = invoke("replay", "traces.binpb", "-c", "s.yaml")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        f"Error: {place}/rules/rule.yaml:3:5: evaluate[0].evaluator: ./few_calls.py:25: cannot be loaded: "
        "NameError: name 'nowhere' is not defined\n"
    )


@of_all_parts
def test_a_link_out_of_the_repository_is_not_taken_out_of_git(place: Path) -> None:
    repository = place / "rules"
    (repository / "inside").symlink_to("few_calls.py")
    (repository / "outside").symlink_to("../s.yaml")
    for line in ("init -q -b main", "add -A", "-c user.name=x -c user.email=x@example.com commit -q -m first"):
        subprocess.run(("git", *line.split()), cwd=repository, check=True, capture_output=True)
    refused = invoke("rules", "backtest", "rules", "-c", "s.yaml", "--against", "HEAD", *SINCE)
    assert refused.exit_code == 2
    assert "outside is a link to ../s.yaml, outside the repository" in refused.stderr
