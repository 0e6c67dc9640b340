"""``/evals``: runs of suites as jobs. ``/evals/{id}``: one, its progress, and its results as they come."""

import time

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tracegrade.suites.jobs.submit import cancel, delete_with_runs, resume
from tracegrade.suites.store.jobs import UNFINISHED, stored_job, stored_jobs
from tracegrade.suites.web.addresses import eval_address, job_events_address
from tracegrade.suites.web.evals import evals_of, known_models, results_of, runs_without_job
from tracegrade.web.addresses import address
from tracegrade.web.forms import form_of
from tracegrade.web.masked import seen_by
from tracegrade.web.render import page
from tracegrade.web.rights import tenant_of, token_of
from tracegrade.web.sources import sources_of
from tracegrade.web.view import number_of

_A_PAGE = 50
_MOST_PAGES = 10_000
_MOST_CASES = 200
_MOST_OTHERS = 20


def show_all(request: Request) -> Response:
    """Evals with their state and scores, the newest first."""
    tenant, number = tenant_of(request), max(1, number_of(request, "page", 1, _MOST_PAGES))
    with sources_of(request).store() as connection:
        found = stored_jobs(connection, tenant, limit=_A_PAGE + 1, offset=(number - 1) * _A_PAGE)
        jobs = seen_by(token_of(request), found[:_A_PAGE])
        shown = evals_of(connection, tenant, jobs, time.time_ns())
        others = runs_without_job(connection, tenant, _MOST_OTHERS) if number == 1 else []
    return page(
        request,
        "evals.html",
        title="Evals",
        tenant=tenant,
        evals=shown,
        others=others,
        older=address("/evals", tenant=tenant, page=str(number + 1)) if len(found) > _A_PAGE else "",
        newest=address("/evals", tenant=tenant) if number > 1 else "",
        may_run=token_of(request).may("run"),
        may_delete=token_of(request).may("admin"),
        unfinished=UNFINISHED,
        live=any(item.job.state in UNFINISHED for item in shown),
    )


def show(request: Request) -> Response:
    """One eval: how far it is, what came of each model and of each case so far, and what can be done with it."""
    tenant, id_, sources = tenant_of(request), request.path_params["id"], sources_of(request)
    models = known_models(sources.config)
    with sources.store() as connection:
        job = stored_job(connection, tenant, id_)
        if job is None:
            raise HTTPException(404, f"There is no eval {id_!r}.")
        job = seen_by(token_of(request), job)
        (found,) = evals_of(connection, tenant, [job], time.time_ns())
        results = results_of(connection, found, models.prices, token_of(request))
    goes_on = job.state in UNFINISHED
    cases = results.cases if "all" in request.query_params else results.cases[:_MOST_CASES]
    return page(
        request,
        "eval.html",
        title=f"Eval of {found.suite_name}",
        tenant=tenant,
        item=found,
        job=job,
        results=results,
        cases=cases,
        hidden=len(results.cases) - len(cases),
        goes_on=goes_on,
        live=job_events_address(id_, tenant) if goes_on else "",
        may_run=token_of(request).may("run"),
        may_delete=token_of(request).may("admin"),
        shows_values=token_of(request).may("read-values"),
    )


async def change(request: Request) -> Response:
    """Cancel the eval, or let it go on, as the form says.

    Raises:
        HTTPException: 400, the form says something else.
        NotFound: there is none.
        NotPossible: it is done already.
    """
    tenant, id_ = tenant_of(request), request.path_params["id"]
    action = (await form_of(request)).get("action", "")
    act = {"cancel": cancel, "resume": resume}.get(action)
    if act is None:
        raise HTTPException(400, f"action: expected cancel or resume, found {action[:100]!r}")
    await run_in_threadpool(act, sources_of(request).config, tenant, id_)
    return RedirectResponse(eval_address(id_, tenant), 303)


async def delete(request: Request) -> Response:
    """Delete the eval with its runs and their traces.

    Raises:
        NotFound: there is none.
        NotPossible: it is not finished.
    """
    tenant, id_ = tenant_of(request), request.path_params["id"]
    await run_in_threadpool(delete_with_runs, sources_of(request).config.store_url, tenant, id_)
    return RedirectResponse(address("/evals", tenant=tenant), 303)
