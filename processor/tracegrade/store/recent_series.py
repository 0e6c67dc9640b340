"""The series with recent results: a counter of results starts with these after a restart."""

from sqlalchemy import Connection, func, select

from tracegrade.store.schema import DAY_MINUTES, EVERY_TRACE, MINUTE_NS, WHOLE_RULE, counts, series

SeriesNames = tuple[str, str, str, str, str]
"""Rule id, rule hash, evaluation, agent, service."""


def recent_series(connection: Connection, since_ns: int, most: int) -> list[SeriesNames]:
    """The series of live results since the (UTC) day of `since_ns`, those with the latest results first.

    It reads the sums by day, so the cost grows with series and days, not with results.
    """
    names = (series.c.rule_id, series.c.rule_hash, series.c.evaluation, series.c.agent, series.c.service)
    minute = since_ns // MINUTE_NS
    query = (
        select(*names)
        .join(counts, counts.c.series == series.c.number)
        .where(
            counts.c.minutes == DAY_MINUTES,
            counts.c.minute >= minute - minute % DAY_MINUTES,
            series.c.run == "live",
            series.c.rule_id != EVERY_TRACE,
            series.c.evaluation != WHOLE_RULE,
        )
        .group_by(*names)
        .order_by(func.max(counts.c.minute).desc(), *names)
        .limit(most)
    )
    return [
        (rule, rule_hash, name, agent, service) for rule, rule_hash, name, agent, service in connection.execute(query)
    ]
