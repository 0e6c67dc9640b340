"""Outcomes of whole rules over time, by rule, service, agent or release, as the page draws them.

The database adds up the sums by minute, hour and day for each series and step; here they are added up by name.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from sqlalchemy import ColumnElement, Connection, func, or_, select

from tracegrade.model.tally import Tally
from tracegrade.store.rates import counted_stretches
from tracegrade.store.result_filter import ResultFilter, of_series
from tracegrade.store.schema import (
    BACKFILL,
    COUNTED_MINUTES,
    EVERY_TRACE,
    LIVE,
    MINUTE_NS,
    WHOLE_RULE,
    counts,
    series,
)
from tracegrade.store.series import IS_EVALUATION
from tracegrade.store.sums import OUTCOME_SUMS, sums

Dimension: TypeAlias = Literal["tenant", "rule_id", "rule_hash", "service", "agent", "release"]
Key: TypeAlias = tuple[str, ...]

# The names that people use.
DIMENSIONS: dict[str, Dimension] = {"rule": "rule_id", "service": "service", "agent": "agent", "release": "release"}


def trends(
    connection: Connection,
    result_filter: ResultFilter,
    by: Sequence[Dimension],
    *,
    step_minutes: int | None = None,
    counting_incomplete: Collection[str] = (),
    one_form: bool = False,
) -> dict[Key, dict[int, Tally]]:
    """Outcomes of rules by `by`, then by step, those of incomplete traces only where the rule counts them.

    Args:
        connection: on the store.
        result_filter: selects series, and times as in `rates`. Its fields on single results are not used:
            ``trace_id``, ``session``, ``outcome``, ``complete``.
        by: the parts of a key; an unknown part is "".
        step_minutes: the length of a step; a step's number is its start in minutes since 1970 divided by this. None:
            everything is one step, 0.
        counting_incomplete: the rules for which incomplete traces count.
        one_form: of a rule of which another form judged live in this time, what was backfilled is left out: the sums
            would count the same subjects by both forms.
    """
    rules = series.c.rule_id != EVERY_TRACE
    return _added_up(connection, result_filter, by, step_minutes, counting_incomplete, rules, one_form)


def mean_scores(
    connection: Connection, result_filter: ResultFilter, *, counting_incomplete: Collection[str] = ()
) -> dict[str, float]:
    """The mean score of all evaluations of each rule that passed or failed, by rule id; arguments as in `trends`."""
    conditions = (IS_EVALUATION, *of_series(result_filter))
    rows = connection.execute(select(series.c.number, series.c.rule_id, series.c.probability).where(*conditions))
    of = {number: (rule_id, probability) for number, rule_id, probability in rows}
    numbers = select(series.c.number).where(*conditions)
    columns = (counts.c.passed, counts.c.failed, counts.c.score_sum)
    found: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for number, _, complete, (passed, failed, scores) in sums(
        connection, numbers, counted_stretches(result_filter), columns
    ):
        rule_id, probability = of[number]
        if complete or rule_id in counting_incomplete:
            found[rule_id][0] += int(passed + failed) / probability
            found[rule_id][1] += scores / probability
    return {rule_id: scores / judged for rule_id, (judged, scores) in found.items() if judged > 0}


def traffic(connection: Connection, result_filter: ResultFilter, *, step_minutes: int | None = None) -> dict[int, int]:
    """The number of traces that arrived, judged or not, by step as in `trends`; filtered only by service and tenant."""
    origin = ResultFilter(
        service=result_filter.service,
        tenant=result_filter.tenant,
        run=result_filter.run,
        since_ns=result_filter.since_ns,
        until_ns=result_filter.until_ns,
    )
    found = _added_up(connection, origin, (), step_minutes, (), series.c.rule_id == EVERY_TRACE)
    return {step: tally.passed + tally.incomplete for step, tally in found.get((), {}).items()}


def fails_by(connection: Connection, result_filter: ResultFilter, group_of: Callable[[Any], Key]) -> Counter[Key]:
    """The number of failed evaluations by group, incomplete traces included; `group_of` takes a row of ``series``."""
    conditions = (IS_EVALUATION, *of_series(result_filter))
    groups = {row.number: group_of(row) for row in connection.execute(select(series).where(*conditions))}
    numbers = select(series.c.number).where(*conditions)
    found: Counter[Key] = Counter()
    stretches = counted_stretches(result_filter)
    for number, _, _, (failed,) in sums(connection, numbers, stretches, [counts.c.failed], traces="all"):
        if failed > 0:
            found[groups[number]] += int(failed)
    return found


def begins_ns(connection: Connection, result_filter: ResultFilter) -> int | None:
    """The first minute in the times of `result_filter` with counted results or traces; None when there is none."""
    chosen = select(series.c.number).where(*of_series(replace(result_filter, evaluation=WHOLE_RULE)))
    first = (result_filter.since_ns or 0) // MINUTE_NS
    for minutes in reversed(COUNTED_MINUTES):  # the first day, its first hour, and the first minute of that
        query = select(counts.c.minute).where(counts.c.minutes == minutes, counts.c.minute > first - minutes)
        if result_filter.until_ns is not None:
            query = query.where(counts.c.minute <= (result_filter.until_ns - 1) // MINUTE_NS)
        # What was taken back, such as an earlier backfill, leaves counts of nothing.
        query = query.where(counts.c.series.in_(chosen), or_(*(column > 0 for column in OUTCOME_SUMS)))
        query = query.order_by(counts.c.minute)
        found = connection.execute(query.limit(1)).scalar()
        if found is None:
            return None
        first = max(first, found)
    return first * MINUTE_NS


def _added_up(
    connection: Connection,
    result_filter: ResultFilter,
    by: Sequence[Dimension],
    step_minutes: int | None,
    counting_incomplete: Collection[str],
    rules: ColumnElement[bool],
    one_form: bool = False,
) -> dict[Key, dict[int, Tally]]:
    conditions = (rules, *of_series(replace(result_filter, evaluation=WHOLE_RULE)))
    keys = [func.coalesce(series.c[name], "") for name in by]
    named = connection.execute(
        select(series.c.number, series.c.rule_id, series.c.rule_hash, series.c.run, series.c.probability, *keys).where(
            *conditions
        )
    )
    rows = {
        number: (rule_id in counting_incomplete, run == BACKFILL, weight, tuple(key), (rule_id, rule_hash))
        for number, rule_id, rule_hash, run, weight, *key in named
    }
    numbers = select(series.c.number).where(*conditions)
    found: defaultdict[Key, dict[int, Tally]] = defaultdict(dict)

    def add(key: Key, start: int, tally: Tally) -> None:
        steps = found[key]
        before = steps.get(start)
        steps[start] = tally if before is None else before.plus(tally)

    live: defaultdict[str, set[str]] = defaultdict(set)
    backfilled: list[tuple[str, str, Key, int, Tally]] = []
    # A row must not count minutes of two steps.
    longest = max(minutes for minutes in COUNTED_MINUTES if step_minutes is None or step_minutes % minutes == 0)
    stretches = counted_stretches(result_filter, longest)
    for number, start, complete, values in sums(connection, numbers, stretches, step_minutes=step_minutes):
        counts_all, is_backfilled, probability, key, (rule_id, rule_hash) = rows[number]
        tally = Tally.of(*values, weight=1 / probability).counted(complete or counts_all, is_backfilled)
        if is_backfilled:
            backfilled.append((rule_id, rule_hash, key, start, tally))
        else:
            if tally.subjects:
                live[rule_id].add(rule_hash)
            add(key, start, tally)
    for rule_id, rule_hash, key, start, tally in backfilled:
        if not one_form or live[rule_id] <= {rule_hash}:
            add(key, start, tally)
    return found


def names_of(connection: Connection, dimension: Dimension, *, run: str = LIVE, limit: int = 200) -> list[str]:
    """The services, agents, releases or tenants that have results, in order."""
    column = series.c[dimension]
    query = select(column).distinct().where(series.c.run == run, series.c.rule_id != EVERY_TRACE, column != "")
    return list(connection.execute(query.order_by(column).limit(limit)).scalars())
