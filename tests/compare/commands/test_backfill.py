"""What ``rules backtest --store`` keeps, and where it is read."""

import json
import re
import sqlite3
import subprocess
import sys
import tarfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from build import store_with
from build.backtested import RULE, SINCE, stored, write_rule
from build.commands import run, run_json
from build.judged_traces import MINUTE_NS, START_NS, evaluation, judged, trace_id
from tracegrade.rule.load import load_rules
from tracegrade.store.delete import delete_everywhere, delete_older
from tracegrade.store.open import open_store
from tracegrade.store.rule_texts import save_rule_texts
from tracegrade.store.schema import DAY_MINUTES
from waiting import eventually

NEW = RULE.replace("order-checked", "brand-new").partition("alert:")[0]


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Twenty traces; of release 2.0 half call twice. They were judged by another rule, `order-checked`."""
    store_with(
        tmp_path,
        *(stored(number, "1.0") for number in range(1, 11)),
        *(stored(number, "2.0", calls=2 if number % 2 else 1) for number in range(11, 21)),
    )
    return tmp_path


def backfill(data_dir: Path, rule: str = NEW, *arguments: str, folder: str = "rules") -> dict[str, Any]:
    """What was stored by this rule."""
    path = write_rule(data_dir / folder, rule)
    result = run(data_dir, "rules", "backtest", str(path), "--store", *SINCE, "--format", "json", *arguments)
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)["stored"]
    return found


def counted(data_dir: Path, run: str, rule_id: str = "brand-new") -> dict[str, tuple[int, int]]:
    """Passes and fails of a rule as they are counted, by hash; they are the same by minute, hour and day."""
    query = text(
        "SELECT s.rule_hash, c.minutes, sum(passed), sum(failed) FROM counts c JOIN series s ON s.number = c.series "
        "WHERE s.run = :run AND s.rule_id = :rule_id AND s.evaluation = '' GROUP BY 1, 2 "
        "HAVING sum(passed + failed) > 0"
    )
    found: dict[str, set[tuple[int, int]]] = {}
    for rule_hash, _, passed, failed in _rows(data_dir, query.bindparams(run=run, rule_id=rule_id)):
        found.setdefault(rule_hash, set()).add((passed, failed))
    assert all(len(sums) == 1 for sums in found.values()), found
    listed = _rows(
        data_dir,
        text(
            "SELECT rule_hash, sum(outcome = 'pass'), sum(outcome = 'fail') FROM results WHERE run = :run "
            "AND rule_id = :rule_id GROUP BY 1"
        ).bindparams(run=run, rule_id=rule_id),
    )
    counts = {rule_hash: next(iter(sums)) for rule_hash, sums in found.items()}
    assert counts == {rule_hash: (passed, failed) for rule_hash, passed, failed in listed}, "as they are listed"
    return counts


def _rows(data_dir: Path, query: Any) -> list[Any]:
    engine = open_store(f"sqlite:///{data_dir / 'tracegrade.db'}", read_only=True)
    with engine.connect() as connection:
        found = list(connection.execute(query))
    engine.dispose()
    return found


def hash_of(data_dir: Path, folder: str = "rules") -> str:
    (rule,) = load_rules([data_dir / folder]).rules
    return rule.hash


def test_a_new_rule_has_results_of_all_that_came_before(data_dir: Path) -> None:
    assert backfill(data_dir) == {"subjects": 20, "traces": 20, "judged_live": 0, "changed": 0}
    assert counted(data_dir, "backfill") == {hash_of(data_dir): (15, 5)}
    (rate,) = [
        item
        for item in run_json(data_dir, "results", "stats")
        if item["rule_id"] == "brand-new" and not item["evaluation"]
    ]
    assert (rate["passed"], rate["failed"], rate["backfilled"]) == (15, 5, 20)
    results = run_json(data_dir, "results", "list", "--rule", "brand-new", "--outcome", "fail")
    assert [item["run"] for item in results] == ["backfill"] * 5
    assert {item["trace_id"] for item in results} == {trace_id(number) for number in range(11, 21, 2)}
    assert all("create_order" in item["explanation"] for item in results)
    assert len(run_json(data_dir, "results", "list", "--run", "backfill")) == 20
    assert {item["run"] for item in run_json(data_dir, "traces", "show", trace_id(11))[0]["evaluations"]} == {
        "live",
        "backfill",
    }
    exported = run(data_dir, "results", "export").stdout.splitlines()
    assert {json.loads(line)["run"] for line in exported} == {"live"}


def test_the_same_again_doubles_nothing_and_another_form_replaces_it(data_dir: Path) -> None:
    backfill(data_dir)
    once = counted(data_dir, "backfill")
    assert backfill(data_dir)["subjects"] == 20
    assert counted(data_dir, "backfill") == once
    strict = NEW.replace("'<=', 1", "'<=', 0")
    backfill(data_dir, strict, "--release", "2.0")
    assert counted(data_dir, "backfill") == {hash_of(data_dir): (0, 10)}, "also where it covers less"
    assert len(run_json(data_dir, "results", "list", "--run", "backfill")) == 10


def test_two_rules_stay_apart(data_dir: Path) -> None:
    both = write_rule(data_dir / "rules", NEW)
    write_rule(data_dir / "rules", NEW.replace("brand-new", "other-new"), "other-new")
    result = run(data_dir, "rules", "backtest", str(both), "--store", *SINCE)
    assert "stored as run backfill: the results of 40 subjects in 20 traces" in result.stdout
    strict = NEW.replace("'<=', 1", "'<=', 0")
    backfill(data_dir, strict, folder="strict")
    assert counted(data_dir, "backfill") == {hash_of(data_dir, "strict"): (0, 20)}
    ((_, others),) = counted(data_dir, "backfill", "other-new").items()
    assert others == (15, 5)
    for rule_id, fails in (("brand-new", 20), ("other-new", 5)):
        found = run_json(data_dir, "results", "list", "--rule", rule_id, "--outcome", "fail")
        assert len(found) == fails
        assert {item["rule_id"] for item in found} == {rule_id}, "values are those of the result that is listed"


def test_two_forms_of_one_file_are_stored_as_the_file_is(data_dir: Path) -> None:
    """Two rules in one folder: only the one that is named is stored, and the other's earlier backfill stays."""
    both = write_rule(data_dir / "rules", NEW)
    write_rule(both, NEW.replace("brand-new", "other-new"), "other-new")
    assert run(data_dir, "rules", "backtest", str(both), "--store", *SINCE).exit_code == 0
    write_rule(both, NEW.replace("brand-new", "other-new").replace("'<=', 1", "'<=', 0"), "other-new")
    result = run(data_dir, "rules", "backtest", str(both), "--store", "--rule", "brand-new", *SINCE)
    assert "the results of 20 subjects in 20 traces" in result.stdout
    ((_, others),) = counted(data_dir, "backfill", "other-new").items()
    assert others == (15, 5), "as it was"


def test_a_sampled_rule_stands_for_all(data_dir: Path) -> None:
    found = backfill(data_dir, NEW + "sample: 0.5\n")
    assert 0 < found["subjects"] < 20, "some are not in the sample, by their trace ids"
    (rate,) = (item for item in run_json(data_dir, "results", "stats", "--run", "backfill") if not item["evaluation"])
    assert rate["passes"] + rate["fails"] == 2 * found["subjects"]
    once = counted(data_dir, "backfill")
    backfill(data_dir, NEW + "sample: 0.5\n")
    assert counted(data_dir, "backfill") == once


def test_a_rule_that_judged_some_of_it_live_keeps_what_it_said(data_dir: Path) -> None:
    """The same rule was deployed for the last five traces, and sees a late span of one that it had not judged."""
    path = write_rule(data_dir / "rules", NEW)
    rule_hash = hash_of(data_dir)
    said = [
        judged(number, evaluations=[evaluation(number, "pass", rule_id="brand-new", rule_hash=rule_hash)], revision=3)
        for number in range(16, 21)
    ]
    store_with(data_dir, *said)
    engine = open_store(store_with(data_dir))
    with engine.begin() as connection:
        save_rule_texts(connection, load_rules([path]), START_NS + 16 * MINUTE_NS)
    engine.dispose()
    assert backfill(data_dir, NEW, "--rule", "brand-new") == {
        "subjects": 15,
        "traces": 15,
        "judged_live": 5,
        "changed": 0,
    }
    late = judged(11, evaluations=[evaluation(11, "pass", rule_id="brand-new", rule_hash=rule_hash)], revision=4)
    store_with(data_dir, late)
    assert counted(data_dir, "live") == {rule_hash: (6, 0)}
    assert counted(data_dir, "backfill") == {rule_hash: (12, 2)}


def test_a_deleted_trace_and_one_that_is_too_old_take_it_along(data_dir: Path) -> None:
    backfill(data_dir)
    engine = open_store(store_with(data_dir))
    delete_everywhere(engine, {bytes.fromhex(trace_id(11))})
    assert counted(data_dir, "backfill") == {hash_of(data_dir): (15, 4)}
    while delete_older(engine, START_NS + 365 * DAY_MINUTES * MINUTE_NS):
        pass
    engine.dispose()
    assert counted(data_dir, "backfill") == {}
    assert run_json(data_dir, "results", "list") == []


def test_results_that_were_backfilled_are_marked_where_there_are_any(data_dir: Path) -> None:
    assert " run " not in run(data_dir, "results", "list").stdout
    assert "backfilled" not in run(data_dir, "results", "stats").stdout
    backfill(data_dir)
    listed = run(data_dir, "results", "list").stdout
    assert " run " in listed
    assert len(re.findall(r"brand-new .* backfill ", listed)) == 20
    assert len(re.findall(r"order-checked .* live ", listed)) == 20
    assert re.search(r"backfilled *\n", run(data_dir, "results", "stats").stdout)
    assert "judged afterwards, by 'rules backtest --store'" in run(data_dir, "results", "show", trace_id(11)).stdout
    only = run(data_dir, "results", "show", trace_id(11), "--run", "backfill").stdout
    assert "order-checked" not in only
    why = run(data_dir, "why", trace_id(11), "--rules", str(data_dir / "rules")).stdout
    assert "judged it afterwards" in why


def test_a_backtest_that_finds_nothing_replaces_nothing(data_dir: Path) -> None:
    backfill(data_dir)
    once = counted(data_dir, "backfill")
    path = str(data_dir / "rules")
    result = run(data_dir, "rules", "backtest", path, "--store", "--service", "nobody", *SINCE)
    assert result.exit_code == 3
    assert result.stderr.startswith("Error: no trace of service 'nobody'")
    assert counted(data_dir, "backfill") == once


@pytest.mark.parametrize("command", [("compare", "live", "backfill"), ("gate", "backfill")])
def test_it_is_compared_with_nothing(data_dir: Path, command: tuple[str, ...]) -> None:
    backfill(data_dir)
    rules = ("--rules", str(data_dir / "rules"), "--fail-under", "0.5") if command[0] == "gate" else ()
    result = run(data_dir, *command, *rules)
    assert result.exit_code == 2
    assert "'rules backtest --store' judged afterwards, and no run of its own" in result.stderr


def test_no_run_may_have_that_name(data_dir: Path) -> None:
    rules = str(write_rule(data_dir / "rules", NEW))
    source = data_dir / "traces.jsonl"
    source.write_text(run(data_dir, "traces", "export", trace_id(1)).stdout)
    named = ("--experiment", "tuning", "--run", "backfill")
    result = run(data_dir, "replay", str(source), *named, "--rules", rules)
    assert result.exit_code == 2
    assert "'backfill' is reserved; choose another name" in result.stderr


def test_a_store_of_an_earlier_form_says_what_to_do(tmp_path: Path) -> None:
    engine = open_store(f"sqlite:///{tmp_path / 'tracegrade.db'}")
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0012'"))
    engine.dispose()
    path = write_rule(tmp_path / "rules", NEW)
    result = run(tmp_path, "rules", "backtest", str(path), "--store", *SINCE)
    assert result.exit_code == 2
    assert "written before the first release (tables of version 0012" in result.stderr


@pytest.mark.long
def test_a_store_that_was_just_brought_up_to_date_takes_a_backfill(tmp_path: Path) -> None:
    """The traces are those of the first version."""
    with tarfile.open(Path(__file__).parents[2] / "upgrade" / "0022.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    data_dir = tmp_path / "data"
    open_store(f"sqlite:///{data_dir / 'tracegrade.db'}", update=True).dispose()
    new = (tmp_path / "rules").glob("*.rule.yaml")
    rules = tmp_path / "new"
    for number, path in enumerate(new):
        text = re.sub(r"^id: .*$", f"id: new-{number}", path.read_text(), flags=re.MULTILINE)
        write_rule(rules, text, f"new-{number}")
    before = counted_all(data_dir)
    for _ in range(2):
        result = run(data_dir, "rules", "backtest", str(rules), "--store", "--since", "87600h", "--format", "json")
        assert result.exit_code == 0, result.output
        found = json.loads(result.stdout)
        assert found["stored"]["subjects"] > 0
        whole = {rule["rule_id"]: (rule["after"]["pass"], rule["after"]["fail"]) for rule in found["rules"]}
        now = {rule_id: sums for (run_name, rule_id), sums in counted_all(data_dir).items() if run_name == "backfill"}
        assert now == {rule_id: sums for rule_id, sums in whole.items() if any(sums)}
        assert {key: sums for key, sums in counted_all(data_dir).items() if key[0] != "backfill"} == before


@pytest.mark.long
def test_killed_in_the_middle_the_same_again_stores_the_rest_and_nothing_twice(tmp_path: Path) -> None:
    store_with(tmp_path, *(stored(number, "1.0", calls=1 + number % 2) for number in range(1500)))
    path = write_rule(tmp_path / "rules", NEW)
    command = ("rules", "backtest", str(path), "--store", *SINCE, "--data-dir", str(tmp_path))
    for some in (50, 500):
        process = subprocess.Popen([sys.executable, "-m", "tracegrade", *command], stdout=subprocess.DEVNULL)
        eventually(lambda some=some: backfilled_so_far(tmp_path) >= some, "a part of it")
        process.kill()
        process.wait()
        found = backfilled_so_far(tmp_path)
        assert some <= found < 1500, "in the middle of it"
        assert sum(map(sum, counted(tmp_path, "backfill").values())) == found
    assert run(tmp_path, *command[:-2]).exit_code == 0
    assert counted(tmp_path, "backfill") == {hash_of(tmp_path): (750, 750)}


def backfilled_so_far(data_dir: Path) -> int:
    with closing(sqlite3.connect(data_dir / "tracegrade.db")) as connection:
        return int(connection.execute("SELECT coalesce(sum(subjects), 0) FROM backfills").fetchone()[0])


def counted_all(data_dir: Path) -> dict[tuple[str, str], tuple[int, int]]:
    """Passes and fails of whole rules, by run and rule."""
    query = text(
        "SELECT s.run, s.rule_id, sum(passed), sum(failed) FROM counts c JOIN series s ON s.number = c.series "
        "WHERE s.rule_id != '' AND s.evaluation = '' AND c.minutes = 60 AND c.complete GROUP BY 1, 2"
    )
    return {(name, rule_id): (passed, failed) for name, rule_id, passed, failed in _rows(data_dir, query)}
