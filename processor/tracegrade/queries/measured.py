"""Traces filtered and sorted by what they took, in pages: the list of the page.

In order of storing everything is listed. Sorted by anything else, the newest `MOST_SORTED` traces that the filters
leave are: what they took is in no index.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection

from tracegrade.queries.lists import check_run
from tracegrade.store.heads import BADNESS, MEASURES, NEWEST, TraceHead, heads_numbered, ordered_by
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.schema import traces

MOST_SORTED = 10_000
"""How many traces are sorted."""

SORTS: Mapping[str, ColumnElement[Any]] = {**MEASURES, "started": traces.c.start_ns, "outcome": BADNESS}
"""By what a list can be sorted."""


class Bounds(NamedTuple):
    """From `low` up to `high`, both included."""

    low: float = 0.0
    high: float = inf


@dataclass(frozen=True, slots=True)
class MeasuredChoice:
    """Which traces, in which order.

    ``within``: bounds by the names of `MEASURES`; a trace of which it is not known is left out. ``sort``: one of
    `SORTS`, the greatest or worst first; "" for the order of storing, the last first. ``ascending`` turns it round.
    """

    result_filter: ResultFilter
    within: Mapping[str, Bounds] = field(default_factory=dict)
    close_reason: str | None = None
    sort: str = ""
    ascending: bool = False

    @property
    def conditions(self) -> list[ColumnElement[bool]]:
        """Those on the rows of ``traces`` that `ResultFilter` does not have."""
        found = [] if self.close_reason is None else [traces.c.close_reason == self.close_reason]
        for name, (low, high) in self.within.items():
            found.append(MEASURES[name] >= low if high == inf else MEASURES[name].between(low, high))
        return found


@dataclass(frozen=True, slots=True)
class MeasuredPage:
    """A part of the list. ``next`` is the place of the part after it, None at the end.

    ``sorted_of`` is how many traces were sorted, None in order of storing; ``all_sorted`` says that these are all.
    """

    items: Sequence[TraceHead]
    next: int | None
    sorted_of: int | None = None
    all_sorted: bool = True


def measured_page(connection: Connection, choice: MeasuredChoice, limit: int, place: int | None = None) -> MeasuredPage:
    """At most `limit` traces from `place` on, which is the ``next`` of the page before.

    Raises:
        NotFound: there is no such run.
    """
    check_run(connection, choice.result_filter.run)
    if choice.sort:
        return _sorted_page(connection, choice, limit, place or 0)
    before = NEWEST if place is None else place
    found, stopped_at = ordered_by(
        connection, choice.result_filter, choice.conditions, traces.c.number, limit + 1, before
    )
    numbers = [number for number, _ in found[:limit]]
    return MeasuredPage(heads_numbered(connection, numbers), numbers[-1] if len(found) > limit else stopped_at)


def _sorted_page(connection: Connection, choice: MeasuredChoice, limit: int, place: int) -> MeasuredPage:
    value = SORTS[choice.sort]
    found, stopped_at = ordered_by(connection, choice.result_filter, choice.conditions, value, MOST_SORTED + 1)
    some = found[:MOST_SORTED]
    known = sorted(((value, number) for number, value in some if value is not None), reverse=not choice.ascending)
    numbers = [number for _, number in known] + [number for number, value in some if value is None]
    items = heads_numbered(connection, numbers[place : place + limit])
    more = place + limit if place + limit < len(numbers) else None
    return MeasuredPage(items, more, len(some), len(found) == len(some) and stopped_at is None)
