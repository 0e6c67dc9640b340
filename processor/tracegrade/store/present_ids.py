"""Whether a store holds any of some traces: asked for every trace that begins, and nearly always answered with no."""

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Engine

from tracegrade.store.parts import in_parts


class PresentIds:
    """Asks a SQLite store through its driver. For one thread at a time.

    What SQLAlchemy does around a query takes longer than the query: it begins and ends a transaction, and puts together
    a result.
    """

    def __init__(self, engine: Callable[[], Engine]) -> None:
        """Prepare; `engine` gives the store's, and is called when something is asked."""
        self._engine = engine
        self._connection: Any = None  # SQLAlchemy's, around that of the driver

    def may_be(self, trace_ids: Sequence[bytes]) -> bool:
        """Whether a trace of one of these ids may be there, of any tenant and run; False is certain.

        It is always True of another database, and of a file that cannot be read now: whoever reads it then learns why.
        """
        if self._engine().dialect.name != "sqlite":
            return True
        try:
            if self._connection is None:
                self._connection = self._engine().raw_connection()
            cursor = self._connection.cursor()
            for some in in_parts(trace_ids):
                marks = ", ".join("?" * len(some))
                if cursor.execute(f"SELECT 1 FROM traces WHERE trace_id IN ({marks}) LIMIT 1", tuple(some)).fetchall():
                    return True
            return False
        except sqlite3.Error:
            self.close()
            return True

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.invalidate()
            self._connection = None
