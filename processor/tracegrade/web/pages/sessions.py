"""``/sessions``: conversations. ``/sessions/{trace_id}``: one, by the trace id of its own, turn by turn."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from tracegrade.access.caller import Caller
from tracegrade.assemble.settings import TracesSettings
from tracegrade.extract.conversation import conversation
from tracegrade.history.stored_extraction import extract_stored
from tracegrade.model.session import session_trace_id
from tracegrade.model.trace import close_reason_text
from tracegrade.model.trace_result import TraceResult
from tracegrade.model.usage import no_prices
from tracegrade.queries.lists import judged_sessions_page, traces_page
from tracegrade.rule.prices import Prices
from tracegrade.store.heads import TraceHead, heads_of, unjudged_sessions
from tracegrade.store.named import trace_id_named
from tracegrade.store.read import stored_traces
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.schema import LIVE
from tracegrade.web.masked import seen_by
from tracegrade.web.pages.trace import failing_rules
from tracegrade.web.pages.traces import heads_page
from tracegrade.web.render import page
from tracegrade.web.rights import tenant_of, token_of
from tracegrade.web.sources import sources_of
from tracegrade.web.talks import NO_COST, ShownTalk, Spent, shown_talks, spent, spent_as_judged
from tracegrade.web.view import number_of
from tracegrade.web.waterfall import WIDTH

_AT_A_TIME = 30
_MOST_LISTED = 500
_MOST_NOT_JUDGED = 50
_MAX_CALLS_OF_TURN = 50
_LEAST = 8.0


@dataclass(frozen=True, slots=True)
class ListedTurn:
    """One trace of the session on its time axis; ``pause_ns`` since the one before it ended."""

    number: int
    head: TraceHead
    x: float
    width: float
    pause_ns: int


@dataclass(frozen=True, slots=True)
class ShownTurn:
    """One trace of the session as a turn of its conversation; ``talks`` is empty where its values were deleted."""

    listed: ListedTurn
    talks: list[ShownTalk]
    spent: Spent
    failing: dict[str, list[str]]
    rules: list[str]
    values_are_gone: bool


def show_all(request: Request) -> Response:
    """One page of sessions, newest first; ``before`` continues after the one of that number."""
    return heads_page(request, "Sessions", judged_sessions_page, _not_judged)


def _not_judged(connection: Connection, chosen: ResultFilter) -> dict[str, Any]:
    """The sessions that no rule judged, with the trace ids of their own; none where results are asked for."""
    if chosen.asks_for_results:
        return {}
    found = unjudged_sessions(connection, chosen, _MOST_NOT_JUDGED + 1)
    not_judged = [(session_trace_id(sums.tenant, sums.id).hex(), sums) for sums in found[:_MOST_NOT_JUDGED]]
    return {"not_judged": not_judged, "more_not_judged": len(found) > _MOST_NOT_JUDGED}


def show(request: Request) -> Response:
    """One session: its own results, and its turns; ``from`` is the number of the first that is shown.

    One that no rule judged has no trace id of its own in the store: ``session`` names it.
    """
    sources, caller = sources_of(request), token_of(request)
    settings, run = sources.config.traces, request.query_params.get("run", "") or LIVE
    with sources.store() as connection:
        name, stored, heads = _session(connection, request, run)
        turns = _listed(heads)
        first = number_of(request, "from", max(1, len(turns) - _AT_A_TIME + 1), max(1, len(turns))) or 1
        some = turns[first - 1 : first - 1 + _AT_A_TIME]
        shown, system = _conversation(connection, settings, some, caller, run)
    return page(
        request,
        "session.html",
        title=f"Session {name}",
        name=name,
        head=None if stored is None else stored.trace,
        first_head=heads[0],
        closed=close_reason_text(stored.trace.close_reason) if stored is not None else "",
        decisions=[] if stored is None else seen_by(caller, stored.decisions),
        in_force={rule.hash for rule in sources.rule_set().rules},
        listed=turns[-_MOST_LISTED:],
        turns=shown,
        system=system,
        total=_spent_in(heads),
        run=run,
        calls=sum(head.call_count for head in heads),
        own_id=session_trace_id(heads[0].tenant, name).hex(),
        request_session="" if stored is not None else name,
        shows={turn.listed.number for turn in shown}.__contains__,
        count_of_turns=len(turns),
        earlier=max(1, first - _AT_A_TIME) if first > 1 else None,
        later=first + _AT_A_TIME if first + _AT_A_TIME <= len(turns) else None,
        gone=0 if stored is None else len(list(filter(None, stored.trace.members or ()))) - len(turns),
    )


def _session(connection: Connection, request: Request, run: str) -> tuple[str, TraceResult | None, list[TraceHead]]:
    """The name of the session of the address, its own row if it was judged, and its traces in order of start.

    Raises:
        HTTPException: 404, it is not stored.
        NotFound: there is no such run.
    """
    tenant, name = tenant_of(request), request.query_params.get("session", "")
    own_id = session_trace_id(tenant, name or request.path_params["trace_id"])
    found = stored_traces(connection, own_id, run=run)
    if not found and not name:
        tenant = request.query_params.get("tenant", "")
        own_id = trace_id_named(connection, request.path_params["trace_id"], run=run)
        found = [item for item in stored_traces(connection, own_id, run=run) if tenant in ("", item.trace.tenant)]
    if found and found[0].trace.members is None:
        raise HTTPException(404, "This is the id of a trace, not of a session.")
    if found:
        head = found[0].trace
        heads = heads_of(connection, head.tenant, run, list(filter(None, head.members or ())))
        if heads:
            return head.session or "", found[0], heads
    elif name:
        chosen = ResultFilter(session=name, tenant=tenant, run=run)
        part = traces_page(connection, chosen, _MOST_LISTED)
        heads = [*part.items]
        while part.next is not None:
            part = traces_page(connection, chosen, _MOST_LISTED, part.next)
            heads += part.items
        if heads:
            return name, None, sorted(heads, key=lambda head: (head.start_ns, head.number))
    raise HTTPException(404, "This session is not in the store, or retention has deleted all of its traces.")


def _listed(heads: Sequence[TraceHead]) -> list[ListedTurn]:
    start = heads[0].start_ns
    length = max(1, max(head.end_ns for head in heads) - start)
    found, ended = [], start
    for number, head in enumerate(heads, 1):
        x = min(WIDTH - _LEAST, WIDTH * (head.start_ns - start) / length)
        width = max(_LEAST, WIDTH * (head.end_ns - head.start_ns) / length)
        found.append(ListedTurn(number, head, x, width, max(0, head.start_ns - ended)))
        ended = max(ended, head.end_ns)
    return found


def _conversation(
    connection: Connection, settings: TracesSettings, turns: Sequence[ListedTurn], caller: Caller, run: str
) -> tuple[list[ShownTurn], list[str]]:
    """These turns, and their system prompts, each once.

    What a turn was told of earlier turns is left out of all but the first of the session.
    """
    shown: list[ShownTurn] = []
    system: dict[str, None] = {}
    for turn in turns:
        head = turn.head
        found = stored_traces(connection, bytes.fromhex(head.trace_id), run=run)
        stored = next((item for item in found if item.trace.tenant == head.tenant), None)
        if stored is not None:
            shown.append(_turn(turn, stored, settings, caller))
            system |= dict.fromkeys(said for talk in shown[-1].talks for said in talk.talk.system)
    return shown, list(system)


def _spent_in(heads: Sequence[TraceHead]) -> Spent:
    """What the model calls of these traces used together, at the costs that were stored when they were judged."""
    used = spent([usage for head in heads for usage in head.usages], no_prices)
    costs = [head.cost for head in heads if head.usages]
    known = [cost for cost in costs if cost is not None]
    if not costs or len(known) < len(costs):
        return used._replace(unknown=NO_COST)
    return used._replace(cost=sum(known), unknown="")


def _turn(turn: ListedTurn, stored: TraceResult, settings: TracesSettings, caller: Caller) -> ShownTurn:
    rules = list(dict.fromkeys(item.pair.rule_id for item in stored.decisions if item.outcome == "fail"))
    if stored.values_are_gone:
        return ShownTurn(turn, [], _spent_in([turn.head]), {}, rules, True)
    talks = conversation(extract_stored(stored, settings))
    if turn.number > 1:
        talks = [replace(talk, earlier=[]) for talk in talks]
    used, prices = spent_as_judged(talks, Prices(settings.prices), stored.trace.cost)
    failing = failing_rules(stored.decisions)
    return ShownTurn(turn, shown_talks(seen_by(caller, talks), prices, _MAX_CALLS_OF_TURN), used, failing, rules, False)
