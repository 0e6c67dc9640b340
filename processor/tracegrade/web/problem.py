"""Errors of the API and of the store: ``application/problem+json`` (RFC 9457), each with a type that programs know."""

import logging
from collections.abc import Mapping
from typing import Any

import orjson
from starlette.responses import Response

from tracegrade.store.errors import cannot_be_used, cause_of

TYPES = {
    "invalid-parameter": "a parameter of the request is wrong; detail says which, what was found, what was expected",
    "too-long": "the body of the request has more bytes than this address takes; detail names the limit",
    "timeout": "the body of the request did not come in time; send the request again",
    "not-found": "it does not exist, or no longer exists",
    "method-not-allowed": "this address takes other methods; the header 'allow' names them",
    "unauthenticated": "a token is needed, or the one sent is not accepted",
    "too-many-failures": "too many wrong tokens came from this address; 'retry-after' says how long to wait",
    "other-site": "a page of another site may not change anything here",
    "read-only": "without web.auth, nothing may be changed here from other machines",
    "no-right": "the caller has not the right that this needs; detail names both",
    "untrusted-header": "a header about the caller is refused, as from who is no trusted proxy; detail says why",
    "wrong-host": "without web.auth only this machine may ask, by its own name",
    "no-store": "there are no results yet, or the store cannot be read",
    "not-possible": "what is asked for cannot be done now; detail says why",
    "busy": "too much is worked out, or too many streams are open; 'retry-after' says when to try again",
    "internal": "a mistake of ours; the log of 'tracegrade serve' has the traceback",
}
"""The last part of ``type`` -> what it means. They never change."""

PREFIX = "urn:tracegrade:problem:"
MEDIA_TYPE = "application/problem+json"


class Refusal(Exception):
    """A request that cannot be answered: becomes a problem of that type and status."""

    def __init__(self, status: int, type_: str, title: str, detail: str, retry_after_s: int | None = None) -> None:
        self.status, self.type, self.title, self.detail = status, type_, title, detail
        self.retry_after_s = retry_after_s
        super().__init__(detail)

    def answer(self) -> Response:
        """The problem as an answer."""
        headers = {} if self.retry_after_s is None else {"Retry-After": str(self.retry_after_s)}
        return problem(self.status, self.type, self.title, self.detail, headers)


def not_found(what: str) -> Refusal:
    """The problem that there is no `what`."""
    return Refusal(404, "not-found", "Not found", f"there is no {what}, or none any more")


def problem(
    status: int, type_: str, title: str, detail: str, headers: Mapping[str, str] | None = None, **more: Any
) -> Response:
    """An answer that says what went wrong; `type_` is one of `TYPES`."""
    assert type_ in TYPES, type_
    content = {"type": PREFIX + type_, "title": title, "status": status, "detail": detail, **more}
    return Response(orjson.dumps(content), status, dict(headers or {}), MEDIA_TYPE)


def no_such_address() -> Response:
    """The answer for an address below `/api` that is no operation."""
    detail = "there is no such address; /api/openapi.json and /api/v1/openapi.json name all"
    return problem(404, "not-found", "Not found", detail)


logger = logging.getLogger(__name__)


def said_of_store(error: Exception) -> str:
    """The cause in the database's words; it is logged, too.

    Raises:
        Exception: `error`, where the store is well and refuses what it was asked: that is a mistake of ours.
    """
    if not cannot_be_used(error):
        raise error
    said = cause_of(error).partition("\n")[0]
    logger.warning("the store cannot be used: %s", said)
    return said
