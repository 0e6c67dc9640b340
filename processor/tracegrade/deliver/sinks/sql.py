"""The SQL store as a sink: one transaction for each batch, in a thread of its own."""

import asyncio
import sqlite3
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from sqlalchemy import Engine
from sqlalchemy.exc import InterfaceError, OperationalError, SQLAlchemyError

from tracegrade.deliver.sink import Delivery, SinkContext
from tracegrade.journal.retention import WhenFull
from tracegrade.model.trace_result import TraceResult
from tracegrade.store.errors import is_away, is_unreadable, state_of
from tracegrade.store.open import checkpoint
from tracegrade.store.series import Beyond
from tracegrade.store.several_processes import HasTurns
from tracegrade.store.write import StoreWriter
from tracegrade.telemetry.conditions import Conditions
from tracegrade.telemetry.series_bound import MAX_NAMES

# A record that no attempt can store: it has not the expected form, or a value that the database refuses.
_POISON = (KeyError, TypeError, ValueError)


# A condition ends so long after the last name that was counted as `other`.
_QUIET_S = 600.0
_MOST_CONDITIONS = 100
_EXAMPLE_LENGTH = 80


class TooManyNames:
    """The conditions ``too_many_names``: one for each tenant and attribute, which names the sender."""

    def __init__(self, most: int, conditions: Conditions) -> None:
        self._most = most
        self._conditions = conditions
        self._last_s: dict[str, float] = {}

    def say(self, beyond: Iterable[Beyond]) -> None:
        """Begin those of `beyond`; end those of which nothing came for ten minutes."""
        now_s = time.monotonic()
        for found in beyond:
            where = f"{found.tenant}, {found.attribute}"
            if where in self._last_s or len(self._last_s) < _MOST_CONDITIONS:
                self._last_s[where] = now_s
                example = found.name if len(found.name) <= _EXAMPLE_LENGTH else f"{found.name[:_EXAMPLE_LENGTH]}..."
                self._conditions.begin(
                    "too_many_names",
                    f"service {found.service!r} of tenant {found.tenant!r} sends further values of {found.attribute}, "
                    f"such as {example!r}; after the first {self._most:,} of a tenant they count as other",
                    where,
                )
        for where in [where for where, last_s in self._last_s.items() if now_s - last_s > _QUIET_S]:
            del self._last_s[where]
            self._conditions.end("too_many_names", where)


# Of PostgreSQL's states (SQLSTATE): rights, database, schema, tables, and errors inside of the server.
_NOT_OF_A_RECORD = ("28", "3D", "3F", "42", "XX")


class SqlSink:
    """Stores judged traces.

    When the store is locked, full or unavailable, a retry makes sense: nothing of the batch was stored. A record that
    can never be stored is found by dividing the batch into halves, and only this record is given up.
    """

    name = "sql"
    when_full: WhenFull = "refuse"
    failing = ("store_unavailable", "")

    def __init__(
        self,
        engine: Engine,
        has_turns: HasTurns | None = None,
        max_names: int = MAX_NAMES,
        conditions: Conditions | None = None,
    ) -> None:
        self._engine = engine
        self._writer = StoreWriter(engine, has_turns, max_names)
        self._too_many = TooManyNames(max_names, conditions or Conditions())
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tracegrade-sql")

    async def deliver(self, batch: Sequence[TraceResult]) -> Delivery:
        """Store `batch`; storing a record again changes nothing."""
        delivery = await asyncio.get_running_loop().run_in_executor(self._thread, self._store, batch)
        self._too_many.say(self._writer.take_beyond())
        return delivery

    async def close(self) -> None:
        """Close the connection; SQLite's log is written back into its file first, if there is room."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown()

    def _store(self, batch: Sequence[TraceResult]) -> Delivery:
        try:
            rest = self._writer.write_part(batch)
        except SQLAlchemyError as error:
            if _may_pass(error):
                return Delivery("retry", reason="store_unavailable")
            return self._store_halves(batch)
        except _POISON:
            return self._store_halves(batch)
        return Delivery("done", rest=tuple(rest))

    def _store_halves(self, batch: Sequence[TraceResult]) -> Delivery:
        if len(batch) == 1:
            return Delivery("done", reason="not_storable", failed_records=1)
        failed = 0
        rest: list[TraceResult] = []
        middle = len(batch) // 2
        for half in (batch[:middle], batch[middle:]):
            delivery = self._store(half)
            if delivery.kind != "done":
                return delivery  # stored records of this batch are stored again later, which changes nothing
            failed += delivery.failed_records
            rest += delivery.rest
        return Delivery("done", reason="not_storable" if failed else "", failed_records=failed, rest=tuple(rest))

    def _close(self) -> None:
        with suppress(sqlite3.Error):  # a full disk: the log stays beside the file, and the next start reads both
            checkpoint(self._engine)
        self._engine.dispose()


def open_sinks(context: SinkContext) -> list[SqlSink]:
    """The sink into the store, which always exists."""
    return [SqlSink(context.store, context.has_turns, context.max_names, context.telemetry.conditions)]


def _may_pass(error: SQLAlchemyError) -> bool:
    """Whether the same batch may be stored later: locked, busy, disk full, server unavailable, file being repaired.

    What a server says of itself, of rights or of tables is never about a record, since statements are always the same.
    """
    return (
        is_away(error)
        or is_unreadable(error)
        or (isinstance(error, OperationalError | InterfaceError) or state_of(error).startswith(_NOT_OF_A_RECORD))
    )
