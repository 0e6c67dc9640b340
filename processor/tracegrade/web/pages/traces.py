"""``/traces``: the traces that the address chooses, newest first."""

from collections.abc import Callable

from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import Response

from tracegrade.queries.lists import Page, cursor_of, traces_page
from tracegrade.store.heads import NEWEST, TraceHead
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.schema import OUTCOMES
from tracegrade.web.render import page
from tracegrade.web.sources import sources_of
from tracegrade.web.view import FILTERS, filter_choices, number_of, view_of

_AT_A_TIME = 50


Find = Callable[[Connection, ResultFilter, int, str | None], Page[TraceHead]]


def show(request: Request) -> Response:
    """One page of traces; ``before`` continues after the trace of that number."""
    return heads_page(request, "Traces", traces_page)


def heads_page(request: Request, title: str, find: Find) -> Response:
    """One page of a list of traces or of sessions; ``before`` continues after the one of that number."""
    sources, view = sources_of(request), view_of(request, (*FILTERS, "outcome", "run"))
    before = number_of(request, "before", NEWEST)
    with sources.store() as connection:
        found = find(connection, view.result_filter, _AT_A_TIME, cursor_of(before))
        choices = filter_choices(connection, sources.rule_set(), view.run) | {"outcome": list(OUTCOMES)}
    return page(
        request,
        f"{title.lower()}.html",
        title=title,
        view=view,
        choices=choices,
        heads=found.items,
        older=view.address(before=str(found.items[-1].number)) if found.next is not None else None,
        newest=view.address() if before < NEWEST else None,
    )
