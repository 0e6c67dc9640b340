"""``tracegrade experiments``, and ``--run`` of the commands that read."""

import json
from pathlib import Path

import pytest

from build import each, store_with
from build.commands import run, run_json
from build.judged_traces import START_NS, judged, trace_id
from build.otlp import agent_span, payload
from build.stored_runs import begin, run_of
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.record import Encoding, Entry
from tracegrade.model.signal import Signal
from tracegrade.store.open import open_store
from tracegrade.store.runs import save_run
from tracegrade.store.write import StoreWriter

HASH = {"hash": "0123456789abcdef", "level": "high", "status": "stable", "incomplete": "leave_out"}
RULES = {"checkout-order": HASH}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Live: one pass. Run tuning/1: pass and fail; tuning/2: two passes by another rule hash; tuning/3: broken off."""
    engine = open_store(store_with(tmp_path))
    begin(engine, "tuning/1", "tuning/2", "tuning/3")
    StoreWriter(engine).write(
        [
            judged(1, last_position=0),
            judged(1, run="tuning/1", service="of-run", last_position=0),
            judged(2, "fail", run="tuning/1"),
            judged(1, run="tuning/2"),
            judged(2, run="tuning/2"),
            judged(2, run="tuning/3"),
        ]
    )
    other = {"checkout-order": {**HASH, "hash": "another"}}
    made = {"labels": {"model": "m-1"}, "releases": ["1.0"], "gate": "fail", "git_revision": "abc-dirty"}
    with engine.begin() as connection:
        save_run(
            connection, run_of("tuning/1", state="complete", rules=RULES, prompt_hash="ab", prompt_count=2, **made)
        )
        save_run(
            connection,
            run_of("tuning/2", state="complete", rules=other, begun_ns=START_NS + 1, selection={"since_ns": START_NS}),
        )
        save_run(connection, run_of("tuning/3", rules=RULES, begun_ns=START_NS + 2))
    engine.dispose()
    return tmp_path


def test_experiments_are_listed_with_their_baseline_best_and_latest(data: Path) -> None:
    (found,) = run_json(data, "experiments", "list")
    assert found == {
        "tenant": "default",
        "experiment": "tuning",
        "begun_ns": START_NS,
        "baseline": "tuning/1",
        "best": "tuning/2",
        "baseline_entry": None,
        "pinned": False,
        "baseline_note": None,
        "runs": ["tuning/1", "tuning/2", "tuning/3"],
    }
    table = run(data, "experiments", "list").stdout
    assert table.splitlines()[3].split() == [
        *("tuning", "3", "tuning/1", "0.5000", "tuning/2", "1.0000", "tuning/3", "2026-01-01", "00:00:00"),
        *("1.0000", "+0.5000"),
    ]


def test_a_timeline_shows_each_run_against_the_baseline(data: Path) -> None:
    found = run_json(data, "experiments", "timeline", "tuning")
    assert [(item["run"], item["score"], item["delta"], item["is_best"], item["other_rules"]) for item in found] == [
        ("tuning/1", 0.5, 0.0, True, []),
        ("tuning/2", 1.0, 0.5, True, ["checkout-order"]),
        ("tuning/3", 1.0, 0.5, False, []),
    ]
    rows = [line.split() for line in run(data, "experiments", "timeline", "tuning").stdout.splitlines()[3:6]]
    assert [row[2:] for row in rows] == [
        ["tuning/1", "✓", "complete", "2", "0.5000", "baseline", "★", "1.0", "model=m-1"],
        ["tuning/2", "✓", "complete", "2", "1.0000", "+0.5000", "(other", "rules)", "★"],
        ["tuning/3", "–", "incomplete", "1", "1.0000", "+0.5000"],
    ]


def test_a_run_is_shown_with_what_it_was_made_of(data: Path) -> None:
    (found,) = run_json(data, "experiments", "show", "tuning/1")
    assert found["rules"]["checkout-order"] == {
        "hash": "0123456789abcdef",
        "pass_rate": 0.5,
        "mean_overall": None,
        "pass": 1,
        "fail": 1,
        "not_evaluable": 0,
        "error": 0,
        "incomplete": 0,
    }
    text = run(data, "experiments", "show", "tuning/1").stdout
    for part in (
        "run tuning/1  ✓ complete",
        "score 0.5000, the baseline",
        "2 traces of journal; releases 1.0",
        "begun 2026-01-01 00:00:00 UTC, written 2026-01-01 00:00:00 UTC; gate: fail",
        "rules judgement, settings settings, TraceGrade 0.1.0, git abc-dirty",
        "2 prompts, together ab",
        "labels model=m-1",
    ):
        assert f"{part}\n" in text
    later = run(data, "experiments", "show", "tuning/2").stdout
    assert "score 1.0000, +0.5000 (other rules) against the baseline tuning/1\n" in later
    assert "2 traces of journal, only since 2026-01-01 00:00:00\n" in later
    assert ["checkout-order", "100.0%", "50.0%", "+0.5000", "(another", "rule)", "2"] in [
        line.split() for line in later.splitlines()
    ]
    broken_off = run(data, "experiments", "show", "tuning/3").stdout
    assert "the same command with --run tuning/3 goes on with it" in broken_off


def test_an_experiment_is_shown_with_its_latest_run(data: Path) -> None:
    text = run(data, "experiments", "show", "tuning").stdout
    assert "3 runs, the first begun 2026-01-01 00:00:00 UTC\n" in text
    assert "baseline tuning/1, score 0.5000\n  best tuning/2, score 1.0000\n" in text
    assert "run tuning/3  – incomplete\n" in text
    assert run_json(data, "experiments", "show", "tuning") == run_json(data, "experiments", "list")


def test_the_best_run_is_shown(data: Path) -> None:
    (found,) = run_json(data, "experiments", "best", "tuning")
    assert found["run"] == "tuning/2"
    run(data, "experiments", "delete", "tuning/1", "--yes")
    run(data, "experiments", "delete", "tuning/2", "--yes")
    none = run(data, "experiments", "best", "tuning")
    assert (none.exit_code, none.stderr) == (1, "No complete run of tuning has a score.\n")


def test_a_baseline_is_pinned_and_unpinned(data: Path) -> None:
    said = "The baseline of tuning is {}, score {}.\n"
    first = said.format("tuning/1 (the first complete run with a score)", "0.5000")
    assert run(data, "experiments", "baseline", "tuning").stdout == first
    pinned = run(data, "experiments", "baseline", "tuning", "tuning/2").stdout
    assert pinned == said.format("tuning/2 (pinned)", "1.0000")
    assert [item["delta"] for item in run_json(data, "experiments", "timeline", "tuning")] == [-0.5, 0.0, 0.0]
    assert "baseline tuning/2 (pinned), score 1.0000\n" in run(data, "experiments", "show", "tuning").stdout
    assert run(data, "experiments", "baseline", "tuning", "--unpin").stdout == first


@each(
    ("arguments", "said"),
    [
        (("tuning", "tuning/3"), "tuning/3 is incomplete: nothing can be measured against it"),
        (("tuning", "tuning/9"), "tuning has no run 'tuning/9'; did you mean"),
        (("tuning", "tuning/1", "--unpin"), "leave RUN out"),
        (("tunin",), "no experiment 'tunin'; did you mean 'tuning'?"),
    ],
)
def test_what_cannot_be_a_baseline_is_refused(data: Path, arguments: tuple[str, ...], said: str) -> None:
    refused = run(data, "experiments", "baseline", *arguments)
    assert refused.exit_code == 2
    assert said in refused.stderr


def test_runs_and_experiments_are_deleted_when_that_is_confirmed(data: Path) -> None:
    asked = run(data, "experiments", "delete", "tuning/1")
    assert asked.exit_code == 2
    assert "run tuning/1 would be deleted for good; --yes does so without asking" in asked.stderr
    done = run(data, "experiments", "delete", "tuning/1", "--yes")
    assert done.stdout == "Deleted run tuning/1: 2 traces and sessions.\n"
    (left,) = run_json(data, "experiments", "list")
    assert (left["runs"], left["baseline"]) == (["tuning/2", "tuning/3"], "tuning/2")
    done = run(data, "experiments", "delete", "tuning", "--yes")
    assert done.stdout == "Deleted experiment tuning with 2 runs: 3 traces and sessions.\n"
    assert run_json(data, "experiments", "list") == []
    assert [item["trace_id"] for item in run_json(data, "traces", "list")] == [trace_id(1)]
    missing = run(data, "experiments", "delete", "tuning", "--yes")
    assert missing.exit_code == 2
    assert "no run or experiment 'tuning': no run is stored here" in missing.stderr


def test_each_tenant_has_its_own(data: Path) -> None:
    assert run_json(data, "experiments", "list", "--tenant", "other") == []
    assert "No experiments" in run(data, "experiments", "list", "--tenant", "other").stdout


def test_lists_are_of_the_run_that_is_named(data: Path) -> None:
    of_run = ("--run", "tuning/1")
    assert [item["outcome"] for item in run_json(data, "results", "list", *of_run)] == ["fail", "pass"]
    assert [item["trace_id"] for item in run_json(data, "traces", "list", *of_run)] == [trace_id(2), trace_id(1)]
    assert [item["run"] for item in run_json(data, "results", "show", trace_id(2), *of_run)] == ["tuning/1"]
    (shown,) = run_json(data, "traces", "show", trace_id(2), *of_run)
    assert shown["trace"]["run"] == "tuning/1"
    exported = run(data, "results", "export", *of_run).stdout
    assert [json.loads(line)["run"] for line in exported.splitlines()] == ["tuning/1", "tuning/1"]
    assert len(run(data, "traces", "export", *of_run).stdout.splitlines()) == 2
    assert len(run(data, "traces", "export", trace_id(2), *of_run).stdout.splitlines()) == 1
    assert run(data, "traces", "export", trace_id(2)).exit_code == 1
    (rate,) = [
        item for item in run_json(data, "results", "stats", *of_run) if not item["evaluation"] and item["failed"]
    ]
    assert (rate["passed"], rate["failed"]) == (0, 1)
    by_rule = run_json(data, "results", "stats", *of_run, "--by", "rule")
    assert [(item["passed"], item["failed"]) for item in by_rule] == [(1, 1)]


@each(
    "command",
    [
        ("results", "list"),
        ("results", "stats"),
        ("results", "stats", "--by", "rule"),
        ("results", "export"),
        ("results", "show", trace_id(1)),
        ("traces", "list"),
        ("traces", "show", trace_id(1)),
        ("traces", "export"),
        ("why", trace_id(1)),
    ],
)
def test_an_unknown_run_is_said_to_be_unknown(data: Path, command: tuple[str, ...]) -> None:
    unknown = run(data, *command, "--run", "tuning/9")
    assert (unknown.exit_code, unknown.stdout) == (2, "")
    assert "no run 'tuning/9'; did you mean 'tuning/" in unknown.stderr


def test_the_rates_of_a_run_are_not_by_time(data: Path) -> None:
    refused = run(data, "results", "stats", "--run", "tuning/1", "--since", "1d")
    assert refused.exit_code == 2
    assert "a run is counted as a whole: leave out --since and --until" in refused.stderr


def test_why_says_what_became_of_a_trace_in_a_run(data: Path) -> None:
    text = run(data, "why", trace_id(2), "--run", "tuning/1").stdout
    assert "tenant default, run tuning/1\n" in text
    assert "✗ fail" in text
    missing = run(data, "why", trace_id(9), "--run", "tuning/1")
    assert missing.exit_code == 1
    assert missing.stderr == (
        f"Run tuning/1 does not have trace {trace_id(9)}; 'traces list --run tuning/1' shows those it has.\n"
    )


def test_what_came_late_is_said_of_what_was_judged_live_alone(data: Path) -> None:
    """The journal has spans of the trace that were received later; the run may be of a file."""
    journal = LocalJournal.open(data / "journal", now_ns=lambda: START_NS + 10**15)
    journal.append(Entry(Signal.TRACES, Encoding.PROTOBUF, "default", 1, payload([agent_span(1, 7)]))).result()
    journal.close()
    assert "not judged: came" in run(data, "why", trace_id(1)).stdout
    assert "not judged: came" not in run(data, "why", trace_id(1), "--run", "tuning/1").stdout
