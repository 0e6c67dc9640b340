"""Suites that are imported.

``/suites/import``: from JSON, uploaded or pasted, as new ones or in place of a stored one; ``/suites/import-mcp``: from
the tools of an MCP server.
"""

import time
from collections.abc import Mapping, Sequence

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tracegrade.model.json_value import JsonValue
from tracegrade.suites.imported import SuiteError
from tracegrade.suites.keeping import add_suite, known_suite, replace_suite
from tracegrade.suites.settings import suites_settings
from tracegrade.suites.store.suites import StoredSuite
from tracegrade.suites.stored import Read
from tracegrade.suites.web.addresses import suite_address
from tracegrade.suites.web.pages.suites import MOST_BYTES, json_in, texts_of, unix_text
from tracegrade.suites.web.servers import listed_suite
from tracegrade.web.forms import parts_of
from tracegrade.web.own_process import Busy
from tracegrade.web.render import page
from tracegrade.web.rights import check_right, tenant_of
from tracegrade.web.sources import sources_of


def show(request: Request) -> Response:
    """The form for a suite as JSON; with ``?replace=ID``, which replaces that suite."""
    return _json_form(request, "")


def show_mcp(request: Request) -> Response:
    """The form for the address of a server."""
    return _form(request, "suite_import_mcp.html", {"url": "", "name": ""})


async def import_json(request: Request) -> Response:
    """Store the suite in the file or the text of the form, and show it; or the form again, with what is wrong.

    With ``?replace=ID``, its tools and cases replace those of that suite.
    """
    parts = await parts_of(request, MOST_BYTES)
    file, text = parts.get("file", b""), unix_text(parts.get("text", b"").decode("utf-8", "replace"))
    try:
        if file and text.strip():
            raise SuiteError("expected a file or a text, found both")
        if not file and not text.strip():
            raise SuiteError("expected a file or a text, found neither")
        try:
            document = json_in(file.decode("utf-8-sig") if file else text, "the file" if file else "the text")
        except UnicodeDecodeError:
            raise SuiteError("the file: expected text in UTF-8") from None
        read = await run_in_threadpool(_add_or_replace, request, document)
    except SuiteError as error:
        return await run_in_threadpool(_json_form, request, text, str(error))
    return _done(request, read, read.notes)


async def import_server(request: Request) -> Response:
    """Store the tools of the server in the form, and show the suite; or the form again, with what is wrong."""
    written = await texts_of(request)
    try:
        headers = _headers(written.get("headers", ""))
        url, name = written.get("url", ""), written.get("name", "")
        found = await run_in_threadpool(listed_suite, sources_of(request), url, name, headers)
        read = await run_in_threadpool(_add, request, found.suite)
    except (SuiteError, Busy) as error:
        # Headers are not shown again: they may be keys.
        return _form(request, "suite_import_mcp.html", {"url": "", "name": "", **written}, str(error))
    return _done(request, read, [*dict.fromkeys([*found.notes, *read.notes])])


def _add(request: Request, document: JsonValue) -> Read:
    return add_suite(sources_of(request).config.store_url, tenant_of(request), document, time.time_ns())


def _add_or_replace(request: Request, document: JsonValue) -> Read:
    id_ = request.query_params.get("replace")
    if id_ is None:
        return _add(request, document)
    url = sources_of(request).config.store_url
    return replace_suite(url, tenant_of(request), id_, document, time.time_ns())


def _json_form(request: Request, text: str, problem: str = "") -> Response:
    id_, replaced = request.query_params.get("replace"), None
    if id_ is not None:
        with sources_of(request).store() as connection:
            replaced = known_suite(connection, tenant_of(request), id_)
    return _form(request, "suite_import.html", {"text": text}, problem, replaced)


def _headers(written: str) -> dict[str, str]:
    """The headers of lines ``NAME: VALUE``; raises `SuiteError`, which shows no value."""
    found: dict[str, str] = {}
    for number, line in enumerate(written.splitlines(), 1):
        if not line.strip():
            continue
        name, colon, value = line.partition(":")
        if not colon:
            raise SuiteError(f"headers: expected NAME: VALUE in line {number}, which is not shown: it may be a key")
        found[name.strip()] = value.strip()
    return found


def _done(request: Request, read: Read, notes: Sequence[str]) -> Response:
    """The suite; before it, what was left out, if anything was."""
    tenant = tenant_of(request)
    if not notes:
        return RedirectResponse(suite_address(read.suite.id, tenant), 303)
    return page(
        request,
        "suite_imported.html",
        title=f"Imported {read.suite.name}",
        tenant=tenant,
        suite=read.suite,
        notes=notes,
    )


def _form(
    request: Request,
    template: str,
    written: Mapping[str, str],
    problem: str = "",
    replaced: StoredSuite | None = None,
) -> Response:
    check_right(request, "run")
    return page(
        request,
        template,
        status=400 if problem else 200,
        title="Import a suite",
        tenant=tenant_of(request),
        written=written,
        problem=problem,
        replaced=replaced,
        mcp_hosts=suites_settings(sources_of(request).config).mcp_hosts,
    )
