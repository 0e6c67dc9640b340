"""The app of the API: FastAPI with the operations of the registry, and with our form of errors."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import orjson
from fastapi import APIRouter, Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from tracegrade.document.problem import FileError
from tracegrade.model.errors import NotFound, NotPossible, WrongValue
from tracegrade.model.short_hash import short_hash
from tracegrade.store.errors import STORE_ERRORS, StoreError
from tracegrade.web.api.body import WITHIN_S, given_again, whole_body
from tracegrade.web.api.documents import ExactJson
from tracegrade.web.api.openapi import COMMON_PROBLEMS, DESCRIPTION, completed, own_version
from tracegrade.web.api.parameters import refuse_repeated
from tracegrade.web.api.registry import routers as all_routers
from tracegrade.web.own_process import RETRY_S, Busy
from tracegrade.web.part import web_parts
from tracegrade.web.problem import Refusal, no_such_address, problem, said_of_store
from tracegrade.web.rights import Needs

# Errors whose text is the detail of the problem: its status, its type, its title, and when to ask again.
_SAID: dict[type[Exception], tuple[int, str, str] | tuple[int, str, str, int]] = {
    NotFound: (404, "not-found", "Not found"),
    WrongValue: (400, "invalid-parameter", "Wrong parameter"),
    NotPossible: (409, "not-possible", "Not possible"),
    FileError: (409, "not-possible", "Not possible"),
    Busy: (503, "busy", "Busy", RETRY_S),
    StoreError: (503, "no-store", "No results yet", 2),
}


class Api(FastAPI):
    """Operations with one document; ``state.sources`` is what they read.

    ``routers`` are those of the registry unless others are given. ``prefix`` is where they are, ``longest_body`` in
    bytes. Addresses that begin with one of ``undecoded`` are taken apart before they are decoded: a name in them may
    hold a slash.
    """

    def __init__(
        self,
        routers: Sequence[APIRouter] | None = None,
        prefix: str = "/api/v1",
        description: str = DESCRIPTION,
        longest_body: int = 1 << 20,
        undecoded: Sequence[str] = (),
    ) -> None:
        routers = all_routers() if routers is None else routers
        super().__init__(
            title="TraceGrade",
            version=own_version(),
            description=description,
            servers=[{"url": prefix}],
            # FastAPI's pages load scripts from another host; its document is served below.
            docs_url=None,
            redoc_url=None,
            openapi_url=None,
            default_response_class=ExactJson,
            generate_unique_id_function=_operation_id,
            dependencies=[Depends(refuse_repeated)],
            responses=COMMON_PROBLEMS,
            exception_handlers={
                HTTPException: _refused,
                RequestValidationError: _wrong,
                Refusal: _answered,
                **{error: said_as(*how) for error, how in _SAID.items()},
                **{error: answer for part in web_parts() for error, answer in part.api_errors.items()},
                **dict.fromkeys(STORE_ERRORS, _store_failed),
                Exception: _broken,
            },
        )
        self.router.routes.append(Route("/openapi.json", _document, middleware=[Middleware(Needs, right="read")]))
        self.state.prefix, self.state.routers = prefix, routers
        self.state.undecoded = tuple(undecoded)
        self.state.longest_body = longest_body
        for router in routers:
            self.include_router(router)

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document."""
        if self.openapi_schema is None:
            self.openapi_schema = completed(super().openapi())
        return self.openapi_schema

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; HEAD is answered as GET, and the server leaves the body out."""
        if scope["type"] == "http":
            _keep_as_sent(scope, self.state.undecoded)
        if scope["type"] == "http" and scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}
        if scope["type"] == "http" and scope["method"] not in ("GET", "OPTIONS"):
            try:
                body = await whole_body(scope, receive, self.state.longest_body, WITHIN_S)
            except Refusal as refusal:
                await refusal.answer()(scope, receive, send)
                return
            receive = given_again(body, receive)
        await super().__call__(scope, receive, send)


def _keep_as_sent(scope: Scope, begins: tuple[str, ...]) -> None:
    """Set the path of `scope` to what was sent, if it begins so below where this app is.

    In place: what routing finds in it is read from the same scope by the access log.
    """
    sent = scope.get("raw_path", b"").decode("latin-1")
    root = str(scope.get("root_path", ""))
    if begins and sent.removeprefix(root).startswith(begins):
        scope["path"] = sent


def _operation_id(route: APIRoute) -> str:
    """``listResults`` for ``list_results``."""
    first, *others = route.name.split("_")
    return first + "".join(map(str.capitalize, others))


def _document(request: Request) -> Response:
    content = orjson.dumps(request.app.openapi())
    tag = f'"{short_hash(content)}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type="application/json")


async def _refused(request: Request, error: HTTPException) -> Response:
    if error.status_code == 405:
        detail = f"{request.method} is not what this address takes; the header 'allow' names what it does"
        return problem(
            405, "method-not-allowed", "Method not allowed", detail, {"Allow": ", ".join(_methods(request, error))}
        )
    return no_such_address()


def _methods(request: Request, error: HTTPException) -> list[str]:
    """All methods that the address takes; FastAPI names only those of its first operation."""
    routes = [route for router in request.app.state.routers for route in router.routes if isinstance(route, APIRoute)]
    fitting = [route for route in routes if route.matches(request.scope)[0] != Match.NONE]
    found = {method for route in fitting for method in route.methods or ()}
    found.update((error.headers or {}).get("Allow", "").split(", "))
    return sorted(found | {"HEAD"} if "GET" in found else found)


async def _wrong(request: Request, error: RequestValidationError) -> Response:
    first = error.errors()[0]
    name = _place(first["loc"], error.body)
    if first["type"] == "extra_forbidden":
        detail = f"{name}: is not a parameter of this operation"
    else:
        said = first["msg"].removeprefix("Value error, ")
        found = f", found {str(first['input'])[:200]!r}"
        detail = f"{name}: {said.removesuffix(found)}{found}"
    return problem(400, "invalid-parameter", "Wrong parameter", detail)


def _place(loc: tuple[int | str, ...], body: Any) -> str:
    """The name of a parameter, or the path in the body."""
    where, *path = loc
    if where != "body":
        return str(path[0])
    names, at = [], body
    for part in path:
        # Of what has several types, Pydantic adds which one it tried: that is no part of the body.
        if isinstance(at, dict) and (part in at or part == path[-1]):
            names.append(str(part))
            at = at.get(part)
        elif isinstance(at, list) and isinstance(part, int):
            at = at[part]
    return ".".join(names) or "body"


def said_as(
    status: int, type_: str, title: str, retry_after_s: int | None = None, *, said: str = "{}"
) -> Callable[[Request, Exception], Coroutine[Any, Any, Response]]:
    """A handler of errors that gives their text as the detail of a problem, in the sentence `said`."""

    async def answer(request: Request, error: Exception) -> Response:
        return Refusal(status, type_, title, said.format(error), retry_after_s).answer()

    return answer


async def _answered(request: Request, error: Refusal) -> Response:
    return error.answer()


async def _store_failed(request: Request, error: Exception) -> Response:
    detail = f"the store cannot be used now: {said_of_store(error)}"
    return problem(503, "no-store", "The store does not answer", detail, {"Retry-After": "2"})


async def _broken(request: Request, error: Exception) -> Response:
    detail = f"{type(error).__name__} while this was answered; the log of 'tracegrade serve' has the traceback"
    return problem(500, "internal", "A mistake of ours", detail)
