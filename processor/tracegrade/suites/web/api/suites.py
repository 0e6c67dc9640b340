"""Suites that are stored, and their cases: written, imported from files and MCP servers, exported."""

import time
from pathlib import Path
from typing import Annotated, Any

import orjson
from fastapi import Body

from tracegrade.model.json_value import JsonValue
from tracegrade.suites.imported import SuiteError, rule_id_of
from tracegrade.suites.keeping import (
    add_suite,
    case_of,
    change_suite,
    known_suite,
    remove_suite,
    replace_suite,
    without_case,
)
from tracegrade.suites.store.suites import StoredCase, StoredSuite, suite_heads
from tracegrade.suites.stored import Read, document_of, notes_of, unset_needs, with_case_fields, with_cases, with_fields
from tracegrade.suites.web.api.suite_documents import (
    CasesDocument,
    DeletedSuite,
    ExportedSuite,
    NewCases,
    NewSuite,
    SavedCase,
    SentCaseFields,
    SentCases,
    SentFields,
    SentImport,
    SentServer,
    SentSuite,
    SuiteDocument,
    Suites,
)
from tracegrade.suites.web.servers import listed_suite
from tracegrade.web.api.documents import ExactJson
from tracegrade.web.api.operations import Operations
from tracegrade.web.api.parameters import ApiCall, NoParameters, OfTenant, PathName
from tracegrade.web.masked import seen_by
from tracegrade.web.sources import Sources

EXAMPLE = Path(__file__).with_name("example_suite.json")

_FIELDS = frozenset(SentFields.model_fields)

router = Operations(503)


@router.operation("GET /tool-suites", "Suites", Suites)
def list_tool_suites(call: OfTenant) -> ExactJson:
    """Every suite without its tools and cases; the one made last comes first."""
    with call.sources.store() as connection:
        found = suite_heads(connection, call.tenant)
    return ExactJson({"suites": [head.to_json() for head in found]})


@router.operation("POST /tool-suites", "Make a suite", NewSuite, right="run", status=201)
def create_tool_suite(call: OfTenant, suite: Annotated[SentSuite, Body()]) -> ExactJson:
    """Makes a suite. It may have no tools and no cases yet; a field that no suite or case has is refused."""
    read = add_suite(call.store_url, call.tenant, suite.given, time.time_ns(), strict=True)
    return _new(call.sources, read)


@router.operation("GET /tool-suites/{suite_id}", "One suite", SuiteDocument, 404)
def show_tool_suite(call: OfTenant, suite_id: PathName) -> ExactJson:
    """A suite with its tools and test cases."""
    return _suite_answer(call, _known(call, suite_id))


@router.operation("PUT /tool-suites/{suite_id}", "Change a suite", SuiteDocument, 404, right="run")
def update_tool_suite(call: OfTenant, suite_id: PathName, fields: Annotated[SentFields, Body()]) -> ExactJson:
    """Changes name, description, system prompt or tools; what is left out stays, and so do the cases."""
    return _changed(call, suite_id, fields)


@router.operation("PATCH /tool-suites/{suite_id}", "Change fields of a suite", SuiteDocument, 404, right="run")
def patch_tool_suite(call: OfTenant, suite_id: PathName, fields: Annotated[SentFields, Body()]) -> ExactJson:
    """The same as PUT: changes the fields that are sent, such as the system prompt."""
    return _changed(call, suite_id, fields)


@router.operation("DELETE /tool-suites/{suite_id}", "Delete a suite with its cases", DeletedSuite, 404, right="admin")
def delete_tool_suite(call: OfTenant, suite_id: PathName) -> ExactJson:
    """Deletes a suite with its cases. Runs that were made of it stay."""
    found = remove_suite(call.store_url, call.tenant, suite_id)
    return ExactJson({"deleted": 1, "test_cases_deleted": len(found.cases)})


@router.operation(
    "GET /tool-suites/{suite_id}/export", "A suite as JSON to import", ExportedSuite, 404, right="read-values"
)
def export_tool_suite(call: OfTenant, suite_id: PathName) -> ExactJson:
    """A suite as a file: importing it makes the same suite again."""
    found = _known(call, suite_id)
    return ExactJson(document_of(found), headers=_as_file(f"{rule_id_of(found.name)}.json"))


@router.operation("GET /tool-suites/{suite_id}/cases", "The cases of a suite", CasesDocument, 404)
def list_test_cases(call: OfTenant, suite_id: PathName) -> ExactJson:
    """Every case, in order."""
    found = _known(call, suite_id)
    return ExactJson({"cases": [_case(case) for case in seen_by(call.caller, found.cases)]})


@router.operation(
    "POST /tool-suites/{suite_id}/cases", "Add a case, or several", NewCases, 404, right="run", status=201
)
def create_test_cases(call: OfTenant, suite_id: PathName, cases: Annotated[SentCases, Body()]) -> ExactJson:
    """Adds a case, a list of cases, or those in `cases`, at the end of the suite: all of them, or none."""
    is_alone = isinstance(cases, dict) and "cases" not in cases
    written = _sent_cases(cases)
    before, after = change_suite(
        call.store_url, call.tenant, suite_id, lambda suite: with_cases(suite, written, time.time_ns())
    )
    added = after.cases[len(before.cases) :]
    new = [_case(case) for case in added]
    made = {"cases": new, "created": len(new), "case_id": new[0]["id"] if is_alone else None}
    return ExactJson({**made, "notes": unset_needs(added, call.sources.config.rules.reading)}, 201)


@router.operation("PUT /tool-suites/{suite_id}/cases/{case_id:path}", "Change a case", SavedCase, 404, right="run")
def update_test_case(
    call: OfTenant, suite_id: PathName, case_id: PathName, fields: Annotated[SentCaseFields, Body()]
) -> ExactJson:
    """Changes the fields of a case that are sent; null clears one, what is left out stays.

    Where a run of it would need what the settings do not name, the answer also has `notes`, a list of text.
    """

    def changed(suite: StoredSuite) -> StoredSuite:
        return with_case_fields(suite, case_of(suite, case_id), fields, time.time_ns())

    _, after = change_suite(call.store_url, call.tenant, suite_id, changed)
    saved = case_of(after, case_id)
    notes = unset_needs([saved], call.sources.config.rules.reading)
    return ExactJson({**_case(seen_by(call.caller, saved)), **({"notes": notes} if notes else {})})


@router.operation(
    "DELETE /tool-suites/{suite_id}/cases/{case_id:path}", "Delete a case", DeletedSuite, 404, right="run"
)
def delete_test_case(call: OfTenant, suite_id: PathName, case_id: PathName) -> ExactJson:
    """Takes a case out of a suite; runs that were made with it stay."""
    url = call.store_url
    change_suite(url, call.tenant, suite_id, lambda suite: without_case(suite, case_id, time.time_ns()))
    return ExactJson({"deleted": 1, "test_cases_deleted": 1})


@router.operation(
    "POST /tool-eval/import",
    "Import a suite from JSON",
    NewSuite,
    404,
    right="run",
    status=201,
    answers={200: {"model": NewSuite, "description": "It replaced the suite `suite_id`"}},
)
def import_tool_suite(call: OfTenant, suite: Annotated[SentImport, Body()]) -> ExactJson:
    """Makes a suite of one that was exported here or elsewhere; `notes` say what of it no suite has.

    With `suite_id`, its tools and cases replace those of that suite, and so do name, description and system prompt
    where it has them. The suite keeps its id and its experiments.
    """
    url, document = call.store_url, suite.given
    if (id_ := document.pop("suite_id", None)) is None:
        return _new(call.sources, add_suite(url, call.tenant, document, time.time_ns()))
    if not isinstance(id_, str) or "\0" in id_:
        raise SuiteError(f"suite_id: expected the id of a suite, found {id_!r}")
    return _new(call.sources, replace_suite(url, call.tenant, id_, document, time.time_ns()), status=200)


@router.operation("GET /tool-eval/import/example", "An example to import", ExportedSuite)
def show_import_example(query: NoParameters) -> ExactJson:
    """A suite to begin with, as it is imported."""
    return ExactJson(orjson.loads(EXAMPLE.read_bytes()), headers=_as_file("suite-example.json"))


@router.operation(
    "POST /tool-eval/import/mcp", "Import the tools of an MCP server", NewSuite, 409, right="run", status=201
)
def import_mcp_suite(call: OfTenant, server: Annotated[SentServer, Body()]) -> ExactJson:
    """Asks a server for its tools, and makes a suite of them without cases; no tool is called.

    Never asked are link-local addresses and our own listeners; private ones only if `suites.mcp_hosts` names them.
    """
    unknown = server.given.keys() - SentServer.model_fields.keys()
    if unknown:
        raise SuiteError(f"{min(unknown)!r} is not known; expected url, name or headers")
    found = listed_suite(call.sources, server.url, server.name, server.headers)
    read = add_suite(call.store_url, call.tenant, found.suite, time.time_ns())
    return _new(call.sources, read, found.notes)


def _known(call: ApiCall[Any], suite_id: str) -> StoredSuite:
    with call.sources.store() as connection:
        return known_suite(connection, call.tenant, suite_id)


def _changed(call: ApiCall[Any], suite_id: str, fields: SentFields) -> ExactJson:
    if not fields.given:
        raise SuiteError(f"expected at least one of {', '.join(SentFields.model_fields)}, found nothing to change")
    if unknown := fields.given.keys() - _FIELDS:
        more = "; its cases have an address of their own, /cases" if "test_cases" in unknown else ""
        raise SuiteError(
            f"{min(unknown)!r} cannot be changed here; expected {', '.join(SentFields.model_fields)}{more}"
        )
    _, after = change_suite(
        call.store_url, call.tenant, suite_id, lambda suite: with_fields(suite, fields.given, time.time_ns())
    )
    return _suite_answer(call, after)


def _sent_cases(sent: Any) -> list[JsonValue]:
    if isinstance(sent, dict) and "cases" in sent:
        if others := sent.keys() - {"cases"}:
            raise SuiteError(f"{min(others)!r} is beside 'cases'; expected only the list of cases")
        sent = sent["cases"]
    elif isinstance(sent, dict):
        return [sent]
    if not isinstance(sent, list) or not sent:
        raise SuiteError("expected a case, or a list of at least one")
    return sent


def _suite_answer(call: ApiCall[Any], suite: StoredSuite) -> ExactJson:
    reading = call.sources.config.rules.reading
    notes = notes_of(suite, reading) if call.caller.may("read-values") else []  # they say what they found
    seen = seen_by(call.caller, suite)
    return ExactJson(SuiteDocument.json_of(seen, test_cases=[_case(case) for case in seen.cases], notes=notes))


def _case(case: StoredCase) -> dict[str, Any]:
    """A case with the fields that every case has, also where they are not set."""
    unset = {"expected_tool": None, "expected_params": None, "param_scoring": "exact", "scoring_config": None}
    return {"id": case.id, "prompt": case.body["prompt"], **unset, **case.body}


def _new(sources: Sources, read: Read, notes: list[str] | None = None, status: int = 201) -> ExactJson:
    suite = read.suite
    unset = unset_needs(suite.cases, sources.config.rules.reading)
    said = [*dict.fromkeys([*(notes or ()), *read.notes, *unset])]
    made = {"suite_id": suite.id, "test_cases_created": len(suite.cases), "notes": said}
    return ExactJson(NewSuite.json_of(suite, test_cases=[_case(case) for case in suite.cases], **made), status)


def _as_file(name: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="{name}"'}
