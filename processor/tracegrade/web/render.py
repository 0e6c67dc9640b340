"""Templates to pages."""

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

_TEMPLATES = Path(__file__).with_name("templates")


def page(request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """The page that `template` makes of `values`."""
    text = _environment().get_template(template).render(path=request.url.path, **values)
    return HTMLResponse(text, status)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment
