"""``/experiments``: all of a tenant. ``/experiments/{name}``: one, with its timeline, and what can be done with it."""

from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tracegrade.history.runs.experiments import Timeline, known_experiment, timeline
from tracegrade.history.runs.run_changes import pin
from tracegrade.model.errors import NotPossible, TraceGradeError
from tracegrade.store.documents import tenants_of
from tracegrade.store.errors import StoreError
from tracegrade.store.runs import stored_experiments
from tracegrade.suites.jobs.submit import submit
from tracegrade.suites.jobs.suite_request import SuiteRequest
from tracegrade.suites.keeping import NoSuchSuite
from tracegrade.suites.runs.cases import is_suite_run
from tracegrade.suites.runs.experiment_changes import make
from tracegrade.suites.store.suites import suite_heads
from tracegrade.suites.web.best import best_request
from tracegrade.web.addresses import eval_address, experiment_address
from tracegrade.web.charts.deltas import KINDS, delta_chart, in_order
from tracegrade.web.charts.scores import score_chart
from tracegrade.web.forms import form_of
from tracegrade.web.masked import seen_by
from tracegrade.web.render import page
from tracegrade.web.rights import tenant_of, token_of
from tracegrade.web.sources import sources_of


def show_all(request: Request) -> Response:
    """Every experiment with its baseline, its best and its latest run; the one begun last comes first."""
    tenant = tenant_of(request)
    with sources_of(request).store() as connection:
        found = [timeline(connection, experiment) for experiment in stored_experiments(connection, tenant)]
        tenants = tenants_of(connection, "experiments")
        suites = suite_heads(connection, tenant)
    return page(
        request,
        "experiments.html",
        title="Experiments",
        tenant=tenant,
        tenants=tenants,
        suites=suites,
        may_make=token_of(request).may("run"),
        found=[(item, item.standings[-1] if item.standings else None) for item in reversed(found)],
    )


async def begin(request: Request) -> Response:
    """Make the experiment of the form, which has no runs yet, and show it.

    Raises:
        WrongValue: the name cannot be one.
        NotPossible: it is taken.
        NoSuchSuite: there is no such suite.
    """
    tenant, written = tenant_of(request), await form_of(request)
    name, suite = written.get("name", "").strip(), written.get("suite", "") or None
    description = written.get("description", "").replace("\r\n", "\n").strip()
    url = sources_of(request).config.store_url
    await run_in_threadpool(make, url, tenant, name, suite=suite, description=description)
    return RedirectResponse(experiment_address(name, tenant), 303)


def show(request: Request) -> Response:
    """One experiment: the scores of its runs over time, and each run against the baseline."""
    tenant, name = tenant_of(request), request.path_params["experiment"]
    with sources_of(request).store() as connection:
        found = seen_by(token_of(request), timeline(connection, known_experiment(connection, tenant, name)))
        suite_name = _suite_name(connection, tenant, found.experiment.suite)
        best = _best(connection, found)
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
        best=best if token_of(request).may("run") else None,
        may_pin=token_of(request).may("run"),
    )


def _suite_name(connection: Connection, tenant: str, suite: str | None) -> str:
    return next((head.name for head in suite_heads(connection, tenant) if head.id == suite), "") if suite else ""


def _best(connection: Connection, found: Timeline) -> SuiteRequest | None:
    """What runs the best configuration again; None where nothing does."""
    experiment = found.experiment
    if experiment.suite is None and not any(is_suite_run(standing.scored.run) for standing in found.standings):
        return None
    try:
        return best_request(connection, experiment.tenant, experiment.name)
    except (NotPossible, NoSuchSuite):
        return None


async def change(request: Request) -> Response:
    """Pin the run that the form names as the baseline, with an empty name none; or run the best configuration.

    Raises:
        HTTPException: 409, the best cannot be run.
        NotFound: there is no such experiment.
        NotPossible: the run cannot be the baseline.
    """
    tenant, name = tenant_of(request), request.path_params["experiment"]
    written = await form_of(request)
    if written.get("action") == "run-best":
        return RedirectResponse(await run_in_threadpool(_run_best, request, tenant, name), 303)
    run = written.get("baseline", "") or None
    await run_in_threadpool(pin, sources_of(request).config.store_url, tenant, name, run)
    return RedirectResponse(experiment_address(name, tenant), 303)


def _run_best(request: Request, tenant: str, name: str) -> str:
    """Queue a run of the best configuration. Returns the address of its page."""
    sources = sources_of(request)
    with sources.store() as connection:
        asked = best_request(connection, tenant, name)
    try:
        job = submit(sources.config, tenant, token_of(request).owner, asked)
    except StoreError:
        raise
    except TraceGradeError as error:  # a model that is no longer in the file, and the like
        raise HTTPException(409, f"Nothing was queued: {error}.") from None
    return eval_address(job.id, tenant)
