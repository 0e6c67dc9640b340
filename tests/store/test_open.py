import re
import sqlite3
import threading
from pathlib import Path
from typing import NoReturn

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, create_engine, inspect, text
from sqlalchemy.exc import OperationalError

from build import each
from build.judged_traces import judged
from tracegrade.model.session import TURN
from tracegrade.store import migrations, schema
from tracegrade.store.errors import StoreError, StoreUnavailable
from tracegrade.store.open import checkpoint, open_store, reading
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.results import results
from tracegrade.store.version import VERSION
from tracegrade.store.write import StoreWriter


def url(path: Path) -> str:
    return f"sqlite:///{path}"


def test_a_new_store_has_the_tables_that_the_code_uses(engine: Engine) -> None:
    tables, made_elsewhere = [schema.metadata], "sessions_going_on$"
    if engine.dialect.name == "postgresql":
        # The parts of ``traces`` are tables of their own, made as they are needed; what is unique is in `trace_keys`.
        tables = [schema.metadata, schema.postgresql_metadata]
        made_elsewhere = rf"traces_(\d|by_id$)|{made_elsewhere}"
    with engine.connect() as connection:
        opts = {"compare_type": True, "include_object": lambda found, name, *_: not re.match(made_elsewhere, str(name))}
        context = MigrationContext.configure(connection, opts=opts)
        assert compare_metadata(context, tables) == []


def test_the_index_of_sessions_holds_only_those_that_go_on(engine: Engine) -> None:
    (index,) = (index for index in inspect(engine).get_indexes("traces") if index["name"] == "sessions_going_on")
    assert TURN in str(index["dialect_options"][f"{engine.dialect.name}_where"])


def test_the_newest_migration_is_the_version_that_the_code_knows() -> None:
    assert ScriptDirectory(str(Path(migrations.__file__).parent)).get_current_head() == VERSION


def test_opening_again_keeps_what_is_stored(engine: Engine) -> None:
    StoreWriter(engine).write([judged(1)])
    again = open_store(engine.url.render_as_string(hide_password=False))
    with reading(again) as connection:
        assert len(results(connection, ResultFilter(), 10)) == 1
    again.dispose()


def test_a_store_of_a_newer_version_is_refused(sqlite: Engine) -> None:
    with sqlite.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    for read_only in (False, True):
        with pytest.raises(StoreError, match="written by a newer TraceGrade"):
            open_store(str(sqlite.url), read_only=read_only)


def test_reading_a_store_that_is_not_there_says_who_makes_it(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"no\.db: no such store; 'tracegrade serve' makes it"):
        open_store(url(tmp_path / "no.db"), read_only=True)
    assert not (tmp_path / "no.db").exists()


def test_another_program_s_database_is_not_taken_for_a_store(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "other.db").close()
    (tmp_path / "text.db").write_text("this is no database " * 100)
    with pytest.raises(StoreError, match="holds no TraceGrade results"):
        open_store(url(tmp_path / "other.db"), read_only=True)
    with pytest.raises(StoreError, match="not a database"):
        open_store(url(tmp_path / "text.db"))


@each(
    ("wrong", "message"),
    [
        ("nonsense", "expected sqlite:///PATH or postgresql"),
        ("mysql://host/db", "found 'mysql'"),
        ("sqlite://", "found no path"),
        ("postgresql+nodriver://host/db", "needs a driver"),
    ],
)
def test_a_wrong_url_says_what_was_expected(wrong: str, message: str) -> None:
    with pytest.raises(StoreError, match=message):
        open_store(wrong)


@each(
    ("told", "is_unreachable"),
    [
        ('connection to server at "10.0.0.1", port 5432 failed: Connection refused', True),
        ("failed to resolve host 'db': Name or service not known", True),
        ("connection timeout expired", True),
        ("FATAL:  the database system is starting up", True),
        ("FATAL:  the database system is in recovery mode", True),
        ("FATAL:  the database system is not yet accepting connections", True),
        ("FATAL:  sorry, too many clients already", True),
        ("FATAL:  remaining connection slots are reserved for non-replication superuser connections", True),
        ('FATAL:  too many connections for role "tracegrade"', True),
        ("FATAL:  terminating connection due to administrator command", True),
        ("FATAL:  terminating connection because of crash of another server process", True),
        ('FATAL:  password authentication failed for user "grader"', False),
        ('FATAL:  database "results" does not exist', False),
    ],
)
def test_a_server_that_does_not_answer_is_told_from_one_that_refuses(
    monkeypatch: pytest.MonkeyPatch, told: str, is_unreachable: bool
) -> None:
    def fail() -> NoReturn:
        raise OperationalError("", {}, Exception(told))

    refusing = create_engine("sqlite://", creator=fail)
    monkeypatch.setattr("tracegrade.store.postgresql.PostgreSQL.engine", lambda *_, **__: refusing)
    with pytest.raises(
        StoreError, match=r"^postgresql\+psycopg://user:\*\*\*@db/results: cannot be opened: "
    ) as caught:
        open_store("postgresql+psycopg://user:secret@db/results")
    assert isinstance(caught.value, StoreUnavailable) is is_unreachable


def test_a_password_is_not_shown(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as caught:
        open_store("postgresql+psycopg://user:secret@127.0.0.1:1/db")
    assert "secret" not in str(caught.value)


def test_a_reader_sees_what_is_stored_while_a_writer_is_at_work(engine: Engine) -> None:
    StoreWriter(engine).write([judged(1)])
    reader = open_store(engine.url.render_as_string(hide_password=False), read_only=True)
    with engine.begin() as writing:
        writing.execute(text("DELETE FROM traces"))
        with reading(reader) as connection:
            assert len(results(connection, ResultFilter(), 10)) == 1
        with reading(engine) as connection:
            assert len(results(connection, ResultFilter(), 10)) == 1
    reader.dispose()


def test_a_reader_cannot_write(sqlite: Engine) -> None:
    reader = open_store(str(sqlite.url), read_only=True)
    with pytest.raises(Exception, match="readonly"), reader.begin() as connection:
        connection.execute(text("DELETE FROM traces"))
    reader.dispose()


def test_a_store_on_a_read_only_disk_says_what_sqlite_needs(
    sqlite: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint(sqlite)
    sqlite.dispose()
    folder = tmp_path / "read_only"
    folder.mkdir()
    (folder / "tracegrade.db").write_bytes((tmp_path / "tracegrade.db").read_bytes())
    (folder / "tracegrade.db-wal").mkdir()  # SQLite cannot open it, as a file that it may not make
    with pytest.raises(StoreUnavailable) as elsewhere:
        open_store(url(folder / "tracegrade.db"), read_only=True)
    assert "unable to open database file" in str(elsewhere.value)
    assert "written" not in str(elsewhere.value)
    # Tests may run as root, who may write to each folder that is not mounted read-only.
    monkeypatch.setattr("tracegrade.store.sqlite.os.access", lambda path, mode: path != folder)
    with pytest.raises(StoreUnavailable, match=r"nothing can be written to its folder.*tracegrade\.db-wal.*--data-dir"):
        open_store(url(folder / "tracegrade.db"), read_only=True)
    with pytest.raises(StoreUnavailable, match=r"nothing can be written to its folder$"):  # a copy is no use to a judge
        open_store(url(folder / "tracegrade.db"))


def test_an_engine_serves_several_threads(engine: Engine) -> None:
    failures: list[BaseException] = []

    def work(first: int) -> None:
        try:
            writer = StoreWriter(engine)
            for number in range(first, first + 10):
                writer.write([judged(number)])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(first,)) for first in (0, 100, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    with reading(engine) as connection:
        assert len(results(connection, ResultFilter(), 100)) == 30


def test_after_a_checkpoint_one_file_holds_everything(sqlite: Engine, tmp_path: Path) -> None:
    StoreWriter(sqlite).write([judged(1)])
    checkpoint(sqlite)
    copy = tmp_path / "copy.db"
    copy.write_bytes((tmp_path / "tracegrade.db").read_bytes())
    reader = open_store(url(copy), read_only=True)
    with reading(reader) as connection:
        assert len(results(connection, ResultFilter(), 10)) == 1
    reader.dispose()


@pytest.mark.parametrize(("durable", "synchronous"), [(False, 1), (True, 2)])
def test_who_commits_positions_behind_the_store_waits_for_its_disk(
    tmp_path: Path, durable: bool, synchronous: int
) -> None:
    engine = open_store(url(tmp_path / "tracegrade.db"), durable=durable)
    with engine.begin() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == synchronous  # 1: NORMAL, 2: FULL
    engine.dispose()
