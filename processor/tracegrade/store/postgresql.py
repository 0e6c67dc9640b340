"""PostgreSQL: a server, on which many processes may write one store."""

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any, ClassVar

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Engine,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    case,
    cast,
    create_engine,
    delete,
    event,
    func,
    literal,
    select,
    text,
    true,
)
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, NoSuchModuleError, OperationalError
from sqlalchemy.schema import CreateTable

from tracegrade.store import partitions
from tracegrade.store.database import (
    READS,
    Alive,
    Database,
    HeldLock,
    Key,
    ListViews,
    Lock,
    Partition,
    Rows,
    column_names,
    on_conflict,
)
from tracegrade.store.errors import StoreError, refuses_for_now
from tracegrade.store.schema import LIVE, NUMBERS, postgresql_metadata, session_turns, trace_keys, traces
from tracegrade.store.tenant_views import show_one_tenant

_CONNECT_TIMEOUT_S = 10
# So that the server drops the connection, and with it the lock, of a holder whose machine is gone.
_NOTICE_DEATH = {"tcp_keepalives_idle": 6, "tcp_keepalives_interval": 2, "tcp_keepalives_count": 3}

# The messages of a server that refuses everybody for now: the driver gives no code of an attempt to connect.
_FOR_NOW = (
    "the database system is ",  # starting up, shutting down, in recovery mode, not yet accepting connections
    "too many ",  # clients already, connections for role or database
    "remaining connection slots are reserved",
    "terminating connection",
)

# The first that fits: BigInteger and SmallInteger are Integers, too.
_TYPES = (
    (BigInteger, "int8"),
    (SmallInteger, "int2"),
    (Integer, "int4"),
    (Boolean, "bool"),
    (Float, "float8"),
    (LargeBinary, "bytea"),
)


class PostgreSQL(Database):
    """A server; `Database` says what each method does.

    ``traces`` is in partitions by number. Each has indexes of its own, so nothing there would keep a trace from being
    in two of them, and to find one by its id would take as many lookups as there are partitions. So ``trace_keys`` says
    where each trace is.
    """

    is_file = False
    mark = "%s"
    read_options: ClassVar[Mapping[str, Any]] = {READS: True, "isolation_level": "REPEATABLE READ"}
    views = ListViews(
        items="jsonb_array_elements(t.{0}::jsonb) WITH ORDINALITY AS item (value, place)",
        position="item.place - 1",
        field="(item.value ->> {0})::{1}",
        own="(item.value -> {0} ->> {1})",
        hex="encode({0}, 'hex')",
    )

    def engine(self, url: URL, *, read_only: bool, tenant: str | None, durable: bool) -> Engine:
        options: dict[str, Any] = {}
        if url.get_driver_name().startswith("psycopg"):
            options["fallback_application_name"] = "tracegrade"  # the environment's PGAPPNAME and the URL come first
            if "connect_timeout" not in url.query:
                options["connect_timeout"] = _CONNECT_TIMEOUT_S  # libpq's default is no limit
        try:
            engine = create_engine(url, pool_pre_ping=True, connect_args=options)
        except (ModuleNotFoundError, NoSuchModuleError) as error:
            raise StoreError(
                f"store.url: {url.drivername} needs a driver ({error}): pip install 'tracegrade[postgresql]', and "
                "write postgresql+psycopg://..."
            ) from None
        if tenant is not None:
            _show_one_tenant(engine, tenant)
        return engine

    def with_timeout(self, url: URL, within_s: int) -> URL:
        return url if "connect_timeout" in url.query else url.update_query_dict({"connect_timeout": str(within_s)})

    def shown(self, url: URL) -> str:
        return url.render_as_string(hide_password=True)

    def may_open_later(self, url: URL, error: Exception) -> bool:
        if refuses_for_now(error):
            return True
        message = str(getattr(error, "orig", None))
        is_own_word = "FATAL" in message  # the server's; else the connection failed
        return isinstance(error, OperationalError) and (
            not is_own_word or any(reason in message for reason in _FOR_NOW)
        )

    def advice(self, url: URL, error: Exception, read_only: bool) -> str:
        return ""

    def prepare_tables(self, connection: Connection) -> None:
        partitioned = traces.to_metadata(MetaData())
        partitioned.constraints -= {each for each in partitioned.constraints if isinstance(each, UniqueConstraint)}
        made = CreateTable(partitioned).compile(dialect=connection.dialect)
        connection.execute(text(f"{made} PARTITION BY RANGE (number)"))
        for name in ("judged", "spans"):  # compressed already
            connection.execute(text(f"ALTER TABLE traces ALTER COLUMN {name} SET STORAGE EXTERNAL"))
        known = "SELECT 'lz4' = ANY (enumvals) FROM pg_settings WHERE name = 'default_toast_compression'"
        if connection.execute(text(known)).scalar():
            for name in ("evaluations", "decisions", "tool_calls", "agent_runs", "members"):
                connection.execute(text(f"ALTER TABLE traces ALTER COLUMN {name} SET COMPRESSION lz4"))
        first = f"FOR VALUES FROM (1) TO ({1 + partitions.SMALLEST})"
        connection.execute(text(f"CREATE TABLE traces_1 PARTITION OF traces {first}"))
        postgresql_metadata.create_all(connection)
        connection.execute(text(f"CREATE SEQUENCE {NUMBERS}"))

    def hold(self, connection: Connection, lock: Lock, *, shared: bool = False) -> None:
        connection.execute(text(f"SELECT pg_advisory_xact_lock{'_shared' if shared else ''}({lock:d})"))

    def take(self, engine: Engine, lock: Lock) -> HeldLock | None:
        # Outside of a transaction: the lock may be held for long, and ends with its connection.
        connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        try:
            if not connection.execute(text(f"SELECT pg_try_advisory_lock({lock:d})")).scalar():
                connection.close()
                return None
            connection.detach()  # the lock must end with it: it may not go back into the pool
            for name, value in _NOTICE_DEATH.items():
                connection.execute(text(f"SET {name} = {value}"))
        except BaseException:
            connection.invalidate()
            connection.close()
            raise
        return HeldLock(lambda: connection.execute(text("SELECT 1")), connection.close)

    def insert(self, connection: Connection, table: Table, rows: Rows) -> None:
        if not rows:
            return
        statement = f"COPY {table.name} ({column_names(table)}) FROM STDIN (FORMAT BINARY)"
        driver: Any = connection.connection.driver_connection
        try:
            with driver.cursor() as cursor, cursor.copy(statement) as copy:
                copy.set_types([_type(column) for column in table.columns])
                for row in rows:
                    copy.write_row(row)
        except OverflowError as error:
            raise TypeError(f"{table.name}: a number is too large for its column: {error}") from error
        except connection.dialect.loaded_dbapi.Error as error:
            # As SQLAlchemy's own statements raise it: by that, the caller tells what may pass.
            kind = connection.dialect.loaded_dbapi.Error
            raise DBAPIError.instance(
                statement, None, error, kind, connection_invalidated=bool(driver.closed)
            ) from error

    def insert_or_change(self, connection: Connection, table: Table, rows: Rows, changes: str) -> None:
        if rows:
            connection.exec_driver_sql(f"{_insert(table)} {on_conflict(table)} {changes}", _columns(rows))

    def holds(self, document: ColumnElement[Any], key: str, text: str) -> ColumnElement[bool]:
        is_list = func.json_typeof(document[key]) == "array"
        listed = case((is_list, document[key]), else_=cast(literal("[]", Text), JSON))
        items = func.json_array_elements_text(listed).table_valued("value")
        return select(true()).select_from(items).where(items.c.value == text).exists()

    def of_ids(self, trace_ids: Collection[bytes]) -> ColumnElement[bool]:
        return traces.c.number.in_(select(trace_keys.c.number).where(trace_keys.c.trace_id.in_(trace_ids)))

    def of_ids_text(self, count: int) -> str:
        return f"number IN (SELECT number FROM trace_keys WHERE trace_id IN ({', '.join(['%s'] * count)}))"

    def claim(self, connection: Connection, revisions: Mapping[Key, int]) -> tuple[dict[Key, int], list[int]]:
        if not revisions:
            return {}, []
        query = text(f"SELECT nextval('{NUMBERS}') FROM generate_series(1, :count)")
        numbers = connection.execute(query, {"count": len(revisions)}).scalars()
        rows: list[tuple[Any, ...]] = [
            (*key, number, revision, None) for number, (key, revision) in zip(numbers, revisions.items(), strict=True)
        ]
        claimed = connection.exec_driver_sql(
            f"{_insert(trace_keys)} {on_conflict(trace_keys)} replaced = trace_keys.number, number = excluded.number, "
            "revision = excluded.revision WHERE trace_keys.revision < excluded.revision "
            "RETURNING trace_id, tenant, run, number, replaced",
            _columns(sorted(rows, key=itemgetter(0, 1, 2))),
        ).all()
        taken = {(bytes(trace_id), tenant, run): number for trace_id, tenant, run, number, _ in claimed}
        replaced = [row.replaced for row in claimed if row.replaced is not None]
        return {key: taken[key] for key in revisions if key in taken}, replaced

    def make_room(self, engine: Engine, number: int) -> int:
        with engine.begin() as connection:
            self.hold(connection, Lock.MAKING_PARTITIONS)
            return partitions.make_room(connection, number)

    def delete_traces(self, connection: Connection, numbers: Sequence[int]) -> None:
        known = traces.c
        gone = delete(traces).where(known.number.in_(numbers))
        deleted = connection.execute(gone.returning(known.trace_id, known.tenant, known.run, known.number)).all()
        if not deleted:
            return
        # Those stored again meanwhile have another number.
        connection.exec_driver_sql(
            "DELETE FROM trace_keys AS known USING unnest(%s::bytea[], %s::text[], %s::text[], %s::int8[]) "
            "AS gone (trace_id, tenant, run, number) WHERE known.trace_id = gone.trace_id "
            "AND known.tenant = gone.tenant AND known.run = gone.run AND known.number = gone.number",
            _columns(deleted),
        )
        live = [(row.tenant, row.trace_id) for row in deleted if row.run == LIVE]
        if live:
            connection.exec_driver_sql(
                f"DELETE FROM {session_turns.name} AS turns USING unnest(%s::text[], %s::bytea[]) "
                "AS gone (tenant, trace_id) WHERE turns.tenant = gone.tenant AND turns.trace_id = gone.trace_id",
                _columns(live),
            )

    def soon_dropped(self, connection: Connection, before_ns: int) -> list[Partition]:
        return partitions.soon_dropped(connection, before_ns)

    def drop_expired(self, engine: Engine, before_ns: int) -> None:
        partitions.drop_expired(engine, before_ns)

    def overwrite_what_goes(self, connection: Connection, is_on: bool = True) -> None:
        pass

    def overwrite_free(self, engine: Engine, alive: Alive) -> None:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            for name in ("traces", "trace_keys", "alerts"):
                connection.execute(text(f"VACUUM {name}"))

    def checkpoint(self, engine: Engine) -> bool:
        return True

    def free_space(self, connection: Connection) -> None:
        return None

    def give_back(self, engine: Engine) -> int:
        return 0


@cache
def _insert(table: Table) -> str:
    lists = ", ".join(f"%s::{_type(column)}[]" for column in table.columns)
    return f"INSERT INTO {table.name} ({column_names(table)}) SELECT * FROM unnest({lists})"


def _columns(rows: Collection[Sequence[Any]]) -> tuple[list[Any], ...]:
    return tuple(map(list, zip(*rows, strict=True)))


def _type(column: Column[Any]) -> str:
    return next((name for kind, name in _TYPES if isinstance(column.type, kind)), "text")


def _show_one_tenant(engine: Engine, tenant: str) -> None:
    """Let all connections see one tenant's rows."""

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, record: object) -> None:
        cursor = connection.cursor()
        cursor.execute("SELECT quote_ident(current_schema()), current_schema()")
        ((schema, plain),) = cursor.fetchall()
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (plain,))
        tables = {name for (name,) in cursor.fetchall()}
        # The views are read first: later, their texts would name each table with its schema.
        cursor.execute(
            "SELECT relname, pg_get_viewdef(oid) FROM pg_class WHERE relkind = 'v' "
            "AND relnamespace = %s::regnamespace ORDER BY oid",
            (schema,),
        )
        views = [f"CREATE TEMPORARY VIEW {name} AS {text}" for name, text in cursor.fetchall()]
        show_one_tenant(cursor, tenant, schema, tables, views, "{0} ->> '{1}'")
        # It would write through a view.
        cursor.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
        cursor.close()
        connection.commit()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # A pooler between us and the database may have given us another session, without them: then nothing is read.
        connection.exec_driver_sql("SELECT FROM pg_temp.traces LIMIT 0")
