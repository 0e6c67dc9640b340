"""Alert context: when the problem began, the worst traces, and what changed near that time."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, func, select

from tracegrade.rule.alert import UNJUDGED, watched_evaluation
from tracegrade.store.alerts import Facts, StoredAlert
from tracegrade.store.heads import trace_heads
from tracegrade.store.history import Window
from tracegrade.store.present_hashes import present_hash
from tracegrade.store.read import stored_traces
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.results import results
from tracegrade.store.schema import MINUTE_NS, counts, series

_NS = 1_000_000_000
_NEAR_NS = 3600 * _NS
_LOOKED_AT = 200
_WORST = 5
_MOST_COUNTED = 2000
_MODELS_OF = 20  # traces before and after


def with_context(connection: Connection, alert: StoredAlert, count_incomplete: bool) -> StoredAlert:
    """Add its context to `alert`: the worst traces, and what changed within an hour of when it began.

    Args:
        connection: on the store.
        alert: one that has just begun to fire.
        count_incomplete: its rule counts incomplete traces.
    """
    named, alert = alert, replace(alert, rule_hash=present_hash(connection, alert.rule_hash))
    window = Window(
        watched_evaluation(alert.of), alert.starts_ns - int(alert.over_s * _NS), alert.updated_ns + 1, count_incomplete
    )
    since_ns = alert.starts_ns if alert.facts.since_ns is None else alert.facts.since_ns
    facts = replace(
        _traces(connection, alert, window),
        since_ns=since_ns,
        changed=[
            *_releases(connection, alert, since_ns),
            *_rule(connection, alert),
            *_tracegrade(connection, alert, since_ns),
            *_models(connection, alert, since_ns),
        ],
    )
    return replace(named, facts=facts)


def _traces(connection: Connection, alert: StoredAlert, window: Window) -> Facts:
    """The facts with the number of traces with results, and the ids of the worst ones, lowest scores first."""
    outcome = alert.of if alert.of in UNJUDGED else "not_evaluable" if alert.kind == "coverage" else "fail"
    result_filter = replace(
        _place(alert),
        rule=alert.rule_id,
        rule_hash=alert.rule_hash,
        evaluation=window.evaluation or None,
        agent=alert.agent,
        release=alert.release,
        since_ns=window.since_ns,
        complete=None if window.count_incomplete else True,
    )
    latest = results(connection, result_filter, _MOST_COUNTED)
    bad = results(connection, replace(result_filter, outcome=outcome), _LOOKED_AT)
    bad.sort(key=lambda result: 0.0 if result.score is None else result.score)
    return replace(
        alert.facts,
        traces=len({result.trace_id for result in latest}),
        more_traces=len(latest) == _MOST_COUNTED,
        worst=list(dict.fromkeys(result.trace_id for result in bad))[:_WORST],
    )


def _releases(connection: Connection, alert: StoredAlert, since_ns: int) -> Iterator[str]:
    place = (series.c.run == "live", series.c.tenant == alert.tenant, series.c.service == alert.service)
    query = _first_seen(series.c.release).where(*place, series.c.release.is_not(None))
    firsts = {release: minute * MINUTE_NS for release, minute in connection.execute(query)}
    oldest = min(firsts.values(), default=0)
    for release, first_ns in firsts.items():
        if first_ns > oldest and abs(first_ns - since_ns) <= _NEAR_NS:
            yield f"release {release} first seen at {_time(first_ns)}"


def _rule(connection: Connection, alert: StoredAlert) -> Iterator[str]:
    query = _first_seen(series.c.present_hash).where(series.c.run == "live", series.c.rule_id == alert.rule_id)
    firsts = {rule_hash: minute * MINUTE_NS for rule_hash, minute in connection.execute(query)}
    first_ns = firsts.get(alert.rule_hash)
    if first_ns is not None and len(firsts) > 1 and abs(first_ns - alert.starts_ns) <= _NEAR_NS:
        yield f"the rule was changed; this form first judged at {_time(first_ns)}"


def _tracegrade(connection: Connection, alert: StoredAlert, since_ns: int) -> Iterator[str]:
    place = (series.c.run == "live", series.c.rule_id == alert.rule_id)
    found = connection.execute(_first_seen(series.c.tracegrade).where(*place))
    firsts = sorted((minute * MINUTE_NS, version) for version, minute in found)
    for (_, before), (first_ns, version) in pairwise(firsts):
        if abs(first_ns - since_ns) <= _NEAR_NS:
            yield f"TraceGrade {version} instead of {before or 'an earlier version'}, first judged at {_time(first_ns)}"


def _models(connection: Connection, alert: StoredAlert, since_ns: int) -> Iterator[str]:
    before = _models_of(connection, alert, since_ns - _NEAR_NS, since_ns)
    after = _models_of(connection, alert, since_ns, alert.updated_ns + 1)
    if before and (new := after - before):
        yield f"model {', '.join(sorted(new))} instead of {', '.join(sorted(before))}"


def _models_of(connection: Connection, alert: StoredAlert, since_ns: int, until_ns: int) -> set[str]:
    result_filter = replace(_place(alert), since_ns=since_ns, until_ns=until_ns)
    found = set()
    for head in trace_heads(connection, result_filter, _MODELS_OF):
        for stored in stored_traces(connection, bytes.fromhex(head.trace_id)):
            if stored.trace.tenant == alert.tenant:
                found |= {run.model for run in stored.trace.runs if run.agent == alert.agent}
    return {model for model in found if model}


def _place_of(alert: StoredAlert) -> tuple[str, str, str, str | None]:
    return alert.tenant, alert.service, alert.agent, alert.release


def _place(alert: StoredAlert) -> ResultFilter:
    return ResultFilter(tenant=alert.tenant, service=alert.service)


def _first_seen(column: ColumnElement[Any]) -> Select[Any]:
    """The first hour with counts, as the minute in which it begins, by `column` of the series."""
    joined = series.join(counts, (counts.c.series == series.c.number) & (counts.c.minutes == 60))
    return select(column, func.min(counts.c.minute)).select_from(joined).group_by(column)


def _time(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns // _NS, UTC).strftime("%Y-%m-%d %H:%M UTC")
