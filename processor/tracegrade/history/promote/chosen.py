"""The recorded traces that become tests: those named, those that fail, and those that show the other side."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from tracegrade.alert.diagnose.reasons import reason_key
from tracegrade.codec.kept_spans import trace_of
from tracegrade.model.errors import NotPossible
from tracegrade.model.evaluation import Evaluation
from tracegrade.model.trace import Trace
from tracegrade.model.trace_result import TraceResult
from tracegrade.rule.rule import Rule
from tracegrade.store.read import sessions_of, stored_traces, traces_of
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.results import full_evaluations, results
from tracegrade.store.schema import LIVE

_AT_ONCE = 200
_MAX_SEARCHED = 10_000  # results, of which some may be of one reason, or of one trace


@dataclass(frozen=True, slots=True)
class Recorded:
    """What is promoted as one test: a trace, or for a rule over sessions all traces of one; ``id`` is hex.

    ``stored`` is the trace, or session, as it is in the store.
    """

    id: str
    traces: list[Trace]
    stored: TraceResult


def recorded(
    connection: Connection, trace_id: bytes, run: str, rule: Rule | None, tenant: str | None = None
) -> Recorded:
    """The trace of this id, or a session of it if `rule` judges sessions; of any tenant if none is named.

    Raises:
        NotPossible: it is not stored, or not in a session.
        Unreadable: its spans are damaged, or were stored by another version.
    """
    stored_ones = stored_traces(connection, trace_id, run=run)
    found = [stored for stored in stored_ones if tenant in (None, stored.trace.tenant)]
    if not found:
        where = "the store" if run == LIVE else f"run {run}"
        where += "" if tenant is None else f" for tenant {tenant!r}"
        raise NotPossible(
            f"trace {trace_id.hex()} is not in {where}: it may be older than store.retention, be open still, or never "
            f"have come here; 'tracegrade why {trace_id.hex()}' says more"
        )
    stored = found[0]
    if rule is not None and rule.scope == "session" and stored.trace.members is None:
        stored = _session_of(connection, stored, rule)
    elif stored.trace.members is not None and (rule is None or rule.scope != "session"):
        raise NotPossible(f"{trace_id.hex()} is a session, and the rule judges single traces; name one of its traces")
    return Recorded(stored.trace.own_id.hex(), [trace_of(one) for one in traces_of(connection, stored)], stored)


def _session_of(connection: Connection, stored: TraceResult, rule: Rule) -> TraceResult:
    sessions = sessions_of(connection, stored)
    judged = [one for one in sessions if any(decision.pair.rule_id == rule.id for decision in one.decisions)]
    if not sessions:
        raise NotPossible(
            f"trace {stored.trace.trace_id} is in no session that was judged, and rule {rule.id} judges sessions"
        )
    return (judged or sessions)[0]


def failing_traces(connection: Connection, chosen: ResultFilter, limit: int, *, distinct: bool) -> list[bytes]:
    """The newest `chosen` traces that fail, newest first, at most `limit`; with `distinct` one of each reason."""
    seen: set[Hashable] = set()
    found: list[bytes] = []
    for evaluation in _newest(connection, replace(chosen, outcome="fail")):
        trace_id = evaluation.subject.trace_id
        key = reason_key(evaluation) if distinct else trace_id
        if key in seen or bytes.fromhex(trace_id) in found:
            seen.add(key)
            continue
        seen.add(key)
        found.append(bytes.fromhex(trace_id))
        if len(found) == limit:
            break
    return found


def traces_with(connection: Connection, chosen: ResultFilter, limit: int) -> list[bytes]:
    """The newest traces with a `chosen` evaluation, newest first, at most `limit`."""
    found: dict[bytes, None] = {}
    for evaluation in _newest(connection, chosen):
        found[bytes.fromhex(evaluation.subject.trace_id)] = None
        if len(found) == limit:
            break
    return list(found)


def _newest(connection: Connection, chosen: ResultFilter) -> Iterator[Evaluation]:
    before, searched = None, 0
    while searched < _MAX_SEARCHED and (some := results(connection, chosen, _AT_ONCE, before=before)):
        yield from full_evaluations(connection, some)
        searched += len(some)
        before = some[-1].number, some[-1].place


def failed_rules(stored: TraceResult) -> Sequence[str]:
    """The rules that failed on a stored trace when it was judged."""
    return sorted({decision.pair.rule_id for decision in stored.decisions if decision.outcome == "fail"})
