"""The states of an alert: it fires when its condition holds, and is resolved when it is over."""

from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Literal

from tracegrade.alert.detect.bound import with_odds
from tracegrade.alert.detect.evidence import far_likelier
from tracegrade.alert.detect.finding import Finding, Verdict, measure
from tracegrade.alert.detect.steps import as_kept, counted, kept_ratio
from tracegrade.model.tally import Tally
from tracegrade.rule.alert import Alert
from tracegrade.rule.rule import Rule
from tracegrade.rule.watched import UNJUDGED
from tracegrade.store.alerts import EndReason, Facts, StoredAlert
from tracegrade.store.history import SeriesKey
from tracegrade.store.schema import MINUTE_NS

_NS = 1_000_000_000
_LEAST_WORSE = 1.5  # times as many bad results for each good one


@dataclass(frozen=True, slots=True)
class AlertCondition:
    """The condition of one alert of one rule, at one series."""

    rule: Rule
    alert: Alert
    series: SeriesKey

    @property
    def fingerprint(self) -> str:
        """32 hex digits that identify this condition; the same each time it fires."""
        parts = (*self.series[:3], *self.series[4:], self.alert.identity)
        return blake2b(repr(parts).encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()


def next_state(
    current: StoredAlert | None, verdict: Verdict, condition: AlertCondition, finding: Finding, now_ns: int
) -> StoredAlert | None:
    """The alert after a check of its condition.

    Args:
        current: the alert as it is, None when it does not fire.
        verdict: what the look says. When nobody can tell, or it is between firing and recovery, nothing changes.
        condition: whose alert it is.
        finding: what was seen.
        now_ns: when it was seen, ns since 1970 UTC.

    Returns:
        The alert as it is now: firing, just resolved, or None.
    """
    if current is None:
        return begun(condition, finding, now_ns) if verdict == "holds" else None
    # People read the text that is in force.
    seen = _updated(_with_text(current, condition.rule), finding, now_ns)
    return resolved(seen, now_ns) if verdict == "recovered" else seen


def resolved(current: StoredAlert, now_ns: int, reason: EndReason = "recovered", ended_by: str = "") -> StoredAlert:
    """`current` as resolved, for this reason; `ended_by` says it in words, unless the value recovered."""
    facts = replace(current.facts, end_reason=reason, ended_by=ended_by)
    return replace(current, state="resolved", ends_ns=now_ns, updated_ns=now_ns, facts=facts)


def recovery_of(rule: Rule, alert: Alert, fires: StoredAlert, tally: Tally) -> Literal["good", "bad", "unclear"]:
    """Which of the two `tally`, of what replaced the cause of `fires`, is far likelier to be: good, or as bad.

    Of values: whether their mean is nearer to good or to bad beyond doubt.
    """
    good, bad = counted(alert, tally)
    is_bad = fires.value if fires.facts.fired_at is None else fires.facts.fired_at
    is_good = fires.bound if fires.facts.was is None else fires.facts.was
    if alert.is_of_values:
        found = measure(rule, alert, tally)
        middle = (is_good + is_bad) / 2
        if found is None or found.low <= middle <= found.high:
            return "unclear"
        return "good" if found.high < middle else "bad"
    if alert.of in UNJUDGED:
        is_good, is_bad = 1 - is_good, 1 - is_bad
    elif not alert.is_of_score:
        ratio = kept_ratio(rule, tally)
        is_good, is_bad = as_kept(is_good, ratio), as_kept(is_bad, ratio)
    # The value of a bound may be of a longer time than that in which it was passed.
    is_bad = min(is_bad, with_odds(is_good, _LEAST_WORSE))
    if far_likelier(good, bad, is_good, is_bad):
        return "good"
    return "bad" if far_likelier(good, bad, is_bad, is_good) else "unclear"


def begun(condition: AlertCondition, finding: Finding, now_ns: int) -> StoredAlert:
    """The alert that begins to fire with this finding."""
    rule, alert, series = condition.rule, condition.alert, condition.series
    new = StoredAlert(
        fingerprint=condition.fingerprint,
        starts_ns=now_ns,
        ends_ns=None,
        state="firing",
        tenant=series.tenant,
        rule_id=rule.id,
        service=series.service,
        level=rule.level,
        title=rule.title,
        of=alert.of,
        bound=finding.bound,
        over_s=alert.over,
        value=finding.value,
        samples=finding.samples,
        updated_ns=now_ns,
        kind=alert.kind,
        rule_hash=rule.hash,
        agent=series.agent,
        release=series.release,
        facts=Facts(
            by_chance_every_s=None if finding.is_counted else (finding.evidence or 0.0) * alert.false_alarm_every,
            fired_at=finding.value,
        ),
    )
    return _updated(_with_text(new, rule), finding, now_ns)


def _with_text(alert: StoredAlert, rule: Rule) -> StoredAlert:
    facts = replace(alert.facts, description=rule.description, references=list(rule.references))
    return replace(alert, level=rule.level, title=rule.title, facts=facts)


def _updated(current: StoredAlert, finding: Finding, now_ns: int) -> StoredAlert:
    since_ns = finding.since * MINUTE_NS if finding.since is not None else None
    facts = replace(
        current.facts,
        low=finding.low,
        high=finding.high,
        was=finding.was,
        was_samples=finding.was_samples,
        # When it began is best told when it is found: later the window has moved on.
        budget=finding.budget,
        since_ns=current.facts.since_ns if current.facts.since_ns is not None else since_ns,
    )
    return replace(
        current, value=finding.value, samples=finding.samples, bound=finding.bound, updated_ns=now_ns, facts=facts
    )
