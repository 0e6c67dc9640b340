"""The app: pages, static files and the API on one address."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from tracegrade.access.rights import Right
from tracegrade.access.tokens import MadeTokens
from tracegrade.codec.kept_spans import ValuesGone
from tracegrade.model.errors import NotFound, NotPossible, WrongValue
from tracegrade.receive.typed_text import TypedText
from tracegrade.store.errors import STORE_ERRORS, StoreError
from tracegrade.web import live
from tracegrade.web.access import Access
from tracegrade.web.access_log import LogsAccess
from tracegrade.web.api.app import Api
from tracegrade.web.pages.registry import actions, pages
from tracegrade.web.part import web_parts
from tracegrade.web.problem import Refusal, no_such_address, said_of_store
from tracegrade.web.render import page
from tracegrade.web.rights import Needs
from tracegrade.web.security import SecurityHeaders
from tracegrade.web.sources import Sources
from tracegrade.web.streams import Streams

_STATIC = Path(__file__).with_name("static")


# Errors whose text the page shows: the status, the title, and the sentence that the text stands in.
_SAID: dict[type[Exception], tuple[int, str, str]] = {
    WrongValue: (400, "Bad request", "Nothing was changed: {}."),
    NotPossible: (409, "Not possible", "Nothing was changed: {}."),
    ValuesGone: (410, "No longer there", "Of this trace, {}."),
    StoreError: (
        503,
        "No results yet",
        "There are no results yet: {}. The judge creates the store when it starts; try again in a moment.",
    ),
}


def build_app(sources: Sources) -> ASGIApp:
    """The ASGI application over `sources`."""
    api = Api()
    api.state.streams = streams = Streams()
    apis = [api, *(make() for part in web_parts() for make in part.apis)]
    app = Starlette(
        routes=routes(apis),
        exception_handlers={
            HTTPException: _refused,
            Refusal: _not_allowed,
            NotFound: _not_found,
            **{error: said_as(*how) for error, how in _SAID.items()},
            **{error: answer for part in web_parts() for error, answer in part.errors.items()},
            **dict.fromkeys(STORE_ERRORS, _store_failed),
            Exception: _broken,
        },
    )
    app.state.streams = streams
    states = {name: make(sources) for part in web_parts() for name, make in part.states.items()}
    states |= {"sources": sources, "typed_text": TypedText(sources.config.redaction, sources.config.data_path)}
    for each in (app, *apis):
        for name, state in states.items():
            setattr(each.state, name, state)
    app.state.newest = live.NewestOfEach()
    # Around everything: as middleware, they would not be added to the answer after a crash.
    config = sources.config
    access = Access(app, config.web, MadeTokens(config.tokens_path), config.access)
    return SecurityHeaders(access if sources.note is None else LogsAccess(access, sources.note))


def routes(apis: Sequence[FastAPI]) -> list[BaseRoute]:
    """All addresses; each page says which right it needs, and so does each operation of the APIs."""
    return [
        *(_route(path, show, "read") for path, show in pages().items()),
        *(_route(path, act, right, "POST") for path, (act, right) in actions().items()),
        _route("/live", live.stream, "read"),
        *(route for part in web_parts() for route in part.routes),
        Mount("/static", StaticFiles(directory=_STATIC), name="static"),
        *(Mount(api.state.prefix, api) for api in apis),
    ]


def _route(path: str, endpoint: Callable[[Request], Any], right: Right, method: str = "GET") -> Route:
    return Route(path, endpoint, methods=[method], middleware=[Middleware(Needs, right=right)])


def said_as(status: int, title: str, sentence: str) -> Callable[[Request, Exception], Response]:
    """A handler of errors that shows their text in a sentence."""

    def show(request: Request, error: Exception) -> Response:
        return page(request, "error.html", status=status, title=title, message=sentence.format(error))

    return show


def _not_allowed(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return page(request, "error.html", status=error.status, title=error.title, message=f"Refused: {error.detail}.")


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if request.scope["path"].startswith("/api/"):  # no route fits an address with a line break
        return no_such_address()
    title = {400: "Bad request", 404: "Not found", 409: "Not possible"}.get(error.status_code, "Refused")
    return page(request, "error.html", status=error.status_code, title=title, message=error.detail)


def _not_found(request: Request, error: Exception) -> Response:
    return page(
        request,
        "error.html",
        status=404,
        title="Not found",
        message=f"There is {str(error).removeprefix('there is ')}.",
    )


def _store_failed(request: Request, error: Exception) -> Response:
    message = f"The store cannot be used now: {said_of_store(error)}. Try again in a moment."
    return page(request, "error.html", status=503, title="The store does not answer", message=message)


def _broken(request: Request, error: Exception) -> Response:
    message = f"{type(error).__name__} while this page was rendered; the log of 'tracegrade serve' has the traceback."
    return page(request, "error.html", status=500, title="This page cannot be shown", message=message)
