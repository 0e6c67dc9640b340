"""What alerts look at: the outcomes of each series, by the minute and by the hour.

A revision takes back what the one before it counted, in the transaction that stores it; so everything that is computed
from these sums is corrected with them, and counts nothing twice.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import NamedTuple

from sqlalchemy import Connection, select

from tracegrade.store.rates import stretches
from tracegrade.store.schema import MINUTE_NS, counts, series

_COLUMNS = ("passed", "failed", "not_evaluable", "errors", "score_sum", "score_squares")


class SeriesKey(NamedTuple):
    """Whose outcomes: of one content of a rule, at one agent of one release of a service.

    ``evaluation`` is "" for the rule as a whole; ``rule_id`` is "" where traces are counted instead of results.
    """

    tenant: str
    rule_id: str
    rule_hash: str
    evaluation: str
    service: str
    agent: str
    release: str | None


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Outcomes added up: how many are stored, and (``all_``) of how many those are a sample.

    A result that was kept with probability p stands for 1 / p of its kind. ``squares`` are the sums of squares of these
    weights: n equal weights carry as much as n results, unequal ones less (Kish's effective sample size).
    """

    passed: int = 0
    failed: int = 0
    not_evaluable: int = 0
    errors: int = 0
    all_passed: float = 0.0
    all_failed: float = 0.0
    all_not_evaluable: float = 0.0
    all_errors: float = 0.0
    all_scores: float = 0.0
    all_score_squares: float = 0.0
    judged_squares: float = 0.0
    other_squares: float = 0.0

    @property
    def judged(self) -> int:
        """Passes and fails that are stored."""
        return self.passed + self.failed

    @property
    def results(self) -> int:
        """Stored results of any outcome."""
        return self.judged + self.not_evaluable + self.errors

    def __add__(self, other: "Outcomes") -> "Outcomes":
        return Outcomes(*(getattr(self, name) + getattr(other, name) for name in _FIELDS))


_FIELDS = [field.name for field in fields(Outcomes)]


@dataclass(frozen=True, slots=True)
class Bin:
    """Outcomes of traces whose last span came within ``minutes`` from ``minute`` (since 1970) on."""

    minute: int
    minutes: int
    outcomes: Outcomes


def total(bins: Iterable[Bin]) -> Outcomes:
    """All of them together."""
    sums = Outcomes()
    for item in bins:
        sums += item.outcomes
    return sums


def history(
    connection: Connection,
    since_ns: int,
    until_ns: int,
    *,
    count_incomplete: bool = False,
    by_minute: bool = False,
) -> dict[str, dict[SeriesKey, list[Bin]]]:
    """The bins of every series judged live, in order of time, empty ones left out; by rule id, "" for counted traces.

    Args:
        connection: on the store.
        since_ns: from the minute in which this is, ns since 1970 UTC.
        until_ns: up to the minute in which this is.
        count_incomplete: count incomplete traces as well.
        by_minute: minutes alone; otherwise whole hours where they fit.
    """
    names = select(series).where(series.c.run == "live")
    keys = {
        row.number: (
            SeriesKey(row.tenant, row.rule_id, row.rule_hash, row.evaluation, row.service, row.agent, row.release),
            1.0 / row.probability,
        )
        for row in connection.execute(names)
    }
    places = [(1, since_ns // MINUTE_NS, (until_ns - 1) // MINUTE_NS)] if by_minute else stretches(since_ns, until_ns)
    query = select(counts.c.series, counts.c.minute, *(counts.c[name] for name in _COLUMNS))
    query = query.where(counts.c.series.in_(names.with_only_columns(series.c.number)))
    if not count_incomplete:
        query = query.where(counts.c.complete)
    found: defaultdict[SeriesKey, dict[tuple[int, int], Outcomes]] = defaultdict(dict)
    for minutes, first, last in places:
        for number, minute, *sums in connection.execute(
            query.where(counts.c.minutes == minutes, counts.c.minute.between(first, last))
        ):
            if any(sums[:4]):
                key, weight = keys[number]
                bins, place = found[key], (minute, minutes)
                outcomes = _weighted(sums, weight)
                bins[place] = bins[place] + outcomes if place in bins else outcomes
    by_rule: defaultdict[str, dict[SeriesKey, list[Bin]]] = defaultdict(dict)
    for key, by_place in found.items():
        by_rule[key.rule_id][key] = [Bin(*place, by_place[place]) for place in sorted(by_place)]
    return by_rule


def _weighted(sums: list[float], weight: float) -> Outcomes:
    passed, failed, not_evaluable, errors = (max(0, int(count)) for count in sums[:4])
    score_sum, score_squares = sums[4:]
    return Outcomes(
        passed,
        failed,
        not_evaluable,
        errors,
        passed * weight,
        failed * weight,
        not_evaluable * weight,
        errors * weight,
        score_sum * weight,
        score_squares * weight,
        (passed + failed) * weight * weight,
        (not_evaluable + errors) * weight * weight,
    )
