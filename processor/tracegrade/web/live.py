"""``/live``: says when there are new results, at most once a second, however many they are.

Server-sent events of one number: the newest trace's. The page then asks for itself again, and shows what has changed:
what is sent does not grow with traffic, and one look at the store each second serves every page that is open.
"""

import asyncio
import logging
from collections.abc import AsyncIterator

from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import Request
from starlette.responses import StreamingResponse

from tracegrade.store.open import StoreError
from tracegrade.store.read import newest_number
from tracegrade.web.sources import Sources

LOOK_EVERY_S = 1.0
KEEP_ALIVE_S = 15.0

logger = logging.getLogger(__name__)


class Newest:
    """The number of the newest trace, looked up once a second while anybody waits for it."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._number = -1
        self._waiting = 0
        self._looking: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    async def after(self, number: int) -> int:
        """Wait until the newest trace is another than `number`; its number."""
        self._waiting += 1
        try:
            if self._looking is None or self._looking.done():
                self._looking = asyncio.create_task(self._look())
            while self._number in (-1, number):
                await self._changed.wait()
            return self._number
        finally:
            self._waiting -= 1

    async def _look(self) -> None:
        while self._waiting:
            try:
                found = await asyncio.to_thread(self._read)
            except (StoreError, SQLAlchemyError) as error:  # not made yet, or away: it may come
                logger.debug("the newest result is not known: %s", error)
                found = self._number
            if found != self._number:
                self._number = found
                self._changed.set()
                self._changed = asyncio.Event()
            await asyncio.sleep(LOOK_EVERY_S)

    def _read(self) -> int:
        with self._sources.store() as connection:
            return newest_number(connection)


async def stream(request: Request) -> StreamingResponse:
    """One event now, and one whenever there are new results."""
    newest: Newest = request.app.state.newest
    return StreamingResponse(_events(newest), media_type="text/event-stream")


async def _events(newest: Newest) -> AsyncIterator[str]:
    number = -1
    yield "retry: 3000\n\n"
    while True:
        try:
            number = await asyncio.wait_for(newest.after(number), KEEP_ALIVE_S)
        except TimeoutError:
            yield ": still here\n\n"
            continue
        yield f"event: results\ndata: {number}\n\n"
        await asyncio.sleep(LOOK_EVERY_S)
