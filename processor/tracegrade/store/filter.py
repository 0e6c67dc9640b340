"""Filters of results and traces, and the SQL conditions that they mean."""

from dataclasses import dataclass

from sqlalchemy import ColumnElement, func, select

from tracegrade.codec.json_text import storable
from tracegrade.store.schema import rule_texts, series, traces


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A filter of results or traces: every field that is set must match. Times are ns since 1970 UTC, end excluded."""

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
    run: str = "live"

    @property
    def asks_for_results(self) -> bool:
        """Whether it selects traces by their results."""
        asked = (self.rule, self.rule_hash, self.evaluation, self.agent, self.release, self.outcome)
        return any(value is not None for value in asked)


def of_series(wanted: Filter) -> list[ColumnElement[bool]]:
    """What holds of the series whose results `wanted` lets through; ``outcome`` and times are the results' own."""
    conditions = _equal(
        (series.c.run, wanted.run),
        (series.c.tenant, wanted.tenant),
        (series.c.rule_id, wanted.rule),
        (series.c.evaluation, wanted.evaluation),
        (series.c.service, wanted.service),
        (series.c.agent, wanted.agent),
        (series.c.release, wanted.release),
    )
    if wanted.rule_hash is not None:  # whichever of its hashes is asked for, a rule that judges alike is one
        known = select(rule_texts.c.rule_hash).where(rule_texts.c.text_hash == wanted.rule_hash).limit(1)
        conditions.append(series.c.present_hash == func.coalesce(known.scalar_subquery(), wanted.rule_hash))
    return conditions


def of_traces(wanted: Filter) -> list[ColumnElement[bool]]:
    """What holds of the rows of traces and sessions that `wanted` selects, as far as these say it themselves."""
    conditions = _equal(
        (traces.c.run, wanted.run),
        (traces.c.tenant, wanted.tenant),
        (traces.c.service, wanted.service),
        (traces.c.session, wanted.session),
        (traces.c.trace_id, wanted.trace_id),
    )
    if wanted.complete is not None:
        conditions.append(traces.c.complete.is_(wanted.complete))
    if wanted.since_ns is not None:
        conditions.append(traces.c.first_received_ns >= wanted.since_ns)
    if wanted.until_ns is not None:
        conditions.append(traces.c.first_received_ns < wanted.until_ns)
    return conditions


def _equal(*pairs: tuple[ColumnElement[object], object]) -> list[ColumnElement[bool]]:
    """The conditions that each column equals its value as stored; none for a value of None."""
    return [
        column == (storable(value) if isinstance(value, str) else value) for column, value in pairs if value is not None
    ]
