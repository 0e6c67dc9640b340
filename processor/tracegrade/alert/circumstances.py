"""What people want to see beside an alert: the worst traces, and what changed near the time when it began."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, func, select

from tracegrade.match.alert import UNJUDGED
from tracegrade.store.alerts import StoredAlert
from tracegrade.store.read import Filter, results, stored_traces, trace_heads
from tracegrade.store.schema import MINUTE_NS, counts, series

_NS = 1_000_000_000
_NEAR_NS = 3600 * _NS
_LOOKED_AT = 200
_WORST = 5
_MODELS_OF = 20  # traces on either side


def with_circumstances(connection: Connection, alert: StoredAlert) -> StoredAlert:
    """`alert` with the worst traces, lowest scores first, and what changed within an hour of its beginning."""
    since_ns = alert.facts.since_ns if alert.facts.since_ns is not None else alert.starts_ns - int(alert.over_s * _NS)
    facts = replace(
        alert.facts,
        worst=_worst(connection, alert, since_ns),
        changed=[
            *_releases(connection, alert, since_ns),
            *_rule(connection, alert),
            *_models(connection, alert, since_ns),
        ],
    )
    return replace(alert, facts=facts)


def _worst(connection: Connection, alert: StoredAlert, since_ns: int) -> list[str]:
    outcome = alert.of if alert.of in UNJUDGED else "not_evaluable" if alert.kind == "coverage" else "fail"
    wanted = replace(_place(alert), rule=alert.rule_id, agent=alert.agent, outcome=outcome, since_ns=since_ns)
    found = [result for result in results(connection, wanted, _LOOKED_AT) if result.complete]
    found.sort(key=lambda result: 0.0 if result.score is None else result.score)
    return list(dict.fromkeys(result.trace_id for result in found))[:_WORST]


def _releases(connection: Connection, alert: StoredAlert, since_ns: int) -> Iterator[str]:
    place = (series.c.run == "live", series.c.tenant == alert.tenant, series.c.service == alert.service)
    query = _first_seen(series.c.release).where(*place, series.c.release.is_not(None))
    firsts = {release: minute * MINUTE_NS for release, minute in connection.execute(query)}
    oldest = min(firsts.values(), default=0)
    for release, first_ns in firsts.items():
        if first_ns > oldest and abs(first_ns - since_ns) <= _NEAR_NS:
            yield f"release {release} first seen at {_time(first_ns)}"


def _rule(connection: Connection, alert: StoredAlert) -> Iterator[str]:
    query = _first_seen(series.c.rule_hash).where(series.c.run == "live", series.c.rule_id == alert.rule_id)
    firsts = {rule_hash: minute * MINUTE_NS for rule_hash, minute in connection.execute(query)}
    first_ns = firsts.get(alert.rule_hash)
    if first_ns is not None and len(firsts) > 1 and abs(first_ns - alert.starts_ns) <= _NEAR_NS:
        yield f"the rule was changed; this form first judged at {_time(first_ns)}"


def _models(connection: Connection, alert: StoredAlert, since_ns: int) -> Iterator[str]:
    before = _models_of(connection, alert, since_ns - _NEAR_NS, since_ns)
    after = _models_of(connection, alert, since_ns, alert.updated_ns + 1)
    if before and (new := after - before):
        yield f"model {', '.join(sorted(new))} instead of {', '.join(sorted(before))}"


def _models_of(connection: Connection, alert: StoredAlert, since_ns: int, until_ns: int) -> set[str]:
    wanted = replace(_place(alert), since_ns=since_ns, until_ns=until_ns)
    found = set()
    for head in trace_heads(connection, wanted, _MODELS_OF):
        for stored in stored_traces(connection, bytes.fromhex(head.trace_id)):
            if stored.trace["tenant"] == alert.tenant:
                found |= {run.get("model") for run in stored.trace.get("runs", ()) if run["agent"] == alert.agent}
    return {model for model in found if model}


def _place(alert: StoredAlert) -> Filter:
    return Filter(tenant=alert.tenant, service=alert.service)


def _first_seen(column: ColumnElement[Any]) -> Select[Any]:
    """The first minute that is counted, by `column` of the series."""
    joined = series.join(counts, counts.c.series == series.c.number)
    return select(column, func.min(counts.c.minute)).select_from(joined).group_by(column)


def _time(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns // _NS, UTC).strftime("%Y-%m-%d %H:%M UTC")
