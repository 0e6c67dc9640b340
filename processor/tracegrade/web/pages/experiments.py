"""``/experiments``: all of a tenant. ``/experiments/{name}``: one, with its runs, and the form that pins a baseline."""

from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tracegrade.history.experiments import known_experiment, timeline
from tracegrade.history.run_changes import pin
from tracegrade.store.runs import experiment_tenants, stored_experiments
from tracegrade.store.suites import suite_heads
from tracegrade.web.addresses import TENANT, experiment_address
from tracegrade.web.delta_chart import KINDS, delta_chart, in_order
from tracegrade.web.forms import form_of
from tracegrade.web.render import page
from tracegrade.web.rights import may, token_of
from tracegrade.web.score_chart import score_chart
from tracegrade.web.sources import sources_of


def tenant_of(request: Request) -> str:
    """The tenant in the address."""
    return request.query_params.get("tenant", "") or TENANT


def show_all(request: Request) -> Response:
    """Every experiment with its baseline, its best and its latest run; the one begun last comes first."""
    tenant = tenant_of(request)
    with sources_of(request).store() as connection:
        found = [timeline(connection, experiment) for experiment in stored_experiments(connection, tenant)]
        tenants = experiment_tenants(connection)
    return page(
        request,
        "experiments.html",
        title="Experiments",
        tenant=tenant,
        tenants=tenants,
        found=[(item, item.standings[-1] if item.standings else None) for item in reversed(found)],
    )


def show(request: Request) -> Response:
    """One experiment: the scores of its runs over time, and each run against the baseline."""
    tenant, name = tenant_of(request), request.path_params["experiment"]
    with sources_of(request).store() as connection:
        found = timeline(connection, known_experiment(connection, tenant, name))
        suite_name = _suite_name(connection, tenant, found.experiment.suite)
    return page(
        request,
        "experiment.html",
        title=f"Experiment {name}",
        tenant=tenant,
        found=found,
        latest=found.standings[-1] if found.standings else None,
        chart=score_chart(found),
        deltas=delta_chart(found),
        rows=in_order(found),
        kinds=KINDS,
        suite_name=suite_name,
        may_pin=may(token_of(request), "run"),
    )


def _suite_name(connection: Connection, tenant: str, suite: str | None) -> str:
    return next((head.name for head in suite_heads(connection, tenant) if head.id == suite), "") if suite else ""


async def change(request: Request) -> Response:
    """Pin the run that the form names as the baseline; with an empty name, pin none."""
    tenant, name = tenant_of(request), request.path_params["experiment"]
    run = (await form_of(request)).get("baseline", "") or None
    await run_in_threadpool(pin, sources_of(request).config.store_url, tenant, name, run)
    return RedirectResponse(experiment_address(name, tenant), 303)
