"""What is backed up, what is refused, and what is said."""

import json
import os
import shutil
import sqlite3
from hashlib import sha256
from pathlib import Path

import pytest
from click.testing import CliRunner

from build import store_with
from build.commands import run
from build.judged_traces import judged
from build.stored_alerts import ALERT, store_incident
from tracegrade.cli import main
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.position import Position
from tracegrade.journal.record import Encoding, Entry
from tracegrade.model.signal import Signal
from tracegrade.pipeline.data_folder import DataFolder
from tracegrade.store.open import open_store


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder that was served once."""
    folder = DataFolder(tmp_path / "data")
    folder.instance_id()
    journal = LocalJournal.open(folder.journal)
    journal.append(Entry(Signal.TRACES, Encoding.PROTOBUF, "default", 1, b"spans")).result()
    journal.close()
    store_with(folder.path, judged(1), judged(2))
    (folder.path / "judge.heartbeat").write_bytes(b"alive")
    (folder.path / "deletions").mkdir()
    (folder.path / "deletions" / "tombstones").write_bytes(b"")
    return folder.path


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_is_brought_back_is_what_was_backed_up(data: Path, tmp_path: Path) -> None:
    made = run(data, "backup", "--to", str(tmp_path / "backup"))
    assert made.exit_code == 0, made.stderr
    assert made.stdout.startswith(f"{tmp_path / 'backup'}: 5 files, ")
    brought = run(tmp_path / "other", "restore", str(tmp_path / "backup"))
    assert brought.exit_code == 0, brought.stderr
    before, after = files(data), files(tmp_path / "other")
    of_store = {"tracegrade.db-shm", "tracegrade.db-wal"}  # SQLite's, empty
    assert before.keys() - after.keys() - of_store == {"judge.heartbeat", "journal/lock"}
    assert {name for name in after if after[name] != before.get(name)} <= {"tracegrade.db"}
    assert run(tmp_path / "other", "traces", "list").stdout == run(data, "traces", "list").stdout
    for path in (tmp_path / "other").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, f"{path} is readable by others"


def test_what_people_did_about_an_incident_is_brought_back(data: Path, tmp_path: Path) -> None:
    engine = open_store(store_with(data))
    with engine.begin() as connection:
        incident = store_incident(connection, ALERT)
    engine.dispose()
    assert run(data, "alerts", "comment", incident.id, "a lock is held").exit_code == 0
    assert run(data, "alerts", "silence", "--incident", incident.id, "--comment", "we know").exit_code == 0
    assert run(data, "backup", "--to", str(tmp_path / "backup")).exit_code == 0
    assert run(tmp_path / "other", "restore", str(tmp_path / "backup")).exit_code == 0
    for command in (("show", incident.id), ("silence", "--list")):
        there, here = (run(folder, "alerts", *command).stdout for folder in (tmp_path / "other", data))
        assert there == here
        assert "a lock is held" in there or "we know" in there


def test_a_position_before_the_first_segment_is_set_to_it(data: Path, tmp_path: Path) -> None:
    """Retention deleted a segment that all had read, between the copying of positions and that of the journal."""
    (segment,) = (data / "journal" / "segments").iterdir()
    segment.rename(segment.with_name(f"{4096:020d}.segment"))
    position = Position(DataFolder(data).position("judge"))
    position.commit(7)
    position.close()
    assert run(data, "backup", "--to", str(tmp_path / "backup")).exit_code == 0
    assert Position(DataFolder(tmp_path / "backup" / "data").position("judge")).load() == 4096
    assert position.load() == 7


def test_a_store_elsewhere_goes_with_it_and_one_on_a_server_is_named(data: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.db"
    (data / "tracegrade.db").rename(elsewhere)
    config = tmp_path / "config.yaml"
    config.write_text(json.dumps({"store": {"url": f"sqlite:///{elsewhere}"}}))
    assert run(data, "backup", "-c", str(config), "--to", str(tmp_path / "one")).exit_code == 0
    with sqlite3.connect(tmp_path / "one" / "store.db") as copied:
        assert copied.execute("SELECT count(*) FROM traces").fetchone() == (2,)
    refused = run(tmp_path / "other", "restore", str(tmp_path / "one"), "-c", str(config))
    assert refused.exit_code == 2
    assert refused.stderr.startswith(f"Error: {elsewhere}: there is a store already")
    config.write_text(json.dumps({"store": {"url": "postgresql+psycopg://u:secret@127.0.0.1/results"}}))
    made = run(data, "backup", "-c", str(config), "--to", str(tmp_path / "two"))
    assert "not in it: the store is a database server's" in made.stdout
    assert "secret" not in made.stdout
    assert not (tmp_path / "two" / "store.db").exists()


def test_what_cannot_be_backed_up_is_refused(data: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").touch()
    for folder, to, said in (
        (tmp_path / "none", tmp_path / "new", "no data folder of 'tracegrade serve'"),
        (data, data / "backup", "is in the data folder"),
        (data, tmp_path / "full", "is there already; name a new folder"),
    ):
        refused = run(folder, "backup", "--to", str(to))
        assert (refused.exit_code, said in refused.stderr) == (2, True), refused.stderr
    assert files(tmp_path / "full") == {"a": b""}


def test_what_is_not_whole_or_was_changed_is_not_brought_back(data: Path, tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    run(data, "backup", "--to", str(backup))
    (segment,) = (backup / "data" / "journal" / "segments").iterdir()
    written = segment.read_bytes()
    segment.write_bytes(written[:-1] + b"?")
    other = tmp_path / "other"
    refused = run(other, "restore", str(backup))
    assert refused.exit_code == 2
    assert f"{segment}: not as it was backed up" in refused.stderr
    segment.unlink()
    assert "the backup is not whole" in run(other, "restore", str(backup)).stderr
    assert not other.exists()
    segment.write_bytes(written)
    assert "there is something in this folder" in run(data, "restore", str(backup)).stderr
    manifest = backup / "manifest.json"
    content = json.loads(manifest.read_bytes())
    for changed, said in (
        ({"format": 2}, "found format 2, expected 1"),
        ({"files": 7}, "damaged"),
        ({"files": [{"path": 7, "size": 1, "sha256": ""}]}, "damaged"),
    ):
        manifest.write_text(json.dumps(content | changed))
        refused = run(other, "restore", str(backup))
        assert (refused.exit_code, said in refused.stderr) == (2, True), refused.stderr
    manifest.unlink()
    assert "no backup here" in run(other, "restore", str(backup)).stderr


def test_nothing_is_restored_to_anywhere_but_the_data_folder_and_the_store(data: Path, tmp_path: Path) -> None:
    backup, other, outside = tmp_path / "backup", tmp_path / "place" / "other", tmp_path / "outside"
    run(data, "backup", "--to", str(backup))
    manifest = backup / "manifest.json"
    content = json.loads(manifest.read_bytes())
    outside.mkdir()
    (outside / "file").write_bytes(b"evil")
    (backup / "file").write_bytes(b"evil")
    (backup / "data" / "file").write_bytes(b"evil")
    (backup / "data" / "link").symlink_to(outside / "file")
    (backup / "data" / "inner").symlink_to(backup / "data" / "file")
    (backup / "data" / "linked").symlink_to(outside)
    os.mkfifo(backup / "data" / "pipe")
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "file").write_bytes(b"mine")
    before = files(tmp_path / "place")
    evil = {"size": 4, "sha256": sha256(b"evil").hexdigest()}
    paths = [
        *("data/../file", "data/a/../../../file", "../file", "data/..", "..", ".", "", "data", "data/", "data//file"),
        *("data/./file", "./data/file", "/data/file", str(outside / "file"), "file", "database/file", "DATA/file"),
        *("data\\..\\file", "data/..\\..\\file", "C:\\file", "C:/file", "data/\0", "store.db/../file", "store.db/file"),
        *("data/link", "data/inner", "data/linked/file", "data/pipe", "data/restore.unfinished", "data/tracegrade.db"),
    ]
    shutil.copyfile(backup / "data" / "file", backup / "data" / "restore.unfinished")
    shutil.copyfile(backup / "data" / "file", backup / "data" / "tracegrade.db")
    taken = []
    for path in paths:
        manifest.write_text(json.dumps(content | {"files": [*content["files"], {"path": path, **evil}]}))
        refused = run(other, "restore", str(backup))
        if refused.exit_code != 2 or other.exists() or files(tmp_path / "place") != before:
            taken.append((path, refused.output))
    assert not taken
    (file,) = [each for each in content["files"] if each["path"].startswith("data/journal/segments/")]
    manifest.write_text(json.dumps(content | {"files": [*content["files"], file]}))
    assert "names a file twice" in run(other, "restore", str(backup)).stderr
    manifest.write_text(json.dumps(content | {"files": [*content["files"], {"path": "data/file", **evil}]}))
    assert run(other, "restore", str(backup)).exit_code == 0, "the same without a mistake"


def test_a_file_that_says_what_a_killed_restore_left_deletes_nothing_else(data: Path, tmp_path: Path) -> None:
    run(data, "backup", "--to", str(tmp_path / "backup"))
    other, mine = tmp_path / "other", tmp_path / "mine"
    other.mkdir()
    mine.write_bytes(b"mine")
    (other / "restore.unfinished").write_text(str(mine))
    refused = run(other, "restore", str(tmp_path / "backup"))
    assert (refused.exit_code, mine.read_bytes()) == (2, b"mine")
    assert f"a restore to the store {str(mine)!r} was killed" in refused.stderr
    (other / "restore.unfinished").unlink()
    (other).rmdir()
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "nothing yet")
    config = tmp_path / "config.yaml"
    config.write_text(json.dumps({"data_dir": str(other), "store": {"url": f"sqlite:///{link}"}}))
    refused = CliRunner().invoke(main, ["restore", str(tmp_path / "backup"), "-c", str(config)])
    assert (refused.exit_code, (tmp_path / "nothing yet").exists()) == (2, False)


@pytest.mark.parametrize("store_url", [None, "elsewhere.db"])
def test_a_restore_that_was_killed_is_done_again_and_not_served(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store_url: str | None
) -> None:
    run(data, "backup", "--to", str(tmp_path / "backup"))
    other, config = tmp_path / "other", tmp_path / "config.yaml"
    settings = {} if store_url is None else {"store": {"url": f"sqlite:///{tmp_path / store_url}"}}
    config.write_text(json.dumps({"data_dir": str(other), **settings}))
    restore = ["restore", str(tmp_path / "backup"), "-c", str(config)]
    # As a kill leaves it: all is copied but the last file, and nothing is cleared away.
    with monkeypatch.context() as killing:
        killing.setattr("tracegrade.backup.restore.open_store", lambda url, update: os._exit(9))
        child = os.fork()
        if not child:
            CliRunner().invoke(main, restore)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    refused = CliRunner().invoke(main, ["serve", "-c", str(config)])
    assert refused.exit_code == 2
    *_, error = refused.stderr.splitlines()
    assert error == f"Error: {other}: 'tracegrade restore' was killed before all was there; run it again"
    (other / "half").write_bytes(b"of an attempt")
    again = CliRunner().invoke(main, restore)
    assert again.exit_code == 0, again.stderr
    assert not {"half", "restore.unfinished"} & files(other).keys()
    assert run(other, "traces", "list", "-c", str(config)).stdout == run(data, "traces", "list").stdout
