"""``/compare/traces``: two traces side by side, such as those of one prompt in two runs."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from tracegrade.compare.web.addresses import compare_traces_address
from tracegrade.model.evaluation import Decision
from tracegrade.model.trace_result import TraceResult
from tracegrade.queries.passing import passing_beside
from tracegrade.store.schema import LIVE
from tracegrade.web.alignment import beside
from tracegrade.web.pages.trace import trace_with_id
from tracegrade.web.render import page
from tracegrade.web.rights import tenant_of, token_of
from tracegrade.web.sources import sources_of

_WORST_FIRST = ("fail", "error", "not_evaluable", "pass", "sampled_out")


@dataclass(frozen=True, slots=True)
class RuleRow:
    """One rule: how often which outcome on each side, the worst first; empty where it did not judge."""

    rule_id: str
    a: list[tuple[str, int]]
    b: list[tuple[str, int]]


def show(request: Request) -> Response:
    """The traces `a` and `b` of the address, of the runs `run_a` and `run_b`: facts, results, and calls aligned.

    In place of `b` the address may name a rule that fails in `a`, as `passing`: `b` is then a trace in which it passes.
    """
    rule_id, passing = request.query_params.get("passing", ""), None
    with sources_of(request).store() as connection:
        a = _chosen(connection, request, "a")
        if rule_id:
            if (passing := passing_beside(connection, a, rule_id)) is None:
                raise HTTPException(404, f"No stored trace passes the rule {rule_id[:200]} at the same agent.")
            b = trace_with_id(connection, passing.trace_id, a.trace.tenant, a.trace.run)
        else:
            b = _chosen(connection, request, "b")
    one, other, tenant = a.trace, b.trace, tenant_of(request)
    rows = _rules(a.decisions, b.decisions)
    return page(
        request,
        "compare_traces.html",
        title="Two traces side by side",
        a=a,
        b=b,
        swapped=compare_traces_address(other.trace_id, one.trace_id, other.run, one.run, tenant),
        rule_id=rule_id,
        passing=passing,
        differing=[row for row in rows if row.a != row.b],
        alike=[row.rule_id for row in rows if row.a == row.b],
        alignment=beside(a.tool_calls, b.tool_calls),
        shows_values=token_of(request).may("read-values"),
    )


def _chosen(connection: Connection, request: Request, side: str) -> TraceResult:
    """One side.

    Raises:
        HTTPException: 400, the address does not name it, or it is a session; 404, it is not stored.
        NotFound: there is no such run.
    """
    asked = request.query_params
    if not (written := asked.get(side, "").strip()):
        raise HTTPException(400, f"{side}: expected a trace id, found nothing.")
    found = trace_with_id(connection, written, asked.get("tenant"), asked.get(f"run_{side}", "") or LIVE)
    if found.trace.members is not None:
        raise HTTPException(400, f"{side}: {written} is a session; two traces can be shown side by side.")
    return found


def _rules(a: Sequence[Decision], b: Sequence[Decision]) -> list[RuleRow]:
    ids = sorted({decision.pair.rule_id for decision in (*a, *b)})
    return [RuleRow(rule_id, _outcomes(rule_id, a), _outcomes(rule_id, b)) for rule_id in ids]


def _outcomes(rule_id: str, decisions: Sequence[Decision]) -> list[tuple[str, int]]:
    found = [decision.outcome or decision.kind for decision in decisions if decision.pair.rule_id == rule_id]
    return [(name, found.count(name)) for name in _WORST_FIRST if name in found]
