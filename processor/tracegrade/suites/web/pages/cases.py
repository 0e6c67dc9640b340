"""The form of a case of a suite: ``/suites/{id}/new-case``, and ``/suites/{id}/cases/{case}`` to change one."""

import time
from collections.abc import Mapping

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tracegrade.model.json_value import JsonValue
from tracegrade.suites.imported import SuiteError
from tracegrade.suites.keeping import case_of, change_suite
from tracegrade.suites.store.suites import StoredCase, StoredSuite
from tracegrade.suites.stored import with_case, with_cases
from tracegrade.suites.web.addresses import suite_address
from tracegrade.suites.web.pages.suites import json_in, pretty_json, suite_in, texts_of
from tracegrade.web.render import page
from tracegrade.web.rights import check_right, tenant_of
from tracegrade.web.sources import sources_of

PARAM_SCORING = ("exact", "fuzzy", "contains", "semantic")
MODES = ("exact", "case_insensitive", "contains", "numeric_tolerance", "regex")

# Fields of a case that have a field of the form: as text, as a list, as JSON, as a number.
_TEXTS = ("prompt", "param_scoring", "category")
_NAMES = ("valid_prerequisites",)
_JSON = ("expected_params", "mock_responses")
_NUMBERS = ("max_rounds", "optimal_hops")
_OF_TURNS = (*_NAMES, *_NUMBERS, "mock_responses")
_SHOWN = {*_TEXTS, *_OF_TURNS, "expected_params", "expected_tool", "scoring_config", "multi_turn"}
_EMPTY = dict.fromkeys([*_SHOWN - {"scoring_config"}, "id", "mode", "epsilon", "no_call"], "")


def show_new(request: Request) -> Response:
    """The form for a new case."""
    with sources_of(request).store() as connection:
        suite = suite_in(request, connection)
    return _form(request, suite, None, _EMPTY)


def show(request: Request) -> Response:
    """The form with what a case says now; needs the right ``read-values``."""
    check_right(request, "read-values")
    with sources_of(request).store() as connection:
        suite = suite_in(request, connection)
    case = case_of(suite, request.path_params["case_id"])
    return _form(request, suite, case, _written(case))


async def create(request: Request) -> Response:
    """Add the case of the form to the suite; or show the form again, with what is wrong."""
    return await _save(request, None)


async def change(request: Request) -> Response:
    """Put the case of the form in place of the one in the address; or show the form again, with what is wrong."""
    check_right(request, "read-values")  # the form that it came from shows all of the case
    return await _save(request, request.path_params["case_id"])


async def _save(request: Request, case_id: str | None) -> Response:
    tenant, id_, sources = tenant_of(request), request.path_params["suite_id"], sources_of(request)
    written = await texts_of(request)

    def changed(suite: StoredSuite) -> StoredSuite:
        now_ns = time.time_ns()
        if case_id is None:
            wanted: dict[str, JsonValue] = {"id": text} if (text := written.get("id", "").strip()) else {}
            return with_cases(suite, [wanted | _body(written)], now_ns)
        body = _body(written)
        hidden = {key: value for key, value in case_of(suite, case_id).body.items() if key not in _SHOWN}
        if hidden.get("should_call_tool") is (body.get("expected_tool") is None):
            hidden.pop("should_call_tool", None)  # of the tool that was expected before
        return with_case(suite, case_id, hidden | body, now_ns)

    try:
        await run_in_threadpool(change_suite, sources.config.store_url, tenant, id_, changed)
    except SuiteError as error:
        with sources.store() as connection:
            suite = suite_in(request, connection)
        known = None if case_id is None else case_of(suite, case_id)
        return _form(request, suite, known, {**_EMPTY, **written}, str(error).removeprefix("the case: "))
    return RedirectResponse(suite_address(id_, tenant) + "#cases", 303)


def _body(written: Mapping[str, str]) -> dict[str, JsonValue]:
    """The case that a form says, without its id; empty fields are left out.

    Raises:
        SuiteError: a field that cannot be read.
    """
    given = {name: text.strip() for name, text in written.items()}
    body: dict[str, JsonValue] = {name: given[name] for name in _TEXTS if given.get(name)}
    tool = given.get("expected_tool", "")
    if given.get("no_call"):
        if tool:
            raise SuiteError(f"expected_tool: expected no tool where no call is expected, found {tool[:60]!r}")
        body["expected_tool"] = None
    elif tool:
        names = _names_written(tool, "expected_tool")
        body["expected_tool"] = names[0] if len(names) == 1 and not tool.startswith("[") else [*names]
    config: dict[str, JsonValue] = {"mode": mode} if (mode := given.get("mode")) else {}
    if epsilon := given.get("epsilon"):
        config["epsilon"] = json_in(epsilon, "epsilon")
    if config:
        body["scoring_config"] = config
    if given.get("multi_turn"):
        body["multi_turn"] = True
    for name in ("expected_params", *_OF_TURNS):
        if text := given.get(name):
            body[name] = [*_names_written(text, name)] if name in _NAMES else json_in(text, name)
    return body


def _names_written(written: str, where: str) -> list[JsonValue]:
    """Names between commas, or a list of them as JSON, for names that have commas."""
    if not written.startswith("["):
        return [name.strip() for name in written.split(",") if name.strip()]
    found = json_in(written, where)
    if not isinstance(found, list):
        raise SuiteError(f"{where}: expected names between commas, found {written[:60]!r}")
    return found


def _written(case: StoredCase) -> dict[str, str]:
    """The fields of the form that say what a case says."""
    body, written = case.body, dict(_EMPTY)
    written |= {name: str(body[name]) for name in (*_TEXTS, *_NUMBERS) if name in body}
    written |= {name: pretty_json(body[name]) for name in _JSON if name in body}
    named = [name for name in ("expected_tool", *_NAMES) if body.get(name) is not None]
    written |= {name: _names_text(body[name], name in _NAMES) for name in named}
    written["no_call"] = "" if written["expected_tool"] else "1"
    if isinstance(config := body.get("scoring_config"), dict):
        written |= {key: str(config[key]) for key in ("mode", "epsilon") if key in config}
    return written | {"multi_turn": "1" if body.get("multi_turn") else ""}


def _names_text(value: JsonValue, is_list: bool) -> str:
    """Names between commas where `_body` reads the same from them, else JSON; `is_list` if it reads a list anyway."""
    names: list[JsonValue] = value if isinstance(value, list) else [value]
    is_plain = all(isinstance(name, str) and name and not set(name) & {",", "["} for name in names)
    is_told_apart = is_list or len(names) > 1 or isinstance(value, str)
    return ", ".join(map(str, names)) if is_plain and is_told_apart else pretty_json(names)


def _form(
    request: Request, suite: StoredSuite, case: StoredCase | None, written: Mapping[str, str], problem: str = ""
) -> Response:
    check_right(request, "run")
    functions = [function for tool in suite.tools if isinstance(function := tool["function"], dict)]
    return page(
        request,
        "case_form.html",
        status=400 if problem else 200,
        title=f"New case of {suite.name}" if case is None else f"Case {case.id} of {suite.name}",
        tenant=tenant_of(request),
        suite=suite,
        case=case,
        written=written,
        problem=problem,
        tools=[str(function["name"]) for function in functions],
        param_scoring=PARAM_SCORING,
        modes=MODES,
    )
