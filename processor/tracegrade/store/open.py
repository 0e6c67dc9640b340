"""Opens a store: a writer creates it, `serve` brings it up to date, a reader takes it as it is."""

import logging
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    InterfaceError,
    NoSuchModuleError,
    OperationalError,
    SQLAlchemyError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout

from tracegrade.display import without_secrets
from tracegrade.model.errors import TraceGradeError
from tracegrade.store.schema.create import create_tables
from tracegrade.store.tenant_views import show_one_tenant
from tracegrade.store.version import VERSION, unfit

logger = logging.getLogger(__name__)

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
    # Overwrites deleted content in pages that are written anyway; `store.delete` does the rest on request.
    "secure_delete=FAST",
)
# Before the first table, or never: each page knows then who points to it, and can be moved (`store.free_space`).
_AS_IT_IS_MADE = "auto_vacuum=INCREMENTAL"
_CONNECT_TIMEOUT_S = 10
_MIGRATIONS = Path(__file__).parent / "migrations"
_READS = "tracegrade_reads"
# Assembly looks up every new trace id: with a memory map this takes 5 µs in a store of a million traces, half of the
# time of reading pages.
_READ_PRAGMAS = ("busy_timeout=5000", "temp_store=MEMORY", "cache_size=-65536", "mmap_size=2147418112")


_UNREADABLE = {
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_READONLY,
}

# What a server says that refuses everybody at the moment: the driver gives no code of an attempt to connect.
_FOR_NOW = (
    "the database system is ",  # starting up, shutting down, in recovery mode, not yet accepting connections
    "too many ",  # clients already, connections for role or database
    "remaining connection slots are reserved",
    "terminating connection",
)

# Of PostgreSQL's states (SQLSTATE), by their beginning: the server can do nothing at present, whatever it is asked.
_REFUSES_FOR_NOW = (
    "25006",  # only reads: a standby, or one that was set so because its disk was filling
    "53",  # no memory, no disk, too many connections
    "55",  # not in a state for it
    "57",  # shut down, cancelled
    "58",  # an error of its system
)

STORE_ERRORS = (SQLAlchemyError, sqlite3.Error)
"""What any use of a store may raise: it is locked, full, damaged or away, or refuses a statement."""

# An arbitrary number that only we use.
_WRITE_LOCK = 0x7472_6163_6567
LEADER_LOCK = _WRITE_LOCK + 1
JOBS_LOCK = _WRITE_LOCK + 2
_SERIES_LOCK = _WRITE_LOCK + 3
_PARTS_LOCK = _WRITE_LOCK + 4


class StoreError(TraceGradeError):
    """The store cannot be opened or read; the message says what to do."""


class StoreUnavailable(StoreError):
    """A server that does not answer (yet), or a file that cannot be read: a later attempt may succeed."""


def open_store(
    url: str,
    *,
    read_only: bool = False,
    update: bool = False,
    updating: Callable[[], object] | None = None,
    tenant: str | None = None,
    durable: bool = False,
) -> Engine:
    """An engine on the store at `url`.

    Args:
        url: in SQLAlchemy's form: ``sqlite:///path`` or ``postgresql+psycopg://...``.
        read_only: read the store as it is, while another process may write it; else create it where there is none.
        update: bring tables of an older version up to date. Only for processes that keep an older `serve` from
            running over the same data folder: it would not know the tables any more.
        updating: called before tables with content are updated, which may take long.
        tenant: with read_only, show the rows of this tenant alone; None: of all.
        durable: what is committed is on SQLite's disk, so that positions behind it may be committed; else a power cut
            may take back the last transactions. PostgreSQL's always is.

    Raises:
        StoreError: no such store (read-only), one written by an older version (without `update`) or a newer one,
            a driver that is not installed, or a database that refuses the connection.
        StoreUnavailable: a database that does not answer, or a file that exists and cannot be read.
    """
    parsed = _parse(url)
    try:
        engine = (
            _sqlite(parsed, read_only, tenant, durable)
            if parsed.get_backend_name() == "sqlite"
            else _postgresql(parsed, tenant)
        )
        try:
            _make_ready(engine, read_only, update, updating)
        except BaseException:
            engine.dispose()
            raise
    except (SQLAlchemyError, sqlite3.Error) as error:
        raise _cannot_open(parsed, error, read_only=read_only) from None
    return engine


def _make_ready(engine: Engine, read_only: bool, update: bool, updating: Callable[[], object] | None) -> None:
    """Make or update the tables, or refuse them; the arguments are those of `open_store`."""
    with reading(engine) as connection:
        found = _version(connection)
    if problem := unfit(found, read_only=read_only, update=update):
        raise StoreError(f"{_shown(engine.url)}: {problem}")
    if found is None:
        _create(engine)
    elif found != VERSION:
        logger.info("%s: bringing tables of version %s up to date (%s)", _shown(engine.url), found, VERSION)
        if updating is not None:
            updating()
        _migrate(engine)
        logger.info("%s: up to date", _shown(engine.url))


def check_reachable(url: str, within_s: int) -> None:
    """Refuse a store that `open_store` would refuse, changing nothing in it; what does not answer now is let through.

    Args:
        url: as of `open_store`.
        within_s: how long to wait for a server, unless `url` says it.

    Raises:
        StoreError: as `open_store`, but for `StoreUnavailable`.
    """
    parsed = _parse(url)
    is_file = parsed.get_backend_name() == "sqlite"
    if not is_file and "connect_timeout" not in parsed.query:
        parsed = parsed.update_query_dict({"connect_timeout": str(within_s)})
    engine = _sqlite(parsed, False, None, False) if is_file else _postgresql(parsed, None)
    try:
        with reading(engine) as connection:
            problem = unfit(_version(connection), read_only=False, update=True)
    except (SQLAlchemyError, sqlite3.Error) as error:
        refused = _cannot_open(make_url(url), error)
        if not isinstance(refused, StoreUnavailable):
            raise refused from None
        return
    finally:
        engine.dispose()
    if problem:
        raise StoreError(f"{_shown(make_url(url))}: {problem}")


def unavailable(url: str, error: SQLAlchemyError) -> StoreUnavailable | None:
    """The error to raise when an open store fails in a way that may be over at a later attempt, else None."""
    found = _cannot_open(make_url(url), error)
    return found if isinstance(found, StoreUnavailable) else None


def _cannot_open(url: URL, error: Exception, *, read_only: bool = False) -> StoreError:
    if url.get_backend_name() == "sqlite":
        # If there is no file, its path is wrong.
        is_temporary = bool(url.database) and Path(str(url.database)).is_file()
    else:
        is_temporary = _is_unreachable(error)
    kind = StoreUnavailable if is_temporary else StoreError
    return kind(f"{_shown(url)}: cannot be opened: {cause_of(error)}{_read_only_folder(url, error, read_only)}")


def _read_only_folder(url: URL, error: Exception, read_only: bool) -> str:
    """What to do where SQLite cannot make its files beside the store, of which its own message says nothing."""
    code = getattr(getattr(error, "orig", None) or error, "sqlite_errorcode", 0)
    if url.get_backend_name() != "sqlite" or code & 0xFF != sqlite3.SQLITE_CANTOPEN:
        return ""
    path = Path(str(url.database))
    if not path.is_file() or os.access(path.parent, os.W_OK):
        return ""
    if not read_only:
        return "; nothing can be written to its folder"
    return (
        f"; nothing can be written to its folder, and SQLite needs the files {path.name}-wal and {path.name}-shm there "
        "also to read. Copy the data folder to where you may write, and read the copy (--data-dir)"
    )


def is_unreadable(error: BaseException) -> bool:
    """Whether SQLite cannot read or write its file: damaged, not a database, read-only, or a failing disk."""
    cause = getattr(error, "orig", None) or error
    code = getattr(cause, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in _UNREADABLE


def is_away(error: BaseException) -> bool:
    """Whether the store is locked, or its server away, or refuses for now: the same attempt may succeed later."""
    cause = getattr(error, "orig", None) or error
    if state_of(error).startswith(_REFUSES_FOR_NOW):
        return True
    if isinstance(cause, sqlite3.Error):
        return getattr(cause, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    return isinstance(error, OperationalError | InterfaceError) or (
        isinstance(error, DBAPIError) and error.connection_invalidated
    )


def cannot_be_used(error: BaseException) -> bool:
    """Whether the store, and not what was asked of it, is the cause: away, locked, unreadable, or used by too many."""
    return is_away(error) or is_unreadable(error) or isinstance(error, PoolTimeout)


def state_of(error: BaseException) -> str:
    """PostgreSQL's state (SQLSTATE) of an error, five characters; "" of SQLite, and of what no server said."""
    return str(getattr(getattr(error, "orig", None) or error, "sqlstate", None) or "")


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """A connection that only reads the state of one moment: it waits for no writer, and no writer waits for it."""
    options: dict[str, Any] = {_READS: True}
    if engine.dialect.name == "postgresql":
        options["isolation_level"] = "REPEATABLE READ"
    with engine.connect().execution_options(**options) as connection:
        yield connection


@contextmanager
def reading_store(url: str, tenant: str | None = None) -> Iterator[Connection]:
    """A connection that only reads, on a store that is opened for it and closed after it.

    It shows one `tenant` alone, or all. Raises as `open_store`.
    """
    engine = open_store(url, read_only=True, tenant=tenant)
    try:
        with reading(engine) as connection:
            yield connection
    finally:
        engine.dispose()


@contextmanager
def changing_store(url: str) -> Iterator[Connection]:
    """A transaction that alone changes the store, opened for it and closed after it; raises as `open_store`."""
    engine = open_store(url)
    try:
        with engine.begin() as connection:
            one_at_a_time(connection)
            yield connection
    finally:
        engine.dispose()


def one_at_a_time(connection: Connection) -> None:
    """Wait until no other process writes, and keep others waiting until this transaction ends."""
    if connection.dialect.name == "postgresql":  # SQLite's transactions do this when they begin
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_WRITE_LOCK})"))


def beside_others(connection: Connection) -> None:
    """Wait only for who must write alone: with SQLite for everybody, with PostgreSQL for `one_at_a_time`."""
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SELECT pg_advisory_xact_lock_shared({_WRITE_LOCK})"))


def check_version(connection: Connection) -> None:
    """Refuse a transaction that waited while a newer version, on another machine, changed the tables.

    Nothing changes a SQLite store meanwhile: whoever opens one that is served has this version, too.

    Raises:
        StoreError: saying which version the tables have.
    """
    if connection.dialect.name == "postgresql":
        found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
        if found != VERSION:
            raise StoreError(
                f"{_shown(connection.engine.url)}: its tables were changed to version {found} meanwhile, and this "
                f"process knows {VERSION}; start the TraceGrade of that version in its place. Nothing is lost: what is "
                "not stored yet is in the results journal"
            )


@contextmanager
def numbering_series(engine: Engine) -> Iterator[Connection]:
    """A transaction that alone adds series; one of its own, and short.

    In that of a batch, two writers to PostgreSQL that learn the same series in another order would wait for each other
    for ever, and with SQLite everybody would wait until all names of the batch are stored.
    """
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":  # SQLite's transactions do this when they begin
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_SERIES_LOCK})"))
        yield connection


@contextmanager
def making_parts(engine: Engine) -> Iterator[Connection]:
    """A transaction that alone adds parts to PostgreSQL's ``traces``; one of its own, and short."""
    with engine.begin() as connection:
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_PARTS_LOCK})"))
        yield connection


@contextmanager
def alone(engine: Engine, lock: int) -> Iterator[bool]:
    """Whether no other process is in here with the same store and lock; for SQLite, a lock on a file ensures it."""
    if engine.dialect.name != "postgresql":
        yield True
        return
    # Outside of a transaction: the lock may be held for long, and ends with its connection.
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        held = bool(connection.execute(text(f"SELECT pg_try_advisory_lock({lock})")).scalar())
        try:
            yield held
        finally:
            if held:
                connection.execute(text(f"SELECT pg_advisory_unlock({lock})"))


def checkpoint(engine: Engine) -> None:
    """Write SQLite's log back into its file, so that there is only one file; does nothing for other databases."""
    if engine.dialect.name == "sqlite":
        connection = engine.raw_connection()
        try:
            connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").close()
        finally:
            connection.close()


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise StoreError(
            f"store.url: expected sqlite:///PATH or postgresql+psycopg://..., found {without_secrets(url)!r}"
        ) from None
    if parsed.get_backend_name() not in ("sqlite", "postgresql"):
        raise StoreError(f"store.url: expected sqlite or postgresql, found {parsed.drivername!r}")
    return parsed


def _sqlite(url: URL, read_only: bool, tenant: str | None, durable: bool) -> Engine:
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
            show_one_tenant(connection, "sqlite", tenant)
        if read_only:
            connection.execute("PRAGMA query_only=ON").close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        reads = read_only or connection.get_execution_options().get(_READS, False)
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

    return engine


def _postgresql(url: URL, tenant: str | None) -> Engine:
    options: dict[str, Any] = {}
    if url.get_driver_name().startswith("psycopg"):
        options["fallback_application_name"] = "tracegrade"  # the environment's PGAPPNAME and the URL come first
        if "connect_timeout" not in url.query:
            options["connect_timeout"] = _CONNECT_TIMEOUT_S  # libpq's default is no limit
    try:
        engine = create_engine(url, pool_pre_ping=True, connect_args=options)
    except (ModuleNotFoundError, NoSuchModuleError) as error:
        raise StoreError(
            f"store.url: {url.drivername} needs a driver ({error}): pip install 'tracegrade[postgresql]', and write "
            "postgresql+psycopg://..."
        ) from None
    if tenant is not None:
        _show_one_tenant(engine, tenant)
    return engine


def _show_one_tenant(engine: Engine, tenant: str) -> None:
    """Let all connections of PostgreSQL see one tenant's rows."""

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, record: object) -> None:
        show_one_tenant(connection, "postgresql", tenant)
        connection.commit()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # A pooler between us and the database may have given us another session, without them: then nothing is read.
        connection.exec_driver_sql("SELECT FROM pg_temp.traces LIMIT 0")


def _version(connection: Connection) -> str | None:
    """The version of the tables; None without tables."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return found


def _create(engine: Engine) -> None:
    """Make the tables of a new store, unless another process made them just now."""
    with engine.begin() as connection:
        one_at_a_time(connection)
        if _version(connection) is None:
            create_tables(connection)
            connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
            connection.execute(text("INSERT INTO alembic_version VALUES (:version)"), {"version": VERSION})


def _migrate(engine: Engine) -> None:
    # Imported here, because it takes 0.15 s, and in most runs the tables are up to date.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    with engine.begin() as connection:
        one_at_a_time(connection)
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _shown(url: URL) -> str:
    return url.database or "" if url.get_backend_name() == "sqlite" else url.render_as_string(hide_password=True)


def _is_unreachable(error: Exception) -> bool:
    """Whether the connection to a server failed, or it refuses for now; its own messages begin with FATAL."""
    if state_of(error).startswith(_REFUSES_FOR_NOW):
        return True
    if not isinstance(error, OperationalError) or isinstance(error.orig, sqlite3.Error):
        return False
    message = str(error.orig)
    return "FATAL" not in message or any(reason in message for reason in _FOR_NOW)


def cause_of(error: Exception) -> str:
    """The database's own words, without the statement that it refused."""
    return str(getattr(error, "orig", None) or error).strip()
