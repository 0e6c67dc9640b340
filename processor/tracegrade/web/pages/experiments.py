"""``/experiments``: all of a tenant. ``/experiments/{name}``: one, with its timeline, and what can be done with it."""

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tracegrade.history.runs.experiments import Timeline, known_experiment, timeline
from tracegrade.history.runs.run_changes import pin
from tracegrade.store.documents import tenants_of
from tracegrade.store.runs import stored_experiments
from tracegrade.web.addresses import experiment_address
from tracegrade.web.charts.deltas import KINDS, delta_chart, in_order
from tracegrade.web.charts.scores import score_chart
from tracegrade.web.forms import form_of
from tracegrade.web.masked import seen_by
from tracegrade.web.render import page
from tracegrade.web.rights import tenant_of, token_of
from tracegrade.web.sources import sources_of


def show_all(
    request: Request,
    template: str = "experiments.html",
    more: Callable[[Connection, str], dict[str, Any]] | None = None,
) -> Response:
    """Every experiment with its baseline, its best and its latest run; the one begun last comes first.

    `more` reads what another `template` shows in addition, of the store and for a tenant.
    """
    tenant = tenant_of(request)
    with sources_of(request).store() as connection:
        found = [timeline(connection, experiment) for experiment in stored_experiments(connection, tenant)]
        tenants = tenants_of(connection, "experiments")
        added = more(connection, tenant) if more is not None else {}
    return page(
        request,
        template,
        title="Experiments",
        tenant=tenant,
        tenants=tenants,
        found=[(item, item.standings[-1] if item.standings else None) for item in reversed(found)],
        **added,
    )


def show(
    request: Request,
    template: str = "experiment.html",
    more: Callable[[Connection, Timeline], dict[str, Any]] | None = None,
) -> Response:
    """One experiment: the scores of its runs over time, and each run against the baseline; `more` as of `show_all`."""
    tenant, name = tenant_of(request), request.path_params["experiment"]
    with sources_of(request).store() as connection:
        found = seen_by(token_of(request), timeline(connection, known_experiment(connection, tenant, name)))
        added = more(connection, found) if more is not None else {}
    return page(
        request,
        template,
        title=f"Experiment {name}",
        tenant=tenant,
        found=found,
        latest=found.standings[-1] if found.standings else None,
        chart=score_chart(found),
        deltas=delta_chart(found),
        rows=in_order(found),
        kinds=KINDS,
        may_pin=token_of(request).may("run"),
        **added,
    )


async def change(request: Request) -> Response:
    """Pin the run that the form names as the baseline, with an empty name none.

    Raises:
        NotFound: there is no such experiment.
        NotPossible: the run cannot be the baseline.
    """
    return await pin_baseline(request, await form_of(request))


async def pin_baseline(request: Request, written: Mapping[str, str]) -> Response:
    """As `change`, for a form that was read."""
    tenant, name = tenant_of(request), request.path_params["experiment"]
    run = written.get("baseline", "") or None
    await run_in_threadpool(pin, sources_of(request).config.store_url, tenant, name, run)
    return RedirectResponse(experiment_address(name, tenant), 303)
