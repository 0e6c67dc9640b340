"""Sums of the outcomes of chosen series over periods, and which series had results at all."""

from collections import defaultdict
from collections.abc import Iterable
from itertools import chain
from typing import Any

from sqlalchemy import Connection, Select, func, select

from tracegrade.model.tally import Tally, total
from tracegrade.store.history import SUMMED
from tracegrade.store.rates import stretches
from tracegrade.store.schema import COUNTED_MINUTES, DAY_MINUTES, MINUTE_NS, counts, series
from tracegrade.store.sums import Counting, sums

Period = tuple[int, int]
"""From when, until before when, ns since 1970 UTC; it holds the whole minutes of both."""


def outcomes_in(
    connection: Connection, numbers: Select[Any], periods: Iterable[Period], count_incomplete: bool
) -> dict[int, Tally]:
    """The outcomes of each series whose number `numbers` selects, over all `periods` together.

    It reads the rows of every series within the periods: by the day where days fit, then by the hour, then by the
    minute. That is at most 164 rows a series beside the whole days.
    """
    kept = select(series.c.number, series.c.probability).where(series.c.number.in_(numbers))
    weights = {number: 1 / probability for number, probability in connection.execute(kept)}
    found: defaultdict[int, list[Tally]] = defaultdict(list)
    parts = chain.from_iterable(stretches(since_ns, until_ns, DAY_MINUTES) for since_ns, until_ns in periods)
    for one in sums(connection, numbers, parts, SUMMED, traces="all" if count_incomplete else "complete"):
        found[one.series].append(Tally.of(*one.values, weight=weights[one.series]))
    return {number: total(some) for number, some in found.items()}


def outcomes_by_step(
    connection: Connection, numbers: Select[Any], period: Period, step_minutes: int, count_incomplete: bool
) -> dict[int, Tally]:
    """The outcomes of all series that `numbers` selects together, by the minute at which a step begins.

    Steps begin at multiples of their length, counted from 1970. Steps without results are left out. Rows of days, hours
    or minutes are read, the longest of which whole ones make a step.
    """
    kept = select(series.c.number, series.c.probability).where(series.c.number.in_(numbers))
    weights = {number: 1 / probability for number, probability in connection.execute(kept)}
    longest = max(minutes for minutes in COUNTED_MINUTES if step_minutes % minutes == 0)
    found: defaultdict[int, list[Tally]] = defaultdict(list)
    traces: Counting = "all" if count_incomplete else "complete"
    for one in sums(connection, numbers, stretches(*period, longest), SUMMED, step_minutes=step_minutes, traces=traces):
        found[one.step * step_minutes].append(Tally.of(*one.values, weight=weights[one.series]))
    return {minute: total(parts) for minute, parts in sorted(found.items())}


def first_minutes(connection: Connection, numbers: Select[Any], period: Period) -> dict[int, int]:
    """The first minute within `period` that has results, for each series that `numbers` selects and that has any."""
    query = select(counts.c.series, func.min(counts.c.minute)).where(
        counts.c.minutes == 1,
        counts.c.minute.between(period[0] // MINUTE_NS, (period[1] - 1) // MINUTE_NS),
        counts.c.series.in_(numbers),
    )
    return {number: minute for number, minute in connection.execute(query.group_by(counts.c.series))}


def seen_before(connection: Connection, numbers: Select[Any], until_ns: int) -> dict[int, int]:
    """When each series that `numbers` selects last had results before the minute of `until_ns`, as a minute.

    It is the beginning of a day, an hour or a minute, whichever is the shortest that is over by then. Series without
    results before are left out.
    """
    found: dict[int, int] = {}
    for minutes, first, last in stretches(None, until_ns - until_ns % MINUTE_NS, DAY_MINUTES):
        query = select(counts.c.series, func.max(counts.c.minute)).where(
            counts.c.minutes == minutes, counts.c.minute.between(first, last), counts.c.series.in_(numbers)
        )
        for number, minute in connection.execute(query.group_by(counts.c.series)):
            found[number] = max(minute, found.get(number, 0))
    return found
