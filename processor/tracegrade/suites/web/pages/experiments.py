"""The pages of experiments with what suites add: new ones, the suite that one is about, and its best run again."""

from typing import Any

from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tracegrade.history.runs.experiments import Timeline
from tracegrade.model.errors import NotPossible, TraceGradeError
from tracegrade.store.errors import StoreError
from tracegrade.suites.jobs.submit import best_request, submit
from tracegrade.suites.jobs.suite_request import SuiteRequest
from tracegrade.suites.keeping import NoSuchSuite
from tracegrade.suites.runs.cases import is_suite_run
from tracegrade.suites.runs.experiments import make_experiment
from tracegrade.suites.store.suites import suite_heads
from tracegrade.suites.web.addresses import eval_address
from tracegrade.web.addresses import experiment_address
from tracegrade.web.forms import form_of
from tracegrade.web.pages import experiments
from tracegrade.web.rights import tenant_of, token_of
from tracegrade.web.sources import sources_of


def show_all(request: Request) -> Response:
    """Every experiment, and the form that makes one."""

    def more(connection: Connection, tenant: str) -> dict[str, Any]:
        return {"suites": suite_heads(connection, tenant), "may_make": token_of(request).may("run")}

    return experiments.show_all(request, "experiments_of_suites.html", more)


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
    await run_in_threadpool(make_experiment, url, tenant, name, suite=suite, description=description)
    return RedirectResponse(experiment_address(name, tenant), 303)


def show(request: Request) -> Response:
    """One experiment, the suite that it is about, and what runs evals in it."""

    def more(connection: Connection, found: Timeline) -> dict[str, Any]:
        about = found.experiment.suite
        suites = suite_heads(connection, found.experiment.tenant) if about else []
        return {
            "suite_name": next((head.name for head in suites if head.id == about), ""),
            "best": _best(connection, found) if token_of(request).may("run") else None,
        }

    return experiments.show(request, "experiment_of_suite.html", more)


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
    """Run the best configuration, if the form says so; else as the page of the core.

    Raises:
        HTTPException: 409, the best cannot be run.
        NotFound: there is no such experiment.
        NotPossible: the run cannot be the baseline.
    """
    written = await form_of(request)
    if written.get("action") != "run-best":
        return await experiments.pin_baseline(request, written)
    tenant, name = tenant_of(request), request.path_params["experiment"]
    return RedirectResponse(await run_in_threadpool(_run_best, request, tenant, name), 303)


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
