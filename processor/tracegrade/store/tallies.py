"""Outcomes by series and time: ``counts`` is written in the transaction that writes the results, and tallied here.

What is judged live is counted by minute, hour and day, every other run as a whole. A tally reads the longest rows that
fit, so it is as fast over a year as over an hour. The database adds them up for each series and step; by names they are
added up here, since grouping by name in SQL takes twice as long.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import orjson
from sqlalchemy import ColumnElement, Connection, Select, func, literal_column, or_, select

from tracegrade.model.tally import Tally, total
from tracegrade.store import schema
from tracegrade.store.database import rows_in
from tracegrade.store.registry import database
from tracegrade.store.result_filter import ResultFilter, of_series
from tracegrade.store.schema import (
    BACKFILL,
    COUNTED_MINUTES,
    DAY_MINUTES,
    EVERY_TRACE,
    LIVE,
    MINUTE_NS,
    OUTCOMES,
    WHOLE_RULE,
    WHOLE_RUN,
    DecisionRow,
    EvaluationRow,
    counts,
    series,
    traces,
)
from tracegrade.store.series import IS_EVALUATION, stored_traffic

_Place = tuple[int, int, bool]  # minute, series, complete
_PASS = OUTCOMES.index("pass")
_NOT_EVALUABLE = OUTCOMES.index("not_evaluable")
_ADDED = ", ".join(
    f"{column.name} = counts.{column.name} + excluded.{column.name}"
    for column in schema.counts.columns
    if not column.primary_key
)


class CountChanges:
    """The changes of one batch of writes to ``counts``."""

    def __init__(self) -> None:
        # By minute (None for a whole run) and completeness, then by series.
        self._sums: defaultdict[tuple[int | None, bool], defaultdict[int, list[float]]]
        self._sums = defaultdict(lambda: defaultdict(_no_sums))

    def add(
        self,
        traffic: int | None,
        minute: int | None,
        complete: bool,
        evaluations: Sequence[EvaluationRow],
        decisions: Sequence[DecisionRow],
        by: int = 1,
    ) -> None:
        """Count the outcomes of one trace, and the trace in series `traffic`; with `by` = -1, subtract them.

        `minute` is its `counted_minute`.

        A session is not counted as traffic, since its traces are: its `traffic` is None. What was measured counts in a
        series of its own: as a pass with the value as its score, or as not_evaluable where it is not known.
        """
        sums = self._sums[minute, bool(complete)]
        if traffic is not None:
            sums[traffic][_PASS] += by
        for _, number, _, _, _, outcome, score, *_ in evaluations:
            added = sums[number]
            added[outcome] += by
            if score is not None:
                added[-2] += by * score
                added[-1] += by * score * score
        for number, _, _, _, outcome, *measured in decisions:
            if outcome is not None:
                sums[number][outcome] += by
            for of, value in measured[0] if measured else ():
                added = sums[of]
                added[_PASS if value is not None else _NOT_EVALUABLE] += by
                if value is not None:
                    added[-2] += by * value
                    added[-1] += by * value * value

    def take_back(self, connection: Connection, numbers: Sequence[int]) -> None:
        """Subtract the counts of the traces with these `numbers`, which will be replaced."""
        place = (traces.c.tenant, traces.c.run, traces.c.service, traces.c.members.is_not(None), traces.c.traffic)
        columns = (traces.c.last_received_ns, traces.c.complete, traces.c.evaluations, traces.c.decisions)
        rows = rows_in(connection, select(*place, *columns), traces.c.number, numbers)
        for tenant, run, service, is_session, traffic, last_received_ns, *results in rows:
            if traffic is None and not is_session:
                traffic = stored_traffic(connection, tenant, run, service)
            complete, evaluations, decisions = results
            minute = counted_minute(run, last_received_ns)
            self.add(traffic, minute, complete, orjson.loads(evaluations), orjson.loads(decisions), by=-1)

    def by_minute(self) -> Iterable[tuple[tuple[int | None, bool], Mapping[int, Sequence[float]]]]:
        """The sums so far: by minute and completeness, then by series."""
        return self._sums.items()

    def write(self, connection: Connection) -> None:
        """Add the sums to those stored."""
        sums: dict[_Place, list[float]] = {}
        rows = []
        for (minute, complete), by_series in self._sums.items():
            for number, added in by_series.items():
                if minute is None:
                    rows.append((WHOLE_RUN, 0, number, complete, *added))
                else:
                    sums[minute, number, complete] = added
        for minutes in COUNTED_MINUTES:
            sums = _by(minutes, sums)
            rows += [(minutes, *place, *added) for place, added in sums.items()]
        database(connection).insert_or_change(connection, schema.counts, sorted(rows), _ADDED)


def counted_minute(run: str, last_received_ns: int) -> int | None:
    """The minute in which a trace counts; None in a run that is counted as a whole."""
    return last_received_ns // MINUTE_NS if run == LIVE else None


def _by(minutes: int, shorter: Mapping[_Place, list[float]]) -> dict[_Place, list[float]]:
    """The sums of short periods added up to periods of this many minutes."""
    found: dict[_Place, list[float]] = {}
    for (minute, number, complete), sums in shorter.items():
        place = (minute - minute % minutes, number, complete)
        so_far = found.get(place)
        found[place] = sums if so_far is None else [a + b for a, b in zip(so_far, sums, strict=True)]
    return found


def _no_sums() -> list[float]:
    return [0] * len(OUTCOMES) + [0.0, 0.0]


Dimension: TypeAlias = Literal["tenant", "rule_id", "rule_hash", "evaluation", "service", "agent", "release", "number"]
"""A column of ``series``; ``number`` is that of the series itself."""
DIMENSIONS: dict[str, Dimension] = {"rule": "rule_id", "service": "service", "agent": "agent", "release": "release"}
"""Those that people group by, under the names that they use."""

RATED_BY: tuple[Dimension, ...] = ("tenant", "rule_id", "evaluation", "service")
"""The key of a pass rate."""

Key: TypeAlias = tuple[Any, ...]
Counted: TypeAlias = Literal["rules", "evaluations", "both", "traces"]
"""Whose outcomes: those of whole rules, of their evaluations, of both; or traces that arrived, judged or not."""
Period: TypeAlias = tuple[int, int]
"""From when, until before when, ns since 1970 UTC; it holds the whole minutes of both."""
Stretch: TypeAlias = tuple[int, int, int]
"""Rows of ``counts``: how many minutes long, the first minute and the last."""
Sums: TypeAlias = tuple[int, int, bool, Sequence[Any]]
"""Sums over traces of one series: its number; the step, in steps since 1970, or 0 without steps; whether the traces
were complete, or true where both are added up together; and the values, as in ``ALL_SUMS`` up to the last one that was
asked for, the others being 0."""

Summed: TypeAlias = Literal["passed", "failed", "not_evaluable", "errors", "score_sum", "score_squares"]
"""A column of ``counts`` that is added up, and a part of a `Tally`."""

OUTCOME_SUMS: tuple[Summed, ...] = ("passed", "failed", "not_evaluable", "errors")
RATED: tuple[Summed, ...] = (*OUTCOME_SUMS, "score_sum")
"""What is shown of a pass rate."""
ALL_SUMS: tuple[Summed, ...] = (*RATED, "score_squares")
# The end of a day, so that a window without an end has no single hours and minutes.
_END_MINUTE = 2**31 // DAY_MINUTES * DAY_MINUTES


def tallies(
    connection: Connection,
    chosen: ResultFilter | Select[Any],
    by: Sequence[Dimension] = (),
    *,
    of: Counted = "rules",
    periods: Iterable[Period] | None = None,
    step_minutes: int | None = None,
    incomplete: Collection[str] | Literal["count", "skip"] = (),
    summed: Collection[Summed] = OUTCOME_SUMS,
    one_form: bool = False,
) -> dict[Key, Tally]:
    """The outcomes of results by names, and by step of time; what nothing is counted of is left out.

    Args:
        connection: on the store.
        chosen: selects series, by a filter or by a query of their numbers. Times of a filter are widened to whole
            minutes of the traces' last spans, and not used for a run other than the live one. Of "traces", only its
            service, tenant, run and times are used.
        by: the parts of a key; an unknown part is "".
        of: whose outcomes; with a query of numbers, all of theirs. Of "traces", ``passed`` is their number.
        periods: times in place of those of the filter, none of which overlap.
        step_minutes: the length of a step: each key then ends with the number of one, which is its start in minutes
            since 1970 divided by this. None: no steps.
        incomplete: the rules of which results of incomplete traces count, by id or hash, those of others being tallied
            as ``incomplete``; "count": of all rules; "skip": they are left out.
        summed: what is added up; the others are 0 in each tally, and cost nothing.
        one_form: of a rule of which another form judged live in this time, what was backfilled is left out: else the
            same subjects would count by both forms.

    Raises:
        ValueError: the filter selects by what is not counted, such as an outcome.
    """
    if isinstance(chosen, ResultFilter) and chosen.not_counted:
        raise ValueError(f"outcomes are not counted by {', '.join(chosen.not_counted)}")
    conditions = _conditions(chosen, of)
    known = (series.c.number, series.c.rule_id, series.c.rule_hash, series.c.run, series.c.probability)
    names = (series.c.number if name == "number" else func.coalesce(series.c[name], "") for name in by)
    rows = {
        number: (rule_id, rule_hash, run == BACKFILL, 1 / probability, tuple(key))
        for number, rule_id, rule_hash, run, probability, *key in connection.execute(
            select(*known, *names).where(*conditions)
        )
    }
    counting = {
        number
        for number, (rule_id, rule_hash, *_) in rows.items()
        if incomplete == "count" or rule_id in incomplete or rule_hash in incomplete
    }
    if periods is None:
        assert isinstance(chosen, ResultFilter)
        spans = _stretches_of(chosen, _longest(step_minutes))
    else:
        spans = [each for period in periods for each in stretches(*period, _longest(step_minutes))]
    parts: defaultdict[Key, list[Tally]] = defaultdict(list)
    live: defaultdict[str, set[str]] = defaultdict(set)
    backfilled: list[tuple[str, str, Key, Tally]] = []
    for number, step, complete, values in sums(
        connection,
        select(series.c.number).where(*conditions),
        spans,
        summed,
        step_minutes=step_minutes,
        traces="all" if incomplete == "count" else "complete" if incomplete == "skip" else "apart",
    ):
        rule_id, rule_hash, is_backfilled, weight, key = rows[number]
        tally = Tally.of(*values, weight=weight)
        if is_backfilled or not complete:
            tally = tally.counted(complete or number in counting, is_backfilled)
        if step_minutes is not None:
            key = (*key, step)
        if one_form and is_backfilled:
            backfilled.append((rule_id, rule_hash, key, tally))
            continue
        if one_form and tally.subjects:
            live[rule_id].add(rule_hash)
        parts[key].append(tally)
    for rule_id, rule_hash, key, tally in backfilled:
        if live[rule_id] <= {rule_hash}:
            parts[key].append(tally)
    return {key: some[0] if len(some) == 1 else total(some) for key, some in parts.items()}


def _conditions(chosen: ResultFilter | Select[Any], of: Counted) -> list[ColumnElement[bool]]:
    if not isinstance(chosen, ResultFilter):
        return [series.c.number.in_(chosen)]
    if of == "traces":
        origin = ResultFilter(service=chosen.service, tenant=chosen.tenant, run=chosen.run, evaluation=WHOLE_RULE)
        return [series.c.rule_id == EVERY_TRACE, *of_series(origin)]
    if of == "rules":
        chosen = replace(chosen, evaluation=WHOLE_RULE)
    is_result = {"rules": series.c.evaluation == WHOLE_RULE, "evaluations": IS_EVALUATION}.get(
        of, or_(IS_EVALUATION, series.c.evaluation == WHOLE_RULE)
    )
    return [series.c.rule_id != EVERY_TRACE, is_result, *of_series(chosen)]


def sums(
    connection: Connection,
    numbers: Select[Any],
    spans: Iterable[Stretch],
    summed: Collection[Summed] = ALL_SUMS,
    *,
    step_minutes: int | None = None,
    traces: Literal["complete", "all", "apart"] = "apart",
) -> Iterator[Sums]:
    """The sums of series, in no order; those of one series and step come once for each stretch.

    Args:
        connection: on the store.
        numbers: selects the numbers of the series.
        spans: of time, as `stretches` gives them; none has rows of two steps.
        summed: what is added up.
        step_minutes: the length of a step; None for one step.
        traces: which traces count: complete ones, or also the others, together or apart.
    """
    query = select(counts.c.series).where(counts.c.series.in_(numbers)).group_by(counts.c.series)
    if step_minutes is None:
        query = query.add_columns(literal_column("0"))
    else:
        step = counts.c.minute // literal_column(str(int(step_minutes)))
        query = query.add_columns(step).group_by(step)
    if traces == "apart":
        query = query.add_columns(counts.c.complete).group_by(counts.c.complete)
    else:
        query = query.add_columns(literal_column("1"))
    if traces == "complete":
        query = query.where(counts.c.complete)
    width = 1 + max(map(ALL_SUMS.index, summed))
    query = query.add_columns(
        *(func.sum(counts.c[name]) if name in summed else literal_column("0") for name in ALL_SUMS[:width])
    )
    for minutes, first, last in spans:
        stretch = query.where(counts.c.minutes == minutes, counts.c.minute.between(first, last))
        for number, of_step, is_complete, *values in connection.execute(stretch):
            yield number, int(of_step), bool(is_complete), values


def stretches(since_ns: int | None, until_ns: int | None, longest: int = 60) -> list[Stretch]:
    """The window as rows of at most `longest` minutes: whole hours where they fit, minutes at both ends.

    A month has 720 rows a series, not 43,200; with days as the `longest`, 30, with hours and minutes at both ends.
    """
    first = 0 if since_ns is None else since_ns // MINUTE_NS
    end = _END_MINUTE if until_ns is None else (until_ns - 1) // MINUTE_NS + 1
    return _split(first, end, [minutes for minutes in COUNTED_MINUTES if minutes <= longest])


def _stretches_of(result_filter: ResultFilter, longest: int) -> list[Stretch]:
    """The rows for the times of `result_filter`; of a run, all of it."""
    if result_filter.stored_as != LIVE:
        return [(WHOLE_RUN, 0, 0)]
    return stretches(result_filter.since_ns, result_filter.until_ns, longest)


def _split(first: int, end: int, lengths: Sequence[int]) -> list[Stretch]:
    """The minutes from `first` to before `end` in periods of the last of `lengths`, and shorter ones at both ends."""
    if first >= end:
        return []
    *shorter, length = lengths
    begin, stop = -(-first // length) * length, end // length * length
    if begin >= stop:
        return _split(first, end, shorter)
    return [(length, begin, stop - 1), *_split(first, begin, shorter), *_split(stop, end, shorter)]


def _longest(step_minutes: int | None) -> int:
    """The longest rows that do not count minutes of two steps."""
    return max(minutes for minutes in COUNTED_MINUTES if step_minutes is None or step_minutes % minutes == 0)


def begins_ns(connection: Connection, result_filter: ResultFilter) -> int | None:
    """The first minute in the times of `result_filter` with counted results or traces; None when there is none."""
    chosen = select(series.c.number).where(*of_series(replace(result_filter, evaluation=WHOLE_RULE)))
    first = (result_filter.since_ns or 0) // MINUTE_NS
    for minutes in reversed(COUNTED_MINUTES):  # the first day, its first hour, and the first minute of that
        query = select(counts.c.minute).where(counts.c.minutes == minutes, counts.c.minute > first - minutes)
        if result_filter.until_ns is not None:
            query = query.where(counts.c.minute <= (result_filter.until_ns - 1) // MINUTE_NS)
        # What was taken back, such as an earlier backfill, leaves counts of nothing.
        query = query.where(counts.c.series.in_(chosen), or_(*(counts.c[name] > 0 for name in OUTCOME_SUMS)))
        query = query.order_by(counts.c.minute)
        found = connection.execute(query.limit(1)).scalar()
        if found is None:
            return None
        first = max(first, found)
    return first * MINUTE_NS


def first_minutes(connection: Connection, numbers: Select[Any], period: Period) -> dict[int, int]:
    """The first minute within `period` that has results, for each series that `numbers` selects and that has any."""
    query = select(counts.c.series, func.min(counts.c.minute)).where(
        counts.c.minutes == 1,
        counts.c.minute.between(period[0] // MINUTE_NS, (period[1] - 1) // MINUTE_NS),
        counts.c.series.in_(numbers),
    )
    return {number: minute for number, minute in connection.execute(query.group_by(counts.c.series))}


def seen_before(connection: Connection, numbers: Select[Any], until_ns: int) -> dict[int, int]:
    """The last minute before that of `until_ns` that has results, for each series that `numbers` selects.

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


def names_of(connection: Connection, dimension: Dimension, *, run: str = LIVE, limit: int = 200) -> list[str]:
    """The services, agents, releases or tenants that have results, in order."""
    column = series.c[dimension]
    query = select(column).distinct().where(series.c.run == run, series.c.rule_id != EVERY_TRACE, column != "")
    return list(connection.execute(query.order_by(column).limit(limit)).scalars())
