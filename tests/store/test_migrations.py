"""Stores that another version wrote: those of a release are brought up to date, those from before it are refused."""

import re
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from shutil import copytree

import pytest
from click.testing import CliRunner
from sqlalchemy import Engine, inspect, text

from build import each
from build.engines import POSTGRESQL, without_tables
from build.judged_traces import judged
from tracegrade.cli import main
from tracegrade.store import migrations
from tracegrade.store import open as opening
from tracegrade.store.check import check_store
from tracegrade.store.errors import StoreError
from tracegrade.store.open import open_store, reading
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.tallies import tallies
from tracegrade.store.version import FIRST, VERSION, unfit
from tracegrade.store.write import StoreWriter

SCRIPTS = Path(migrations.__file__).parent / "versions"
# Of every migration, a digest of its file: stores have met it as it was released.
RELEASED = {
    "v0022_first.py": "87a8472c6abf6773",
    "v0023_incident_notes.py": "b696c45dbf3e528a",
    "v0024_listed.py": "9846fcc99af6939b",
}

NEXT = f'''
import sqlalchemy as sa
from alembic import op

revision = "9000"
down_revision = "{VERSION}"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("silences", sa.Column("later", sa.Text, nullable=False, server_default="nobody"))
    op.execute("UPDATE silences SET later = 'somebody'")
'''


def test_a_migration_never_changes() -> None:
    found = {path.name: blake2b(path.read_bytes(), digest_size=8).hexdigest() for path in SCRIPTS.glob("v*.py")}
    assert found == RELEASED


@pytest.fixture
def next_version(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A version after this one, with a migration of its own, whose file this is; two results are stored by this one."""
    StoreWriter(engine).write([judged(1), judged(2, "fail")])
    scripts = tmp_path / "migrations"
    copytree(SCRIPTS.parent, scripts)
    path = scripts / "versions" / "v9000_later.py"
    path.write_text(NEXT)
    monkeypatch.setattr(opening, "_MIGRATIONS", scripts)
    monkeypatch.setattr(opening, "VERSION", "9000")
    monkeypatch.setattr("tracegrade.store.version.VERSION", "9000")
    yield path
    if engine.dialect.name == "postgresql":
        engine.dispose()
        without_tables(POSTGRESQL)


def _version(engine: Engine) -> str:
    with engine.connect() as connection:
        return str(connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one())


def test_serve_brings_a_store_up_to_date(engine: Engine, next_version: Path, caplog: pytest.LogCaptureFixture) -> None:
    url, told = engine.url.render_as_string(hide_password=False), []
    caplog.set_level("INFO", "tracegrade.store.open")
    for read_only in (False, True):
        with pytest.raises(StoreError, match=rf"older TraceGrade \(tables of version {VERSION}, this one needs 9000"):
            open_store(url, read_only=read_only)
    assert (_version(engine), told) == (VERSION, [])
    newer = open_store(url, update=True, updating=lambda: told.append(_version(engine)))
    assert (_version(newer), told) == ("9000", [VERSION])
    assert [re.sub(".*: ", "", message) for message in caplog.messages] == [
        f"bringing tables of version {VERSION} up to date (9000)",
        "up to date",
    ]
    assert "later" in {column["name"] for column in inspect(newer).get_columns("silences")}
    with reading(newer) as connection:
        (rate,) = tallies(connection, ResultFilter()).values()
    assert (rate.passed, rate.failed) == (1, 1)
    newer.dispose()


def test_an_interrupted_update_leaves_the_store_as_it_was(engine: Engine, next_version: Path) -> None:
    next_version.write_text(f"{NEXT}    op.execute('SELECT of nothing')\n")
    url = engine.url.render_as_string(hide_password=False)
    with pytest.raises(StoreError, match="cannot be opened"):
        open_store(url, update=True)
    assert _version(engine) == VERSION
    assert "later" not in {column["name"] for column in inspect(engine).get_columns("silences")}
    next_version.write_text(NEXT)
    open_store(url, update=True).dispose()
    assert _version(engine) == "9000"


def test_only_a_file_is_said_to_be_replaced_by_a_repair() -> None:
    of_file = unfit("0019", is_file=True, read_only=False, update=True)
    of_server = unfit("0019", is_file=False, read_only=False, update=True)
    assert of_file is not None
    assert "keeps the old file" in of_file
    assert of_server is not None
    assert "old file" not in of_server
    assert "give store.url an empty database" in of_server


@each("version", ["0001", "0019", "0021"])
def test_a_store_from_before_the_first_release_is_refused(sqlite: Engine, tmp_path: Path, version: str) -> None:
    assert version < FIRST
    with sqlite.begin() as connection:
        connection.execute(text(f"UPDATE alembic_version SET version_num = '{version}'"))
    url = str(sqlite.url)
    with pytest.raises(StoreError, match=f"before the first release .tables of version {version}") as refused:
        open_store(url, update=True)
    said = re.escape(str(refused.value))
    for options in ({}, {"read_only": True}):
        with pytest.raises(StoreError, match=said):
            open_store(url, **options)
    with pytest.raises(StoreError, match=said):
        check_store(url)
    (tmp_path / "config.yaml").write_text(f"data_dir: {tmp_path}\nstore: {{url: '{url}'}}\n")
    read = (["results", "list"], ["traces", "list"], ["alerts", "list"], ["why", "00" * 16])
    for arguments in (*read, ["alerts", "silence", "service=shop"], ["serve"]):
        result = CliRunner().invoke(main, [*arguments, "-c", str(tmp_path / "config.yaml")])
        assert (result.exit_code, result.output.splitlines()[-1]) == (2, f"Error: {refused.value}")
