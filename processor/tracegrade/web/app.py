"""The app: pages, static files and the API on one address."""

from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from tracegrade.store.open import StoreError
from tracegrade.web import live
from tracegrade.web.access import Access
from tracegrade.web.api.app import Api
from tracegrade.web.pages.registry import ACTIONS, PAGES
from tracegrade.web.problem import no_such_address
from tracegrade.web.render import page
from tracegrade.web.security import SecurityHeaders
from tracegrade.web.sources import Sources

_STATIC = Path(__file__).with_name("static")


def build_app(sources: Sources) -> ASGIApp:
    """The ASGI application over `sources`."""
    api = Api()
    api.state.sources = sources
    app = Starlette(
        routes=[
            *(Route(path, show) for path, show in PAGES.items()),
            *(Route(path, act, methods=["POST"]) for path, act in ACTIONS.items()),
            Route("/live", live.stream),
            Mount("/static", StaticFiles(directory=_STATIC), name="static"),
            Mount("/api/v1", api, name="api"),
        ],
        exception_handlers={HTTPException: _refused, StoreError: _no_store, Exception: _broken},
    )
    app.state.sources = sources
    app.state.newest = live.Newest(sources)
    # Around everything: as middleware, they would not be added to the answer after a crash.
    return SecurityHeaders(Access(app, sources.config.web))


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if request.scope["path"].startswith("/api/"):
        return no_such_address()
    title = {400: "Bad request", 404: "Not found", 409: "Not possible"}.get(error.status_code, "Refused")
    return page(request, "error.html", status=error.status_code, title=title, message=error.detail)


def _no_store(request: Request, error: Exception) -> Response:
    message = f"There are no results yet: {error}. The judge creates the store when it starts; try again in a moment."
    return page(request, "error.html", status=503, title="No results yet", message=message)


def _broken(request: Request, error: Exception) -> Response:
    message = f"{type(error).__name__} while this page was rendered; the log of 'tracegrade serve' has the traceback."
    return page(request, "error.html", status=500, title="This page cannot be shown", message=message)
