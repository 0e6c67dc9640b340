"""The alert loop in the judge process: in each interval, it checks the rules and sends due notifications."""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from tracegrade.alert.check import Checked, alerting_rules, check, looks_back_s
from tracegrade.alert.diagnose.diagnose import with_diagnosis
from tracegrade.alert.mute import is_muted
from tracegrade.alert.notify.registry import Channel
from tracegrade.alert.routes import routed
from tracegrade.alert.settings import AlertsSettings
from tracegrade.alert.stored_history import SettledHours, StoredHistory
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.alerts import (
    Notification,
    Silence,
    StoredAlert,
    open_alerts,
    recent_alerts,
    save_alert,
    stored_silences,
)
from tracegrade.store.open import alone, reading
from tracegrade.store.present_hashes import earlier_hashes
from tracegrade.telemetry.metrics import METRICS, Labels, Telemetry, series
from tracegrade.telemetry.series_bound import OTHER

logger = logging.getLogger(__name__)

_NS = 1_000_000_000
_FIRING = "tracegrade.alerts.firing"
# A channel that could not be reached is still notified of an alert that fired and ended meanwhile, but not of last
# week's.
_NOTIFY_WITHIN_NS = 3600 * _NS
# A channel that was notified that an alert fires is also notified of its end, however late.
_NOTIFY_END_WITHIN_NS = 7 * 86_400 * _NS
# The judge shares its core with us: with very many series, checks are made less often.
_MOST_OF_A_CORE = 0.01
_MAX_BACKOFF_NS = 300 * _NS


class AlertLoop:
    """Checks the rules in force against the store, stores what fires, and notifies every channel at least once.

    A notification is noted in the store after the channel took it. After a crash in between it is sent again, with the
    same key.
    If several processes use one store, only one of them does this at a time.
    """

    def __init__(
        self,
        engine: Engine,
        rules_in_force: Callable[[], RuleSet],
        channels: Sequence[Channel],
        telemetry: Telemetry,
        settings: AlertsSettings | None = None,
        include_values: bool = False,
    ) -> None:
        self._engine = engine
        self._rules_in_force = rules_in_force
        self._channels = channels
        self._telemetry = telemetry
        self._settings = settings or AlertsSettings()
        self._include_values = include_values
        self._names = [channel.name for channel in channels]
        self._interval_ns = int(self._settings.interval * _NS)
        self._settled = SettledHours()
        self._failures: dict[str, int] = defaultdict(int)  # in a row, by channel
        self._not_before_ns: dict[str, int] = {}  # by channel, after failures
        self._counted_firing: tuple[Labels, ...] = ()
        for name in self._names:
            for outcome in ("sent", "failed"):  # so that a first failure is a rise from 0
                telemetry.add("tracegrade.alerts.notifications", 0, receiver=name, outcome=outcome)

    async def run(self, stop: asyncio.Event) -> None:
        """Run a step in each interval, or less often when steps are costly, until `stop` is set."""
        while not stop.is_set():
            spent_s = await asyncio.to_thread(self._timed_step)
            try:
                await asyncio.wait_for(stop.wait(), max(self._settings.interval, spent_s / _MOST_OF_A_CORE))
            except TimeoutError:
                continue
        for channel in self._channels:
            await asyncio.to_thread(channel.close)

    def _timed_step(self) -> float:
        """Run a step. Returns the seconds of processor time that it took."""
        before_s = time.thread_time()
        self.step(time.time_ns())
        return time.thread_time() - before_s

    def step(self, now_ns: int) -> None:
        """Check the rules once, and send what is due. When the store refuses, the next step tries again."""
        try:
            with alone(self._engine) as is_alone:
                if is_alone:
                    self._check(now_ns)
                    for channel in self._channels:
                        if now_ns >= self._not_before_ns.get(channel.name, 0):
                            self._notify(channel, now_ns)
        except Exception as error:  # an error in alerts must not end the judge
            self._telemetry.add("tracegrade.alerts.failed_checks")
            if not isinstance(error, SQLAlchemyError):
                logger.exception("alerts could not be checked; trying again in %s s", self._settings.interval)

    def _check(self, now_ns: int) -> None:
        rules = alerting_rules(self._rules_in_force())
        with reading(self._engine) as connection:
            before = open_alerts(connection)
            if not before and not rules:
                return
            hashes = earlier_hashes(connection, {rule.hash for rule in rules})
            past = recent_alerts(connection, now_ns - int(looks_back_s(rules) * _NS))
            over = [alert for alert in past if alert.state == "resolved"]
            checked = check(
                StoredHistory(connection, rules, now_ns, self._settled),
                rules,
                before,
                now_ns,
                over,
                hashes,
                self._settings.stale_after,
            )
            counting_incomplete = {rule.id for rule in rules if rule.incomplete == "count"}
            fired = {alert.key for alert in before}
            now_open = [
                alert
                if alert.key in fired
                else with_diagnosis(connection, alert, alert.rule_id in counting_incomplete, self._include_values)
                for alert in checked.open
            ]
        self._save(before, replace(checked, open=now_open))
        self._count_firing(now_open)

    def _count_firing(self, now_open: Sequence[StoredAlert]) -> None:
        """Set the number of firing alerts by rule, service, agent and level; 0 for those that have ended."""
        firing = dict.fromkeys(self._counted_firing, 0)
        for alert in now_open:
            if alert.state == "firing":
                exact = (alert.rule_id, alert.service, alert.agent, alert.level)
                rest, any_rule = ((rule, OTHER, OTHER, alert.level) for rule in (alert.rule_id, OTHER))
                rule, service, agent, level = self._telemetry.fit(
                    _FIRING, METRICS[_FIRING].lines, exact, rest, any_rule
                )
                key = series(_FIRING, rule=rule, service=service, agent=agent, level=level)
                firing[key] = firing.get(key, 0) + 1
        self._counted_firing = tuple(firing)
        self._telemetry.replace({_FIRING: firing})

    def _save(self, before: Sequence[StoredAlert], checked: Checked) -> None:
        changed = [alert for alert in (*checked.open, *checked.resolved) if alert not in before]
        if changed:
            with self._engine.begin() as connection:
                for alert in changed:
                    save_alert(connection, alert)

    def _notify(self, channel: Channel, now_ns: int) -> None:
        with reading(self._engine) as connection:
            recent = recent_alerts(connection, now_ns - _NOTIFY_END_WITHIN_NS)
            silences = stored_silences(connection, now_ns)
        groups: dict[tuple[tuple[str, str], ...], list[StoredAlert]] = defaultdict(list)
        for alert in recent:
            last = alert.notified.get(channel.name, Notification())
            if self._is_due(channel, alert, last, now_ns) and self._may_notify(channel, alert, last, silences, now_ns):
                labels = alert.labels
                groups[tuple((name, labels[name]) for name in self._settings.group_by)].append(alert)
        for group, alerts in groups.items():
            refused = _send(channel, dict(group), alerts, now_ns)
            self._note(channel, alerts, refused, now_ns)
            if refused is not None:
                return

    def _may_notify(
        self, channel: Channel, alert: StoredAlert, last: Notification, silences: Sequence[Silence], now_ns: int
    ) -> bool:
        """Whether routes, silences and maintenance let `channel` be notified of `alert` now."""
        if channel.records or (last.state == "firing" and alert.state == "resolved"):
            return True  # it was notified that the alert fires, so it is notified of the end
        settings = self._settings
        return channel.name in routed(alert, settings.routes, self._names) and not is_muted(
            alert, silences, settings.maintenance, now_ns
        )

    def _is_due(self, channel: Channel, alert: StoredAlert, last: Notification, now_ns: int) -> bool:
        if last.state != alert.state:
            missed = alert.ends_ns is not None and alert.ends_ns < now_ns - _NOTIFY_WITHIN_NS
            return last.state == "firing" or not missed
        if alert.state != "firing" or channel.records:
            return False
        return now_ns - last.time_ns >= int((channel.resend_s or self._settings.repeat) * _NS)

    def _note(self, channel: Channel, alerts: Sequence[StoredAlert], refused: str | None, now_ns: int) -> None:
        """Remember that `channel` took `alerts`, or why it did not."""
        outcome = "sent" if refused is None else "failed"
        self._telemetry.add("tracegrade.alerts.notifications", receiver=channel.name, outcome=outcome)
        if refused is None:
            self._failures[channel.name] = 0
        else:
            self._failures[channel.name] += 1
            delay_ns = min(self._interval_ns << min(self._failures[channel.name] - 1, 10), _MAX_BACKOFF_NS)
            self._not_before_ns[channel.name] = now_ns + delay_ns
        with self._engine.begin() as connection:
            for alert in alerts:
                last = alert.notified.get(channel.name, Notification())
                if refused is None:
                    last = Notification(alert.state, now_ns)
                else:
                    last = replace(last, tries=last.tries + 1, error=refused)
                save_alert(connection, replace(alert, notified={**alert.notified, channel.name: last}))


def _send(channel: Channel, group: dict[str, str], alerts: Sequence[StoredAlert], now_ns: int) -> str | None:
    try:
        return channel.send(group, alerts, now_ns)
    except Exception as error:  # an error of a library with some text or setting must not end the judge
        logger.exception("channel %s failed", channel.name)
        return f"failed: {type(error).__name__}"
