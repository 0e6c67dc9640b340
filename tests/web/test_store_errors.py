"""A store that fails while it is read: pages and operations say so, and that another attempt may succeed."""

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from build import each, store_with
from build.asgi import call
from build.site import Site
from build.without_parts import MISSING
from tracegrade.config import Config
from tracegrade.rule.rule_set import RuleSet
from tracegrade.web.app import build_app


def of_sqlite(code: int, words: str) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(words)
    error.sqlite_errorcode = code
    return error


def wrapped(error: sqlite3.OperationalError) -> OperationalError:
    return OperationalError("SELECT secret FROM traces", {}, error)


BUSY = of_sqlite(sqlite3.SQLITE_BUSY, "database is locked")
FAILING: dict[str, tuple[Exception, int]] = {
    "locked": (wrapped(BUSY), 503),
    "locked while a connection is made": (BUSY, 503),
    "a disk that fails": (wrapped(of_sqlite(sqlite3.SQLITE_IOERR_READ, "disk I/O error")), 503),
    "a damaged file": (wrapped(of_sqlite(sqlite3.SQLITE_CORRUPT, "database disk image is malformed")), 503),
    "a server that went away": (OperationalError("SELECT secret", {}, Exception("server closed the connection")), 503),
    "used by too many": (PoolTimeout("QueuePool limit of size 5 overflow 10 reached"), 503),
    "a statement that is wrong": (wrapped(of_sqlite(sqlite3.SQLITE_ERROR, "no such column: x")), 500),
}


@each("name", list(FAILING))
def test_what_is_answered_while_the_store_fails(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.clear()
    store_with(tmp_path)
    config = Config(data_dir=str(tmp_path))
    error, status = FAILING[name]

    def fail(tenant: str | None) -> None:
        raise error

    site = Site(config.store_url, RuleSet([]), config)
    app = build_app(replace(site.sources, opened=fail))  # type: ignore[arg-type]
    for address in ("/", "/traces", "/api/v1/traces", *(() if MISSING else ("/evals", "/api/tool-eval/history"))):
        answer = call(app, "GET", address)
        assert answer.status == status, address
        assert b"secret" not in answer.body, "statements are nobody's business"
        if status == 503:
            assert str(getattr(error, "orig", error)).encode() in answer.body, address
        if status == 503 and address.startswith("/api/"):
            assert answer.headers["retry-after"] == "2"
    assert ("the store cannot be used" in caplog.text) is (status == 503)
