"""``/evals/new``: the form that runs a suite with models, as a job."""

from collections.abc import Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tracegrade.model.errors import NotPossible, TraceGradeError
from tracegrade.store.errors import StoreError
from tracegrade.store.runs import stored_experiments
from tracegrade.suites.jobs.submit import submit
from tracegrade.suites.jobs.suite_request import suite_request
from tracegrade.suites.models.asking import TOOL_CHOICES
from tracegrade.suites.runs.experiments import OtherSuite
from tracegrade.suites.store.jobs import stored_job
from tracegrade.suites.store.suites import suite_heads
from tracegrade.suites.web.addresses import eval_address
from tracegrade.suites.web.evals import known_models
from tracegrade.web.forms import form_of
from tracegrade.web.render import page
from tracegrade.web.rights import check_right, tenant_of, token_of
from tracegrade.web.sources import sources_of

_MODEL, _PROMPT = "model:", "prompt:"
_MOST_BYTES = 1 << 22
_EMPTY = {
    "suite": "",
    "temperature": "0",
    "tool_choice": "required",
    "repeat": "1",
    "experiment": "",
    "system_prompt": "",
}


def show(request: Request) -> Response:
    """The form, filled in as the address says: a suite, an experiment, or an eval to run again."""
    tenant, asked = tenant_of(request), request.query_params
    written = {**_EMPTY, "suite": asked.get("suite", ""), "experiment": asked.get("experiment", "")}
    written |= {f"{_MODEL}{key}": "1" for key in asked.getlist("model")}
    if again := asked.get("again"):
        with sources_of(request).store() as connection:
            job = stored_job(connection, tenant, again)
        if job is not None and job.request.get("system_prompt"):
            check_right(request, "read-values")  # the form shows it, and asks with it
        written |= _written(job.request) if job is not None else {}
    return _form(request, tenant, written)


async def run(request: Request) -> Response:
    """Queue what the form asks for, and show it; or the form again, with what is wrong."""
    tenant = tenant_of(request)
    written = await form_of(request, _MOST_BYTES)
    config, owner = sources_of(request).config, token_of(request).owner
    try:
        asked = suite_request(_request(written))
        job = await run_in_threadpool(submit, config, tenant, owner, asked)
    except StoreError:
        raise
    except TraceGradeError as error:
        status = 409 if isinstance(error, OtherSuite) else 400
        return await run_in_threadpool(_form, request, tenant, {**_EMPTY, **written}, str(error), status)
    return RedirectResponse(eval_address(job.id, tenant), 303)


def _form(request: Request, tenant: str, written: Mapping[str, str], problem: str = "", status: int = 200) -> Response:
    sources = sources_of(request)
    with sources.store() as connection:
        suites = suite_heads(connection, tenant)
        experiments = [experiment.name for experiment in stored_experiments(connection, tenant)]
    models = known_models(sources.config)
    return page(
        request,
        "run_eval.html",
        status=status,
        title="Run an eval",
        tenant=tenant,
        problem=problem,
        written=written,
        suites=[suite for suite in suites if suite.test_case_count],
        empty=[suite.name for suite in suites if not suite.test_case_count],
        models=models,
        chosen=[key for key in models.keys if f"{_MODEL}{key}" in written],
        prompts={key: written.get(f"{_PROMPT}{key}", "") for key in models.keys},
        tool_choices=TOOL_CHOICES,
        experiments=experiments,
        may_run=token_of(request).may("run"),
    )


def _request(written: Mapping[str, str]) -> dict[str, Any]:
    """What the form asks for; empty fields are left out.

    Raises:
        NotPossible: no suite or no model is chosen.
    """
    models = [name.removeprefix(_MODEL) for name in written if name.startswith(_MODEL)]
    if not models or not written.get("suite"):
        raise NotPossible(f"choose {'a suite' if models else 'at least one model'}")
    given = {name: written[name].strip() for name in ("suite", "tool_choice", "experiment") if written.get(name)}
    found: dict[str, Any] = {name: text for name, text in given.items() if text} | {"models": models}
    for name, read in (("temperature", float), ("repeat", int)):
        if text := written.get(name, "").strip():
            found[name] = _number(text, read)
    for_all = _with_plain_line_breaks(written.get("system_prompt", ""))
    of_one = {key: text for key in models if (text := _with_plain_line_breaks(written.get(f"{_PROMPT}{key}", "")))}
    if of_one:
        found["system_prompt"] = {**(dict.fromkeys(models, for_all) if for_all else {}), **of_one}
    elif for_all:
        found["system_prompt"] = for_all
    return found


def _number(text: str, read: type[float] | type[int]) -> float | str:
    try:
        return read(text)
    except ValueError:
        return text  # which is refused as what it is


def _with_plain_line_breaks(written: str) -> str:
    """What was written in a field of several lines, with the line breaks of text; browsers send others."""
    return written.replace("\r\n", "\n").strip()


def _written(request: Mapping[str, Any]) -> dict[str, str]:
    """The fields of the form that asked for this."""
    prompt = request.get("system_prompt")
    of_one = prompt if isinstance(prompt, dict) else {}
    return {
        **{name: str(request[name]) for name in ("suite", "temperature", "tool_choice", "repeat") if name in request},
        "experiment": request.get("experiment") or "",
        "system_prompt": prompt if isinstance(prompt, str) else "",
        **{f"{_MODEL}{key}": "1" for key in request.get("models", ())},
        **{f"{_PROMPT}{key}": text for key, text in of_one.items()},
    }
