"""What changed within an hour of when it began: releases, models, prompts, the rule, and TraceGrade itself.

Of what has fired for long, also the releases that came among the latest results.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, select

from tracegrade.alert.diagnose.cases import Case, every_case
from tracegrade.alert.diagnose.slices import ValuesOf
from tracegrade.alert.diagnose.watched import Watched
from tracegrade.alert.notify.message import time_text
from tracegrade.store.diagnosis import Change
from tracegrade.store.schema import EVERY_TRACE, MINUTE_NS, rule_texts, series
from tracegrade.store.tallies import Period, first_minutes, seen_before

_NEAR_NS = 60 * MINUTE_NS

# What cases tell is new when so many cases before would have had it at the share that it has now, and none had.
_WOULD_HAVE_HAD = 5.0
_LEAST_SEEN = 3
_MOST_NEW = 3
_MOST_NAMED = 3
_MOST_ROUNDS = 3


def near(watched: Watched) -> Period:
    """Within an hour of when it began, up to now."""
    return watched.began_ns - _NEAR_NS, min(watched.began_ns + _NEAR_NS, watched.since[1])


def counted_changes(connection: Connection, watched: Watched) -> Iterator[Change]:
    """What the sums and the stored rules tell: new releases, another form or text of the rule, another TraceGrade."""
    alert, of_tenant = watched.alert, series.c.tenant == watched.alert.tenant
    of_rule = and_(of_tenant, series.c.rule_id == alert.rule_id)
    of_service = and_(of_tenant, series.c.service == alert.service, series.c.rule_id != EVERY_TRACE)
    period = near(watched)
    since_ns, until_ns = watched.since
    lately = [(max(period[1], since_ns), until_ns)] if since_ns > watched.began_ns and until_ns > period[1] else []
    for some in (period, *lately):
        for release, at_ns, _ in _new(connection, series.c.release, of_service, some):
            yield Change("release", at_ns, f"release {release} first seen at {time_text(at_ns)}")
    for rule_hash, at_ns, _ in _new(connection, series.c.rule_hash, of_rule, period):
        if rule_hash == watched.result_filter.rule_hash:
            text = f"the rule was changed; this form first judged at {time_text(at_ns)}"
            yield Change("rule", at_ns, text)
    for version, at_ns, earlier in _new(connection, series.c.tracegrade, of_rule, period):
        instead = f"TraceGrade {version} instead of {earlier or 'an earlier version'}"
        yield Change("tracegrade", at_ns, f"{instead}, first judged at {time_text(at_ns)}")
    yield from _edited(connection, alert.rule_id, period)


def _new(
    connection: Connection, column: ColumnElement[Any], of: ColumnElement[bool], period: Period
) -> list[tuple[str, int, str | None]]:
    """The values of `column` that were first seen within `period`: the value, the minute, the value seen before it.

    Where nothing was seen before, the first that came is not new: what is all new has not changed.
    """
    live = and_(series.c.run == "live", of)
    numbers = select(series.c.number).where(live)
    values = {number: value for number, value in connection.execute(select(series.c.number, column).where(live))}
    came = first_minutes(connection, numbers, period)
    first = min(came.values(), default=0)
    before = seen_before(connection, numbers, period[0]) or {
        number: minute for number, minute in came.items() if minute == first
    }
    if not before:
        return []
    known = {values[number] for number in before}
    earlier = values[max(before, key=lambda number: before[number])]
    firsts: dict[str, int] = {}
    for number, minute in came.items():
        value = values[number]
        if value is not None and value not in known:
            firsts[value] = min(minute, firsts.get(value, minute))
    return [(value, minute * MINUTE_NS, earlier) for value, minute in firsts.items()]


def _edited(connection: Connection, rule_id: str, period: Period) -> Iterator[Change]:
    """Texts of the rule that came into force within `period` and judge as the text before did."""
    columns = (rule_texts.c.since_ns, rule_texts.c.rule_hash)
    query = select(*columns).where(rule_texts.c.rule_id == rule_id, rule_texts.c.since_ns < period[1])
    for (_, before), (since_ns, rule_hash) in pairwise(connection.execute(query.order_by(rule_texts.c.since_ns)).all()):
        if since_ns >= period[0] and rule_hash == before:
            at_ns = since_ns - since_ns % MINUTE_NS
            yield Change("rule", at_ns, f"the rule's text was edited at {time_text(at_ns)}; it judges as before")


def changes_in_cases(
    connection: Connection, watched: Watched, before: Sequence[Case], kinds: Iterable[tuple[str, ValuesOf]]
) -> Iterator[Change]:
    """What the cases near that time have that no case before has, such as a new model.

    Args:
        connection: on the store.
        watched: what the alert watches.
        before: cases of the time before it began.
        kinds: what to look for, and where a case has it.
    """
    period = near(watched)
    now = sorted(every_case(connection, watched, period), key=lambda case: case.time_ns)
    then = [case for case in before if case.time_ns < period[0]]
    for what, values_of in kinds:
        known = {value for case in then for value in values_of(case)}
        for value, at_ns in _appeared(now, known, len(then), values_of)[:_MOST_NEW]:
            first_ns = _first_ns(connection, watched, now, at_ns, value, values_of)
            text = f"{what} {value} first seen at {time_text(first_ns)}"
            instead = f", before: {', '.join(sorted(known)[:_MOST_NAMED])}" if 0 < len(known) <= _MOST_NAMED else ""
            yield Change(what, first_ns - first_ns % MINUTE_NS, text + instead)


def _first_ns(
    connection: Connection, watched: Watched, cases: Sequence[Case], at_ns: int, value: str, values_of: ValuesOf
) -> int:
    """When the first case with `value` came, no later than `at_ns`.

    Of very many traces `cases` are only some. So those between the last case without it and the first with it are
    looked at, and then again those between.
    """
    for _ in range(_MOST_ROUNDS):
        last_ns = max((case.time_ns for case in cases if case.time_ns < at_ns), default=at_ns)
        if last_ns + 1 >= at_ns:
            break
        cases = every_case(connection, watched, (last_ns + 1, at_ns))
        at_ns = min((case.time_ns for case in cases if value in values_of(case)), default=at_ns)
    return at_ns


def _appeared(now: Sequence[Case], known: set[str], before: int, values_of: ValuesOf) -> list[tuple[str, int]]:
    """The values that are not `known`, and when each was first seen; those seen most often first."""
    firsts: dict[str, int] = {}
    seen: dict[str, int] = {}
    for place, case in enumerate(now):
        for value in set(values_of(case)) - known:
            firsts.setdefault(value, place)
            seen[value] = seen.get(value, 0) + 1
    new = [
        value
        for value, first in firsts.items()
        if seen[value] >= _LEAST_SEEN and seen[value] / (len(now) - first) * (before + first) >= _WOULD_HAVE_HAD
    ]
    new.sort(key=lambda value: (-seen[value], value))
    return [(value, now[firsts[value]].time_ns) for value in new]
