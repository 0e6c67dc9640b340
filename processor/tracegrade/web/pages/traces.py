"""``/traces``: the traces that the address chooses, newest first or sorted, with the columns that it names."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from math import inf
from typing import Any

from sqlalchemy import Connection
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from tracegrade.queries.measured import SORTS, Bounds, MeasuredChoice, MeasuredPage, measured_page
from tracegrade.queries.paging import Page, cursor_of
from tracegrade.store.heads import MEASURES, NEWEST, TraceHead
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.schema import OUTCOMES
from tracegrade.web.addresses import trace_address
from tracegrade.web.masked import seen_by
from tracegrade.web.render import page
from tracegrade.web.rights import token_of
from tracegrade.web.sources import sources_of
from tracegrade.web.view import DEFAULT_RANGE, FILTERS, HOW_LISTED, View, filter_choices, number_of, view_of

_AT_A_TIME = 50
_COOKIE = "columns"  # as static/columns.js writes it

COLUMNS = ("agent", "release", "session", "prompt", "calls", "tokens", "cost", "duration", "spans", "closed")
"""The columns that can be chosen; the prompt is a line below the name."""
_USUAL = "agent,prompt,calls,tokens,cost,duration"
_OF_LIST = (*FILTERS, "session", "outcome", "run", "close_reason", *MEASURES, *HOW_LISTED)


def show(request: Request) -> Response:
    """One page of traces. ``before`` continues after the trace of that number, ``skip`` after as many sorted ones."""
    sources, view = sources_of(request), view_of(request, _OF_LIST)
    columns = _columns(request, view)
    place = _place(request, view)
    with sources.store() as connection:
        found = listed(connection, view, place)
        choices = filter_choices(connection, sources.rule_set(), view.run) | {"outcome": list(OUTCOMES)}
    here = _query_of(view, place)
    short = short_ids([head.trace_id for head in found.items])
    return page(
        request,
        "traces.html",
        title="Traces",
        view=view,
        choices=choices,
        ranges_of=MEASURES,
        all_columns=COLUMNS,
        columns=columns,
        sorts=SORTS,
        sort=_sort(view),
        short_id=short,
        found=replace(found, items=seen_by(token_of(request), found.items)),
        address_in_list=lambda head: trace_address(
            head.trace_id, head.tenant, view.run, rule=view.chosen.get("rule"), **{"list": here}
        ),
        older=None if found.next is None else view.address(**_further(view, found.next)),
        newest=None if place is None else view.address(),
    )


def heads_page(
    request: Request,
    title: str,
    find: Callable[[Connection, ResultFilter, int, str | None], Page[TraceHead]],
    beside: Callable[[Connection, ResultFilter], dict[str, Any]],
) -> Response:
    """One page of a list of sessions; ``before`` continues after the one of that number.

    What `beside` gives is shown below the first page of what its filters leave.
    """
    sources, view = sources_of(request), view_of(request, (*FILTERS, "outcome", "run"))
    before = number_of(request, "before", NEWEST)
    with sources.store() as connection:
        found = find(connection, view.result_filter, _AT_A_TIME, cursor_of(before))
        more = beside(connection, view.result_filter) if before == NEWEST else {}
        choices = filter_choices(connection, sources.rule_set(), view.run) | {"outcome": list(OUTCOMES)}
    return page(
        request,
        f"{title.lower()}.html",
        title=title,
        view=view,
        choices=choices,
        heads=seen_by(token_of(request), found.items),
        older=view.address(before=str(found.items[-1].number)) if found.next is not None else None,
        newest=view.address() if before < NEWEST else None,
        **more,
    )


def listed(connection: Connection, view: View, place: int | None) -> MeasuredPage:
    """The traces that `view` chooses, from `place` on.

    Raises:
        HTTPException: 400, a filter cannot be read.
        NotFound: there is no such run.
    """
    within = {name: _bounds(name, view.chosen[name]) for name in MEASURES if name in view.chosen}
    sort, ascending = _sort(view)
    choice = MeasuredChoice(view.result_filter, within, view.chosen.get("close_reason"), sort, ascending)
    return measured_page(connection, choice, _AT_A_TIME, place)


def around(connection: Connection, request: Request) -> tuple[str | None, str | None, str | None]:
    """The addresses of the list that a trace was opened from, and of the traces before and after it there; or None."""
    if not (written := request.query_params.get("list")):
        return None, None, None
    of_list = Request({**request.scope, "path": "/traces", "query_string": written.encode()})
    view = view_of(of_list, _OF_LIST)
    place = _place(of_list, view)
    found = listed(connection, view, place)
    ids = [(head.trace_id, head.tenant) for head in found.items]
    trace_id, tenant = request.path_params["trace_id"], request.query_params.get("tenant", "")
    at = next((at for at, (other, of) in enumerate(ids) if other == trace_id and tenant in ("", of)), None)

    def opened(at: int, query: str) -> str:
        rule = view.chosen.get("rule")
        return trace_address(ids[at][0], ids[at][1], view.run, rule=rule, **{"list": query})

    back = "/traces" + (f"?{written}" if written else "")
    if at is None:
        return back, None, None
    previous = opened(at - 1, written) if at else None
    following = opened(at + 1, written) if at + 1 < len(ids) else None
    if following is None and found.next is not None:
        further = listed(connection, view, found.next)
        ids = [(head.trace_id, head.tenant) for head in further.items]
        following = opened(0, _query_of(view, found.next)) if ids else None
    return back, previous, following


def short_ids(ids: Sequence[str]) -> Callable[[str], str]:
    """Give a function that abbreviates these ids so that they differ: to their beginning, or to both ends.

    Ids whose first 6 characters differ are cut after 8, as everywhere; those of one beginning show 4 and the last 8.
    """
    different = len({*ids})
    if len({id_[:6] for id_ in ids}) == different:
        return lambda id_: id_[:8]
    if len({id_[-8:] for id_ in ids}) == different:
        return lambda id_: f"{id_[:4]}…{id_[-8:]}"
    return str


def _columns(request: Request, view: View) -> list[str]:
    """Those that the address names, else those that the reader last chose, which the page's script remembers."""
    if "columns" not in view.chosen:
        last = request.cookies.get(_COOKIE, "").split(".")
        return [name for name in COLUMNS if name in last] or _USUAL.split(",")
    asked = view.chosen["columns"].split(",")
    if unknown := [name for name in asked if name not in COLUMNS]:
        raise HTTPException(400, f"columns: expected some of {', '.join(COLUMNS)}, found {unknown[0][:100]!r}")
    return [name for name in COLUMNS if name in asked]


def _sort(view: View) -> tuple[str, bool]:
    """By what the list is sorted, "" for time, and whether the least comes first."""
    asked = view.chosen.get("sort", "")
    name, _, turned = asked.partition(".")
    if asked and (name not in SORTS or turned not in ("", "asc")):
        raise HTTPException(400, f"sort: expected one of {', '.join(SORTS)}, or with '.asc', found {asked[:100]!r}")
    return name, turned == "asc"


def _bounds(name: str, written: str) -> Bounds:
    """``5`` and ``5..`` are at least 5, ``..5`` at most 5, ``1..5`` both."""
    low, _, high = written.partition("..")
    with suppress(ValueError):
        bounds = Bounds(float(low or 0), float(high or inf))
        if bounds.low <= bounds.high:  # neither is "nan"
            return bounds
    raise HTTPException(400, f"{name}: expected 5.., ..5 or 1..5, found {written[:100]!r}")


def _place(request: Request, view: View) -> int | None:
    """Where the page of the list begins; None: at the beginning."""
    name, most = ("skip", NEWEST) if _sort(view)[0] else ("before", NEWEST)
    place = number_of(request, name, most)
    return None if place == most else place


def _further(view: View, place: int) -> dict[str, str]:
    return {"skip" if _sort(view)[0] else "before": str(place)}


def _query_of(view: View, place: int | None) -> str:
    """The query of the list's address, never empty."""
    query = view.address("", **({} if place is None else _further(view, place))).removeprefix("?")
    return query or f"range={DEFAULT_RANGE}"
