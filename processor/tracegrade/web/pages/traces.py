"""``/traces``: the traces that the address chooses, newest first."""

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from tracegrade.store.heads import trace_heads
from tracegrade.store.schema import OUTCOMES
from tracegrade.web.pages.overview import choices_of
from tracegrade.web.render import page
from tracegrade.web.sources import sources_of
from tracegrade.web.view import view_of

_AT_A_TIME = 50
_NEWEST = 2**63 - 1


def show(request: Request) -> Response:
    """One page of traces; ``before`` continues after the trace of that number."""
    sources, view = sources_of(request), view_of(request)
    before = request.query_params.get("before", "")
    if before and not before.isdigit():
        raise HTTPException(400, f"before: expected a number, found {before!r}")
    with sources.store() as connection:
        found = trace_heads(connection, view.filter, _AT_A_TIME + 1, before=int(before) if before else _NEWEST)
        choices = choices_of(connection, sources.rule_set()) | {"outcome": list(OUTCOMES)}
    more = len(found) > _AT_A_TIME
    heads = found[:_AT_A_TIME]
    return page(
        request,
        "traces.html",
        title="Traces",
        view=view,
        choices=choices,
        heads=heads,
        older=view.address(before=str(heads[-1].number)) if more else None,
        newest=view.address() if before else None,
    )
