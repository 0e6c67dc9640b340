"""How far each of the judges on one PostgreSQL has got: the leader's alerts wait for all of them.

While one is behind, its share of what came is not stored, which is not the same as that nothing came. With SQLite, one
process stores everything, and no rows are written.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

from tracegrade.store.registry import database

_NOTE_EVERY_S = 5.0
# One that was not heard of for so long judges no more: it was stopped, or another one has its share.
_HEARD_WITHIN_S = 60

logger = logging.getLogger(__name__)


class Judges:
    """One judge among those that write to a store."""

    def __init__(self, engine: Engine, name: str, stored_to_ns: Callable[[], int]) -> None:
        """Prepare.

        Args:
            engine: the store, open for writing.
            name: this judge's, which no other one on the store has.
            stored_to_ns: the store holds every result of what came to this judge up to this time, ns since 1970 UTC; 0
                until that is known.
        """
        self._engine = engine
        self._name = name
        self._stored_to_ns = stored_to_ns
        self._asking = threading.Lock()  # the alerts' thread asks, too
        self._alone = database(engine).is_file

    async def run(self, stop: asyncio.Event) -> None:
        """Tell the others again and again, until `stop` is set."""
        while not stop.is_set():
            await asyncio.to_thread(self.note)
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _NOTE_EVERY_S)

    def note(self) -> None:
        """Tell the others how far this one is."""
        if self._alone or not (own_ns := self._own_ns()):
            return
        try:
            with self._engine.begin() as connection:
                connection.execute(
                    text(
                        "INSERT INTO judges (name, stored_to_ns, seen) VALUES (:name, :stored_to_ns, now()) "
                        "ON CONFLICT (name) DO UPDATE SET stored_to_ns = excluded.stored_to_ns, seen = excluded.seen"
                    ),
                    {"name": self._name, "stored_to_ns": own_ns},
                )
                connection.execute(text("DELETE FROM judges WHERE seen < now() - interval '1 day'"))
        except SQLAlchemyError as error:
            logger.debug("the store does not take how far this judge is: %s", error)

    def stored_to_ns(self) -> int:
        """The store holds every result of what came to any judge up to this time.

        Raises:
            SQLAlchemyError: the database refused.
        """
        own_ns = self._own_ns()
        if self._alone:
            return own_ns
        with self._engine.connect() as connection:
            others_ns = slowest_ns(connection, but=self._name)
        return own_ns if others_ns is None else min(own_ns, others_ns)

    def _own_ns(self) -> int:
        with self._asking:
            return self._stored_to_ns()


def slowest_ns(connection: Connection, but: str = "") -> int | None:
    """The store, on PostgreSQL, holds what came up to this time to any judge `but` the one of this name.

    None when no other one was heard of lately.
    """
    heard = f"seen > now() - interval '{_HEARD_WITHIN_S} seconds' AND name <> :but"
    found: int | None = connection.execute(
        text(f"SELECT min(stored_to_ns) FROM judges WHERE {heard}"), {"but": but}
    ).scalar()
    return found
