"""What an alert watches: which results are bad, in which series, since when, and compared with what time before."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Select, func, select

from tracegrade.alert.diagnose.part import Part
from tracegrade.model.evaluation import MEASURES
from tracegrade.rule.watched import SCORE, UNJUDGED, watched_evaluation
from tracegrade.store.alerts import StoredAlert, recent_alerts
from tracegrade.store.history import Outcomes
from tracegrade.store.periods import Period
from tracegrade.store.present_hashes import present_hash
from tracegrade.store.result_filter import ResultFilter, of_series
from tracegrade.store.schema import MINUTE_NS, OUTCOMES, series

_NS = 1_000_000_000
_BEFORE_NS = 7 * 86_400 * _NS
ANY_OUTCOME = tuple(range(len(OUTCOMES)))
_JUDGED = (OUTCOMES.index("pass"), OUTCOMES.index("fail"))


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
    of tokens, costs or durations is watched, so a result is as bad as it is large. ``since`` is the time since it
    began, ``before`` the times before it. ``result_filter`` selects its results of any release: before it began, all
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

    def count(self, outcomes: Outcomes) -> Part:
        """The results among `outcomes` that count, by their weights."""
        by_outcome = (outcomes.all_passed, outcomes.all_failed, outcomes.all_not_evaluable, outcomes.all_errors)
        stored = outcomes[:4]
        judged, bad = (sum(by_outcome[number] for number in some) for some in (self.judged, self.bad))
        seen, seen_bad = (sum(int(stored[number]) for number in some) for some in (self.judged, self.bad))
        if self.is_of_measure:
            return Part(judged, 0.0, outcomes.all_scores, outcomes.all_score_squares, seen, 0)
        loss, squares = bad, bad
        if self.is_of_score:
            loss = judged - outcomes.all_scores
            squares = judged - 2 * outcomes.all_scores + outcomes.all_score_squares
        return Part(judged, bad, loss, squares, seen, seen_bad)

    def is_before(self, time_ns: int) -> bool:
        """Whether a time is one of those before it began."""
        return any(since_ns <= time_ns < until_ns for since_ns, until_ns in self.before)


def watched(connection: Connection, alert: StoredAlert, count_incomplete: bool, until_ns: int) -> Watched:
    """What `alert` watches, up to before `until_ns`; `count_incomplete`: its rule counts incomplete traces."""
    since_ns = alert.facts.since_ns
    if since_ns is None:  # the window in which it was seen is all that is known
        since_ns = alert.starts_ns - int(alert.over_s * _NS)
    since_ns -= since_ns % MINUTE_NS
    everywhere = ResultFilter(
        tenant=alert.tenant,
        rule=alert.rule_id,
        rule_hash=present_hash(connection, alert.rule_hash),
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
        since=(since_ns, max(until_ns, since_ns + MINUTE_NS)),
        before=_before(connection, alert, since_ns),
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
