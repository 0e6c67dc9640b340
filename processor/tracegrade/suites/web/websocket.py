"""``/ws``: what happens in a tenant's jobs as messages of a WebSocket, each an event as JSON.

Without a query, the events of all jobs from the moment of the handshake on; with ``job=ID``, those of one job from its
first, or after ``after=NUMBER``, until it has ended. A message ``{"type": "ping"}`` is answered with a pong; others are
ignored.
"""

import asyncio
from contextlib import suppress

import orjson
from starlette.concurrency import run_in_threadpool
from starlette.websockets import WebSocket, WebSocketDisconnect

from tracegrade.display import json_text
from tracegrade.store.errors import StoreError
from tracegrade.suites.store.jobs import stored_job
from tracegrade.suites.web.job_events import JobEvents, Watched
from tracegrade.web.problem import Refusal, not_found, problem
from tracegrade.web.rights import check_right, check_tenant, is_still_let_in, tenant_of, token_of
from tracegrade.web.sources import Sources, sources_of
from tracegrade.web.streams import Streams

ENDED, GOING_AWAY, NOT_LET_IN = 1000, 1001, 1008
"""Codes with which the server closes: the job has ended; the server stops; the token or session is not valid now."""

_LONGEST_NUMBER = 15


async def stream(websocket: WebSocket) -> None:
    """Tell what happens until the client goes."""
    events: JobEvents = websocket.app.state.job_events
    streams: Streams = websocket.app.state.streams
    sources = sources_of(websocket)
    try:
        check_right(websocket, "read")
        check_tenant(websocket)
        watched, after = _asked(websocket)
        if watched.job is not None:
            await run_in_threadpool(_check_job, sources, watched)
        with streams.one_more(websocket):
            seen = await run_in_threadpool(events.begin, watched, after)
            await websocket.accept()
            await _tell(websocket, events, watched, seen, sources)
    except Refusal as refusal:
        await websocket.send_denial_response(refusal.answer())
    except StoreError as error:
        answer = problem(503, "no-store", "No results yet", str(error), {"Retry-After": "2"})
        await websocket.send_denial_response(answer)


async def _tell(
    websocket: WebSocket, events: JobEvents, watched: Watched, seen: dict[tuple[str, str], int], sources: Sources
) -> None:
    listening = asyncio.create_task(_listen(websocket))

    def goes_on() -> bool:
        return not listening.done() and not sources.is_stopping() and is_still_let_in(websocket)

    try:
        async for found in events.told(watched, seen, goes_on):
            for event in found:
                await websocket.send_text(json_text(event))
        if not listening.done():
            code = GOING_AWAY if sources.is_stopping() else ENDED if is_still_let_in(websocket) else NOT_LET_IN
            await websocket.close(code)
    except WebSocketDisconnect:
        pass  # it went while we wrote
    finally:
        listening.cancel()
        with suppress(asyncio.CancelledError):
            await listening


async def _listen(websocket: WebSocket) -> None:
    """Read what the client says until it goes."""
    with suppress(WebSocketDisconnect, RuntimeError):
        while True:
            message = await websocket.receive()
            if message["type"] == "websocket.disconnect":
                return
            if _is_ping(message.get("text")):
                await websocket.send_text('{"type":"pong"}')


def _is_ping(text: str | None) -> bool:
    try:
        said = orjson.loads(text or "")
    except orjson.JSONDecodeError:
        return False
    return isinstance(said, dict) and said.get("type") == "ping"


def _asked(websocket: WebSocket) -> tuple[Watched, int | None]:
    """What the address asks for.

    Raises:
        Refusal: 400, a parameter is wrong.
    """
    query = websocket.query_params
    if unknown := next((name for name in query if name not in ("tenant", "job", "after")), None):
        raise _wrong(f"{unknown}: is not a parameter of this address")
    job, after = query.get("job"), query.get("after")
    if after is not None and job is None:
        raise _wrong("after: needs job, of which it is the number of an event")
    values = token_of(websocket).may("read-values")
    return Watched(tenant_of(websocket), job, values), None if after is None else event_number("after", after)


def event_number(where: str, text: str) -> int:
    """The number of an event, as it is written.

    Raises:
        Refusal: 400, it is none.
    """
    if not (text.isascii() and text.isdecimal() and len(text) <= _LONGEST_NUMBER):
        raise _wrong(f"{where}: expected the number of an event, found {text[:100]!r}")
    return int(text)


def _check_job(sources: Sources, watched: Watched) -> None:
    with sources.store() as connection:
        if watched.job is None or stored_job(connection, watched.tenant, watched.job) is None:
            raise not_found(f"job {watched.job!r}")


def _wrong(detail: str) -> Refusal:
    return Refusal(400, "invalid-parameter", "Wrong parameter", detail)
