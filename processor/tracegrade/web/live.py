"""``/live``: says when there are new results or incidents changed, at most once a second, however many they are.

Server-sent events with two marks: one that changes with every stored trace, and the time at which incidents last
changed. The page then loads itself again, and shows the changes. So the events do not grow with traffic, and one look
at the store each second serves all open pages.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable

from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import Request

from tracegrade.store.errors import StoreError
from tracegrade.store.incidents import changed_ns
from tracegrade.store.read import changing_mark
from tracegrade.web.rights import is_still_let_in
from tracegrade.web.sources import Sources, sources_of
from tracegrade.web.streams import Stream, Streams

LOOK_EVERY_S = 1.0
KEEP_ALIVE_S = 15.0
_MOST_TENANTS = 100
END_WITHIN_S = 0.25  # of the moment when the server stops

logger = logging.getLogger(__name__)


class Newest:
    """What is newest, looked up once a second while a page waits for it; "" while that is not known."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._state = ""
        self._waiting = 0
        self._looking: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    async def after(self, state: str) -> str:
        """Wait until something else than `state` is newest. Returns that."""
        self._waiting += 1
        try:
            if self._looking is None or self._looking.done():
                self._looking = asyncio.create_task(self._look())
            while self._state in ("", state):
                await self._changed.wait()
            return self._state
        finally:
            self._waiting -= 1

    async def _look(self) -> None:
        while self._waiting:
            try:
                found = await asyncio.to_thread(self._mark)
            except (StoreError, SQLAlchemyError) as error:  # not made yet, or unavailable: it may come
                logger.debug("the newest result is not known: %s", error)
                found = self._state
            if found != self._state:
                self._state = found
                self._changed.set()
                self._changed = asyncio.Event()
            await asyncio.sleep(LOOK_EVERY_S)

    def _mark(self) -> str:
        with self._sources.store() as connection:
            return f"{changing_mark(connection)} {changed_ns(connection)}"


class NewestOfEach:
    """What is newest of each tenant, and of all together."""

    def __init__(self) -> None:
        self._of: dict[str | None, Newest] = {}

    def of(self, sources: Sources) -> Newest:
        """What is newest of the tenant that `sources` shows."""
        if sources.tenant not in self._of and len(self._of) >= _MOST_TENANTS:
            self._of.pop(next(iter(self._of)))  # who still waits for it keeps it
        return self._of.setdefault(sources.tenant, Newest(sources))


async def stream(request: Request) -> Stream:
    """One event now, and one whenever there is something new."""
    sources = sources_of(request)
    newest: NewestOfEach = request.app.state.newest
    is_stopping = sources.is_stopping

    def is_over() -> bool:
        return is_stopping() or not is_still_let_in(request)

    streams: Streams = request.app.state.streams
    return Stream(request, streams, _events(newest.of(sources), is_over), media_type="text/event-stream")


async def _events(newest: Newest, is_stopping: Callable[[], bool]) -> AsyncIterator[str]:
    state, said_s = "", time.monotonic()
    yield "retry: 3000\n\n"
    while not is_stopping():
        try:
            state = await asyncio.wait_for(newest.after(state), END_WITHIN_S)
        except TimeoutError:
            if time.monotonic() - said_s > KEEP_ALIVE_S:
                said_s = time.monotonic()
                yield ": still here\n\n"
            continue
        said_s = time.monotonic()
        yield f"event: results\ndata: {state}\n\n"
        for _ in range(round(LOOK_EVERY_S / END_WITHIN_S)):
            if not is_stopping():
                await asyncio.sleep(END_WITHIN_S)
