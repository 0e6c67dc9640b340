"""Traces as tests of a rule: ``/traces/{id}/tests/{rule}.zip`` of one, ``/rules/{rule}/tests.zip`` of some."""

from collections.abc import Sequence

from sqlalchemy import Connection
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from tracegrade.history.promote.beside_rule import Promoter
from tracegrade.history.promote.download import MOST_TRACES, empty_files, packed
from tracegrade.history.promote.promotion import How
from tracegrade.model.errors import NotPossible
from tracegrade.model.trace_result import TraceSummary
from tracegrade.rule.rule import Rule
from tracegrade.store.schema import LIVE
from tracegrade.web.pages.trace import chosen_trace, download, trace_with_id
from tracegrade.web.rights import check_right
from tracegrade.web.sources import Sources, sources_of


def of_one(request: Request) -> Response:
    """A zip of the trace, shortened and redacted, and a tests.yaml with its entry, in a folder named after the rule.

    Needs the right ``read-values``. 404: no such trace, or no such rule in force. 409: the trace cannot be a test of
    the rule; the answer says why.
    """
    sources, rule = _asked(request)
    with sources.store() as connection:
        head = chosen_trace(connection, request).trace
        content = _zip_of(connection, sources, rule, [head])
    return download(content, "application/zip", f"{rule.id}-{head.own_id.hex()}.zip")


def of_some(request: Request) -> Response:
    """The same of all traces that the address names as ``trace_id``, of one tenant and run."""
    sources, rule = _asked(request)
    asked = request.query_params
    ids = list(dict.fromkeys(asked.getlist("trace_id")))
    if not 1 <= len(ids) <= MOST_TRACES:
        raise HTTPException(400, f"Choose at least one trace and at most {MOST_TRACES}; found {len(ids)}.")
    with sources.store() as connection:
        run = asked.get("run", "") or LIVE
        heads = [trace_with_id(connection, written, asked.get("tenant"), run).trace for written in ids]
        content = _zip_of(connection, sources, rule, heads)
    return download(content, "application/zip", f"{rule.id}-tests.zip")


def _asked(request: Request) -> tuple[Sources, Rule]:
    check_right(request, "read-values")
    sources, rule_id = sources_of(request), request.path_params["rule_id"]
    rule = next((rule for rule in sources.rule_set().rules if rule.id == rule_id), None)
    if rule is None:
        raise HTTPException(404, f"Rule {rule_id} is not in force.")
    return sources, rule


def _zip_of(connection: Connection, sources: Sources, rule: Rule, heads: Sequence[TraceSummary]) -> bytes:
    """Raises HTTPException 409: one cannot be a test of the rule."""
    files = empty_files(rule.id)
    for head in heads:
        try:
            promoter = Promoter(connection, head.run, rule, sources.config.traces, How(), head.tenant)
            promoter.add(files, [head.own_id])
        except NotPossible as error:
            raise HTTPException(409, str(error)) from None
    return packed(files)
