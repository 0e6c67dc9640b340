"""Traces with what they took, filtered and sorted by that, in pages: the list of the page.

In order of time everything is listed. Sorted by anything else, the newest `MOST_SORTED` traces that the filters leave
are: what they took is not in an index.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from sqlalchemy import Connection

from tracegrade.model.usage import CostOf
from tracegrade.queries.lists import check_run
from tracegrade.store.heads import NEWEST, TraceHead, trace_heads
from tracegrade.store.result_filter import ResultFilter

MOST_SORTED = 10_000
"""How many traces are sorted, and looked at for one page of those that took so and so much."""

_MOST_LOOKED_AT = 5 * MOST_SORTED
_AT_A_TIME = 500


class Took(NamedTuple):
    """What a trace took; None is what is not known."""

    duration: float
    calls: int
    tokens: int | None
    cost: float | None


class Bounds(NamedTuple):
    """From `low` up to `high`, both included."""

    low: float = 0.0
    high: float = inf


@dataclass(frozen=True, slots=True)
class Listed:
    """One trace with what it took."""

    head: TraceHead
    took: Took


@dataclass(frozen=True, slots=True)
class MeasuredChoice:
    """Which traces, in which order.

    ``within``: bounds by the fields of `Took`; a trace of which it is not known is left out. ``sort``: such a field, or
    ``outcome``, the worst first; "" for the order of time, newest first. ``ascending`` turns it round.
    """

    result_filter: ResultFilter
    within: Mapping[str, Bounds] = field(default_factory=dict)
    close_reason: str | None = None
    sort: str = ""
    ascending: bool = False


@dataclass(frozen=True, slots=True)
class MeasuredPage:
    """A part of the list. ``next`` is the place of the part after it, None at the end.

    ``sorted_of`` is how many traces were sorted, None in order of time; ``all_sorted`` says that these are all.
    """

    items: Sequence[Listed]
    next: int | None
    sorted_of: int | None = None
    all_sorted: bool = True


def measured_page(
    connection: Connection, choice: MeasuredChoice, cost_of: CostOf, limit: int, place: int | None = None
) -> MeasuredPage:
    """At most `limit` traces from `place` on, which is the ``next`` of the page before.

    Raises:
        NotFound: there is no such run.
    """
    check_run(connection, choice.result_filter.run)
    if choice.sort:
        return _sorted_page(connection, choice, cost_of, limit, place or 0)
    before = NEWEST if place is None else place
    found: list[Listed] = []
    for looked_at, listed in enumerate(_all(connection, choice, cost_of, before, limit + 1), 1):
        if _is_chosen(choice, listed):
            found.append(listed)
            if len(found) > limit:
                return MeasuredPage(found[:limit], found[limit - 1].head.number)
        if looked_at == MOST_SORTED:
            return MeasuredPage(found, listed.head.number)
    return MeasuredPage(found, None)


def _sorted_page(
    connection: Connection, choice: MeasuredChoice, cost_of: CostOf, limit: int, place: int
) -> MeasuredPage:
    found: list[Listed] = []
    is_whole = True
    for looked_at, listed in enumerate(_all(connection, choice, cost_of, NEWEST, _AT_A_TIME)):
        if len(found) == MOST_SORTED or looked_at == _MOST_LOOKED_AT:
            is_whole = False
            break
        if _is_chosen(choice, listed):
            found.append(listed)
    known = [listed for listed in found if _key(choice.sort, listed) is not None]
    unknown = [listed for listed in found if _key(choice.sort, listed) is None]
    known.sort(key=lambda listed: _key(choice.sort, listed) or (), reverse=not choice.ascending)
    some = [*known, *unknown][place : place + limit]
    more = place + limit if place + limit < len(found) else None
    return MeasuredPage(some, more, len(found), is_whole)


def _all(
    connection: Connection, choice: MeasuredChoice, cost_of: CostOf, before: int, at_a_time: int
) -> Iterator[Listed]:
    """Those that the result filter selects, newest first; a few in memory at a time."""
    while True:
        heads = trace_heads(connection, choice.result_filter, at_a_time, before=before)
        for head in heads:
            yield Listed(head, took_by(head, cost_of))
        if len(heads) < at_a_time:
            return
        before, at_a_time = heads[-1].number, _AT_A_TIME


def took_by(head: TraceHead, cost_of: CostOf) -> Took:
    """What a trace took, as its row in the store says."""
    seconds = max(0, head.end_ns - head.start_ns) / 1_000_000_000
    usages = head.usages
    if not usages:
        return Took(seconds, head.call_count, None, None)
    return Took(seconds, head.call_count, sum(usage.tokens.total for usage in usages), cost_of(usages).amount)


def _is_chosen(choice: MeasuredChoice, listed: Listed) -> bool:
    if choice.close_reason not in (None, listed.head.close_reason):
        return False
    for name, (low, high) in choice.within.items():
        value = getattr(listed.took, name)
        if value is None or not low <= value <= high:
            return False
    return True


def _key(sort: str, listed: Listed) -> tuple[float, ...] | None:
    """The value to sort by, then the trace's number, for those with the same value; None where it is not known."""
    if sort == "outcome":
        counted = listed.head.outcomes
        return *(counted.get(name, 0) for name in ("fail", "error", "not_evaluable")), listed.head.number
    value = getattr(listed.took, sort)
    return None if value is None else (value, listed.head.number)


SORTS: tuple[str, ...] = (*Took._fields, "outcome")
"""By what a list can be sorted."""
