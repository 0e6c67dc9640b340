"""Which of several processes on one store does what only one may do at a time, such as checking alerts.

With PostgreSQL, it is the one that holds an advisory lock, on a connection of its own. The lock goes with the
connection, so another process takes over when the holder ends, is killed, or loses the server; within some seconds
also when its whole machine goes. With SQLite, the one process that writes leads.
"""

import asyncio
import logging
import time
from contextlib import suppress

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

from tracegrade.store.database import Lock
from tracegrade.store.registry import database

LOOK_EVERY_S = 2.0
# A holder that could not look for so long leads no more. The server keeps its lock for longer, even if nothing is heard
# of it any more: first the one stops, then another one begins.
_TRUSTED_S = 6.0
_SERVER_SETTINGS = {"tcp_keepalives_idle": 6, "tcp_keepalives_interval": 2, "tcp_keepalives_count": 3}

logger = logging.getLogger(__name__)


class Leader:
    """Takes part for this process: `run`, or `look` now and then."""

    def __init__(self, engine: Engine) -> None:
        """Prepare; `engine` is the store, open for writing."""
        self._engine = engine
        self._alone = database(engine).is_file
        self._connection: Connection | None = None
        self._held_at_s: float | None = None

    @property
    def leads(self) -> bool:
        """Whether this process is the one, now. Ask again before each piece of work; any thread may."""
        held_at_s = self._held_at_s
        return self._alone or (held_at_s is not None and time.monotonic() - held_at_s < _TRUSTED_S)

    async def run(self, stop: asyncio.Event) -> None:
        """Try to lead, and look whether it still does, until `stop` is set; then another process may lead."""
        while not stop.is_set():
            await asyncio.to_thread(self.look)
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), LOOK_EVERY_S)
        await asyncio.to_thread(self.resign)

    def look(self) -> None:
        """Take the lock if it is free; if this process has it, look whether its connection is still there."""
        if self._alone:
            return
        begun_s, led = time.monotonic(), self.leads
        try:
            held = self._holds_lock()
        except SQLAlchemyError as error:
            logger.debug("the lock of the leader cannot be asked for: %s", error)
            self._close()
            held = False
        self._held_at_s = begun_s if held else None
        if held != led:
            says = "now does what only one process on the store may do" if held else "no longer does"
            logger.info("this process %s: alerts, retention", says)

    def resign(self) -> None:
        """Let another process lead."""
        self._held_at_s = None
        self._close()

    def _holds_lock(self) -> bool:
        if self._connection is None:
            connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            connection.detach()  # its lock must end with it: it may not go back into the pool
            self._connection = connection
            for name, value in _SERVER_SETTINGS.items():
                connection.execute(text(f"SET {name} = {value}"))
        if self._held_at_s is not None:
            self._connection.execute(text("SELECT 1"))
            return True
        return bool(self._connection.execute(text(f"SELECT pg_try_advisory_lock({Lock.LEADING:d})")).scalar())

    def _close(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            with suppress(SQLAlchemyError):
                connection.close()
