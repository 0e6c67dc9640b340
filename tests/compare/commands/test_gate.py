"""``tracegrade gate``: stored results against rule files, the command line and baselines."""

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from click.testing import Result

from build import each, store_with
from build.commands import run
from build.releases import traces
from build.replayed import CHECK, CREATE, request, write_source
from build.stored_runs import begin
from cli.test_replay_run import CASES
from tracegrade.rule.load import load_rules
from tracegrade.store.open import open_store

HEAD = "id: checkout-order\nevaluate: [{evaluator: budget, max_calls: 3}]\n"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def rule(tmp_path: Path, *lines: str, name: str = "checkout-order") -> str:
    path = tmp_path / "rules" / name / "rule.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEAD.replace("checkout-order", name) + "\n".join(lines) + "\n")
    return str(path.parent.parent)


def rule_hash(rules: str) -> str:
    found = load_rules([rules]).rule("checkout-order")
    assert found is not None
    return found.hash


def two_releases(tmp_path: Path, *lines: str) -> str:
    """The rules; release 1.0 passes on 960 of 1,000, and 2.0 on 900."""
    rules = rule(tmp_path, *lines)
    (tmp_path / "tracegrade.db").write_bytes(_two_releases(rule_hash(rules)))
    return rules


@cache
def _two_releases(rule_hash: str) -> bytes:
    """The store."""
    known = {"rule_hash": rule_hash, "level": "medium"}
    with TemporaryDirectory() as folder:
        store_with(Path(folder), *traces("1.0", "p" * 960 + "f" * 40, first=1, **known))
        store_with(Path(folder), *traces("2.0", "p" * 900 + "f" * 100, first=2000, **known))
        return (Path(folder) / "tracegrade.db").read_bytes()


def two_runs(tmp_path: Path, rules: str) -> None:
    """Two complete runs over the same 40 traces, of which 12 fail in the second alone, and one that is not complete."""
    known = {"rule_hash": rule_hash(rules), "level": "medium"}
    engine = open_store(store_with(tmp_path))
    begin(engine, "tuning/1", "tuning/2", "tuning/3")
    store_with(tmp_path, *traces("1.0", "p" * 40, first=1, run="tuning/1", **known))
    store_with(tmp_path, *traces("1.0", "f" * 12 + "p" * 28, first=1, run="tuning/2", **known))
    begin(engine, "tuning/1", "tuning/2", state="complete")
    engine.dispose()


def gated(tmp_path: Path, *arguments: str, exit_code: int) -> dict[str, Any]:
    result = run(tmp_path, "gate", *arguments, "--format", "json")
    assert result.exit_code == exit_code, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    assert found["exit_code"] == exit_code
    return found


def refused(tmp_path: Path, *arguments: str) -> str:
    result = run(tmp_path, "gate", *arguments)
    assert result.exit_code == 2, result.output
    return result.stderr


@each(
    ("gate", "flags", "code", "word"),
    [
        ("gate: {at_least: 0.9}", (), 0, "pass"),
        ("gate: {at_least: 0.95}", (), 1, "fail"),
        ("gate: {at_least: 0.95}", ("--fail-under", "0.85"), 0, "pass"),
        ("gate: {at_least: 0.85}", ("--fail-under", "0.95"), 1, "fail"),
        ("gate: {at_least: 0.9}", ("--min-results", "1001"), 3, "cannot_tell"),
        ("", ("--fail-under", "0.95"), 1, "fail"),
        ("", ("--fail-under", "high=0.95", "--fail-under", "0.9"), 0, "pass"),
        ("level: critical", ("--fail-under", "high=0.95", "--fail-under", "0.9"), 1, "fail"),
        ("", ("--fail-under-overall", "0.95"), 1, "not_gated"),
        # Against the release before, by the statistics of 'compare'.
        ("", ("--baseline", "release:1.0"), 1, "fail"),
        ("", ("--baseline", "release:1.0", "--margin", "0.2"), 1, "fail"),
        ("", ("--baseline", "release:1.0", "--margin", "0.2", "--allow-within-margin"), 0, "pass"),
        ("gate: {not_worse_than: baseline}", (), 3, "cannot_tell"),
        ("gate: {not_worse_than: baseline}", ("--baseline", "release:1.0"), 1, "fail"),
        ("status: experimental\ngate: {at_least: 1}", ("--fail-under-overall", "0.5"), 0, "not_gated"),
    ],
)
def test_what_a_release_is_held_against(
    tmp_path: Path, gate: str, flags: tuple[str, ...], code: int, word: str
) -> None:
    rules = two_releases(tmp_path, gate)
    found = gated(tmp_path, "release:2.0", "--rules", rules, *flags, exit_code=code)
    assert [of["gate"] for of in found["rules"]] == [word]
    assert found["rules"][0]["results"] == 1000


def test_a_filter_holds_for_what_is_compared_with_too(tmp_path: Path) -> None:
    rules = rule(tmp_path)
    known = {"rule_hash": rule_hash(rules), "level": "medium"}
    # Release 1.0 is worse than 2.0 only because of another service and another agent that fail.
    store_with(tmp_path, *traces("1.0", "p" * 200, first=1, service="shop", agent="seller", **known))
    store_with(tmp_path, *traces("1.0", "f" * 200, first=1000, service="other", agent="seller", **known))
    store_with(tmp_path, *traces("1.0", "f" * 200, first=2000, service="shop", agent="other", **known))
    store_with(tmp_path, *traces("2.0", "p" * 150 + "f" * 50, first=3000, service="shop", agent="seller", **known))
    asked = ("release:2.0", "--rules", rules, "--baseline", "release:1.0")
    assert compared_with(gated(tmp_path, *asked, exit_code=0)) == 600
    assert compared_with(gated(tmp_path, *asked, "--service", "shop", exit_code=0)) == 400
    assert compared_with(gated(tmp_path, *asked, "--service", "shop", "--agent", "seller", exit_code=1)) == 200
    # A baseline that is an agent is that agent.
    asked = ("live", "--rules", rules, "--agent", "seller", "--baseline", "agent:other")
    assert compared_with(gated(tmp_path, *asked, exit_code=0)) == 200


def compared_with(found: dict[str, Any]) -> int:
    """How many results of the baseline a gate compared with."""
    (of,) = found["rules"]
    a = of["against"]["compared"]["a"]
    judged: int = a["pass"] + a["fail"]
    return judged


def test_a_better_release_is_not_worse(tmp_path: Path) -> None:
    rules = two_releases(tmp_path)
    found = gated(tmp_path, "release:1.0", "--rules", rules, "--baseline", "release:2.0", exit_code=0)
    (of,) = found["rules"]
    assert of["against"]["compared"]["verdict"] == "better"
    assert of["bounds"]["not_worse_than_by"] == "command line"


@each("output_format", ["table", "junit", "sarif", "markdown"])
def test_every_format_says_why(tmp_path: Path, output_format: str) -> None:
    rules = two_releases(tmp_path, "gate: {at_least: 0.85}")
    result = run(
        tmp_path, "gate", "release:2.0", "--rules", rules, "--baseline", "release:1.0", "--format", output_format
    )
    assert result.exit_code == 1
    assert "worse than release:1.0 (-6.00 points, -8.27 to -3.79)" in result.stdout
    if output_format == "table":
        assert result.stdout.endswith(
            "Gate failed: 1 rule fails: checkout-order (0.9000 of 1,000 results, worse than release:1.0 (-6.00 points, "
            "-8.27 to -3.79)).\n"
        )
    else:
        assert result.stderr.startswith("Gate failed: 1 rule fails: checkout-order")


def test_a_sample_is_estimated(tmp_path: Path) -> None:
    rules = rule(tmp_path, "gate: {at_least: 0.95}", "sample: {share: 0.1, keep_failures: true}")
    known = {"rule_hash": rule_hash(rules), "level": "medium"}
    store_with(tmp_path, *traces("1.0", "p" * 95, first=1, probability=0.1, **known))
    store_with(tmp_path, *traces("1.0", "f" * 40, first=2000, **known))
    # 40 of 990 fail, though 40 of the 135 that are kept do.
    found = gated(tmp_path, "release:1.0", "--rules", rules, exit_code=0)
    assert found["rules"][0]["pass_rate"] == pytest.approx(950 / 990)


def test_results_of_another_content_of_the_rule_are_no_pass(tmp_path: Path) -> None:
    rules = rule(tmp_path, "gate: {at_least: 0.5}")
    store_with(tmp_path, *traces("1.0", "p" * 60, first=1, rule_hash="older"))
    found = gated(tmp_path, "release:1.0", "--rules", rules, exit_code=3)
    assert found["rules"][0]["reason"] == f"judged by another content of the rule, older, and not by {rule_hash(rules)}"
    # Beside results of the present content they are left out, and named.
    store_with(tmp_path, *traces("1.0", "p" * 60, first=100, rule_hash=rule_hash(rules)))
    store_with(tmp_path, *traces("1.0", "f" * 60, first=200, rule_id="not-here"))
    found = gated(tmp_path, "release:1.0", "--rules", rules, exit_code=0)
    assert found["notes"] == [
        "left out, since they are not among the rules that are gated: not-here",
        "checkout-order: results of another content of the rule are left out (older)",
    ]


def test_a_run_is_gated_against_the_one_before(tmp_path: Path) -> None:
    rules = rule(tmp_path)
    two_runs(tmp_path, rules)
    found = gated(tmp_path, "tuning/2", "--rules", rules, "--baseline", "tuning/1", exit_code=1)
    pairs = found["rules"][0]["against"]["compared"]["pairs"]
    assert (pairs["by"], pairs["count"], pairs["worse"]) == ("trace", 40, 12)


def test_sides_and_filters_choose(tmp_path: Path) -> None:
    rules = two_releases(tmp_path, "gate: {at_least: 0.9}")
    assert gated(tmp_path, "live", "--rules", rules, exit_code=0)["rules"][0]["results"] == 2000
    assert gated(tmp_path, "live", "--release", "2.0", "--rules", rules, exit_code=0)["rules"][0]["results"] == 1000


def test_what_cannot_be_gated_is_said_in_a_sentence(tmp_path: Path) -> None:
    rules = two_releases(tmp_path)
    asked = ("--rules", rules, "--fail-under", "0.9")
    assert "nothing is required: no stable rule has 'gate' in its file" in refused(tmp_path, "live", "--rules", rules)
    assert "no result of release '3.0' in the store" in refused(tmp_path, "release:3.0", *asked)
    assert "no run 'tunning/1' in the store" in refused(tmp_path, "tunning/1", *asked)
    assert "no result in this time" in refused(tmp_path, "live@2020-01-01..2020-01-02", *asked)
    assert "expected a time such as" in refused(tmp_path, "live@yesterday..", *asked)
    said = refused(tmp_path, "live", "--rules", rules, "--fail-under", "hihg=0.9")
    assert "'hihg' is no level; expected one of info, low, medium, high, critical" in said
    assert "1.5 is not in the range 0<=x<=1" in refused(tmp_path, "live", "--rules", rules, "--fail-under", "1.5")
    assert "--margin and --allow-within-margin are of a comparison" in refused(
        tmp_path, "live", *asked, "--margin", "0.1"
    )
    empty = tmp_path / "empty.yaml"
    empty.write_text("rules: {paths: []}\n")
    result = run(tmp_path, "gate", "live", "-c", str(empty))
    assert (result.exit_code, "no rules to gate" in result.stderr) == (2, True)
    nowhere = run(tmp_path / "nowhere", "gate", "live", *asked)
    assert (nowhere.exit_code, "no such store" in nowhere.stderr) == (2, True)


@pytest.mark.parametrize("name", ["mian", "release:0.9", "missing.json"])
def test_a_baseline_that_is_not_there_is_said(tmp_path: Path, name: str) -> None:
    rules = two_releases(tmp_path)
    assert saved(tmp_path, "main", "--of", "release:1.0").exit_code == 0
    said = refused(tmp_path, "release:2.0", "--rules", rules, "--baseline", name)
    assert {
        "mian": "no baseline 'mian' in .tracegrade/baselines, and no run of that name in the store; did you mean 'main",
        "release:0.9": "no result of release '0.9' in the store",
        "missing.json": "no file 'missing.json'",
    }[name] in said


def saved(tmp_path: Path, *arguments: str) -> Result:
    return run(tmp_path, "baseline", "save", *arguments)


def test_a_saved_release_is_compared_as_the_release_itself(tmp_path: Path) -> None:
    rules = two_releases(tmp_path, "gate: {not_worse_than: baseline}")
    assert saved(tmp_path, "main", "--of", "release:1.0").exit_code == 0
    of_file = gated(tmp_path, "release:2.0", "--rules", rules, exit_code=1)["rules"][0]["against"]
    of_store = gated(tmp_path, "release:2.0", "--rules", rules, "--baseline", "release:1.0", exit_code=1)
    assert of_file["baseline"] == "main"
    assert of_file["compared"] == of_store["rules"][0]["against"]["compared"]
    assert gated(tmp_path, "release:1.0", "--rules", rules, exit_code=0)["gate"] == "pass"


def test_a_saved_baseline_of_another_rule_or_version_is_never_a_pass(tmp_path: Path) -> None:
    rules = two_releases(tmp_path, "gate: {not_worse_than: old}")
    assert saved(tmp_path, "old", "--of", "release:1.0").exit_code == 0
    path = tmp_path / ".tracegrade" / "baselines" / "old.json"
    text = path.read_text()
    path.write_text(text.replace(rule_hash(rules), "feedfeedfeedfeed"))
    (of,) = gated(tmp_path, "release:1.0", "--rules", rules, exit_code=3)["rules"]
    assert of["reason"] == (
        f"old has results of another content of the rule, feedfeedfeedfeed, and not of {rule_hash(rules)}: save the "
        "baseline again"
    )
    path.write_text(text.replace('"version": 1', '"version": 9'))
    for flags in ((), ("--baseline", "old")):
        (of,) = gated(tmp_path, "release:1.0", "--rules", rules, *flags, exit_code=3)["rules"]
        assert "the baseline has the format version 9, and this TraceGrade reads 1: save it again" in of["reason"]
    path.write_text("{")
    assert "old.json:1:2: not YAML" in refused(tmp_path, "release:1.0", "--rules", rules)


def test_a_baseline_that_a_rule_names_and_nobody_saved_is_never_a_pass(tmp_path: Path) -> None:
    rules = two_releases(tmp_path, "gate: {at_least: 0.5, not_worse_than: mian}")
    saved(tmp_path, "main", "--of", "release:1.0")
    (of,) = gated(tmp_path, "release:1.0", "--rules", rules, exit_code=3)["rules"]
    assert of["reason"] == "no baseline 'mian' is saved in .tracegrade/baselines; did you mean 'main'?"


def test_a_baseline_may_name_a_run(tmp_path: Path) -> None:
    rules = rule(tmp_path)
    two_runs(tmp_path, rules)
    assert saved(tmp_path, "main", "--run", "tuning/1").stdout == (
        "Saved main, the run tuning/1, to .tracegrade/baselines/main.json.\n"
    )
    (of,) = gated(tmp_path, "tuning/2", "--rules", rules, "--baseline", "main", exit_code=1)["rules"]
    assert of["against"]["compared"]["pairs"]["by"] == "trace"
    assert run(tmp_path, "experiments", "delete", "tuning/1", "--yes").exit_code == 0
    (of,) = gated(tmp_path, "tuning/2", "--rules", rules, "--baseline", "main", exit_code=3)["rules"]
    assert of["reason"].startswith("main names the run 'tuning/1': no ")
    assert (
        "tuning/3 is incomplete: a baseline has to be complete" in saved(tmp_path, "main", "--run", "tuning/3").stderr
    )
    assert "no run 'tuning/9'" in saved(tmp_path, "main", "--run", "tuning/9").stderr


def test_a_case_of_a_required_rule_that_no_stored_run_met_is_named(tmp_path: Path) -> None:
    path, source = tmp_path / "cases.rule.yaml", write_source(tmp_path, request(1, CHECK, CREATE))
    path.write_text(CASES)
    gate = ("--rules", str(path), "--fail-under", "0.5", "--min-results", "1")
    assert run(tmp_path, "replay", source, *gate, "--experiment", "tuning").exit_code == 0
    done = run(tmp_path, "gate", "tuning/1", *gate, "--require", "orders")
    assert done.exit_code == 3, done.output
    assert "orders (1.0000 of 1 result, required, and no run met the case none-of-b-2)" in done.output
