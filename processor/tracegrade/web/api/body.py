"""The body of a request, read whole before an operation is asked: of bounded length, and JSON in UTF-8."""

import asyncio

import orjson
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope

from tracegrade.web.problem import Refusal

WITHIN_S = 25.0  # the server ends a connection whose body has not come within 30 s, without an answer


async def whole_body(scope: Scope, receive: Receive, longest: int, within_s: float) -> bytes:
    """The body, which is empty or JSON in UTF-8.

    Args:
        scope: of the request.
        receive: what the client sends.
        longest: the most bytes that it may have.
        within_s: how long all of it may take.

    Raises:
        Refusal: it is too long, does not come in time, or is something else.
    """
    announced = Headers(scope=scope).get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > longest:
        raise _too_long(longest, f"{announced[:20]} announced")
    body = bytearray()
    try:
        async with asyncio.timeout(within_s):
            is_more = True
            while is_more:
                message = await receive()
                body += message.get("body", b"")
                if len(body) > longest:
                    raise _too_long(longest, "more")
                is_more = message["type"] == "http.request" and message.get("more_body", False)
    except TimeoutError:
        detail = f"body: expected all of it within {within_s:g} s, found {len(body)} bytes; send the request again"
        raise Refusal(408, "timeout", "The body did not come", detail) from None
    if body:
        _check_json(bytes(body))
    return bytes(body)


def given_again(body: bytes, receive: Receive) -> Receive:
    """`receive` for a body that was read already: it comes first, and then what comes after it."""
    waiting = [body]

    async def receive_again() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return receive_again


def _too_long(longest: int, found: str) -> Refusal:
    return Refusal(413, "too-long", "Too long", f"body: expected at most {longest} bytes, found {found}")


def _check_json(body: bytes) -> None:
    try:
        body.decode()
    except UnicodeDecodeError as error:
        detail = f"body: not UTF-8: byte {error.start + 1} is 0x{body[error.start]:02x}"
        raise Refusal(400, "invalid-parameter", "Wrong body", detail) from None
    try:
        orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Refusal(400, "invalid-parameter", "Wrong body", f"body: not JSON: {error}") from None
