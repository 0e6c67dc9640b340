"""What an alert watches: which results are bad, in which series, since when, and compared with what time before."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, Select, func, select

from tracegrade.model.evaluation import MEASURES
from tracegrade.model.tally import Tally
from tracegrade.rule.watched import SCORE, UNJUDGED, watched_evaluation
from tracegrade.store.alerts import StoredAlert, recent_alerts
from tracegrade.store.result_filter import ResultFilter, of_series
from tracegrade.store.schema import MINUTE_NS, OUTCOMES, series
from tracegrade.store.tallies import Period

_NS = 1_000_000_000
_LEAST_LATEST_NS = 60 * MINUTE_NS
_FASTEST_BURN = 720  # its longer time is this part of the window of an objective, as an hour is of 30 days
_BEFORE_NS = 7 * 86_400 * _NS
ANY_OUTCOME = tuple(range(len(OUTCOMES)))
_JUDGED = (OUTCOMES.index("pass"), OUTCOMES.index("fail"))


@dataclass(slots=True)
class Part:
    """Results of one time: how many, how many of them are bad, and how bad they are together.

    ``squares`` is the sum of squares of how bad each is. ``seen`` of the results were looked at, and ``seen_bad`` bad
    ones: what the others are estimated from.
    """

    results: float = 0.0
    bad: float = 0.0
    loss: float = 0.0
    squares: float = 0.0
    seen: int = 0
    seen_bad: int = 0

    def add(self, other: "Part") -> None:
        """Add others of the same time."""
        self.results += other.results
        self.bad += other.bad
        self.loss += other.loss
        self.squares += other.squares
        self.seen += other.seen
        self.seen_bad += other.seen_bad

    @property
    def rate(self) -> float | None:
        """How bad a result is on average; None without results."""
        return self.loss / self.results if self.results > 0 else None


@dataclass(slots=True)
class Both:
    """The same results since it began, and before."""

    since: Part = field(default_factory=Part)
    before: Part = field(default_factory=Part)


@dataclass(frozen=True, slots=True)
class Place:
    """What the results of one series share; each stands for ``weight`` results."""

    evaluation: str
    release: str | None
    agent: str
    weight: float


@dataclass(frozen=True, slots=True)
class Watched:
    """What one alert watches.

    ``bad`` are the outcomes that it is about, ``judged`` those among which they are counted, as numbers.
    ``is_of_score``: a mean score is watched, so a result is as bad as its score is below 1. ``is_of_measure``: the mean
    of tokens, costs or durations is watched, so a result is as bad as it is large. It began at ``began_ns``; ``since``
    is the time since then, of what has fired for long the latest of it, ``before`` the times before it began.
    ``result_filter`` selects its results of any release: before it began, all
    of them count, as a release that broke has seldom been there for long. ``places`` has their series by number, those
    of whole rules and of single evaluations.
    """

    alert: StoredAlert
    evaluation: str
    bad: tuple[int, ...]
    judged: tuple[int, ...]
    is_of_score: bool
    is_of_measure: bool
    count_incomplete: bool
    began_ns: int
    since: Period
    before: Sequence[Period]
    result_filter: ResultFilter
    places: dict[int, Place]

    def numbers(self, *, before: bool) -> Select[tuple[int]]:
        """SQL that selects the numbers of the series whose results are counted since it began, or before."""
        query = select(series.c.number).where(series.c.evaluation == self.evaluation, *of_series(self.result_filter))
        release = self.alert.release
        return query if before or release is None else query.where(func.coalesce(series.c.release, "") == release)

    def searched(self, *, before: bool) -> list[int]:
        """The numbers of the series of evaluations, by which the traces of one of the times are found."""
        named = "" if self.is_of_measure else self.evaluation
        return [
            number
            for number, place in self.places.items()
            if place.evaluation and (not named or place.evaluation == named) and self.holds(place, before=before)
        ]

    def holds(self, place: Place, *, before: bool) -> bool:
        """Whether the results of a series are of the release that is watched; before it began, any is."""
        return before or self.alert.release is None or (place.release or "") == self.alert.release

    def count(self, tally: Tally) -> Part:
        """The results in `tally` that count, by their weights."""
        by_outcome = (tally.all_passed, tally.all_failed, tally.all_not_evaluable, tally.all_errors)
        stored = tally[:4]
        judged, bad = (sum(by_outcome[number] for number in some) for some in (self.judged, self.bad))
        seen, seen_bad = (sum(int(stored[number]) for number in some) for some in (self.judged, self.bad))
        if self.is_of_measure:
            return Part(judged, 0.0, tally.all_scores, tally.all_score_squares, seen, 0)
        loss, squares = bad, bad
        if self.is_of_score:
            loss = judged - tally.all_scores
            squares = judged - 2 * tally.all_scores + tally.all_score_squares
        return Part(judged, bad, loss, squares, seen, seen_bad)

    def is_before(self, time_ns: int) -> bool:
        """Whether a time is one of those before it began."""
        return any(since_ns <= time_ns < until_ns for since_ns, until_ns in self.before)


def watched(connection: Connection, alert: StoredAlert, count_incomplete: bool, until_ns: int) -> Watched:
    """What `alert` watches, up to before `until_ns`; `count_incomplete`: its rule counts incomplete traces."""
    began_ns = _began_ns(alert)
    since_ns = _latest_ns(alert, began_ns, until_ns - until_ns % MINUTE_NS)
    everywhere = ResultFilter(
        tenant=alert.tenant,
        rule=alert.rule_id,
        rule_hash=alert.rule_hash,
        service=alert.service,
    )
    found = {row.number: row for row in connection.execute(select(series).where(*of_series(everywhere)))}
    # An alert over the agents of a service has no agent, and so has one on an agent without a name.
    is_of_all = not alert.agent and all(row.agent for row in found.values())
    agent = None if is_of_all else alert.agent
    is_of_measure = alert.of in MEASURES
    unjudged = alert.of if alert.of in UNJUDGED else "not_evaluable" if alert.kind == "coverage" else None
    return Watched(
        alert=alert,
        evaluation=watched_evaluation(alert.of),
        bad=() if is_of_measure else (OUTCOMES.index(unjudged or "fail"),),
        judged=_JUDGED[:1] if is_of_measure else ANY_OUTCOME if unjudged else _JUDGED,
        is_of_score=alert.of.endswith(SCORE),
        is_of_measure=is_of_measure,
        count_incomplete=count_incomplete,
        began_ns=began_ns,
        since=(since_ns, max(until_ns, since_ns + MINUTE_NS)),
        before=_before(connection, alert, min(began_ns, since_ns)),
        result_filter=ResultFilter(
            tenant=alert.tenant,
            rule=alert.rule_id,
            rule_hash=everywhere.rule_hash,
            service=alert.service,
            agent=agent,
            complete=None if count_incomplete else True,
        ),
        places={
            row.number: Place(row.evaluation, row.release, row.agent, 1 / row.probability)
            for row in found.values()
            if agent is None or row.agent == agent
        },
    )


def _began_ns(alert: StoredAlert) -> int:
    """When it began, to the minute; where results do not tell, the beginning of the window in which it was seen."""
    began_ns, budget = alert.facts.since_ns, alert.facts.budget
    if began_ns is None or not _is_told(alert):
        window_s = alert.over_s if budget is None else budget.window_s / _FASTEST_BURN
        began_ns = alert.starts_ns - int(window_s * _NS)
    return began_ns - began_ns % MINUTE_NS


def _latest_ns(alert: StoredAlert, began_ns: int, until_ns: int) -> int:
    """From when on results tell what is wrong now: those of long ago may have had another cause.

    As long as it took to find it, since so many results were enough then; of a budget the time within which it burns.
    """
    budget = alert.facts.budget
    took_ns = alert.starts_ns - began_ns if budget is None else int(budget.over_s * _NS)
    latest_ns = until_ns - max(_LEAST_LATEST_NS, took_ns)
    latest_ns -= latest_ns % MINUTE_NS
    return latest_ns if budget is not None and not _is_told(alert) else max(began_ns, latest_ns)


def _is_told(alert: StoredAlert) -> bool:
    """Whether results tell when it began."""
    since_ns = alert.facts.since_ns
    return since_ns is not None and since_ns < alert.starts_ns


def _before(connection: Connection, alert: StoredAlert, since_ns: int) -> list[Period]:
    """The seven days before it began, without the times in which an alert on the same number fired."""
    first_ns = since_ns - _BEFORE_NS
    place = ResultFilter(tenant=alert.tenant, rule=alert.rule_id, service=alert.service, agent=alert.agent)
    fired = [
        (min(other.facts.since_ns or other.starts_ns, other.starts_ns), other.ends_ns or since_ns)
        for other in recent_alerts(connection, first_ns, result_filter=place)
        if other.of == alert.of and other.starts_ns < alert.starts_ns
    ]
    left = _without((first_ns, since_ns), fired)
    return left or [(first_ns, since_ns)]  # it fired all the time: better than nothing


def _without(period: Period, taken: Iterable[Period]) -> list[Period]:
    """What is left of `period`, in whole minutes, without the times `taken`."""
    begin, end = period
    left = []
    for since_ns, until_ns in sorted(taken):
        stop = since_ns - since_ns % MINUTE_NS
        if stop > begin:
            left.append((begin, min(stop, end)))
        begin = max(begin, until_ns - until_ns % -MINUTE_NS)
    return [part for part in (*left, (begin, end)) if part[0] < part[1]]
