"""The SQL store as a sink: one transaction for each batch, in a thread of its own."""

import asyncio
import sqlite3
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError

from tracegrade.deliver.sink import DONE, Delivery, SinkContext
from tracegrade.journal.retention import WhenFull
from tracegrade.model.trace_result import TraceResult
from tracegrade.store.open import checkpoint, is_unreadable
from tracegrade.store.session_turns import HasTurns
from tracegrade.store.write import StoreWriter

# A record that no attempt can store: it has not the expected form, or a value that the database refuses.
_POISON = (DBAPIError, KeyError, TypeError, ValueError)


class SqlSink:
    """Stores judged traces.

    When the store is locked, full or unavailable, a retry makes sense: nothing of the batch was stored. A record that
    can never be stored is found by dividing the batch into halves, and only this record is given up.
    """

    name = "sql"
    when_full: WhenFull = "refuse"
    failing = ("store_unavailable", "")

    def __init__(self, engine: Engine, has_turns: HasTurns | None = None) -> None:
        self._engine = engine
        self._writer = StoreWriter(engine, has_turns)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tracegrade-sql")

    async def deliver(self, batch: Sequence[TraceResult]) -> Delivery:
        """Store `batch`; storing a record again changes nothing."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._store, batch)

    async def close(self) -> None:
        """Close the connection; SQLite's log is written back into its file first, if there is room."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown()

    def _store(self, batch: Sequence[TraceResult]) -> Delivery:
        try:
            self._writer.write(batch)
        except SQLAlchemyError as error:
            if _may_pass(error):
                return Delivery("retry", reason="store_unavailable")
            return self._store_halves(batch)
        except _POISON:
            return self._store_halves(batch)
        return DONE

    def _store_halves(self, batch: Sequence[TraceResult]) -> Delivery:
        if len(batch) == 1:
            return Delivery("done", reason="not_storable", failed_records=1)
        failed = 0
        middle = len(batch) // 2
        for half in (batch[:middle], batch[middle:]):
            delivery = self._store(half)
            if delivery.kind != "done":
                return delivery  # stored records of this batch are stored again later, which changes nothing
            failed += delivery.failed_records
        return Delivery("done", reason="not_storable", failed_records=failed) if failed else DONE

    def _close(self) -> None:
        with suppress(sqlite3.Error):  # a full disk: the log stays beside the file, and the next start reads both
            checkpoint(self._engine)
        self._engine.dispose()


def open_sinks(context: SinkContext) -> list[SqlSink]:
    """The sink into the store, which always exists."""
    return [SqlSink(context.store, context.has_turns)]


def _may_pass(error: SQLAlchemyError) -> bool:
    """Whether the same batch may be stored later: locked, busy, disk full, server unavailable, file being repaired."""
    return (
        isinstance(error, OperationalError | InterfaceError)
        or is_unreadable(error)
        or (isinstance(error, DBAPIError) and error.connection_invalidated)
    )
