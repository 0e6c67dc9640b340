"""Which alerts are one incident: people are notified once of one thing that went wrong.

An alert joins an incident that fires when they have a rule and an agent in common, whatever else differs; when they
have the rule in common and began within an hour; and when the rules differ, if they began within an hour and failed on
the same traces. Otherwise it begins an incident of its own.

An alert about results that do not come (``silent``, ``coverage``) never joins one about results that are bad: an agent
that died is news, however bad its last results were. It joins only what says the same of the same agent, and those of
its kind that begin in the same check. So each agent that falls silent later is an incident, and notified.

`FailingTraces` tells whether two alerts failed on the same traces, from the store.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from sqlalchemy import Connection

from tracegrade.rule.watched import UNJUDGED, watched_evaluation
from tracegrade.store.alerts import StoredAlert
from tracegrade.store.incidents import LEVELS, Incident, incident_id
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.results import results

_NEAR_NS = 3600 * 1_000_000_000
_OF_MISSING_RESULTS = ("silent", "coverage")


def incidents_now(
    before: Sequence[Incident],
    alerts: Iterable[StoredAlert],
    failed_together: Callable[[StoredAlert, StoredAlert], bool],
) -> list[Incident]:
    """The incidents after a check.

    Args:
        before: those that fired before it, oldest first.
        alerts: the alerts of these, and those that begin, as they are now.
        failed_together: whether two alerts of different rules failed on the same traces.

    Returns:
        `before` with their members as they are now, then new incidents. The ids of members are filled in.
    """
    known = {alert.key: alert for alert in alerts}
    found = [_with(incident, [known.pop(member.key, member) for member in incident.members]) for incident in before]
    for alert in sorted(known.values(), key=_first_the_one_that_says_most):
        place = next(_joined(found, alert, failed_together), None)
        if place is None:
            found.append(_with(Incident(incident_id(alert), [alert]), [alert]))
        else:
            found[place] = _with(found[place], [*found[place].members, alert])
    return found


def _with(incident: Incident, members: Sequence[StoredAlert]) -> Incident:
    named = [member if member.incident else replace(member, incident=incident.id) for member in members]
    return replace(incident, members=named)


def _first_the_one_that_says_most(alert: StoredAlert) -> tuple[object, ...]:
    """Of alerts that begin together: the highest level, and one that says what was usual, of all releases."""
    return -LEVELS.index(alert.level), alert.facts.was is None, alert.release is not None, alert.fingerprint


def _joined(
    incidents: Sequence[Incident], alert: StoredAlert, failed_together: Callable[[StoredAlert, StoredAlert], bool]
) -> Iterator[int]:
    """The places of the incidents that `alert` belongs to."""
    for place, incident in enumerate(incidents):
        firing = [member for member in incident.members if member.state == "firing"]
        if any(_belongs(alert, member, failed_together) for member in firing):
            yield place


def _belongs(
    alert: StoredAlert, member: StoredAlert, failed_together: Callable[[StoredAlert, StoredAlert], bool]
) -> bool:
    if alert.tenant != member.tenant:
        return False
    is_of_rule = alert.rule_id == member.rule_id
    is_of_agent = (alert.service, alert.agent) == (member.service, member.agent)
    if alert.kind in _OF_MISSING_RESULTS or member.kind in _OF_MISSING_RESULTS:
        if alert.kind != member.kind:
            return False
        # An agent is silent for all rules alike; each rule has a coverage of its own.
        says_the_same = is_of_agent and (is_of_rule or alert.kind == "silent")
        return says_the_same or (alert.starts_ns == member.starts_ns and (is_of_rule or is_of_agent))
    near = _began_together(alert, member)
    if is_of_rule:
        return near or is_of_agent
    return near and failed_together(alert, member)


def _began_together(one: StoredAlert, other: StoredAlert) -> bool:
    """Whether both began within an hour; where it is not known when one did, whether it fired while the other began."""
    since, other_since = _since_ns(one), _since_ns(other)
    if since is not None and other_since is not None:
        return abs(since - other_since) <= _NEAR_NS
    since, other_since = since or one.starts_ns, other_since or other.starts_ns
    return since <= other.starts_ns + _NEAR_NS and other_since <= one.starts_ns + _NEAR_NS


def _since_ns(alert: StoredAlert) -> int | None:
    """When it began, as far as results tell; of an error budget, they tell how fast it is spent, and not since when."""
    since_ns = alert.facts.since_ns
    return None if since_ns is None or since_ns >= alert.starts_ns or alert.kind == "slo" else since_ns


_LOOKED_AT = 500
_SAME = 0.5  # of the one that failed on fewer traces
_FEWEST = 2


class FailingTraces:
    """The newest failing traces of alerts, read when they are asked for."""

    def __init__(self, connection: Connection, counting_incomplete: Collection[str]) -> None:
        """Read on `connection`; `counting_incomplete` are the ids of rules that count incomplete traces."""
        self._connection = connection
        self._counting_incomplete = counting_incomplete
        self._found: dict[str, frozenset[str]] = {}

    def are_shared(self, one: StoredAlert, other: StoredAlert) -> bool:
        """Whether at least half of the traces that one of them failed on are failing traces of the other, too."""
        both = self._of(one), self._of(other)
        fewer = min(map(len, both))
        return fewer >= _FEWEST and len(both[0] & both[1]) >= _SAME * fewer

    def _of(self, alert: StoredAlert) -> frozenset[str]:
        if alert.key not in self._found:
            self._found[alert.key] = self._bad_trace_ids(alert)
        return self._found[alert.key]

    def _bad_trace_ids(self, alert: StoredAlert) -> frozenset[str]:
        since_ns = alert.starts_ns if alert.facts.since_ns is None else alert.facts.since_ns
        if since_ns >= alert.starts_ns:  # it is not known when it began
            since_ns = alert.starts_ns - int(alert.over_s * 1_000_000_000)
        result_filter = ResultFilter(
            tenant=alert.tenant,
            service=alert.service,
            rule=alert.rule_id,
            rule_hash=alert.rule_hash,
            evaluation=watched_evaluation(alert.of) or None,
            agent=alert.agent,
            outcome=alert.of if alert.of in UNJUDGED else "fail",
            since_ns=since_ns,
            complete=None if alert.rule_id in self._counting_incomplete else True,
        )
        return frozenset(
            result.trace_id
            for result in results(self._connection, result_filter, _LOOKED_AT)
            if alert.release is None or alert.release == (result.release or "")
        )
