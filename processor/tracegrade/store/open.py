"""Opens a store: a writer creates it, `serve` brings it up to date, a reader takes it as it is."""

import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from tracegrade.display import without_secrets
from tracegrade.store.database import Database, Lock
from tracegrade.store.errors import StoreError, StoreUnavailable, cause_of
from tracegrade.store.registry import DATABASES, database
from tracegrade.store.schema import metadata, tables_of_parts
from tracegrade.store.schema.create import create_tables
from tracegrade.store.version import VERSION, unfit

logger = logging.getLogger(__name__)

_MIGRATIONS = Path(__file__).parent / "migrations"


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
    parsed, kind = _parse(url)
    try:
        engine = kind.engine(parsed, read_only=read_only, tenant=tenant, durable=durable)
        try:
            _make_ready(engine, read_only, update, updating)
        except BaseException:
            engine.dispose()
            raise
    except (SQLAlchemyError, sqlite3.Error) as error:
        raise _cannot_open(parsed, kind, error, read_only=read_only) from None
    return engine


def _make_ready(engine: Engine, read_only: bool, update: bool, updating: Callable[[], object] | None) -> None:
    """Make or update the tables, or refuse them; the arguments are those of `open_store`."""
    with reading(engine) as connection:
        found = _version(connection)
    if problem := unfit(found, is_file=database(engine).is_file, read_only=read_only, update=update):
        raise StoreError(f"{_shown_url(engine)}: {problem}")
    if found is None:
        _create(engine)
    elif found == VERSION:
        if not read_only:
            _add_tables_of_parts(engine)
    else:
        logger.info("%s: bringing tables of version %s up to date (%s)", _shown_url(engine), found, VERSION)
        if updating is not None:
            updating()
        _migrate(engine)
        logger.info("%s: up to date", _shown_url(engine))


def _add_tables_of_parts(engine: Engine) -> None:
    """Make the tables of parts that were not there yet when the store was made, or opened last."""
    with reading(engine) as connection:
        there = inspect(connection).get_table_names()
    lacking = [table for table in tables_of_parts() if table.name not in there]
    if lacking:
        with engine.begin() as connection:
            one_at_a_time(connection)
            metadata.create_all(connection, lacking)


def check_reachable(url: str, within_s: int) -> None:
    """Refuse a store that `open_store` would refuse, changing nothing in it; what does not answer now is let through.

    Args:
        url: as of `open_store`.
        within_s: how long to wait for a server, unless `url` says it.

    Raises:
        StoreError: as `open_store`, but for `StoreUnavailable`.
    """
    parsed, kind = _parse(url)
    engine = kind.engine(kind.with_timeout(parsed, within_s), read_only=False, tenant=None, durable=False)
    try:
        with reading(engine) as connection:
            problem = unfit(_version(connection), is_file=kind.is_file, read_only=False, update=True)
    except (SQLAlchemyError, sqlite3.Error) as error:
        refused = _cannot_open(parsed, kind, error)
        if not isinstance(refused, StoreUnavailable):
            raise refused from None
        return
    finally:
        engine.dispose()
    if problem:
        raise StoreError(f"{kind.shown(parsed)}: {problem}")


def unavailable(url: str, error: SQLAlchemyError) -> StoreUnavailable | None:
    """The error to raise when an open store fails in a way that may be over at a later attempt, else None."""
    found = _cannot_open(*_parse(url), error)
    return found if isinstance(found, StoreUnavailable) else None


def _cannot_open(url: URL, kind: Database, error: Exception, *, read_only: bool = False) -> StoreError:
    refused = StoreUnavailable if kind.may_open_later(url, error) else StoreError
    return refused(f"{kind.shown(url)}: cannot be opened: {cause_of(error)}{kind.advice(url, error, read_only)}")


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """A connection that only reads the state of one moment: it waits for no writer, and no writer waits for it."""
    with engine.connect().execution_options(**database(engine).read_options) as connection:
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
    database(connection).hold(connection, Lock.WRITING)


def beside_others(connection: Connection) -> None:
    """Wait only for a process that must write alone: with SQLite for any, on a server for `one_at_a_time`."""
    database(connection).hold(connection, Lock.WRITING, shared=True)


def check_version(connection: Connection) -> None:
    """Refuse a transaction that waited while a newer version, on another machine, changed the tables.

    Nothing changes a file meanwhile: a process that opens one that is served has this version, too.

    Raises:
        StoreError: saying which version the tables have.
    """
    if database(connection).is_file:
        return
    found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    if found != VERSION:
        raise StoreError(
            f"{_shown_url(connection.engine)}: its tables were changed to version {found} meanwhile, and this "
            f"process knows {VERSION}; start the TraceGrade of that version in its place. Nothing is lost: what is "
            "not stored yet is in the results journal"
        )


def checkpoint(engine: Engine) -> None:
    """Write SQLite's log back into its file, so that there is only one file; does nothing for other databases."""
    database(engine).checkpoint(engine)


def _parse(url: str) -> tuple[URL, Database]:
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise StoreError(
            f"store.url: expected sqlite:///PATH or postgresql+psycopg://..., found {without_secrets(url)!r}"
        ) from None
    try:
        return parsed, DATABASES[parsed.get_backend_name()]
    except KeyError:
        raise StoreError(f"store.url: expected sqlite or postgresql, found {parsed.drivername!r}") from None


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
            create_tables(connection, database(connection))
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


def _shown_url(engine: Engine) -> str:
    return database(engine).shown(engine.url)
