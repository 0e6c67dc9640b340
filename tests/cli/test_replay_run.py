"""``replay --experiment``: what is stored, what is said, and that everything else is as without it."""

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from build import each, store_with
from build.commands import run
from build.replayed import CHECK, CREATE, RULE, request, write_rule, write_source
from tracegrade.cli import main
from tracegrade.deletion.request import Deletions
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.record import Encoding, Entry
from tracegrade.model.signal import Signal
from tracegrade.store.heads import trace_heads
from tracegrade.store.open import reading_store
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.results import full_evaluations, results
from tracegrade.store.runs import Run, stored_runs
from tracegrade.store.tallies import tallies
from tracegrade.store.write import StoreWriter

GOOD, BAD = request(1, CHECK, CREATE), request(2, CREATE, CHECK, service="other")


@pytest.fixture
def rule(tmp_path: Path) -> str:
    return write_rule(tmp_path)


@pytest.fixture
def source(tmp_path: Path) -> str:
    return write_source(tmp_path, GOOD, BAD)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    store_with(tmp_path / "data")
    return tmp_path / "data"


def replay(data: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["replay", *arguments, "--data-dir", str(data)])


def runs(data: Path) -> list[Run]:
    with reading_store(f"sqlite:///{data / 'tracegrade.db'}") as connection:
        return stored_runs(connection, "default")


def stored(data: Path, run: str) -> list[dict[str, Any]]:
    with reading_store(f"sqlite:///{data / 'tracegrade.db'}") as connection:
        found = results(connection, ResultFilter(run=run), 99)
        return [evaluation.to_json() for evaluation in full_evaluations(connection, found)]


def test_what_is_printed_is_stored_as_a_run(rule: str, source: str, data: Path) -> None:
    labels = ("--label", "model=m-1", "--label", "note=a=b")
    done = replay(data, source, "--rules", rule, "--experiment", "tuning", *labels, "--format", "json")
    assert (done.exit_code, done.stderr) == (
        0,
        "Stored as run tuning/1 of experiment tuning: 2 traces, score 0.5000.\n",
    )
    printed = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(item["run"], item["outcome"]) for item in printed] == [("tuning/1", "pass"), ("tuning/1", "fail")]
    assert stored(data, "tuning/1")[::-1] == printed
    (run,) = runs(data)
    assert (run.state, run.gate, run.labels, run.source) == ("complete", None, {"model": "m-1", "note": "a=b"}, source)
    assert {rule_id: (known["incomplete"], known["path"]) for rule_id, known in run.rules.items()} == {
        "create-before-check": ("leave_out", rule)
    }
    with reading_store(f"sqlite:///{data / 'tracegrade.db'}") as connection:
        assert tallies(connection, ResultFilter()) == {}
        assert trace_heads(connection, ResultFilter(), 9) == []


def test_a_second_run_is_measured_against_the_first(rule: str, source: str, data: Path) -> None:
    replay(data, source, "--rules", rule, "--experiment", "tuning")
    better = replay(
        data, source, "--rules", rule, "--experiment", "tuning", "--service", "shop", "--run", "only shop/1"
    )
    assert better.exit_code == 2
    better = replay(data, source, "--rules", rule, "--experiment", "tuning", "--service", "shop", "--run", "only-shop")
    said = (
        "Stored as run only-shop of experiment tuning: 1 trace, score 1.0000, +0.5000 against the baseline tuning/1.\n"
    )
    assert better.stderr == said
    (_, second) = runs(data)
    assert (second.name, second.selection) == ("only-shop", {"service": "shop"})


def test_a_run_that_is_too_old_is_emptied_where_nobody_serves(
    rule: str, source: str, data: Path, tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("store: {retention: 1ms}\n")
    for _ in range(2):
        done = replay(data, source, "--rules", rule, "--experiment", "tuning", "-c", str(config))
        assert done.exit_code == 0, done.stderr
    assert "score 0.5000, +0.0000 against the baseline tuning/1" in done.stderr
    assert [(run.name, run.emptied) for run in runs(data)] == [("tuning/1", True), ("tuning/2", False)]
    assert (stored(data, "tuning/1"), len(stored(data, "tuning/2"))) == ([], 2)


SUITE = """\
id: orders
cases:
  - id: two-of-a-1
    match: {prompt: "Please order 2 of A-1 for user 123."}
    expected_tool: create_order
    expected_params: {sku: A-1}
"""


def test_the_score_of_a_suite_is_the_mean_overall(data: Path, tmp_path: Path) -> None:
    """The right tool without its parameter: no case passes, and each is worth 0.6."""
    suite = tmp_path / "suite.yaml"
    suite.write_text(SUITE)
    for name, requests in (("wrong", [request(1, CHECK)]), ("half", [request(1, CREATE), request(2, CHECK)])):
        found = write_source(tmp_path, *requests, name=f"{name}.binpb")
        done = replay(data, found, "--rules", str(suite), "--experiment", "suite", "--run", name)
    assert "score 0.3000, +0.3000 against the baseline wrong" in done.stderr
    lines = run(data, "experiments", "show", "half").stdout.splitlines()
    (heading,) = [line.split() for line in lines if "baseline  " in line and "rule" in line]
    (row,) = [line.split() for line in lines if line.strip().startswith("orders")]
    assert heading[:7] == ["rule", "pass", "rate", "mean", "overall", "baseline", "delta"]
    assert row == ["orders", "0.0%", "0.3000", "0.0000", "+0.3000", "2"]


def test_a_delta_between_other_rules_is_marked(rule: str, source: str, data: Path, tmp_path: Path) -> None:
    replay(data, source, "--rules", rule, "--experiment", "tuning")
    Path(rule).write_text(RULE.replace("[check_inventory, create_order]", "[create_order]"))
    other = replay(data, source, "--rules", rule, "--experiment", "tuning")
    assert "score 1.0000, +0.5000 (other rules) against the baseline tuning/1" in other.stderr
    Path(rule).write_text(f"title: Only the text\n{RULE}")
    same = replay(data, source, "--rules", rule, "--experiment", "tuning")
    assert "score 0.5000, +0.0000 against the baseline tuning/1" in same.stderr


def test_the_journal_is_stored_beside_what_was_judged_live(rule: str, data: Path) -> None:
    journal = LocalJournal.open(data / "journal")
    for body in (GOOD, BAD):
        journal.append(Entry(Signal.TRACES, Encoding.PROTOBUF, "default", 3, body)).result()
    done = replay(data, "--rules", rule, "--experiment", "tuning")
    journal.close()
    assert done.exit_code == 0, done.stderr
    (run,) = runs(data)
    assert (run.source, run.state) == ("journal", "complete")
    assert [item["outcome"] for item in stored(data, "tuning/1")] == ["fail", "pass"]


def test_what_the_gate_said_is_kept_and_decides_the_exit(rule: str, source: str, data: Path) -> None:
    gate = ("--fail-under-overall", "0.9")
    failed = replay(data, source, "--rules", rule, "--experiment", "tuning", *gate)
    assert failed.exit_code == 1
    assert [line.split(":")[0] for line in failed.stderr.splitlines()] == [
        "Gate failed",
        "Stored as run tuning/1 of experiment tuning",
    ]
    replay(data, source, "--rules", rule, "--experiment", "tuning", "--service", "shop", *gate)
    assert [run.gate for run in runs(data)] == ["fail", "pass"]


def test_a_run_is_written_once(rule: str, source: str, data: Path) -> None:
    arguments = (source, "--rules", rule, "--experiment", "tuning", "--run", "once")
    assert replay(data, *arguments).exit_code == 0
    again = replay(data, *arguments)
    assert (again.exit_code, again.stdout) == (2, "")
    assert "--run: 'once' is complete, and a run is written once" in again.stderr


def test_a_source_that_cannot_be_read_leaves_no_run(rule: str, data: Path) -> None:
    failed = replay(data, "/nowhere.json", "--rules", rule, "--experiment", "tuning")
    assert (failed.exit_code, runs(data)) == (2, [])


def test_a_run_broken_off_is_gone_on_with_by_the_same_command(
    rule: str, source: str, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = (source, "--rules", rule, "--experiment", "tuning", "--run", "long", "--jobs", "1")
    monkeypatch.setattr("tracegrade.history.runs.recorded_run._BATCH_RECORDS", 1)
    write, calls = StoreWriter.write_allowed, count()
    with monkeypatch.context() as broken:
        broken.setattr(StoreWriter, "write_allowed", lambda *given: _interrupt() if next(calls) else write(*given))
        assert replay(data, *arguments).exit_code == 1
    assert ([run.state for run in runs(data)], len(stored(data, "long"))) == (["incomplete"], 1)
    done = replay(data, *arguments)
    assert done.stderr == "Stored as run long of experiment tuning: 2 traces, score 0.5000.\n"
    assert [run.state for run in runs(data)] == ["complete"]


def _interrupt() -> None:
    raise KeyboardInterrupt


def test_deleted_traces_are_not_stored(rule: str, source: str, data: Path) -> None:
    Deletions(data).tombstones().add([(2).to_bytes(16, "big")], 1, forget_before_ns=0)
    done = replay(data, source, "--rules", rule, "--experiment", "tuning")
    assert done.stderr.splitlines() == [
        "Stored as run tuning/1 of experiment tuning: 1 trace, score 1.0000.",
        "Left out, since their traces were deleted: 1.",
    ]


@each(
    ("options", "said"),
    [
        (("--run", "x"), "--run and --label are of a run that is stored: --experiment NAME stores one"),
        (("--label", "a=b"), "--run and --label are of a run that is stored: --experiment NAME stores one"),
        (("--experiment", "e", "--label", "model"), "--label: expected KEY=VALUE such as model=m-2, found 'model'"),
        (("--experiment", "e", "--label", "=x"), "--label: expected KEY=VALUE such as model=m-2, found '=x'"),
        (("--experiment", "e", "--label", "a=1", "--label", "a=2"), "--label: 'a' is given twice, as '1' and '2'"),
        (("--experiment", "live"), "--experiment: 'live' is reserved; choose another name"),
    ],
)
def test_what_cannot_be_a_run_is_refused_before_anything_is_judged(
    rule: str, source: str, data: Path, options: tuple[str, ...], said: str
) -> None:
    result = replay(data, source, "--rules", rule, *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


def test_without_an_experiment_no_store_is_made(rule: str, source: str, tmp_path: Path) -> None:
    assert replay(tmp_path / "data", source, "--rules", rule).exit_code == 0
    assert not (tmp_path / "data").exists()


CASES = """\
id: orders
cases:
  - {id: two-of-a-1, match: {prompt: "Please order 2 of A-1 for user 123."}, expected_tool: check_inventory}
  - {id: none-of-b-2, match: {prompt: Please order none of B-2.}, expected_tool: check_inventory}
"""


def test_a_case_of_a_required_rule_that_no_run_met_is_named(tmp_path: Path) -> None:
    rule, source = tmp_path / "cases.rule.yaml", write_source(tmp_path, request(1, CHECK, CREATE))
    rule.write_text(CASES)
    gate = ("--rules", str(rule), "--fail-under", "0.5", "--min-results", "1")
    done = replay(tmp_path, source, *gate, "--require", "orders")
    assert done.exit_code == 3, done.output
    assert "orders (1.0000 of 1 result, required, and no run met the case none-of-b-2)" in done.output
    assert replay(tmp_path, source, *gate).exit_code == 0
    rule.write_text("\n".join(CASES.splitlines()[:3]))
    assert replay(tmp_path, source, *gate, "--require", "orders").exit_code == 0
