"""What lists and counts should give, in plain SQL over the tables and views, as somebody who knows them would ask."""

from typing import Any

from sqlalchemy import Connection, text

from tracegrade.store.filter import Filter
from tracegrade.store.schema import OUTCOMES

_OF_RESULTS = {"rule": "s.rule_id", "rule_hash": "s.rule_hash", "evaluation": "s.evaluation", "agent": "s.agent"}
_OF_RESULTS |= {"release": "s.release"}
_OF_TRACES = {"service": "t.service", "session": "t.session", "tenant": "t.tenant", "run": "t.run"}
_OF_TRACES |= {"complete": "t.complete", "trace_id": "t.trace_id"}


def sql_results(connection: Connection, wanted: Filter) -> list[tuple[int, int]]:
    """Number of the trace and place of every result, the newest first."""
    return [
        (int(number), int(place))
        for number, place in _rows(
            connection,
            "SELECT e.trace, e.place FROM evaluations AS e JOIN series AS s ON s.number = e.series "
            f"JOIN traces AS t ON t.number = e.trace WHERE {_result(wanted)} AND {_trace(wanted)} "
            "ORDER BY e.trace DESC, e.place DESC",
            wanted,
        )
    ]


def sql_heads(connection: Connection, wanted: Filter, *, sessions: bool = False) -> list[int]:
    """The number of every trace, or session, the newest first."""
    kind = "IS NOT NULL" if sessions else "IS NULL"
    having = (
        "t.number IN (SELECT e.trace FROM evaluations AS e JOIN series AS s ON s.number = e.series "
        f"WHERE {_result(wanted)})"
    )
    asks = any(getattr(wanted, name) is not None for name in (*_OF_RESULTS, "outcome"))
    return [
        int(number)
        for (number,) in _rows(
            connection,
            f"SELECT t.number FROM traces AS t WHERE t.members {kind} AND {_trace(wanted)} "
            f"AND {having if asks else '1 = 1'} ORDER BY t.number DESC",
            wanted,
        )
    ]


def sql_sessions(connection: Connection, wanted: Filter) -> list[tuple[str, str, int]]:
    """Name, tenant and number of traces of every session that traces say they are part of, the latest first."""
    return [
        (name, tenant, int(count))
        for name, tenant, count in _rows(
            connection,
            "SELECT t.session, t.tenant, count(*) FROM traces AS t WHERE t.members IS NULL AND t.session IS NOT NULL "
            f"AND {_trace(wanted)} GROUP BY t.session, t.tenant ORDER BY max(t.number) DESC",
            wanted,
        )
    ]


def _result(wanted: Filter) -> str:
    conditions = [f"{column} = :{name}" for name, column in _OF_RESULTS.items() if getattr(wanted, name) is not None]
    if wanted.outcome is not None:
        conditions.append("e.outcome = :outcome")
    return " AND ".join(conditions or ["1 = 1"])


def _trace(wanted: Filter) -> str:
    conditions = [f"{column} = :{name}" for name, column in _OF_TRACES.items() if getattr(wanted, name) is not None]
    if wanted.since_ns is not None:
        conditions.append("t.first_received_ns >= :since_ns")
    if wanted.until_ns is not None:
        conditions.append("t.first_received_ns < :until_ns")
    return " AND ".join(conditions)


def _rows(connection: Connection, query: str, wanted: Filter) -> list[Any]:
    given = {name: getattr(wanted, name) for name in (*_OF_RESULTS, *_OF_TRACES, "since_ns", "until_ns")}
    given["outcome"] = None if wanted.outcome is None else OUTCOMES.index(wanted.outcome)
    # A database holds no NUL: that name is stored with the sign for what cannot be shown.
    given["service"] = None if wanted.service is None else wanted.service.replace("\0", "\N{REPLACEMENT CHARACTER}")
    named = text(query)
    asked = {name: value for name, value in given.items() if f":{name}" in query}
    return list(connection.execute(named, asked))
