"""What lists and counts should give, in plain SQL over the tables and views, as somebody who knows them would ask."""

from typing import Any

from sqlalchemy import Connection, text

from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.schema import OUTCOMES

_OF_RESULTS = {"rule": "s.rule_id", "rule_hash": "s.rule_hash", "evaluation": "s.evaluation", "agent": "s.agent"}
_OF_RESULTS |= {"release": "s.release"}
_OF_TRACES = {"service": "t.service", "session": "t.session", "tenant": "t.tenant", "run": "t.run"}
_OF_TRACES |= {"complete": "t.complete", "trace_id": "t.trace_id"}


def sql_results(connection: Connection, result_filter: ResultFilter) -> list[tuple[int, int]]:
    """Number of the trace and place of every result, the newest first."""
    return [
        (int(number), int(place))
        for number, place in _rows(
            connection,
            "SELECT e.trace, e.place FROM evaluations AS e JOIN series AS s ON s.number = e.series "
            f"JOIN traces AS t ON t.number = e.trace WHERE {_result(result_filter)} AND {_trace(result_filter)} "
            "ORDER BY e.trace DESC, e.place DESC",
            result_filter,
        )
    ]


def sql_heads(connection: Connection, result_filter: ResultFilter, *, sessions: bool = False) -> list[int]:
    """The number of every trace, or session, the newest first."""
    kind = "IS NOT NULL" if sessions else "IS NULL"
    having = (
        "t.number IN (SELECT e.trace FROM evaluations AS e JOIN series AS s ON s.number = e.series "
        f"WHERE {_result(result_filter)})"
    )
    asks = any(getattr(result_filter, name) is not None for name in (*_OF_RESULTS, "outcome"))
    return [
        int(number)
        for (number,) in _rows(
            connection,
            f"SELECT t.number FROM traces AS t WHERE t.members {kind} AND {_trace(result_filter)} "
            f"AND {having if asks else '1 = 1'} ORDER BY t.number DESC",
            result_filter,
        )
    ]


def sql_sessions(connection: Connection, result_filter: ResultFilter) -> list[tuple[str, str, int]]:
    """Name, tenant and number of traces of every session that traces say they are part of, the latest first."""
    return [
        (name, tenant, int(count))
        for name, tenant, count in _rows(
            connection,
            "SELECT t.session, t.tenant, count(*) FROM traces AS t WHERE t.members IS NULL AND t.session IS NOT NULL "
            f"AND {_trace(result_filter)} GROUP BY t.session, t.tenant ORDER BY max(t.number) DESC",
            result_filter,
        )
    ]


def _result(result_filter: ResultFilter) -> str:
    conditions = [
        f"{column} = :{name}" for name, column in _OF_RESULTS.items() if getattr(result_filter, name) is not None
    ]
    if result_filter.outcome is not None:
        conditions.append("e.outcome = :outcome")
    return " AND ".join(conditions or ["1 = 1"])


def _trace(result_filter: ResultFilter) -> str:
    conditions = [
        f"{column} = :{name}" for name, column in _OF_TRACES.items() if getattr(result_filter, name) is not None
    ]
    if result_filter.since_ns is not None:
        conditions.append("t.first_received_ns >= :since_ns")
    if result_filter.until_ns is not None:
        conditions.append("t.first_received_ns < :until_ns")
    return " AND ".join(conditions)


def _rows(connection: Connection, query: str, result_filter: ResultFilter) -> list[Any]:
    given = {name: getattr(result_filter, name) for name in (*_OF_RESULTS, *_OF_TRACES, "since_ns", "until_ns")}
    given["outcome"] = None if result_filter.outcome is None else OUTCOMES.index(result_filter.outcome)
    # A database holds no NUL: that name is stored with the sign for what cannot be shown.
    given["service"] = (
        None if result_filter.service is None else result_filter.service.replace("\0", "\N{REPLACEMENT CHARACTER}")
    )
    named = text(query)
    asked = {name: value for name, value in given.items() if f":{name}" in query}
    return list(connection.execute(named, asked))
