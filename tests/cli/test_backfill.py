"""What ``rules backtest --store`` keeps, and where it is read."""

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from cli.backtested import RULE, SINCE, stored, write_rule
from cli.stored import run, run_json, store
from store.judged_traces import trace_id
from tracegrade.rule.load import load_rules
from tracegrade.store.open import open_store

NEW = RULE.replace("order-checked", "brand-new")


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Twenty traces; of release 2.0 half call twice. They were judged by another rule, `order-checked`."""
    store(
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
