"""Filters of results and traces, and their SQL conditions."""

from dataclasses import dataclass

from sqlalchemy import ColumnElement

from tracegrade.codec.json_text import storable
from tracegrade.store.schema import BACKFILL, LIVE, series, traces
from tracegrade.telemetry.series_bound import OTHER


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFilter:
    """A filter of results or traces: every field that is set must match. Times are ns since 1970 UTC, end excluded.

    ``with_backfilled``: of what was judged live, also what ``rules backtest --store`` added; that alone is the run
    ``backfill``.
    """

    rule: str | None = None
    rule_hash: str | None = None
    evaluation: str | None = None
    outcome: str | None = None
    service: str | None = None
    agent: str | None = None
    release: str | None = None
    session: str | None = None
    trace_id: bytes | None = None
    complete: bool | None = None
    since_ns: int | None = None
    until_ns: int | None = None
    tenant: str | None = None
    run: str = LIVE
    with_backfilled: bool = False

    @property
    def stored_as(self) -> str:
        """The run of the traces that hold the results: what was backfilled is in the traces that were judged live."""
        return LIVE if self.run == BACKFILL else self.run

    @property
    def asks_for_results(self) -> bool:
        """Whether the filter selects traces by their results."""
        asked = (self.rule, self.rule_hash, self.evaluation, self.agent, self.release, self.outcome)
        return self.run == BACKFILL or any(value is not None for value in asked)

    @property
    def not_counted(self) -> list[str]:
        """The fields that are set and by which ``counts`` cannot select: they belong to single results and traces."""
        return [name for name in ("outcome", "session", "trace_id", "complete") if getattr(self, name) is not None]

    @property
    def names(self) -> tuple[str | None, ...]:
        """The service, release and agent asked for, as they are stored."""
        return tuple(None if name is None else storable(name) for name in (self.service, self.release, self.agent))


def of_series(result_filter: ResultFilter, *, or_other: bool = False) -> list[ColumnElement[bool]]:
    """SQL conditions on the series that `result_filter` selects; ``outcome`` and times belong to single results.

    With `or_other`, also series whose name is `other`: they may hold results whose own name is the one asked for.
    """
    with_backfilled = result_filter.with_backfilled and result_filter.run == LIVE
    conditions = _equal(
        (series.c.run, None if with_backfilled else result_filter.run),
        (series.c.tenant, result_filter.tenant),
        (series.c.rule_id, result_filter.rule),
        (series.c.rule_hash, result_filter.rule_hash),
        (series.c.evaluation, result_filter.evaluation),
    )
    for column, name in zip((series.c.service, series.c.release, series.c.agent), result_filter.names, strict=True):
        if name is not None:
            conditions.append(column.in_((name, OTHER)) if or_other else column == name)
    if with_backfilled:
        conditions.append(series.c.run.in_((LIVE, BACKFILL)))
    return conditions


def of_traces(result_filter: ResultFilter) -> list[ColumnElement[bool]]:
    """SQL conditions on the rows of traces and sessions that `result_filter` selects, as far as these rows can tell."""
    conditions = _equal(
        (traces.c.run, result_filter.stored_as),
        (traces.c.tenant, result_filter.tenant),
        (traces.c.service, result_filter.service),
        (traces.c.session, result_filter.session),
        (traces.c.trace_id, result_filter.trace_id),
    )
    if result_filter.complete is not None:
        conditions.append(traces.c.complete.is_(result_filter.complete))
    if result_filter.since_ns is not None:
        conditions.append(traces.c.first_received_ns >= result_filter.since_ns)
    if result_filter.until_ns is not None:
        conditions.append(traces.c.first_received_ns < result_filter.until_ns)
    return conditions


def _equal(*pairs: tuple[ColumnElement[object], object]) -> list[ColumnElement[bool]]:
    """The conditions that each column equals its stored value; none for a value of None."""
    return [
        column == (storable(value) if isinstance(value, str) else value) for column, value in pairs if value is not None
    ]
