"""``tracegrade baseline``, and what ``replay`` does with baselines."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from build import each
from build.otlp import otlp_span, payload, tool_span
from build.replayed import CHECK, CREATE, RULE, write_source
from tracegrade.cli import main

GATED = RULE + "gate: {not_worse_than: baseline}\n"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rule.yaml").write_text(GATED)


def tracegrade(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def request(trace: int, good: bool, prompt: str = "", session: str = "", parent: int | None = None) -> bytes:
    """A trace of one agent run; without a prompt, nothing is known of what was asked. No `parent` ever comes."""
    asked = {"gen_ai__input__messages": json.dumps([{"role": "user", "parts": [{"type": "text", "content": prompt}]}])}
    together = {"gen_ai__conversation__id": session}
    agent = otlp_span(
        trace,
        1,
        parent,
        end=1000,
        gen_ai__operation__name="invoke_agent",
        gen_ai__agent__name="order-agent",
        **(asked if prompt else {}),
        **(together if session else {}),
    )
    tools = (CHECK, CREATE) if good else (CREATE, CHECK)
    calls = [tool_span(trace, 2 + n, 1, tool, start=10 * n + 10, end=10 * n + 15) for n, tool in enumerate(tools)]
    return payload([agent, *calls])


def source(tmp_path: Path, name: str, passed: int, failed: int, *, first: int) -> str:
    requests = [request(first + number, number < passed) for number in range(passed + failed)]
    return write_source(tmp_path, *requests, name=name)


@pytest.fixture
def saved(tmp_path: Path) -> dict[str, Any]:
    """A baseline, main, of 95 passes among 100."""
    done = tracegrade(
        "baseline", "save", "main", source(tmp_path, "main.binpb", 95, 5, first=1), "--rules", "rule.yaml"
    )
    assert done.stdout == "Saved main, 1 rule with 100 results, to .tracegrade/baselines/main.json.\n"
    found: dict[str, Any] = json.loads((tmp_path / ".tracegrade/baselines/main.json").read_text())
    return found


def test_what_is_saved_has_counts_and_where_it_is_from(tmp_path: Path, saved: dict[str, Any]) -> None:
    assert (saved["name"], saved["source"], saved["version"]) == ("main", str(tmp_path / "main.binpb"), 1)
    ((_, rule),) = saved["rules"]["create-before-check"].items()
    assert rule["groups"] == [
        {"results": [{"fail": 1}], "times": 5},
        {"results": [{"pass": 1}], "times": 95},
    ]
    assert (rule["pass"], rule["fail"], rule["pass_rate"], rule["level"]) == (95, 5, 0.95, "medium")


@each(
    ("passed", "failed", "flags", "code", "said"),
    [
        (
            60,
            40,
            (),
            1,
            "Gate failed: 1 rule fails: create-before-check (0.6000 of 100 results, worse than main (-35.00",
        ),
        (95, 5, ("--margin", "0.15"), 0, "Gate passed: 1 rule of 1 as required"),
        (
            95,
            5,
            (),
            3,
            "Cannot tell: 1 rule without a verdict: create-before-check (0.9500 of 100 results, too few results",
        ),
        (60, 40, ("--no-gate",), 0, ""),
        (60, 40, ("--no-gate", "--baseline", "main"), 1, "Gate failed"),
        (60, 40, ("--baseline", ".tracegrade/baselines/main.json"), 1, "Gate failed"),
    ],
)
def test_replay_is_held_against_the_baseline(
    tmp_path: Path,
    saved: dict[str, Any],
    passed: int,
    failed: int,
    flags: tuple[str, ...],
    code: int,
    said: str,
) -> None:
    here = source(tmp_path, "here.binpb", passed, failed, first=1000)
    result = tracegrade("replay", here, "--rules", "rule.yaml", *flags)
    assert result.exit_code == code, result.output
    assert result.stderr.startswith(said)


def test_json_says_how_each_rule_stands(tmp_path: Path, saved: dict[str, Any]) -> None:
    here = source(tmp_path, "here.binpb", 60, 40, first=1000)
    result = tracegrade("replay", here, "--rules", "rule.yaml", "--format", "json")
    rule, gate = (json.loads(line) for line in result.stderr.splitlines())
    assert rule["against"]["baseline"] == "main"
    assert rule["against"]["compared"]["difference"] == pytest.approx(-0.35)
    assert rule["bounds"] == {
        "at_least": None,
        "at_least_by": None,
        "not_worse_than": "main",
        "not_worse_than_by": "rule file",
        "margin": 0.02,
        "margin_by": None,
        "no_fails": False,
    }
    assert gate["gate"] == "fail"


@each(
    ("passed", "failed", "flags", "code"),
    [
        (60, 40, ("--no-gate",), 1),
        (95, 5, ("--no-gate",), 3),
        (95, 5, ("--no-gate", "--margin", "0.15"), 0),
        # The worse of both decisions counts.
        (95, 5, ("--no-gate", "--margin", "0.15", "--fail-under", "0.99"), 1),
        (95, 5, ("--no-gate", "--margin", "0.15", "--fail-under", "0.9", "--min-results", "101"), 3),
        (60, 40, ("--no-gate", "--fail-under", "0.5"), 1),
    ],
)
def test_a_comparison_is_printed_in_place_of_the_summary(
    tmp_path: Path, saved: dict[str, Any], passed: int, failed: int, flags: tuple[str, ...], code: int
) -> None:
    here = source(tmp_path, "here.binpb", passed, failed, first=1000)
    result = tracegrade("replay", here, "--rules", "rule.yaml", "--compare", "main", "--format", "json", *flags)
    assert result.exit_code == code, result.output
    found = json.loads(result.stdout)
    assert (found["a"], found["b"]) == ("main", here)
    assert found["rules"][0]["a"]["results"] == found["rules"][0]["b"]["results"] == 100


@each("output_format", ["table", "markdown", "junit", "sarif"])
def test_the_comparison_has_every_format(tmp_path: Path, saved: dict[str, Any], output_format: str) -> None:
    here = source(tmp_path, "here.binpb", 60, 40, first=1000)
    result = tracegrade("replay", here, "--rules", "rule.yaml", "--compare", "main", "--format", output_format)
    assert result.exit_code == 1
    shown = {"table": "Worse: 1 rule worse.", "markdown": "## Worse: 1 rule worse", "junit": 'failures="1"'}
    assert shown.get(output_format, "worse: A 95.00%, B 60.00%") in result.stdout
    assert "Gate failed" in result.stderr


def test_the_same_prompts_are_pairs_though_the_file_has_no_prompt(tmp_path: Path) -> None:
    def asked(name: str, first: int, failing: int) -> str:
        requests = [request(first + n, n >= failing, f"order {n} for Ada") for n in range(40)]
        return write_source(tmp_path, *requests, name=name)

    tracegrade("baseline", "save", "main", asked("main.binpb", 1, 0), "--rules", "rule.yaml")
    assert "Ada" not in (tmp_path / ".tracegrade/baselines/main.json").read_text()
    asked("here.binpb", 100, 12)
    base = ("replay", "here.binpb", "--rules", "rule.yaml", "--compare", "main")
    result = tracegrade(*base, "--format", "json")
    (rule,) = json.loads(result.stdout)["rules"]
    assert (rule["pairs"]["by"], rule["pairs"]["count"], rule["pairs"]["worse"]) == ("prompt", 40, 12)
    assert rule["p"] == pytest.approx(2 / 2**12)
    for output_format in ("table", "markdown"):  # a baseline names no traces
        assert f"{100:032x}" in tracegrade(*base, "--format", output_format).stdout


SEVERAL = """\
id: create-before-check
match: {tools: [create_order]}
incomplete: count
evaluate:
  - {evaluator: tool-call-order, tool_calls_order: [check_inventory, create_order]}
cases:
  - {id: ada, match: {prompt: order 1 for Ada}, expected_tool: create_order}
  - {id: grace, match: {prompt: order 2 for Ada}, expected_tool: nothing}
"""
OF_SESSION = """\
id: of-session
scope: session
evaluate:
  - {evaluator: tool-call-order, tool_calls_order: [check_inventory, create_order]}
"""


def test_files_and_the_run_that_is_stored_of_them_give_the_same_baseline(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "a.rule.yaml").write_text(SEVERAL)
    (tmp_path / "rules" / "b.rule.yaml").write_text(OF_SESSION)
    (tmp_path / "rules" / "c.rule.yaml").write_text(
        RULE.replace("create-before-check", "sampled") + "sample: {share: 0.5, keep_failures: true}\n"
    )
    requests = [
        request(
            1 + n,
            n % 7 > 0,
            f"order {n % 5} for Ada" if n % 2 else "",
            f"s{n % 4}" if n % 3 else "",
            77 if n % 10 == 9 else None,
        )
        for n in range(40)
    ]
    write_source(tmp_path, *requests)
    shared = ("--rules", "rules", "--data-dir", "data")
    assert tracegrade("baseline", "save", "files", "traces.binpb", *shared).exit_code == 0
    assert tracegrade("replay", "traces.binpb", "--experiment", "e", *shared).exit_code == 0
    assert tracegrade("baseline", "save", "stored", "--of", "e/1", "--data-dir", "data").exit_code == 0
    files, stored = (
        json.loads((tmp_path / f".tracegrade/baselines/{name}.json").read_text()) for name in ("files", "stored")
    )
    incomplete = {rule_id: of["incomplete"] for rule_id, by_hash in files["rules"].items() for of in by_hash.values()}
    assert incomplete["create-before-check"] == 0 < incomplete["sampled"]
    assert sorted(files["rules"]) == ["create-before-check", "of-session", "sampled"]
    text = json.dumps(files["rules"])
    assert all(
        word in text
        for word in ('"case": "ada"', '"together": "session"', '"prompt": "order-agent ', '"probability": 0.5')
    )
    for (rule,) in (found["rules"]["sampled"].values() for found in (files, stored)):
        rule.pop("kept", None)  # a run does not say how often its rule keeps a pass
    assert files["rules"] == stored["rules"]
    # The same by the whole comparison: each trace is its own partner.
    done = tracegrade("replay", "traces.binpb", "--compare", "e/1", "--format", "json", *shared)
    assert [(rule["pairs"]["by"], rule["pairs"]["worse"]) for rule in json.loads(done.stdout)["rules"]] == [
        ("trace", 0)
    ] * 3


def test_a_run_is_compared_in_the_store(tmp_path: Path) -> None:
    source(tmp_path, "main.binpb", 95, 5, first=1)
    source(tmp_path, "here.binpb", 60, 40, first=1000)
    shared = ("--rules", "rule.yaml", "--data-dir", "data", "--experiment", "e", "--no-gate")
    assert tracegrade("replay", "main.binpb", *shared).exit_code == 0
    done = tracegrade("replay", "here.binpb", *shared, "--compare", "e/1", "--format", "json")
    found = json.loads(done.stdout)
    assert (done.exit_code, found["a"], found["b"]) == (1, "e/1", "e/2")
    assert (found["measures"]["calls"]["a"]["mean"], found["behaviour"] is None) == (2.0, False)
    # --service holds for what is stored, too.
    done = tracegrade("replay", "here.binpb", *shared[:4], "--baseline", "e/1", "--service", "nosuch")
    assert done.stderr.startswith("Error: e/1: no result of service 'nosuch'")


@each(
    ("arguments", "said"),
    [
        (("save", "main"), "name one of SOURCE, --of SIDE and --run NAME"),
        (("save", "main", "main.binpb", "--of", "live"), "name one of SOURCE, --of SIDE and --run NAME"),
        (("save", "baseline", "--of", "live"), "a baseline cannot be called 'baseline'"),
        (("save", "a/b", "--of", "live"), "a baseline cannot be called 'a/b'"),
        (("save", "main", "--of", "live", "--rules", "rule.yaml"), "--rules is for SOURCE"),
        (("save", "main", "--of", "live", "--data-dir", "nowhere"), "no such store"),
        (("save", "main", "missing.binpb", "--rules", "rule.yaml"), "missing.binpb"),
        (("save", "main", "main.binpb", "--rules", "rule.yaml", "-o", "rule.yaml/x.json"), "cannot be written: "),
        (("show", "mian"), "no baseline 'mian' in .tracegrade/baselines; did you mean 'main'?"),
    ],
)
def test_what_cannot_be_saved_or_shown_is_said(
    tmp_path: Path, saved: dict[str, Any], arguments: tuple[str, ...], said: str
) -> None:
    result = tracegrade("baseline", *arguments)
    assert result.exit_code == 2, result.output
    assert said in result.stderr


def test_nothing_judged_is_nothing_to_save(tmp_path: Path) -> None:
    (tmp_path / "rule.yaml").write_text(RULE.replace("[create_order]}", "[refund]}", 1))
    source(tmp_path, "main.binpb", 5, 0, first=1)
    result = tracegrade("baseline", "save", "main", "main.binpb", "--rules", "rule.yaml")
    assert (result.exit_code, "no rule passed or failed on anything" in result.stderr) == (3, True)
    assert not (tmp_path / ".tracegrade").exists()


def test_baselines_are_listed_and_shown(tmp_path: Path, saved: dict[str, Any]) -> None:
    (tmp_path / ".tracegrade/baselines/old.json").write_text(json.dumps(saved | {"version": 7}))
    listed = tracegrade("baseline", "list").stdout
    assert "1 rule with 100 results" in listed
    assert "format version 7" in listed
    rows = [json.loads(line) for line in tracegrade("baseline", "list", "--format", "json").stdout.splitlines()]
    assert [(row["name"], row["problem"] is None) for row in rows] == [("main", True), ("old", False)]
    shown = tracegrade("baseline", "show", "main").stdout
    assert "create-before-check" in shown
    assert "95.00%" in shown
    of_json = json.loads(tracegrade("baseline", "show", "main", "--format", "json").stdout)
    assert of_json["rules"].keys() == saved["rules"].keys()


def test_without_baselines_the_list_says_how_to_save_one() -> None:
    assert "'tracegrade baseline save NAME' saves one" in tracegrade("baseline", "list").stdout


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--baseline", "mian"), "no baseline 'mian' in .tracegrade/baselines"),
        (("--compare", "mian"), "did you mean 'main'"),
        (("--compare", "main", "--by", "agent"), "--by groups the summary"),
    ],
)
def test_a_wrong_name_is_said_before_anything_is_judged(
    tmp_path: Path, saved: dict[str, Any], flags: tuple[str, ...], said: str
) -> None:
    result = tracegrade("replay", "never-read.binpb", "--rules", "rule.yaml", *flags)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "never-read" not in result.stderr
