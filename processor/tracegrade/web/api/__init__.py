"""The JSON API under ``/api/v1``: the same reads as the pages and the command line, and requests for deletion.

One small file a resource, each with its operations; their routes, their checks and the OpenAPI document are made from
these. Fields have the names that the command line's JSON has. Lists come in pages, newest first, that what is stored
meanwhile does not shift. Errors are ``application/problem+json``.
"""

import logging
from collections.abc import Callable
from functools import cache
from hashlib import blake2b

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tracegrade.store.open import StoreError
from tracegrade.web.api.openapi import openapi_document
from tracegrade.web.api.operation import Operation, Refusal, checked_path, checked_query
from tracegrade.web.api.registry import OPERATIONS
from tracegrade.web.problem import no_such_address, problem
from tracegrade.web.sources import Sources
from tracegrade.words import json_text

_MAY_HOLD_SLASHES = ("session_id", "user_id", "rule_id")

logger = logging.getLogger(__name__)


def api_app(sources: Sources) -> Starlette:
    """The API over `sources`; it answers errors in JSON."""
    by_path: dict[str, list[Operation]] = {}
    for operation in OPERATIONS:
        by_path.setdefault(operation.path, []).append(operation)
    app = Starlette(
        routes=[Route("/openapi.json", _document), *(_route(*item, sources) for item in by_path.items())],
        exception_handlers={HTTPException: _refused, Refusal: _answered, StoreError: _no_store, Exception: _broken},
    )
    app.state.sources = sources
    return app


def _route(path: str, operations: list[Operation], sources: Sources) -> Route:
    by_method: dict[str, Operation] = {operation.method: operation for operation in operations}
    for name in _MAY_HOLD_SLASHES:
        path = path.replace(f"{{{name}}}", f"{{{name}:path}}")
    return Route(path, _endpoint(by_method, sources), methods=list(by_method))


def _endpoint(by_method: dict[str, Operation], sources: Sources) -> Callable[[Request], Response]:
    def endpoint(request: Request) -> Response:
        operation = by_method["GET" if request.method == "HEAD" else request.method]
        query = checked_query(operation.query, request.query_params.multi_items())
        content = operation.answer(sources, query, checked_path(operation, request.path_params))
        return Response(json_text(content), operation.status, media_type="application/json")

    return endpoint


def _document(request: Request) -> Response:
    content, tag = _written()
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type="application/json")


@cache
def _written() -> tuple[bytes, str]:
    content = orjson.dumps(openapi_document(OPERATIONS))
    return content, f'"{blake2b(content, digest_size=8).hexdigest()}"'


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        detail = f"{request.method} is not what this address takes; the header 'allow' names what it does"
        return problem(405, "method-not-allowed", "Method not allowed", detail, error.headers)
    return no_such_address()


def _answered(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return problem(error.status, error.type, error.title, error.detail)


def _no_store(request: Request, error: Exception) -> Response:
    return problem(503, "no-store", "No results yet", str(error), {"Retry-After": "2"})


def _broken(request: Request, error: Exception) -> Response:
    detail = f"{type(error).__name__} while this was answered; the log of 'tracegrade serve' has the traceback"
    return problem(500, "internal", "A mistake of ours", detail)
