"""Streams: answers and WebSockets that last as long as their reader likes, bounded in their number.

Each takes a connection of the server for all of its time. Far fewer than the server has are given to streams, so that
pages and the API are answered however many are open.
"""

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

from starlette.requests import HTTPConnection, Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from tracegrade.web.problem import Refusal
from tracegrade.web.rights import token_of

MOST_STREAMS = 300
"""Of all callers together; the server takes 1,000 connections."""

MOST_OF_CALLER = 100

_RETRY_AFTER_S = 10


class Streams:
    """The open streams of one server."""

    def __init__(self) -> None:
        self._of: Counter[tuple[str, str]] = Counter()  # by caller; of those that have one

    @contextmanager
    def one_more(self, connection: HTTPConnection) -> Iterator[None]:
        """Room for one stream, of the caller of `connection`.

        Raises:
            Refusal: 429, the caller has too many; 503, all together have.
        """
        caller = _caller(connection)
        if self._of[caller] >= MOST_OF_CALLER:
            raise _busy(429, f"{MOST_OF_CALLER} streams of this caller are open, the most there may be of one")
        if self._of.total() >= MOST_STREAMS:
            raise _busy(503, f"{MOST_STREAMS} streams are open, the most there may be")
        self._of[caller] += 1
        try:
            yield
        finally:
            self._of[caller] -= 1
            self._of += Counter()  # forgets who has none


class Stream(StreamingResponse):
    """A long answer, which takes room among `Streams` while it is sent; a problem where there is none."""

    def __init__(self, request: Request, streams: Streams, content: AsyncIterator[str], **known: Any) -> None:
        super().__init__(content, **known)
        self._request = request
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        try:
            with self._streams.one_more(self._request):
                await super().__call__(scope, receive, send)
        except Refusal as refusal:
            await refusal.answer()(scope, receive, send)


def _caller(connection: HTTPConnection) -> tuple[str, str]:
    """Who is bounded: the token or user; of callers without either, the address."""
    caller = token_of(connection)
    if caller.owner or caller.name:
        return caller.owner, caller.name
    return "", "" if connection.client is None else connection.client.host


def _busy(status: int, found: str) -> Refusal:
    return Refusal(status, "busy", "Busy", f"{found}; close one, or try again later", _RETRY_AFTER_S)
