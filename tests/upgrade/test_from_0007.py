"""What the version before 0008 left is brought up to date: nothing that it knew is lost, no rule begins anew."""

import json
import sqlite3
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import Engine, MetaData, column, create_engine, select, text

from build.canonical import canonical_line
from build.engines import POSTGRESQL, needs_postgresql, without_tables
from build.otlp import payload, tool_span
from build.served import Server, export
from store.test_migrations import upgrade
from tracegrade.alert.check import Before, check
from tracegrade.alert.preview import preview
from tracegrade.alert.stored_history import ReadHistory, StoredHistory
from tracegrade.cli import main
from tracegrade.codec.kept_spans import trace_of
from tracegrade.codec.results import decode_result
from tracegrade.extract.extract import extract
from tracegrade.extract.run_summaries import run_summaries
from tracegrade.journal.reader import JournalReader
from tracegrade.model.record import json_of
from tracegrade.model.tally import total
from tracegrade.model.trace_result import TraceResult
from tracegrade.rule.load import load_rules
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store import schema
from tracegrade.store.alerts import open_alerts
from tracegrade.store.history import SeriesHistory, Window
from tracegrade.store.open import StoreError, open_store, reading
from tracegrade.store.present_hashes import earlier_hashes, present_hashes
from tracegrade.store.read import newest_traces
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.results import results
from tracegrade.store.rule_texts import rule_versions
from tracegrade.store.trends import trends
from tracegrade.store.write import StoreWriter
from waiting import eventually

pytestmark = pytest.mark.long

NS = 1_000_000_000
CHECKED = "order-without-check"
# What its results carried before and after its title was corrected, and those of the other two.
TYPO, CORRECTED, SIGNED = "d8e9f6da9a7e963c", "2a0384567e042892", "f7247257271a5c17"


class Folder:
    """A data folder as that version left it, and what it said of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with tarfile.open(Path(__file__).with_name("0007.tar.xz")) as archive:
            archive.extractall(path, filter="data")
        self.data = path / "data"
        self.url = f"sqlite:///{self.data / 'tracegrade.db'}"
        self.rules = path / "rules"
        settings = {"data_dir": str(self.data), "rules": {"paths": [str(self.rules)]}}
        (path / "config.yaml").write_text(json.dumps(settings))

    def said(self, name: str) -> list[dict[str, Any]]:
        """What that version printed."""
        return [json.loads(line) for line in (self.path / "said" / f"{name}.jsonl").read_text().splitlines()]

    def says(self, *command: str) -> list[dict[str, Any]]:
        """What this one prints."""
        result = CliRunner().invoke(main, [*command, "--format", "json", "-c", str(self.path / "config.yaml")])
        assert result.exit_code == 0, result.output
        return [json.loads(line) for line in result.output.splitlines()]

    def judged(self) -> list[TraceResult]:
        """What that version left in the results journal."""
        reader = JournalReader(self.data / "results", name="results")
        records = [decode_result(record.payload) for record in reader.read(reader.first(), 1 << 24)]
        reader.close()
        return records

    @property
    def rule_set(self) -> RuleSet:
        return load_rules([self.rules])

    @property
    def now_ns(self) -> int:
        """Just after the last thing that happened in it."""
        return max(alert["updated_ns"] for alert in self.said("alerts")) + NS


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture
def engine(folder: Folder) -> Iterator[Engine]:
    engine = open_store(folder.url, update=True)
    yield engine
    engine.dispose()


@pytest.fixture
def spread(folder: Folder, engine: Engine) -> Engine:
    """The same results as if they had come an hour apart, as evidence takes hours; the last ones just now."""
    records = []
    for age, record in enumerate(reversed(folder.judged())):
        at_ns = folder.now_ns - (1 + 3600 * age) * NS
        trace = replace(record.trace, first_received_ns=at_ns, last_received_ns=at_ns)
        records.append(replace(record, trace=trace))
    with engine.begin() as connection:
        connection.execute(schema.traces.delete())
        connection.execute(schema.counts.delete())
    StoreWriter(engine).write(records[::-1])
    return engine


def rule_of(rule_set: RuleSet, rule_id: str) -> Rule:
    rule = rule_set.rule(rule_id)
    assert rule is not None
    return rule


@pytest.mark.usefixtures("engine")
def test_what_was_listed_is_listed_as_it_was(folder: Folder) -> None:
    assert folder.says("results", "list") == folder.said("results")
    assert folder.says("traces", "list") == [{**head, "not_decoded": None} for head in folder.said("traces")]
    alerts = folder.said("alerts")
    incidents = folder.says("alerts", "list")
    assert [incident["notified"] for incident in incidents] == [alert.pop("notified") for alert in alerts]
    for alert, incident in zip(alerts, incidents, strict=True):
        del alert["facts"]["chance"]  # what it meant is promised no more
        (member,) = incident["members"]
        assert member["incident"] == incident["id"]
        facts = member["facts"]
        assert {**member, "facts": {name: facts[name] for name in alert["facts"]}} == {
            **alert,
            "incident": incident["id"],
        }


def test_of_agent_runs_is_known_what_their_spans_say(folder: Folder, engine: Engine) -> None:
    with reading(engine) as connection:
        numbered = connection.execute(text("SELECT number FROM traces WHERE members IS NULL ORDER BY number"))
        numbers = numbered.scalars().all()
        stored = list(newest_traces(connection, 100))[::-1]
        listed = connection.execute(text("SELECT * FROM agent_runs ORDER BY trace, place")).all()
    said = [run for result in stored for run in run_summaries(extract(trace_of(result)))]
    assert [run for result in stored for run in result.trace.runs] == said
    shown = list(listed[0]._fields[2:])
    assert [list(row)[2:] for row in listed] == [[json_of(run)[name] for name in shown] for run in said]
    assert {row.trace for row in listed} == set(numbers)
    assert all(run.duration_ns for run in said)


def test_two_spellings_of_a_rule_are_one_and_results_keep_what_they_carried(folder: Folder, engine: Engine) -> None:
    rule_set = folder.rule_set
    now = rule_of(rule_set, CHECKED).hash
    with reading(engine) as connection:
        assert present_hashes(connection, [TYPO, CORRECTED, SIGNED, "unknown"]) == {
            TYPO: now,
            CORRECTED: now,
            SIGNED: rule_of(rule_set, "order-unsigned").hash,
            "unknown": "unknown",
        }
        assert [item.text_hash for item in rule_versions(connection, CHECKED)] == [CORRECTED, TYPO]
        by_hash = trends(connection, ResultFilter(rule=CHECKED), ["rule_hash"])
        assert {key: found[0].judged for key, found in by_hash.items()} == {(now,): 17}
        for rule_hash in (TYPO, CORRECTED, now):
            assert len(results(connection, ResultFilter(rule_hash=rule_hash), 100)) == 17
        carried = connection.execute(text(f"SELECT DISTINCT rule_hash FROM results WHERE rule_id = '{CHECKED}'"))
        assert set(carried.scalars()) == {TYPO, CORRECTED}
        history = SeriesHistory(connection, {now})
        (bins,) = history.bins(Window("", 0, folder.now_ns, False))[CHECKED].values()
    sums = total(item.tally for item in bins)
    assert (sums.passed, sums.failed) == (3, 14)


def test_alerts_that_fired_end_by_the_same_key_and_fire_anew_where_the_evidence_says_so(
    folder: Folder, engine: Engine
) -> None:
    """False alarms are promised otherwise by now, so it is another alert. All results came within a minute."""
    rules = list(folder.rule_set.rules)
    with reading(engine) as connection:
        before = open_alerts(connection)
        earlier = earlier_hashes(connection, {rule.hash for rule in rules})
        checked = check(
            StoredHistory(connection, rules, folder.now_ns), rules, Before(before, hashes=earlier), folder.now_ns
        )
    assert len(before) == 2
    assert checked.open == []
    assert {(alert.key, alert.labels["rule_hash"]) for alert in checked.resolved} == {
        (alert.key, alert.labels["rule_hash"]) for alert in before
    }
    assert {alert.facts.ended_by for alert in checked.resolved} == {"the alert was changed or removed"}


def test_an_alert_that_was_still_waiting_to_fire_is_neither_shown_nor_open(folder: Folder) -> None:
    """That state, 2, went: there is nothing to wait for any more."""
    earlier = create_engine(folder.url)
    with earlier.begin() as connection:
        connection.execute(text("UPDATE alerts SET state = 2 WHERE rule_id = 'order-unsigned'"))
    earlier.dispose()
    engine = open_store(folder.url, update=True)
    with reading(engine) as connection:
        assert [alert.rule_id for alert in open_alerts(connection)] == [CHECKED]
    listed = {option: folder.says("alerts", "list", *option) for option in ((), ("--firing",))}
    engine.dispose()
    rules = {option: [incident["members"][0]["rule_id"] for incident in found] for option, found in listed.items()}
    assert rules == {(): [CHECKED, CHECKED], ("--firing",): [CHECKED]}


def test_results_of_hours_are_evidence_for_an_alert_that_fires_anew(folder: Folder, spread: Engine) -> None:
    rules = [rule_of(folder.rule_set, "order-unsigned")]
    with reading(spread) as connection:
        before = [alert for alert in open_alerts(connection) if alert.rule_id == "order-unsigned"]
        earlier = earlier_hashes(connection, {rules[0].hash})
        checked = check(
            StoredHistory(connection, rules, folder.now_ns), rules, Before(before, hashes=earlier), folder.now_ns
        )
    (ended,), (anew,) = checked.resolved, checked.open
    assert (ended.key, ended.rule_hash) == (before[0].key, SIGNED)
    assert (anew.of, anew.bound, anew.rule_hash) == (ended.of, ended.bound, rules[0].hash)
    assert anew.fingerprint != ended.fingerprint


def test_an_alert_of_a_condition_that_is_gone_ends(folder: Folder, spread: Engine) -> None:
    unsigned = rule_of(folder.rule_set, "order-unsigned")
    condition = {**unsigned.written["alert"][0], "below": 0.8, "over": "2d"}
    moved = Rule.model_validate({**unsigned.written, "alert": [condition]})
    assert moved.hash == unsigned.hash
    with reading(spread) as connection:
        before = [alert for alert in open_alerts(connection) if alert.rule_id == unsigned.id]
        earlier = earlier_hashes(connection, {moved.hash})
        checked = check(
            StoredHistory(connection, [moved], folder.now_ns), [moved], Before(before, hashes=earlier), folder.now_ns
        )
    assert [alert.key for alert in checked.resolved] == [alert.key for alert in before]
    assert [(alert.bound, alert.samples) for alert in checked.open] == [(0.8, 17)]


def test_a_preview_with_a_moved_threshold_reads_the_history_under_all_hashes(folder: Folder, spread: Engine) -> None:
    checked = rule_of(folder.rule_set, CHECKED)
    condition = {"below": 0.85, "over": "2d", "min_samples": 17}
    moved = Rule.model_validate({**checked.written, "title": "Said again", "alert": [condition]})
    since_ns = folder.now_ns - 3600 * NS
    with reading(spread) as connection:
        history = ReadHistory(
            SeriesHistory(connection, {moved.hash}), [moved], since_ns - 2 * 86_400 * NS, folder.now_ns
        )
    (fired,) = preview(history, [moved], since_ns, folder.now_ns, 60 * NS).fired
    assert (fired.bound, fired.samples, fired.state) == (0.85, 17, "firing")


def test_the_journal_gives_what_it_gave(folder: Folder) -> None:
    now = {rule.text_hash: rule.hash for rule in folder.rule_set.rules}
    said = [canonical_line({**line, "rule_hash": now[line["rule_hash"]]}) for line in folder.said("replay")]
    assert sorted(map(canonical_line, folder.says("replay", "--jobs", "1"))) == sorted(said)


def test_results_that_were_not_yet_delivered_go_on_where_those_before_them_are(folder: Folder, engine: Engine) -> None:
    records = folder.judged()
    assert {record.trace.tracegrade for record in records} == {""}
    with engine.begin() as connection:
        connection.execute(schema.traces.delete())
        connection.execute(schema.counts.delete())
        before = connection.execute(select(schema.series.c.number)).scalars().all()
    StoreWriter(engine).write(records)
    now = rule_of(folder.rule_set, CHECKED).hash
    with reading(engine) as connection:
        assert connection.execute(select(schema.series.c.number)).scalars().all() == before
        by_hash = trends(connection, ResultFilter(rule=CHECKED), ["rule_hash"])
    assert {key: found[0].judged for key, found in by_hash.items()} == {(now,): 17}


def test_the_same_results_delivered_to_an_empty_store_once_its_rules_are_known_count_as_theirs(
    folder: Folder, engine: Engine
) -> None:
    with engine.begin() as connection:
        for table in ("traces", "counts", "series", "blocks", "arrivals"):
            connection.execute(schema.metadata.tables[table].delete())
    StoreWriter(engine).write(folder.judged())
    with reading(engine) as connection:
        by_hash = trends(connection, ResultFilter(rule=CHECKED), ["rule_hash"])
    assert [key for key in by_hash] == [(rule_of(folder.rule_set, CHECKED).hash,)]


def test_a_rule_whose_text_is_gone_or_cannot_be_read_stays_as_it_was(folder: Folder) -> None:
    with sqlite3.connect(folder.data / "tracegrade.db") as connection:
        connection.execute("DELETE FROM rule_texts WHERE rule_hash = ?", (TYPO,))
        broken = "id: order-unsigned\nevaluate: [{evaluator: of-a-package-that-is-gone}]\n"
        connection.execute("UPDATE rule_texts SET text = ? WHERE rule_hash = ?", (broken, SIGNED))
    connection.close()
    engine = open_store(folder.url, update=True)
    with reading(engine) as connection:
        known = present_hashes(connection, [TYPO, CORRECTED, SIGNED])
        by_hash = trends(connection, ResultFilter(), ["rule_id", "rule_hash"])
    engine.dispose()
    now = rule_of(folder.rule_set, CHECKED).hash
    assert known == {TYPO: TYPO, CORRECTED: now, SIGNED: SIGNED}
    assert {(CHECKED, TYPO), (CHECKED, now), ("order-unsigned", SIGNED)} <= by_hash.keys()


def test_an_interrupted_upgrade_leaves_the_store_as_it_was_and_is_tried_again(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise StoreError("killed")

    before = (folder.data / "tracegrade.db").read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr("alembic.op.create_index", killed)
        with pytest.raises(StoreError, match="killed"):
            open_store(folder.url, update=True)
    with sqlite3.connect(folder.data / "tracegrade.db") as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [("0007",)]
        assert connection.execute("SELECT count(*), max(first_seen_ns) > 0 FROM rule_texts").fetchall() == [(4, 1)]
    connection.close()
    assert len(before) == (folder.data / "tracegrade.db").stat().st_size
    open_store(folder.url, update=True).dispose()
    assert folder.says("results", "list") == folder.said("results")


@needs_postgresql
def test_the_same_store_on_postgresql_is_brought_up_to_date(folder: Folder) -> None:
    without_tables(POSTGRESQL)
    server, source = create_engine(POSTGRESQL), create_engine(folder.url)
    with server.begin() as connection, source.connect() as earlier:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
        upgrade(connection, "0007")
        tables = MetaData()
        tables.reflect(connection, only=lambda name, _: name != "alembic_version")
        for table in tables.sorted_tables:
            for row in earlier.execute(select(*(column(c.name, c.type) for c in table.c)).select_from(table)):
                connection.execute(table.insert().values(**row._asdict()))
    server.dispose()
    source.dispose()
    engine = open_store(POSTGRESQL, update=True)
    with reading(engine) as connection:
        by_hash = trends(connection, ResultFilter(rule=CHECKED), ["rule_hash"])
        carried = set(connection.execute(text(f"SELECT rule_hash FROM results WHERE rule_id = '{CHECKED}'")).scalars())
        rules = list(folder.rule_set.rules)
        earlier_ones = earlier_hashes(connection, {rule.hash for rule in rules})
        history = StoredHistory(connection, rules, folder.now_ns)
        checked = check(history, rules, Before(open_alerts(connection), hashes=earlier_ones), folder.now_ns)
    engine.dispose()
    without_tables(POSTGRESQL)
    assert {key: found[0].judged for key, found in by_hash.items()} == {(rule_of(folder.rule_set, CHECKED).hash,): 17}
    assert carried == {TYPO, CORRECTED}
    assert {alert.facts.ended_by for alert in checked.resolved} == {"the alert was changed or removed"}
    assert len(checked.resolved) == 2


def test_serve_goes_on_where_the_earlier_version_stopped(folder: Folder, tmp_path: Path) -> None:
    server = Server(
        tmp_path,
        rules={"paths": [str(folder.rules)], "reload": "100ms"},
        traces={"settle": "300ms", "idle_timeout": "1s", "reopen_for": "87600h", "max_age": "1h"},
        alerts={"interval": "300ms"},
        store={"retention": "87600h"},
        journal={"max_age": "87600h"},
    )
    server.start()
    try:
        late = payload([tool_span(5, 9, 1, "check_inventory")])
        export(server.endpoints["grpc"], late)
        config = ("-c", str(server.config), "--format", "json")

        def trace_5() -> dict[str, Any] | None:
            shown = server.cli("results", "show", f"{5:032x}", *config).stdout.splitlines()
            found = [json.loads(line) for line in shown]
            return next((item for item in found if item["rule_id"] == CHECKED and item["revision"] == 3), None)

        judged = eventually(trace_5, "the old trace in a higher revision")
        assert judged["rule_hash"] == rule_of(folder.rule_set, CHECKED).hash

        def ended() -> list[str]:
            incidents = [json.loads(line) for line in server.cli("alerts", "list", *config).stdout.splitlines()]
            listed = [alert for incident in incidents for alert in incident["members"]]
            known = {alert["fingerprint"] for alert in folder.said("alerts")}
            return [alert["state"] for alert in listed if alert["fingerprint"] in known]

        eventually(lambda: ended() == ["resolved"] * 3, "the end of the alerts that the earlier version began")
        rates = [json.loads(line) for line in server.cli("results", "stats", *config).stdout.splitlines()]
        (rate,) = [rate for rate in rates if (rate["rule_id"], rate["evaluation"]) == (CHECKED, "")]
        assert rate["passed"] + rate["failed"] == 17, "the revision took back what the earlier version counted"
    finally:
        server.stop()
