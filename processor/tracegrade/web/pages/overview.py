"""``/``: how often each rule passes."""

import time

from starlette.requests import Request
from starlette.responses import Response

from tracegrade.store.rates import rates
from tracegrade.store.read import Filter
from tracegrade.web.render import page
from tracegrade.web.sources import sources_of

_DAY_NS = 86_400_000_000_000


def show(request: Request) -> Response:
    """Every rule in force and every rule with results in the last day, with its pass rate."""
    sources = sources_of(request)
    with sources.store() as connection:
        found = rates(connection, Filter(since_ns=time.time_ns() - _DAY_NS))
    judged = {rate.rule_id for rate in found}
    without = [rule.id for rule in sources.rule_set().rules if rule.id not in judged]
    return page(request, "overview.html", title="Overview", rates=found, without=without)
