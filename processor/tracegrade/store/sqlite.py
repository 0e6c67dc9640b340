"""SQLite: a file in the data folder, which one process writes at a time."""

import fcntl
import os
import sqlite3
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

from sqlalchemy import ColumnElement, Connection, Engine, Table, create_engine, delete, event, func, select, true
from sqlalchemy.engine import URL

from tracegrade.store.database import (
    READS,
    Alive,
    Database,
    FreeSpace,
    HeldLock,
    Key,
    ListViews,
    Lock,
    Partition,
    Rows,
    column_names,
    in_parts,
    on_conflict,
)
from tracegrade.store.errors import StoreError, sqlite_code
from tracegrade.store.schema import traces
from tracegrade.store.tenant_views import show_one_tenant

# 4 KiB pages: a trace fills one and a half, and its random id changes one page of the index. With 8 KiB, writing costs
# 20 % more and the file is 50 % larger.
_PRAGMAS = (
    "page_size=4096",
    "journal_mode=WAL",
    "synchronous=NORMAL",
    "busy_timeout=5000",
    "temp_store=MEMORY",
    "cache_size=-65536",
    # A batch changes a thousand pages of a large store, many of which the next batch changes too. With SQLite's
    # default, which writes back with each batch, a trace takes 50 % longer (tests/system/bench/growth.py). 16 MiB of
    # log.
    "wal_autocheckpoint=4000",
    "journal_size_limit=67108864",
    # Overwrites deleted content in pages that are written anyway; `overwrite_free` does the rest on request.
    "secure_delete=FAST",
)
# Before the first table, or never: each page knows then who points to it, and can be moved (`give_back`).
_AS_IT_IS_MADE = "auto_vacuum=INCREMENTAL"
# Assembly looks up every new trace id: with a memory map this takes 5 µs in a store of a million traces, half of the
# time of reading pages.
_READ_PRAGMAS = ("busy_timeout=5000", "temp_store=MEMORY", "cache_size=-65536", "mmap_size=2147418112")

# Of all pages; fewer are kept free, since what is stored next takes them: giving back and taking again costs more.
_KEPT_FREE = 1 / 8
# Of one slice, in which no one else can write.
_PAGES = 128
_SLICE_S = 0.005
_SCRUBBED_BYTES = 8 * 1024 * 1024

_NOT_STORED = (0, -1)


class SQLite(Database):
    """A file; `Database` says what each method does."""

    is_file = True
    mark = "?"
    read_options: ClassVar[Mapping[str, Any]] = {READS: True}
    views = ListViews(
        items="json_each(t.{0}) AS item",
        position="item.key",
        field="json_extract(item.value, '$[{0}]')",
        own="json_extract(item.value, '$[{0}][{1}]')",
        hex="lower(hex({0}))",
    )

    def engine(self, url: URL, *, read_only: bool, tenant: str | None, durable: bool) -> Engine:
        if not url.database or url.database == ":memory:":
            raise StoreError("store.url: expected sqlite:///PATH, found no path; a store in memory would be lost")
        path = Path(url.database)
        if read_only and not path.exists():
            raise StoreError(f"{path}: no such store; 'tracegrade serve' makes it, --data-dir or -c says where it is")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{path.parent}: cannot be made: {error.strerror}") from None
        # We begin transactions, not the driver: it would begin them late, and as readers that cannot become writers.
        engine = create_engine(url, connect_args={"isolation_level": None, "check_same_thread": False})

        @event.listens_for(engine, "connect")
        def _prepare(connection: Any, record: object) -> None:
            if not read_only and connection.execute("PRAGMA page_count").fetchone() == (0,):  # it is made now
                connection.execute(f"PRAGMA {_AS_IT_IS_MADE}").close()
            for pragma in _READ_PRAGMAS if read_only else _PRAGMAS:
                connection.execute(f"PRAGMA {pragma}").close()
            if durable:
                connection.execute("PRAGMA synchronous=FULL").close()
            if tenant is not None:
                _show_one_tenant(connection, tenant)
            if read_only:
                connection.execute("PRAGMA query_only=ON").close()

        @event.listens_for(engine, "begin")
        def _begin(connection: Connection) -> None:
            reads = read_only or connection.get_execution_options().get(READS, False)
            connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

        return engine

    def with_timeout(self, url: URL, within_s: int) -> URL:
        return url

    def shown(self, url: URL) -> str:
        return url.database or ""

    def may_open_later(self, url: URL, error: Exception) -> bool:
        return bool(url.database) and Path(str(url.database)).is_file()  # if there is no file, its path is wrong

    def advice(self, url: URL, error: Exception, read_only: bool) -> str:
        path = Path(str(url.database))
        # Where it cannot make its files beside the store, its own message says nothing of them.
        if sqlite_code(error) != sqlite3.SQLITE_CANTOPEN or not path.is_file() or os.access(path.parent, os.W_OK):
            return ""
        if not read_only:
            return "; nothing can be written to its folder"
        return (
            f"; nothing can be written to its folder, and SQLite needs the files {path.name}-wal and {path.name}-shm "
            "there also to read. Copy the data folder to where you may write, and read the copy (--data-dir)"
        )

    def prepare_tables(self, connection: Connection) -> None:
        pass

    def hold(self, connection: Connection, lock: Lock, *, shared: bool = False) -> None:
        pass

    def take(self, engine: Engine, lock: Lock) -> HeldLock | None:
        file = os.open(f"{engine.url.database}.{lock.name.lower()}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            return None
        return HeldLock(lambda: None, lambda: os.close(file))

    def insert(self, connection: Connection, table: Table, rows: Rows) -> None:
        if rows:
            connection.exec_driver_sql(_insert(table), list(rows))

    def insert_or_change(self, connection: Connection, table: Table, rows: Rows, changes: str) -> None:
        if rows:
            connection.exec_driver_sql(f"{_insert(table)} {on_conflict(table)} {changes}", list(rows))

    def holds(self, document: ColumnElement[Any], key: str, text: str) -> ColumnElement[bool]:
        items = func.json_each(document, f"$.{key}").table_valued("value")
        return select(true()).select_from(items).where(items.c.value == text).exists()

    def of_ids(self, trace_ids: Collection[bytes]) -> ColumnElement[bool]:
        return traces.c.trace_id.in_(trace_ids)

    def of_ids_text(self, count: int) -> str:
        return f"trace_id IN ({', '.join('?' * count)})"

    def claim(self, connection: Connection, revisions: Mapping[Key, int]) -> tuple[dict[Key, int], list[int]]:
        stored = _stored(connection, revisions)
        new = [key for key, revision in revisions.items() if stored.get(key, _NOT_STORED)[1] < revision]
        # Numbers of deleted traces are used again; replaced ones are still there. As a text: SQLAlchemy takes as long
        # to put this together as to store five traces.
        first: int = connection.exec_driver_sql("SELECT coalesce(max(number), 0) + 1 FROM traces").scalar_one()
        return dict(zip(new, count(first), strict=False)), [stored[key][0] for key in new if key in stored]

    def make_room(self, engine: Engine, number: int) -> int:
        return 2**63

    def delete_traces(self, connection: Connection, numbers: Sequence[int]) -> None:
        connection.execute(delete(traces).where(traces.c.number.in_(numbers)))

    def soon_dropped(self, connection: Connection, before_ns: int) -> list[Partition]:
        return []

    def drop_expired(self, engine: Engine, before_ns: int) -> None:
        pass

    def overwrite_what_goes(self, connection: Connection, is_on: bool = True) -> None:
        connection.exec_driver_sql(f"PRAGMA secure_delete={'ON' if is_on else 'FAST'}")

    def overwrite_free(self, engine: Engine, alive: Alive) -> None:
        # In pages that are in use, SQLite overwrites deleted content at once (``secure_delete``). Here, free pages are
        # filled with zeros. O(free pages).
        with engine.connect() as connection:
            space = self.free_space(connection)
        for begin in range(0, space.free_bytes, _SCRUBBED_BYTES):
            with engine.begin() as connection:
                connection.exec_driver_sql("CREATE TABLE IF NOT EXISTS zeros (bytes BLOB NOT NULL)")
                chunk = min(space.free_bytes - begin, _SCRUBBED_BYTES)
                connection.exec_driver_sql("INSERT INTO zeros VALUES (zeroblob(?))", (chunk,))
            alive()
        with engine.begin() as connection:
            connection.exec_driver_sql("DROP TABLE IF EXISTS zeros")

    def checkpoint(self, engine: Engine) -> bool:
        with closing(engine.raw_connection()) as connection:
            cursor = connection.cursor()
            busy, *_ = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            cursor.close()
        return not busy

    def free_space(self, connection: Connection) -> FreeSpace:
        names = ("page_count", "freelist_count", "page_size")
        pages, free, size = (connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in names)
        return FreeSpace(pages, free, size, max(0, int((free - _KEPT_FREE * pages) / (1 - _KEPT_FREE))))

    def give_back(self, engine: Engine) -> int:
        with engine.connect().execution_options(**self.read_options) as connection:
            space = self.free_space(connection)
        if not space.surplus_pages:
            return 0
        given, most = 0, min(space.surplus_pages, _PAGES)
        with engine.begin() as connection:
            until_s = time.monotonic() + _SLICE_S
            cursor = connection.connection.cursor()
            while given < most and time.monotonic() < until_s:
                # Python takes one step of this statement, and a step is a page: so one is asked for.
                cursor.execute("PRAGMA incremental_vacuum(1)")
                given += 1
            cursor.close()
        if given == space.surplus_pages:
            with closing(engine.raw_connection()) as raw:
                raw.cursor().execute("PRAGMA wal_checkpoint(PASSIVE)").close()  # waits for no one, and no one for it
        return given


@cache
def _insert(table: Table) -> str:
    return f"INSERT INTO {table.name} ({column_names(table)}) VALUES ({', '.join(['?'] * len(table.columns))})"


def _stored(connection: Connection, keys: Collection[Key]) -> dict[Key, tuple[int, int]]:
    """The number and revision of each of `keys` that is stored."""
    found: dict[Key, tuple[int, int]] = {}
    for some in in_parts(list(keys)):
        # Read by trace id alone and filtered here: for a list of rows as parameters, no index is used.
        marks = ", ".join(["?"] * len(some))
        rows = connection.exec_driver_sql(
            f"SELECT trace_id, tenant, run, number, revision FROM traces WHERE trace_id IN ({marks})",
            tuple(key[0] for key in some),
        )
        for trace_id, tenant, run, number, revision in rows:
            key = (bytes(trace_id), tenant, run)
            if key in keys:
                found[key] = (number, revision)
    return found


def _show_one_tenant(connection: Any, tenant: str) -> None:
    cursor = connection.cursor()
    cursor.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    tables = {name for (name,) in cursor.fetchall()}
    cursor.execute("SELECT sql FROM sqlite_master WHERE type = 'view' ORDER BY rowid")
    views = [text.replace("CREATE VIEW", "CREATE TEMPORARY VIEW", 1) for (text,) in cursor.fetchall()]
    show_one_tenant(cursor, tenant, "main", tables, views, "json_extract({0}, '$.{1}')")
    cursor.close()
