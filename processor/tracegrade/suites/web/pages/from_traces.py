"""``/suites/from-traces``: traces that somebody chose on another page become cases of a suite, redacted."""

import time
from collections.abc import Sequence

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tracegrade.history.promote.chosen import recorded
from tracegrade.history.promote.download import MOST_TRACES
from tracegrade.model.errors import NotFound, NotPossible
from tracegrade.store.named import trace_id_named
from tracegrade.store.schema import LIVE
from tracegrade.suites.imported import SuiteError
from tracegrade.suites.keeping import change_suite
from tracegrade.suites.promoted_case import suite_case, with_promoted
from tracegrade.suites.store.suites import suite_heads
from tracegrade.suites.web.addresses import suite_address
from tracegrade.suites.web.pages.suites import texts_of
from tracegrade.web.render import page
from tracegrade.web.rights import check_right, tenant_of, token_of
from tracegrade.web.sources import sources_of


def show(request: Request) -> Response:
    """The form: which suite the traces of the address become cases of; needs the right ``read-values``."""
    asked = request.query_params
    return _form(request, asked.getlist("trace_id"), asked.get("rule", ""))


async def add(request: Request) -> Response:
    """Add the cases and show the suite; or the form again, with what is wrong. Needs ``read-values``, too."""
    check_right(request, "read-values")
    given = await texts_of(request)
    return await run_in_threadpool(_add, request, given)


def _add(request: Request, given: dict[str, str]) -> Response:
    sources, tenant, now_ns = sources_of(request), tenant_of(request), time.time_ns()
    ids, rule_id, suite_id = given.get("trace_ids", "").split(), given.get("rule", ""), given.get("suite", "")
    try:
        if not 1 <= len(ids) <= MOST_TRACES:
            raise NotPossible(f"expected at least one trace and at most {MOST_TRACES}, found {len(ids)}")
        rule = next((rule for rule in sources.rule_set().rules if rule.id == rule_id), None)
        if rule_id and rule is None:
            raise NotPossible(f"rule {rule_id[:200]} is not in force")
        with sources.store() as connection:
            named = [trace_id_named(connection, written, sessions=False) for written in ids]
            traces = [recorded(connection, trace_id, LIVE, None, tenant) for trace_id in named]
        made = [suite_case(trace, rule, sources.config.traces, redacts=True) for trace in traces]
        store_url = sources.config.store_url
        change_suite(store_url, tenant, suite_id, lambda suite: with_promoted(suite, made, now_ns))
    except (NotFound, NotPossible, SuiteError) as error:
        return _form(request, ids, rule_id, str(error))
    return RedirectResponse(suite_address(suite_id, tenant) + "#cases", 303)


def _form(request: Request, trace_ids: Sequence[str], rule_id: str, problem: str = "") -> Response:
    check_right(request, "read-values")
    tenant = tenant_of(request)
    with sources_of(request).store() as connection:
        suites = suite_heads(connection, tenant)
    return page(
        request,
        "suite_from_traces.html",
        status=400 if problem else 200,
        title="Make cases of a suite",
        tenant=tenant,
        trace_ids=trace_ids,
        rule_id=rule_id,
        suites=suites,
        problem=problem,
        may_run=token_of(request).may("run"),
    )
