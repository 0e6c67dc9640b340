import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from build import store_with
from build.commands import run
from build.judged_traces import AGENT_SPAN, evaluation, judged, tool_call, trace_id
from build.releases import traces
from build.stored_runs import begin
from tracegrade.model.trace_result import RunSummary
from tracegrade.store.open import open_store


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One rule that is worse, one of which nothing can be told, one that is as good. Read alone."""
    folder = tmp_path_factory.mktemp("releases")
    for first, release, outcomes in ((1, "1.0", "p" * 200), (1000, "2.0", "p" * 160 + "f" * 40)):
        store_with(folder, *traces(release, outcomes, first=first, rule_id="worse", level="low"))
        store_with(folder, *traces(release, "ppp", first=first + 300, rule_id="unknown"))
        store_with(folder, *traces(release, "p" * 400, first=first + 400, rule_id="as-good"))
    return folder


def shown(data_dir: Path, output_format: str, *options: str, exit_code: int = 1) -> str:
    result = run(data_dir, "compare", "release:1.0", "release:2.0", "--format", output_format, *options)
    assert result.exit_code == exit_code, result.output
    return result.stdout


def test_markdown_has_the_worst_first(data_dir: Path) -> None:
    lines = shown(data_dir, "markdown").splitlines()
    assert lines[0] == "## Worse: 1 rule worse, 1 rule not worse, 1 rule cannot tell"
    assert lines[2] == "B `release:2.0` against A `release:1.0`"
    rules = [line for line in lines if line.startswith("| ") and "%" in line][1:]
    assert [line.split(" | ")[0] for line in rules[:3]] == ["| worse", "| unknown", "| as-good"]
    assert "| 100.00% | 80.00% | -20.00 |" in rules[0]
    assert rules[0].endswith("| **worse** |")


def test_markdown_shows_what_a_stranger_wrote_as_text(tmp_path: Path) -> None:
    rule_id = "a|<b>[c](d)"
    store_with(tmp_path, *traces("1.0", "p", first=1, rule_id=rule_id), *traces("2.0", "p", first=9, rule_id=rule_id))
    called = [tool_call(name="<img src=x>`|")]
    store_with(tmp_path, judged(20, evaluations=[evaluation(20, release="2.0")], release="2.0", tool_calls=called))
    text = shown(tmp_path, "markdown", exit_code=3)
    assert "| a\\|&lt;b>\\[c\\](d) |" in text
    assert "&lt;img src=x>\\`\\|" in text
    assert "<img" not in text


def test_markdown_links_what_changed(tmp_path: Path) -> None:
    for number in range(1, 21):
        shared = {"case": f"case {number:02}", "subject": {"kind": "trace", "id": trace_id(number)}}
        store_with(
            tmp_path, *traces("1.0", "p", first=number, **shared), *traces("2.0", "f", first=number + 50, **shared)
        )
    config = tmp_path / "config.yaml"
    config.write_text("alerts: {trace_url: 'https://traces/{trace_id}'}\n")
    text = shown(tmp_path, "markdown", "-c", str(config))
    assert "checkout-order: 20 worse, 0 better of 20 pairs by case" in text
    a, b = trace_id(20), trace_id(70)  # the newest first
    assert f"- worse: case 20: [{a}](https://traces/{a}), on B [{b}](https://traces/{b})" in text
    assert "- worse: ... and 10 more" in text
    assert f"- worse: case 20: `{a}`, on B `{b}`" in shown(tmp_path, "markdown")


def test_markdown_names_what_is_left_out_and_what_is_called(tmp_path: Path) -> None:
    runs = [RunSummary(AGENT_SPAN, "support", None, None, "small", None, 100, 0)]
    for number, release, tool in ((1, "1.0", "refund"), (2, "2.0", "send_mail")):
        found = [evaluation(number, release=release)]
        called = [tool_call(name=tool)]
        store_with(tmp_path, judged(number, evaluations=found, release=release, tool_calls=called, runs=runs))
    store_with(tmp_path, *traces("2.0", "p", first=9, rule_id="only-there"))
    text = shown(tmp_path, "markdown", exit_code=3)
    assert "- only-there: no result on A" in text
    assert "| send\\_mail | new |" in text or "| send_mail | new |" in text
    assert "| tokens | 100 | 100 |" in text


def test_junit_fails_what_is_worse_and_skips_what_cannot_be_told(data_dir: Path) -> None:
    root = ElementTree.fromstring(shown(data_dir, "junit"))
    assert root.attrib == {
        "name": "release:2.0 against release:1.0",
        "tests": "3",
        "failures": "1",
        "errors": "0",
        "skipped": "1",
    }
    cases = {case.get("name"): case for case in root.iter("testcase")}
    assert {name: [child.tag for child in case] for name, case in cases.items()} == {
        "as-good": ["properties"],
        "unknown": ["properties", "skipped"],
        "worse": ["properties", "failure"],
    }
    assert str(cases["worse"][1].get("message")).startswith("worse: A 100.00%, B 80.00%, difference -20.00 points (")
    numbers = {of.get("name"): of.get("value") for of in cases["worse"][0]}
    assert (numbers["verdict"], numbers["pass_rate_b"]) == ("worse", "0.8")


def test_what_is_allowed_is_no_failure(data_dir: Path) -> None:
    options = ["--margin", "0.5", "--rule", "worse"]
    assert ElementTree.fromstring(shown(data_dir, "junit", *options)).get("failures") == "1"
    allowed = shown(data_dir, "junit", *options, "--allow-within-margin", exit_code=0)
    assert ElementTree.fromstring(allowed).get("failures") == "0"
    (log,) = json.loads(shown(data_dir, "sarif", *options, "--allow-within-margin", exit_code=0))["runs"]
    assert log["results"] == []


def test_sarif_has_a_result_for_each_rule_that_is_worse(data_dir: Path) -> None:
    (log,) = json.loads(shown(data_dir, "sarif"))["runs"]
    assert [rule["id"] for rule in log["tool"]["driver"]["rules"]] == ["as-good", "unknown", "worse"]
    (result,) = log["results"]
    assert (result["ruleId"], result["level"]) == ("worse", "note")
    assert result["message"]["text"].startswith("release:2.0 against release:1.0: worse: A 100.00%, B 80.00%")
    assert result["partialFingerprints"] == {"tracegrade/v1": "worse/compare"}
    (location,) = result["locations"]
    assert location == {"logicalLocations": [{"name": "worse", "fullyQualifiedName": "compare/worse"}]}


def test_sarif_names_the_file_of_a_rule_that_a_run_knows(tmp_path: Path) -> None:
    rules = {"checkout-order": {"hash": "0123456789abcdef", "incomplete": "leave_out", "path": "rules/order/rule.yaml"}}
    engine = open_store(store_with(tmp_path))
    begin(engine, "tuning/1", rules=rules)
    engine.dispose()
    store_with(tmp_path, *traces("1.0", "p" * 40, first=1), *traces("1.0", "f" * 40, first=1, run="tuning/1"))
    for option in ([], ["--rates-only"]):
        result = run(tmp_path, "compare", "live", "tuning/1", "--format", "sarif", *option)
        (log,) = json.loads(result.stdout)["runs"]
        (location,) = log["results"][0]["locations"]
        assert location["physicalLocation"]["artifactLocation"]["uri"] == "rules/order/rule.yaml"
