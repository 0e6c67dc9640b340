"""What a part adds to the page and the API."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from tracegrade.access.rights import Right
from tracegrade.part import load, parts

if TYPE_CHECKING:
    from fastapi import APIRouter, FastAPI

    from tracegrade.web.sources import Sources

Page: TypeAlias = Callable[[Request], Response]
Action: TypeAlias = tuple[Callable[[Request], Response | Awaitable[Response]], Right]


@dataclass(frozen=True, slots=True, kw_only=True)
class WebPart:
    """The web side of a part.

    ``pages`` and ``actions`` are as in `tracegrade.web.pages.registry`, and replace those of the core at the same
    address. ``routes`` are others, which check the rights of callers themselves. ``routers`` are operations under
    ``/api/v1``, each with the name of the router that it follows in the document; each of ``apis`` makes a
    `tracegrade.web.api.app.Api` with a document of its own, mounted at its prefix. ``states`` are made once for an
    app, as attributes of its ``state``. ``errors`` and ``api_errors`` answer the part's own errors, in pages and in
    operations. ``templates`` are the folder of the templates of its pages, in which ``addresses`` can be called.
    ``without_values`` gives, of each type that its pages and operations show, what callers without the right to
    values see. ``takes_traces`` are the addresses of pages that make something of traces which somebody chose
    elsewhere (``trace_id`` each, ``rule`` and ``tenant``), each with the words of the button that leads there.
    """

    pages: Mapping[str, Page] = field(default_factory=dict)
    actions: Mapping[str, Action] = field(default_factory=dict)
    routes: Sequence[BaseRoute] = ()
    routers: Sequence[tuple[str, str, "APIRouter"]] = ()
    apis: "Sequence[Callable[[], FastAPI]]" = ()
    states: "Mapping[str, Callable[[Sources], object]]" = field(default_factory=dict)
    errors: Mapping[type[Exception], Callable[[Request, Exception], Any]] = field(default_factory=dict)
    api_errors: Mapping[type[Exception], Callable[[Request, Exception], Any]] = field(default_factory=dict)
    templates: Path | None = None
    addresses: Sequence[Callable[..., str]] = ()
    without_values: Mapping[type, Callable[[Any], Any]] = field(default_factory=dict)
    takes_traces: Sequence[tuple[str, str]] = ()


@cache
def web_parts() -> tuple[WebPart, ...]:
    """The web sides of the parts that are there."""
    return tuple(load(part.web) for part in parts() if part.web is not None)
