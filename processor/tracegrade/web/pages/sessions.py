"""``/sessions``: conversations. ``/sessions/{trace_id}``: one, by the trace id of its own, as a timeline."""

from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from tracegrade.model.evaluation import Decision
from tracegrade.model.trace import close_reason_text
from tracegrade.model.trace_result import TraceResult
from tracegrade.queries.lists import judged_sessions_page
from tracegrade.store.read import traces_of
from tracegrade.web.masked import seen_by
from tracegrade.web.pages.trace import chosen_trace
from tracegrade.web.pages.traces import heads_page
from tracegrade.web.render import page
from tracegrade.web.rights import token_of
from tracegrade.web.sources import sources_of
from tracegrade.web.waterfall import WIDTH

_MAX_TRACES = 200
_LEAST = 8.0


@dataclass(frozen=True, slots=True)
class ShownTurn:
    """One trace of the session on its time axis; ``pause_ns`` since the one before it ended."""

    stored: TraceResult
    x: float
    width: float
    pause_ns: int
    outcomes: dict[str, int]
    failing: list[str]


def show_all(request: Request) -> Response:
    """One page of sessions, newest first; ``before`` continues after the one of that number."""
    return heads_page(request, "Sessions", judged_sessions_page)


def show(request: Request) -> Response:
    """One session: its own results, and its traces in order of time."""
    sources = sources_of(request)
    with sources.store() as connection:
        stored = chosen_trace(connection, request)
        if stored.trace.members is None:
            raise HTTPException(404, "This is the id of a trace, not of a session.")
        traces = sorted(traces_of(connection, stored), key=lambda item: item.trace.start_ns)
    shown = traces[-_MAX_TRACES:]
    return page(
        request,
        "session.html",
        title=f"Session {stored.trace.session}",
        head=stored.trace,
        closed=close_reason_text(stored.trace.close_reason),
        decisions=seen_by(token_of(request), stored.decisions),
        in_force={rule.hash for rule in sources.rule_set().rules},
        turns=_turns(shown),
        hidden=len(traces) - len(shown),
        gone=len([trace_id for trace_id in stored.trace.members if trace_id]) - len(traces),
    )


def _turns(traces: list[TraceResult]) -> list[ShownTurn]:
    if not traces:
        return []
    start = traces[0].trace.start_ns
    length = max(1, max(item.trace.end_ns for item in traces) - start)
    found, ended = [], start
    for item in traces:
        head = item.trace
        x = min(WIDTH - _LEAST, WIDTH * (head.start_ns - start) / length)
        width = max(_LEAST, WIDTH * (head.end_ns - head.start_ns) / length)
        outcomes = _outcomes(item.decisions)
        failing = [decision.pair.rule_id for decision in item.decisions if decision.outcome == "fail"]
        found.append(ShownTurn(item, x, width, max(0, head.start_ns - ended), outcomes, list(dict.fromkeys(failing))))
        ended = max(ended, head.end_ns)
    return found


def _outcomes(decisions: list[Decision]) -> dict[str, int]:
    found: dict[str, int] = {}
    for decision in decisions:
        name = decision.outcome or decision.kind
        found[name] = found.get(name, 0) + 1
    return found
