"""``/find``: what a text names, such as the beginning of an id; what it names alone is opened at once."""

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tracegrade.model.session import session_trace_id
from tracegrade.queries.find import MOST, Named, find
from tracegrade.store.tallies import names_of
from tracegrade.web.addresses import address, session_address, span_address, trace_address
from tracegrade.web.render import page
from tracegrade.web.rights import token_of
from tracegrade.web.sources import sources_of


def show(request: Request) -> Response:
    """What ``q`` names, by kind."""
    written = request.query_params.get("q", "").strip()[:200]
    sources, reads_values = sources_of(request), token_of(request).may("read-values")
    with sources.store() as connection:
        found = find(connection, [rule.id for rule in sources.rule_set().rules], written, prompts=reads_values)
        several = len(names_of(connection, "tenant")) > 1
    addresses = [(named, _address(named)) for named in found]
    if len({there for _, there in addresses}) == 1:
        return RedirectResponse(addresses[0][1], 303)
    return page(request, "find.html", title="Find", written=written, found=addresses, most=MOST, of_tenants=several)


def _address(named: Named) -> str:
    """Where it is shown; a tool by the newest trace that called it."""
    head, name = named.head, named.name
    if named.kind == "rule":
        return address(f"/rules/{name}")
    if named.kind == "incident":
        return address(f"/incidents/{name}")
    if head is None:
        return address("/traces", **{named.kind: name})
    if named.kind == "session":
        own = session_trace_id(head.tenant, head.session or "").hex()
        return session_address(own, head.tenant, session=head.session or "")
    if named.kind == "span":
        return span_address(head.trace_id, name, head.tenant)
    return trace_address(head.trace_id, head.tenant)
