"""What is told of a store before anything listens."""

import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from build import each
from tracegrade.store.check import check_store
from tracegrade.store.errors import StoreError
from tracegrade.store.version import FIRST


@pytest.mark.parametrize("found", [FIRST, None])
def test_a_store_that_this_version_brings_up_to_date_is_let_through(sqlite: Engine, found: str | None) -> None:
    change = "DELETE FROM alembic_version" if found is None else f"UPDATE alembic_version SET version_num = '{found}'"
    with sqlite.begin() as connection:
        connection.execute(text(change))
    check_store(str(sqlite.url))
    check_store(str(sqlite.url).replace("sqlite:", "sqlite+pysqlite:"))


@pytest.mark.parametrize("kind", ["sqlite", "sqlite+pysqlite"])
def test_a_store_of_a_newer_version_is_refused(sqlite: Engine, kind: str) -> None:
    with sqlite.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StoreError, match="written by a newer TraceGrade"):
        check_store(str(sqlite.url).replace("sqlite:", f"{kind}:"))


def test_a_store_that_is_not_there_is_let_through_and_not_made(tmp_path: Path) -> None:
    check_store(f"sqlite:///{tmp_path / 'new?' / 'tracegrade.db'}")
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_is_left_to_the_judge(tmp_path: Path) -> None:
    path = tmp_path / "a 100% #1.db"
    path.write_bytes(b"no database" * 1000)
    check_store(f"sqlite:///{path}")
    assert path.read_bytes().startswith(b"no database")


@each(
    ("url", "message"),
    [
        ("sqlite://", "expected sqlite:///PATH, found no path"),
        ("sqlite:///:memory:", "expected sqlite:///PATH, found no path"),
        ("sqlite:///{folder}", "cannot be opened"),
        ("mysql://host/database", "expected sqlite or postgresql, found 'mysql'"),
        ("results.db", "expected sqlite:///PATH or postgresql"),
    ],
)
def test_what_can_be_no_store_is_refused(tmp_path: Path, url: str, message: str) -> None:
    with pytest.raises(StoreError, match=message):
        check_store(url.format(folder=tmp_path))


@pytest.mark.skipif(find_spec("psycopg") is None, reason="needs pip install -e '.[postgresql]'")
def test_a_server_that_does_not_answer_is_let_through() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        check_store(f"postgresql+psycopg://me@127.0.0.1:{port}/results")
    check_store(f"postgresql+psycopg://me@127.0.0.1:{port}/results")


def test_a_file_is_looked_at_without_a_library_that_is_slow_to_load(sqlite: Engine) -> None:
    looks = "import sys; from tracegrade.store.check import check_store; check_store(sys.argv[1]); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", looks, str(sqlite.url)], check=True, capture_output=True, text=True)
    assert "sqlalchemy" not in done.stdout.split()
