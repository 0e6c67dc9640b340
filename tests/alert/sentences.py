"""Every sentence about alerts: a row for each kind of alert, firing and ended for each reason, with what is said."""

from dataclasses import replace
from typing import Any, NamedTuple

from build.stored_alerts import ALERT
from tracegrade.alert.expected import stated_volume
from tracegrade.alert.outlook import Expectation, NotFired, TimeToFire
from tracegrade.alert.wording import (
    ALERT_CHANGED,
    LEVEL_ACCEPTED,
    RULE_CHANGED,
    RULE_REMOVED,
    nothing_came,
    replaced_by,
)
from tracegrade.rule.alert import Alert
from tracegrade.store.alerts import EndReason, ErrorBudget, StoredAlert
from tracegrade.store.history import SeriesKey

HOUR, DAY = 3600.0, 86_400.0
BUDGET = ErrorBudget(0.99, 7 * DAY, 16.8 * HOUR, 0.6, 30 * HOUR, failed=34)
REPLACED, GONE = replaced_by("1.2", None), nothing_came(7 * DAY)


class Row(NamedTuple):
    """An alert, why it ended ("" while it fires), and its sentence."""

    kind: str
    ended: EndReason
    changes: dict[str, Any]
    sentence: str

    @property
    def alert(self) -> StoredAlert:
        """The stored alert of this row: of agent support at shop, without a release unless `changes` has one."""
        facts = {name: self.changes[name] for name in self.changes if hasattr(ALERT.facts, name)}
        fields = {name: value for name, value in self.changes.items() if name not in facts}
        return replace(
            ALERT,
            kind=self.kind,
            state="resolved" if self.ended else "firing",
            facts=replace(ALERT.facts, end_reason=self.ended, **facts),
            **{"release": None, "rule_id": "order", **fields},
        )


AT = "order at shop, agent support"
SLO = f"{AT}: error budget (99% over 7 days)"
SILENT = "Agent support at shop"
ROWS = [
    Row("below", "", {"value": 0.5, "bound": 0.95}, f"{AT}: pass rate 50% is below 95% (40 results in 1 hour)"),
    Row("below", "", {"value": 0.8996, "bound": 0.9, "samples": 1},
        f"{AT}: pass rate 89.96% is below 90% (1 result in 1 hour)"),
    Row("below", "", {"of": "steps.score", "bound": 0.7, "release": ""},
        f"{AT}, results without a release: mean score of steps 50% is below 70% (40 results in 1 hour)"),
    Row("below", "recovered", {"value": 0.97, "fired_at": 0.5},
        f"{AT}: pass rate recovered from 50% to 97% (40 results)"),
    Row("below", "recovered", {"value": 0.97}, f"{AT}: pass rate recovered to 97% (40 results)"),
    Row("below", "changed", {"ended_by": RULE_REMOVED},
        f"{AT}: pass rate was 50% (40 results in 1 hour) when the rule was removed"),
    Row("below", "changed", {"ended_by": RULE_CHANGED},
        f"{AT}: pass rate was 50% (40 results in 1 hour) when the rule was changed"),
    Row("below", "changed", {"ended_by": ALERT_CHANGED},
        f"{AT}: pass rate was 50% (40 results in 1 hour) when the alert was changed or removed"),
    Row("below", "superseded", {"release": "1.1", "ended_by": REPLACED},
        f"{AT}, release 1.1: pass rate was 50% (40 results in 1 hour) when release 1.2 replaced it"),
    Row("below", "stale", {"ended_by": GONE},
        f"{AT}: pass rate was 50% (40 results in 1 hour) when no results came for 7 days"),
    Row("above", "", {"of": "not_evaluable", "value": 0.12, "bound": 0.1, "over_s": DAY},
        f"{AT}: share not evaluable 12% is above 10% (40 results in 1 day)"),
    Row("above", "", {"of": "error", "value": 0.0004, "bound": 0.0001},
        f"{AT}: share of errors 0.04% is above 0.01% (40 results in 1 hour)"),
    Row("above", "", {"of": "tokens", "value": 25_300.4, "bound": 25_300.0},
        f"{AT}: mean tokens 25,300.4 is above 25,300 (40 results in 1 hour)"),
    Row("above", "recovered", {"of": "duration", "value": 12.4, "fired_at": 200.0},
        f"{AT}: mean duration recovered from 3m 20s to 12.4s (40 results)"),
    Row("above", "changed", {"of": "cost", "value": 0.42, "ended_by": RULE_CHANGED},
        f"{AT}: mean cost was 0.42 (40 results in 1 hour) when the rule was changed"),
    Row("above", "superseded", {"of": "error", "ended_by": replaced_by("", "1.1")},
        f"{AT}: share of errors was 50% (40 results in 1 hour) when results without a release replaced 1.1"),
    Row("above", "stale", {"of": "error", "ended_by": GONE},
        f"{AT}: share of errors was 50% (40 results in 1 hour) when no results came for 7 days"),
    Row("drop", "", {"was": 0.97, "was_samples": 900}, f"{AT}: pass rate fell from 97% to 50% (40 results)"),
    Row("drop", "", {"of": "steps", "was": 0.9998, "value": 0.9996},
        f"{AT}: pass rate of steps fell from 99.98% to 99.96% (40 results)"),
    Row("drop", "recovered", {"value": 0.9, "fired_at": 0.6},
        f"{AT}: pass rate recovered from 60% to 90% (40 results)"),
    Row("drop", "accepted", {"ended_by": LEVEL_ACCEPTED},
        f"{AT}: pass rate was 50% (40 results) when its level was accepted as normal"),
    Row("drop", "changed", {"ended_by": RULE_REMOVED},
        f"{AT}: pass rate was 50% (40 results) when the rule was removed"),
    Row("drop", "superseded", {"ended_by": replaced_by("1.2", "1.1")},
        f"{AT}: pass rate was 50% (40 results) when release 1.2 replaced 1.1"),
    Row("drop", "stale", {"ended_by": GONE}, f"{AT}: pass rate was 50% (40 results) when no results came for 7 days"),
    Row("rise", "", {"of": "tokens", "was": 10_000.0, "value": 16_000.0},
        f"{AT}: mean tokens rose from 10,000 to 16,000 (40 results)"),
    Row("rise", "recovered", {"of": "cost", "value": 0.421, "fired_at": 0.4211},
        f"{AT}: mean cost recovered from 0.4211 to 0.421 (40 results)"),
    Row("rise", "accepted", {"of": "tokens", "value": 16_000.0, "ended_by": LEVEL_ACCEPTED},
        f"{AT}: mean tokens was 16,000 (40 results) when its level was accepted as normal"),
    Row("rise", "changed", {"of": "tokens", "value": 9.0, "ended_by": RULE_REMOVED},
        f"{AT}: mean tokens was 9 (40 results) when the rule was removed"),
    Row("rise", "superseded", {"of": "tokens", "value": 9.0, "ended_by": REPLACED},
        f"{AT}: mean tokens was 9 (40 results) when release 1.2 replaced it"),
    Row("rise", "stale", {"of": "tokens", "value": 9.0, "ended_by": GONE},
        f"{AT}: mean tokens was 9 (40 results) when no results came for 7 days"),
    Row("coverage", "", {"value": 0.125}, f"{AT}: only 12.5% of the usual results arrive (40 results in 1 hour)"),
    Row("coverage", "recovered", {"value": 0.98, "fired_at": 0.125},
        f"{AT}: coverage recovered from 12.5% to 98% (40 results)"),
    Row("coverage", "accepted", {"value": 0.125, "ended_by": LEVEL_ACCEPTED},
        f"{AT}: coverage was 12.5% (40 results in 1 hour) when its level was accepted as normal"),
    Row("coverage", "changed", {"value": 0.125, "ended_by": RULE_REMOVED},
        f"{AT}: coverage was 12.5% (40 results in 1 hour) when the rule was removed"),
    Row("coverage", "superseded", {"value": 0.125, "ended_by": REPLACED},
        f"{AT}: coverage was 12.5% (40 results in 1 hour) when release 1.2 replaced it"),
    Row("coverage", "stale", {"value": 0.125, "ended_by": GONE},
        f"{AT}: coverage was 12.5% (40 results in 1 hour) when no results came for 7 days"),
    Row("silent", "", {"value": 720.0}, f"{SILENT} has sent no results for 12 minutes (rule order)"),
    Row("silent", "", {"value": 60.0, "agent": ""}, "shop has sent no results for 1 minute (rule order)"),
    Row("silent", "", {"value": 10_500.0, "service": "", "agent": ""},
        "unnamed service has sent no results for 2 hours 55 minutes (rule order)"),
    Row("silent", "recovered", {"value": 3 * HOUR},
        f"{SILENT} sends results again, after 3 hours without any (rule order)"),
    Row("silent", "changed", {"value": 16.8 * HOUR, "ended_by": RULE_CHANGED},
        f"{SILENT} had sent no results for 17 hours when the rule was changed (rule order)"),
    Row("silent", "stale", {"value": 7 * DAY, "ended_by": GONE},
        f"{SILENT} has sent no results for 7 days and is no longer watched (rule order)"),
    Row("slo", "", {"value": 4.75, "samples": 653, "budget": BUDGET},
        f"{SLO} spent 4.8 times as fast as allowed: 34 of 653 failed in 17 hours"),
    Row("slo", "", {"value": 1.004, "samples": 653, "budget": replace(BUDGET, failed=None)},
        f"{SLO} spent 1.004 times as fast as allowed: 1.004% failed in 17 hours"),
    Row("slo", "", {"of": "steps", "value": 14.4, "budget": replace(BUDGET, objective=0.9995, window_s=30 * DAY)},
        f"{AT}: error budget of steps (99.95% over 30 days) spent 14.4 times as fast as allowed: 34 of 40 failed in 17 "
        "hours"),
    Row("slo", "recovered", {"value": 0.0, "fired_at": 4.75, "budget": BUDGET},
        f"{SLO}: spending stopped, from 4.8"),
    Row("slo", "recovered", {"value": 0.3, "budget": BUDGET},
        f"{SLO}: spending slowed to 0.3 times as fast as allowed"),
    Row("slo", "changed", {"value": 4.75, "ended_by": RULE_REMOVED, "budget": BUDGET},
        f"{SLO} was spent 4.8 times as fast as allowed when the rule was removed"),
    Row("slo", "stale", {"value": 4.75, "ended_by": GONE, "budget": BUDGET},
        f"{SLO} was spent 4.8 times as fast as allowed when no results came for 7 days"),
]  # fmt: skip


def alert_of(**fields: Any) -> Alert:
    """An alert as a rule file has it."""
    return Alert.model_validate(fields)


SERIES = SeriesKey("default", "order", "h", "pass_rate", "shop", "support", "1.1")
QUIET = NotFired("order", alert_of(below=0.9), None, 1, [], [])
# An alert that did not fire, the results that it checked, and why it did not.
NOT_FIRED = [
    (replace(QUIET, alert=alert_of(above=100, of="tokens")), 0,
        "0 results checked: tokens is measured only once the rule in force has such an alert."),
    (replace(QUIET, alert=alert_of(slo={"objective": 0.99})), 40, "40 results checked; the condition never held."),
    (replace(QUIET, too_late=[SERIES]), 1,
        "1 result checked; release 1.1 was replaced before the evidence was strong enough."),
    (replace(QUIET, too_late=[SERIES._replace(release="")]), 2,
        "2 results checked; the release to blame was replaced before the evidence was strong enough."),
    (replace(QUIET, evidence=0.5), 40,
        "40 results checked: chance alone would produce this every 15 days; to fire, it must be as rare as once in "
        "30 days (false_alarm_every)."),
    (replace(QUIET, evidence=0.5, needed=2), 40,
        "40 results checked: chance alone would produce this every 7 days 12 hours; to fire, it must be as rare as "
        "once in 30 days (false_alarm_every)."),
    (replace(QUIET, too_few=[SERIES]), 3, "3 results checked: too few; one agent needs 30 (min_samples)."),
    (replace(QUIET, without_baseline=[SERIES]), 40,
        "40 results checked; no baseline yet: fewer than 30 results (min_samples) came before them."),
    (QUIET, 40, "40 results checked; no check came after them: the current minute is not checked."),
]  # fmt: skip

RATE = "At the rate of the last hour with results (40 results) and the pass rate of the last 1d (80%) it would"
HOURS_ONLY = "more, counting hours with results only."
# After how many minutes an alert of a pass rate would fire, of how many results an hour, at which share.
TIMES_TO_FIRE = [
    (TimeToFire(15, 0, 0.8), ""),
    (TimeToFire(15, 40, None), ""),
    (TimeToFire(None, 40, 0.8), f"{RATE} not fire within 7 days of results."),
    (TimeToFire(90, 40, 0.8), f"{RATE} fire after about 90 minutes {HOURS_ONLY}"),
    (TimeToFire(180, 40, 0.8), f"{RATE} fire after about 3 hours {HOURS_ONLY}"),
    (TimeToFire(5 * 1440, 40, 0.8), f"{RATE} fire after about 5 days {HOURS_ONLY}"),
]

DROP, BELOW, ABOVE = alert_of(drop={"against": "7d"}), alert_of(below=0.9), alert_of(above=100, of="tokens")
RISE, BUDGET_ALERT = alert_of(rise={"against": "7d"}, of="tokens"), alert_of(slo={"objective": 0.99})
# What is expected of an alert, by each of its kinds, and with changes that it finds, or not in time.
EXPECTATIONS = [
    (Expectation(DROP, None, (), 1.0),
        "How soon it fires is unknown, without stored results or --volume; at most 1 false alarm a month."),
    (Expectation(DROP, stated_volume(500, DROP), ((0.1, 170), (0.2, None)), 1.0),
        "At 500 results a day of one agent, of which 95% pass, it fires after about 170 minutes when the pass rate "
        "falls by 10 points, but not in time when the pass rate falls by 20 points; at most 1 false alarm a month."),
    (Expectation(BELOW, stated_volume(500, BELOW), ((0.05, 600), (0.1, 300)), 4.3),
        "At 500 results a day of one agent, it fires after about 10 hours when the pass rate is 5 points past the "
        "bound and after about 5 hours when the pass rate is 10 points past the bound; at most 4.3 false alarms a "
        "month."),
    (Expectation(ABOVE, stated_volume(5, ABOVE), ((0.2, None), (0.5, None)), 1.0),
        "At 5 results a day of one agent, it does not fire in time when the mean is 20% above the bound or the mean "
        "is 50% above the bound; at most 1 false alarm a month."),
    (Expectation(RISE, stated_volume(5, RISE), ((0.3, 8640),), 1.0),
        "At 5 results a day of one agent, it fires after about 6.0 days when the mean rises by 30%; at most 1 false "
        "alarm a month."),
    (Expectation(BUDGET_ALERT, None, ((1.0, 9), (0.02, 2160)), None),
        "Where nothing failed before, it fires after about 9 minutes when 100% fail and after about 36 hours when 2% "
        "fail."),
]  # fmt: skip
