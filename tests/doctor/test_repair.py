"""A store that is damaged, lost or behind is made whole from itself and the journals."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from build import store_with
from build.canonical import canonical_line
from build.otlp import agent_span, payload, tool_span
from tracegrade.cli import main
from tracegrade.codec.results import encode_result
from tracegrade.config import Config
from tracegrade.deletion.request import Deletions
from tracegrade.doctor import repair as repairing
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.record import Encoding, Entry
from tracegrade.model.signal import Signal
from tracegrade.model.tenant import DEFAULT_TENANT
from tracegrade.model.trace_result import TraceResult
from tracegrade.pipeline.data_folder import DataFolder
from tracegrade.pipeline.replay import replay_journal
from tracegrade.pipeline.trace_result import result_of
from tracegrade.rule.load import load_rules
from tracegrade.serve.supervising.judge_keeper import lock_judges
from tracegrade.store.delete import delete_older_of
from tracegrade.store.open import open_store

COUNT = 40
SETTINGS = {"traces": {"settle": "1ms", "idle_timeout": "1ms"}, "rules": {"paths": ["builtin:demo"]}, "web": None}


class Installation:
    """A data folder whose journal has some traces, and the results that a judge made of them."""

    def __init__(self, folder: Path) -> None:
        self.config = folder / "config.yaml"
        self.config.write_text(json.dumps({**SETTINGS, "data_dir": str(folder / "data")}))
        self.settings = Config.model_validate({**SETTINGS, "data_dir": str(folder / "data")})
        self.folder = DataFolder(self.settings.data_path)
        clock = iter(range(1_900_000_000_000_000_000, 2**62, 10**9))
        journal = LocalJournal.open(self.folder.journal, now_ns=lambda: next(clock))
        for number in range(1, COUNT + 1):
            spans = [agent_span(number, 10 * number), tool_span(number, 10 * number + 1, 10 * number, "create_order")]
            journal.append(Entry(Signal.TRACES, Encoding.PROTOBUF, "default", 2, payload(spans))).result()
        journal.close()
        rules = load_rules(["builtin:demo"])
        judged = replay_journal(self.folder.journal, self.settings.traces, rules, "live", ends=False)
        self.results = [result_of(each, "live", self.settings.settings_hash) for each in judged]
        assert COUNT > len(self.results) >= COUNT - 5, "the last ones are open: a judge reads them again"

    def note_results(self, results: list[TraceResult]) -> None:
        journal = LocalJournal.open(self.folder.path / "results", name="results")
        for each in results:
            journal.append(Entry(Signal.RESULTS, Encoding.PROTOBUF, "default", 1, encode_result(each))).result()
        journal.close()

    def store(self, results: list[TraceResult]) -> None:
        store_with(self.folder.path, *results)

    @property
    def database(self) -> Path:
        return self.folder.path / "tracegrade.db"

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(main, [*arguments, "-c", str(self.config)])

    def repair(self) -> str:
        done = self.run("doctor", "--repair")
        assert done.exit_code in (0, 1), done.stderr
        return done.stderr

    def stored(self) -> list[str]:
        shown = self.run("results", "list", "--limit", "100000", "--format", "json")
        assert shown.exit_code == 0, shown.stderr
        return sorted(canonical_line(json.loads(line)) for line in shown.stdout.splitlines())

    def ids(self) -> set[str]:
        with closing(sqlite3.connect(self.database)) as store:
            return {str(row[0]) for row in store.execute("SELECT hex(trace_id) FROM traces")}


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    return Installation(tmp_path)


def test_a_store_that_is_lost_is_made_from_results_and_then_by_judging(installation: Installation) -> None:
    installation.store(installation.results)
    whole = installation.stored()
    assert len(whole) >= COUNT
    for path in installation.folder.path.glob("tracegrade.db*"):
        path.unlink()
    installation.note_results(installation.results[20:])
    said = installation.repair()
    assert f"{len(installation.results) - 20} traces added from the results journals (from 20" in said
    assert "20 traces added from the journal, judged by the rules in force now (from 2030-" in said
    assert installation.stored() == whole
    installation.repair(), "a second time adds nothing"
    assert installation.stored() == whole


def test_what_can_be_read_of_a_damaged_store_is_kept(installation: Installation) -> None:
    installation.store(installation.results)
    made = installation.run("alerts", "silence", "service=shop", "--for", "1h", "--comment", "a release")
    assert made.exit_code == 0, made.stderr
    whole = installation.stored()
    damage(installation.database)
    said = installation.repair()
    assert "the store was damaged (" in said
    (aside,) = installation.folder.path.glob("tracegrade.db.replaced-*Z")
    assert str(aside) in said
    assert installation.stored() == whole, "the journal has what could not be read"
    assert "a release" in installation.run("alerts", "silence", "--list").stdout


def test_a_store_from_before_the_first_release_gets_a_new_one_in_its_place(installation: Installation) -> None:
    installation.store(installation.results)
    assert installation.run("alerts", "silence", "service=shop", "--for", "1h", "--comment", "a release").exit_code == 0
    whole = installation.stored()
    with closing(sqlite3.connect(installation.database)) as store:
        store.execute("ALTER TABLE experiments DROP COLUMN own")
        store.execute("DROP INDEX experiments_by_id")
        store.execute("ALTER TABLE experiments DROP COLUMN id")
        store.execute("INSERT INTO experiments (tenant, name, begun_ns, last_number) VALUES ('default', 'e', 1, 0)")
        store.execute("CREATE TABLE earlier AS SELECT * FROM silences")  # nothing of it has to be there
        store.execute("INSERT INTO earlier (id) VALUES ('half')")
        store.execute("DROP TABLE silences")
        store.execute("ALTER TABLE earlier RENAME TO silences")
        store.execute("CREATE TABLE of_a_part (id)")
        store.execute("INSERT INTO of_a_part VALUES (1)")
        store.execute("CREATE TABLE without_rows (id)")
        store.execute("UPDATE alembic_version SET version_num = '0019'")
        store.commit()
    said = installation.repair()
    assert "tables that are not whole: silences" in said
    assert "  tables that no installed part declares, not copied: of_a_part; copy that file\n" in said
    assert "the store was written before the first release (tables of version 0019); it is " in said
    assert [*installation.folder.path.glob("tracegrade.db.replaced-*Z")] != []
    assert installation.stored() == whole
    assert "a release" in installation.run("alerts", "silence", "--list").stdout
    (experiment,) = map(json.loads, installation.run("experiments", "list", "--format", "json").stdout.splitlines())
    assert experiment["experiment"] == "e"


def damage(path: Path) -> None:
    """Overwrite pages towards the end, which hold traces: the first pages of all tables come before."""
    with closing(sqlite3.connect(path)) as store:
        store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (size,) = store.execute("PRAGMA page_size").fetchone()
        (pages,) = store.execute("PRAGMA page_count").fetchone()
    with path.open("r+b") as file:
        file.seek(pages * 3 // 4 * size)
        file.write(b"\xff" * 3 * size)


def test_a_deletion_takes_the_damaged_store_with_it(installation: Installation, tmp_path: Path) -> None:
    installation.store(installation.results)
    damage(installation.database)
    installation.repair()
    (aside,) = installation.folder.path.glob("tracegrade.db.replaced-*Z")
    shown = installation.run("doctor", "--format", "json").stdout
    (found,) = [finding for finding in map(json.loads, shown.splitlines()) if finding["check"] == "replaced store"]
    assert (found["level"], found["where"]) == ("note", str(aside))
    assert "holds what the store held" in found["found"]
    assert installation.run("backup", "--to", str(tmp_path / "backup")).exit_code == 2  # nobody has served here
    installation.folder.instance_id()
    assert installation.run("backup", "--to", str(tmp_path / "backup")).exit_code == 0
    assert [*(tmp_path / "backup").rglob("*replaced*")] == []
    deleted = installation.run("traces", "delete", installation.results[3].trace.trace_id, "--yes")
    assert deleted.exit_code == 0, deleted.stderr
    assert "replaced 1 store that 'doctor --repair' had put aside, as a whole" in deleted.stdout
    assert [*installation.folder.path.glob("*replaced*")] == []
    again = installation.run("traces", "delete", installation.results[4].trace.trace_id, "--yes")
    assert "replaced" not in again.stdout


def test_a_repair_that_was_killed_begins_anew(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    installation.store(installation.results)
    whole = installation.stored()
    damage(installation.database)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("tracegrade.doctor.repair.take_its_place", killed)
        assert installation.run("doctor", "--repair").exit_code != 0
    assert [*installation.folder.path.glob("*replaced*")] == []
    assert installation.folder.path.joinpath("tracegrade.db.unfinished").exists()
    assert "the store was damaged (" in installation.repair()
    assert installation.stored() == whole
    assert not installation.folder.path.joinpath("tracegrade.db.unfinished").exists()


def test_deleted_traces_do_not_come_back(installation: Installation) -> None:
    deleted = bytes.fromhex(installation.results[3].trace.trace_id)
    Deletions(installation.folder.path).tombstones().add([deleted], 1, forget_before_ns=0)
    installation.repair()
    assert deleted.hex().upper() not in installation.ids()
    assert len(installation.ids()) == len(installation.results) - 1


def test_what_a_tenants_quota_deleted_is_not_brought_back_and_counted_twice(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {**SETTINGS, "data_dir": str(installation.folder.path)}
    settings["quotas"] = {"tenants": {DEFAULT_TENANT: {"stored_for": "20s"}}}
    installation.config.write_text(json.dumps(settings))
    installation.store(installation.results)
    now_ns = installation.results[-1].trace.last_received_ns
    engine = open_store(installation.settings.store_url)
    deleted = delete_older_of(engine, DEFAULT_TENANT, None, now_ns - 20 * 10**9)
    engine.dispose()
    assert 0 < deleted < len(installation.results)
    stats = "results", "stats", "--since", "2030-01-01", "--format", "json"
    left, counted = installation.ids(), installation.run(*stats).stdout
    monkeypatch.setattr(repairing, "time", SimpleNamespace(time_ns=lambda: now_ns))
    assert '"failed":39' in counted
    assert "0 traces added from the journal" in installation.repair()
    assert installation.run(*stats).stdout == counted
    assert installation.ids() == left


def test_nothing_is_repaired_while_serve_runs(installation: Installation) -> None:
    lock = lock_judges(installation.folder)
    refused = installation.run("doctor", "--repair")
    lock.release()
    assert refused.exit_code == 2
    assert "is in use by process" in refused.stderr


@pytest.mark.parametrize(
    ("version", "advice"),
    [("0001", "stop serve, and 'tracegrade doctor --repair'"), ("9999", "use that version, or another")],
)
def test_a_store_of_another_version_says_itself_what_to_do(
    installation: Installation, version: str, advice: str
) -> None:
    installation.store(installation.results)
    with closing(sqlite3.connect(installation.database)) as store:
        store.execute("UPDATE alembic_version SET version_num = ?", (version,))
        store.commit()
    shown = installation.run("doctor", "--format", "json").stdout
    (found,) = [finding for finding in map(json.loads, shown.splitlines()) if finding["check"] == "store"]
    assert f" (tables of version {version}, this one " in found["found"]
    assert found["advice"].startswith(advice)
