"""``/suites``: all of a tenant. ``/suites/{id}``: one, and the forms that make, change and delete one."""

import json
import time
from collections.abc import Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tracegrade.model.json_value import JsonValue
from tracegrade.store.documents import tenants_of
from tracegrade.store.runs import stored_runs
from tracegrade.suites.hints import hints_of
from tracegrade.suites.imported import SuiteError
from tracegrade.suites.keeping import add_suite, change_suite, known_suite, remove_suite, without_case
from tracegrade.suites.store.suites import StoredSuite, suite_heads
from tracegrade.suites.stored import notes_of, stored_source, with_fields
from tracegrade.suites.suite import DEFAULT_MAX_ROUNDS
from tracegrade.suites.tool_suite import CASE_FIELDS
from tracegrade.suites.web.addresses import suite_address
from tracegrade.web.addresses import address
from tracegrade.web.forms import form_of
from tracegrade.web.masked import seen_by
from tracegrade.web.render import page
from tracegrade.web.rights import check_right, tenant_of, token_of
from tracegrade.web.sources import sources_of

MOST_BYTES = 4 << 20
_MOST_CASES = 200
_MOST_RUNS = 20
_MOST_NOTES = 20
_UNSET: dict[str, JsonValue] = dict.fromkeys(CASE_FIELDS)
_NEW = {"name": "", "description": "", "system_prompt": "", "tools": ""}


def show_all(request: Request) -> Response:
    """Every suite; the one made last comes first."""
    tenant = tenant_of(request)
    with sources_of(request).store() as connection:
        found = suite_heads(connection, tenant)
        tenants = tenants_of(connection, "suites")
    return page(
        request,
        "suites.html",
        title="Suites",
        tenant=tenant,
        tenants=sorted({*tenants, tenant}),
        found=found,
        may_write=token_of(request).may("run"),
    )


def show(request: Request) -> Response:
    """One suite: what models are told, its tools, its cases, its runs, and what may go wrong with it."""
    tenant = tenant_of(request)
    with sources_of(request).store() as connection:
        whole = suite_in(request, connection)
        runs = [run for run in stored_runs(connection, tenant) if run.source == stored_source(whole.id)]
    suite = seen_by(token_of(request), whole)
    functions = [function for tool in suite.tools if isinstance(function := tool["function"], dict)]
    shown = suite.cases if request.query_params.get("all") else suite.cases[:_MOST_CASES]
    return page(
        request,
        "suite.html",
        title=f"Suite {suite.name}",
        tenant=tenant,
        suite=suite,
        functions=functions,
        cases=[(case.id, _UNSET | case.body) for case in shown],
        most_rounds=DEFAULT_MAX_ROUNDS,
        hints=[*hints_of(suite), *(f"{note}." for note in _notes(request, whole))],
        runs=list(reversed(runs))[:_MOST_RUNS],
        more_runs=max(len(runs) - _MOST_RUNS, 0),
        may_write=token_of(request).may("run"),
        may_edit=token_of(request).may("run") and token_of(request).may("read-values"),
        may_delete=token_of(request).may("admin"),
    )


def _notes(request: Request, suite: StoredSuite) -> list[str]:
    if not token_of(request).may("read-values"):
        return []  # they say what they found
    return notes_of(suite, sources_of(request).config.rules.reading)[:_MOST_NOTES]


def show_new(request: Request) -> Response:
    """The form for a new suite."""
    return _form(request, None, _NEW)


def show_edit(request: Request) -> Response:
    """The form with what a suite says now; needs the right ``read-values``."""
    check_right(request, "read-values")
    with sources_of(request).store() as connection:
        suite = suite_in(request, connection)
    texts = {"name": suite.name, "description": suite.description, "system_prompt": suite.system_prompt}
    return _form(request, suite, {**texts, "tools": pretty_json(list(suite.tools)) if suite.tools else ""})


async def create(request: Request) -> Response:
    """Make the suite of the form, and show it; or the form again, with what is wrong."""
    tenant, written = tenant_of(request), await texts_of(request)
    url = sources_of(request).config.store_url
    try:
        read = await run_in_threadpool(add_suite, url, tenant, _fields(written), time.time_ns(), strict=True)
    except SuiteError as error:
        return _form(request, None, {**_NEW, **written}, str(error))
    return RedirectResponse(suite_address(read.suite.id, tenant), 303)


async def change(request: Request) -> Response:
    """Give the suite the fields of the form; or show the form again, with what is wrong."""
    check_right(request, "read-values")  # the form that it came from shows the system prompt
    tenant, written = tenant_of(request), await texts_of(request)
    id_, sources = request.path_params["suite_id"], sources_of(request)

    def changed(suite: StoredSuite) -> StoredSuite:
        return with_fields(suite, _fields(written), time.time_ns())

    try:
        await run_in_threadpool(change_suite, sources.config.store_url, tenant, id_, changed)
    except SuiteError as error:
        with sources.store() as connection:
            suite = suite_in(request, connection)
        return _form(request, suite, {**_NEW, **written}, str(error))
    return RedirectResponse(suite_address(id_, tenant), 303)


def delete(request: Request) -> Response:
    """Delete the suite with its cases, and show the others."""
    tenant = tenant_of(request)
    remove_suite(sources_of(request).config.store_url, tenant, request.path_params["suite_id"])
    return RedirectResponse(address("/suites", tenant=tenant), 303)


async def delete_case(request: Request) -> Response:
    """Take the case that the form names out of the suite, and show the suite."""
    tenant, id_ = tenant_of(request), request.path_params["suite_id"]
    case_id = (await form_of(request)).get("case", "")

    def changed(suite: StoredSuite) -> StoredSuite:
        return without_case(suite, case_id, time.time_ns())

    await run_in_threadpool(change_suite, sources_of(request).config.store_url, tenant, id_, changed)
    return RedirectResponse(suite_address(id_, tenant) + "#cases", 303)


def suite_in(request: Request, connection: Any) -> StoredSuite:
    """The suite in the address; raises `NoSuchSuite`."""
    return known_suite(connection, tenant_of(request), request.path_params["suite_id"])


async def texts_of(request: Request) -> dict[str, str]:
    """The fields of a form, with the line ends of files: browsers send those of e-mail. Raises as `form_of`."""
    return {name: unix_text(text) for name, text in (await form_of(request, MOST_BYTES)).items()}


def unix_text(text: str) -> str:
    """`text` with line ends as files have them."""
    return text.replace("\r\n", "\n")


def json_in(written: str, where: str) -> JsonValue:
    """The JSON that somebody wrote into a field.

    Raises:
        SuiteError: it is none.
    """
    try:
        value: JsonValue = json.loads(written)
    except (ValueError, RecursionError) as error:
        raise SuiteError(f"{where}: expected JSON: {error}") from None
    return value


def pretty_json(value: JsonValue) -> str:
    """JSON to be edited."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def _fields(written: Mapping[str, str]) -> dict[str, JsonValue]:
    """The fields of a suite; raises as `json_in`."""
    fields: dict[str, JsonValue] = {name: written.get(name, "") for name in ("name", "description", "system_prompt")}
    tools = written.get("tools", "").strip()
    return fields | {"tools": json_in(tools, "tools") if tools else []}


def _form(request: Request, suite: StoredSuite | None, written: Mapping[str, str], problem: str = "") -> Response:
    check_right(request, "run")
    return page(
        request,
        "suite_form.html",
        status=400 if problem else 200,
        title="New suite" if suite is None else f"Edit {suite.name}",
        tenant=tenant_of(request),
        suite=suite,
        written=written,
        problem=problem,
    )
