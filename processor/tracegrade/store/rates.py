"""How often rules and evaluations pass, from the sums by minute, hour and day: as fast over a year as over an hour."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from sqlalchemy import Connection, or_, select

from tracegrade.model.tally import Tally, total
from tracegrade.store.result_filter import ResultFilter, of_series
from tracegrade.store.schema import (
    BACKFILL,
    COUNTED_MINUTES,
    DAY_MINUTES,
    EVERY_TRACE,
    LIVE,
    MINUTE_NS,
    WHOLE_RULE,
    WHOLE_RUN,
    counts,
    series,
)
from tracegrade.store.series import IS_EVALUATION
from tracegrade.store.sums import OUTCOME_SUMS, sums

_HOUR = 60
# The end of a day, so that a window without an end has no single hours and minutes.
_END_MINUTE = 2**31 // DAY_MINUTES * DAY_MINUTES


class RateKey(NamedTuple):
    """A rule (``evaluation`` is "") or one of its evaluations, at one service of one tenant."""

    tenant: str
    rule_id: str
    evaluation: str
    service: str


def rates(
    connection: Connection,
    result_filter: ResultFilter,
    *,
    evaluation: str | None = WHOLE_RULE,
    count_incomplete: bool = False,
) -> dict[RateKey, Tally]:
    """Outcomes, with the sums of scores, by tenant, rule, evaluation and service, in that order.

    Args:
        connection: on the store.
        result_filter: selects series; its times are widened to whole minutes of the traces' last spans, and not used
            for a run other than the live one. Its fields on single results are not used: ``trace_id``, ``session``,
            ``outcome``, ``complete``.
        evaluation: an evaluation's name, ``WHOLE_RULE`` for rules as a whole, None for both.
        count_incomplete: count incomplete traces too.
    """
    matching = select(series.c.number).where(
        series.c.rule_id != EVERY_TRACE,
        or_(IS_EVALUATION, series.c.evaluation == WHOLE_RULE),
        *of_series(replace(result_filter, evaluation=evaluation)),
    )
    names = matching.with_only_columns(
        series.c.number, series.c.run, series.c.probability, *(series.c[name] for name in RateKey._fields)
    )
    keys = {
        number: (run == BACKFILL, probability, RateKey(*key))
        for number, run, probability, *key in connection.execute(names)
    }
    columns = (*OUTCOME_SUMS, counts.c.score_sum)
    parts: defaultdict[RateKey, list[Tally]] = defaultdict(list)
    for number, _, complete, values in sums(connection, matching, counted_stretches(result_filter), columns):
        backfilled, probability, key = keys[number]
        tally = Tally.of(*values, weight=1 / probability)
        parts[key].append(tally.counted(complete or count_incomplete, backfilled))
    return {key: total(parts[key]) for key in sorted(parts)}


def counted_stretches(result_filter: ResultFilter, longest: int = DAY_MINUTES) -> list[tuple[int, int, int]]:
    """The rows of ``counts`` for the times of `result_filter`, as `stretches` gives them; of a run, all of it."""
    if result_filter.stored_as != LIVE:
        return [(WHOLE_RUN, 0, 0)]
    return stretches(result_filter.since_ns, result_filter.until_ns, longest)


def stretches(since_ns: int | None, until_ns: int | None, longest: int = _HOUR) -> list[tuple[int, int, int]]:
    """The window as (minutes of a row, first, last): whole hours where they fit, minutes at both ends.

    A month has 720 rows a series, not 43,200; with days as the `longest`, 30, with hours and minutes at both ends.
    """
    first = 0 if since_ns is None else since_ns // MINUTE_NS
    end = _END_MINUTE if until_ns is None else (until_ns - 1) // MINUTE_NS + 1
    return _split(first, end, [minutes for minutes in COUNTED_MINUTES if minutes <= longest])


def _split(first: int, end: int, lengths: Sequence[int]) -> list[tuple[int, int, int]]:
    """The minutes from `first` to before `end` in periods of the last of `lengths`, and shorter ones at both ends."""
    if first >= end:
        return []
    *shorter, length = lengths
    begin, stop = -(-first // length) * length, end // length * length
    if begin >= stop:
        return _split(first, end, shorter)
    return [(length, begin, stop - 1), *_split(first, begin, shorter), *_split(stop, end, shorter)]
