"""The series with recent results: a counter of results starts with these after a restart."""

from sqlalchemy import ColumnElement, Connection, exists, func, select

from tracegrade.store.schema import DAY_MINUTES, EVERY_TRACE, MINUTE_NS, counts, rule_texts, series
from tracegrade.store.series import IS_EVALUATION

SeriesNames = tuple[str, str, str, str, str, str]
"""Tenant, rule id, rule hash, evaluation, agent, service."""


def recent_series(connection: Connection, since_ns: int, most: int) -> list[SeriesNames]:
    """The series of live results since the (UTC) day of `since_ns`, those with the latest results first.

    At most `most`. Series of a rule that was changed since are left out: they get no more results. It reads the sums by
    day, so the cost grows with series and days, not with results.
    """
    columns = series.c
    names = (
        columns.tenant,
        columns.rule_id,
        columns.rule_hash,
        columns.evaluation,
        columns.agent,
        columns.service,
    )
    minute = since_ns // MINUTE_NS
    query = (
        select(*names)
        .join(counts, counts.c.series == series.c.number)
        .where(
            counts.c.minutes == DAY_MINUTES,
            counts.c.minute >= minute - minute % DAY_MINUTES,
            series.c.run == "live",
            series.c.rule_id != EVERY_TRACE,
            IS_EVALUATION,
            ~_was_changed(),
        )
        .group_by(*names)
        .order_by(func.max(counts.c.minute).desc(), *names)
        .limit(most)
    )
    return [
        (tenant, rule, rule_hash, name, agent, service)
        for tenant, rule, rule_hash, name, agent, service in connection.execute(query)
    ]


def _was_changed() -> ColumnElement[bool]:
    """Whether the rule of a series judged something else later than it last judged what the series is of."""
    own, other = rule_texts.alias("own"), rule_texts.alias("other")
    of_series = (own.c.rule_id == series.c.rule_id, own.c.rule_hash == series.c.rule_hash)
    last = select(func.max(own.c.since_ns)).where(*of_series).correlate(series).scalar_subquery()
    return exists().where(
        other.c.rule_id == series.c.rule_id, other.c.rule_hash != series.c.rule_hash, other.c.since_ns > last
    )
