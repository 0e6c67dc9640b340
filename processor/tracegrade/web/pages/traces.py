"""``/traces``: the traces that the address chooses, newest first."""

from starlette.requests import Request
from starlette.responses import Response

from tracegrade.history.runs.experiments import check_stored
from tracegrade.store.heads import NEWEST, trace_heads
from tracegrade.store.schema import OUTCOMES
from tracegrade.web.filter_choices import filter_choices
from tracegrade.web.render import page
from tracegrade.web.sources import sources_of
from tracegrade.web.view import FILTERS, number_of, view_of

_AT_A_TIME = 50


def show(request: Request) -> Response:
    """One page of traces; ``before`` continues after the trace of that number."""
    sources, view = sources_of(request), view_of(request, (*FILTERS, "outcome", "run"))
    before = number_of(request, "before", NEWEST)
    with sources.store() as connection:
        check_stored(connection, view.run)
        found = trace_heads(connection, view.result_filter, _AT_A_TIME + 1, before=before)
        choices = filter_choices(connection, sources.rule_set(), view.run) | {"outcome": list(OUTCOMES)}
    heads = found[:_AT_A_TIME]
    return page(
        request,
        "traces.html",
        title="Traces",
        view=view,
        choices=choices,
        heads=heads,
        older=view.address(before=str(heads[-1].number)) if len(found) > len(heads) else None,
        newest=view.address() if before < NEWEST else None,
    )
