"""The JSON API under ``/api/v1``: the same reads as the pages."""

from starlette.applications import Starlette

from tracegrade.web.sources import Sources


def api_app(sources: Sources) -> Starlette:
    """The API over `sources`; it answers errors in JSON."""
    app = Starlette()
    app.state.sources = sources
    return app
