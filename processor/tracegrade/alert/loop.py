"""Alerts beside the judge: a check each interval, then everyone is told who has not been."""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from tracegrade.alert.check import Checked, alerting_rules, check
from tracegrade.alert.circumstances import with_circumstances
from tracegrade.alert.mute import is_muted
from tracegrade.alert.receivers.registry import Receiver
from tracegrade.alert.routes import routed
from tracegrade.alert.settings import AlertsSettings
from tracegrade.alert.states import fingerprint_now
from tracegrade.alert.stored_history import StoredHistory
from tracegrade.match.rule_set import RuleSet
from tracegrade.store.alerts import (
    Silence,
    StoredAlert,
    Told,
    delete_alert,
    open_alerts,
    recent_alerts,
    save_alert,
    stored_silences,
)
from tracegrade.store.open import alone, reading
from tracegrade.store.present_hashes import earlier_hashes
from tracegrade.telemetry import Telemetry

logger = logging.getLogger(__name__)

_NS = 1_000_000_000
# A receiver that was away is told of an alert that came and went meanwhile, but not of last week's.
_TOLD_WITHIN_NS = 3600 * _NS
# Who was told that an alert fires is told of its end whenever that can be.
_END_TOLD_WITHIN_NS = 7 * 86_400 * _NS
# The judge shares its core with us: with very many series, checks are made less often instead.
_MOST_OF_A_CORE = 0.01
_MAX_BACKOFF_NS = 300 * _NS


class AlertLoop:
    """Checks the rules in force against the store, stores what fires, and tells every receiver at least once.

    What a receiver was told is stored after it took it: after a crash in between it is told again, by the same key.
    Of several processes over one store, one at a time does all of this.
    """

    def __init__(
        self,
        engine: Engine,
        rules_in_force: Callable[[], RuleSet],
        receivers: Sequence[Receiver],
        telemetry: Telemetry,
        settings: AlertsSettings | None = None,
    ) -> None:
        self._engine = engine
        self._rules_in_force = rules_in_force
        self._receivers = receivers
        self._telemetry = telemetry
        self._settings = settings or AlertsSettings()
        self._names = [receiver.name for receiver in receivers]
        self._interval_ns = int(self._settings.interval * _NS)
        self._failures: dict[str, int] = defaultdict(int)  # in a row, by receiver
        self._not_before_ns: dict[str, int] = {}  # by receiver, after failures

    async def run(self, stop: asyncio.Event) -> None:
        """A step each interval, or less often where steps are costly, until `stop` is set."""
        while not stop.is_set():
            spent_s = await asyncio.to_thread(self._timed_step)
            try:
                await asyncio.wait_for(stop.wait(), max(self._settings.interval, spent_s / _MOST_OF_A_CORE))
            except TimeoutError:
                continue
        for receiver in self._receivers:
            await asyncio.to_thread(receiver.close)

    def _timed_step(self) -> float:
        """A step now; the seconds of processor time that it took."""
        before_s = time.thread_time()
        self.step(time.time_ns())
        return time.thread_time() - before_s

    def step(self, now_ns: int) -> None:
        """Check once, and tell those who are to be told. A store that refuses is asked again in the next step."""
        try:
            with alone(self._engine) as is_alone:
                if is_alone:
                    self._check(now_ns)
                    for receiver in self._receivers:
                        if now_ns >= self._not_before_ns.get(receiver.name, 0):
                            self._notify(receiver, now_ns)
        except Exception as error:  # a fault in alerts must not end the judge
            self._telemetry.add("tracegrade.alerts.failed_checks")
            if not isinstance(error, SQLAlchemyError):
                logger.exception("alerts could not be checked; tried again in %s s", self._settings.interval)

    def _check(self, now_ns: int) -> None:
        rules = alerting_rules(self._rules_in_force())
        with reading(self._engine) as connection:
            before = open_alerts(connection)
            if not before and not rules:
                return
            earlier = earlier_hashes(connection, {rule.hash for rule in rules})
            longest_s = max((alert.over for rule in rules for alert in rule.alert), default=0.0)
            ended = {
                fingerprint_now(alert, rules, earlier): alert.ends_ns
                for alert in reversed(recent_alerts(connection, now_ns - int(longest_s * _NS)))
                if alert.ends_ns is not None
            }
            checked = check(StoredHistory(connection, rules), rules, before, now_ns, ended, earlier)
            counting_incomplete = {rule.id for rule in rules if rule.incomplete == "count"}
            fired = {alert.key for alert in before if alert.state == "firing"}
            now_open = [
                with_circumstances(connection, alert, alert.rule_id in counting_incomplete)
                if alert.state == "firing" and alert.key not in fired
                else alert
                for alert in checked.open
            ]
        self._save(before, replace(checked, open=now_open))
        for rule_id in {alert.rule_id for alert in (*before, *now_open)}:
            fire_now = sum(alert.rule_id == rule_id and alert.state == "firing" for alert in now_open)
            self._telemetry.set("tracegrade.alerts.firing", fire_now, rule=rule_id)

    def _save(self, before: Sequence[StoredAlert], checked: Checked) -> None:
        changed = [alert for alert in (*checked.open, *checked.resolved) if alert not in before]
        if changed or checked.dropped:
            with self._engine.begin() as connection:
                for alert in checked.dropped:
                    delete_alert(connection, alert)
                for alert in changed:
                    save_alert(connection, alert)

    def _notify(self, receiver: Receiver, now_ns: int) -> None:
        with reading(self._engine) as connection:
            recent = recent_alerts(connection, now_ns - _END_TOLD_WITHIN_NS)
            silences = stored_silences(connection, now_ns)
        groups: dict[tuple[tuple[str, str], ...], list[StoredAlert]] = defaultdict(list)
        for alert in recent:
            told = alert.notified.get(receiver.name, Told())
            if self._is_due(receiver, alert, told, now_ns) and self._is_told(receiver, alert, told, silences, now_ns):
                labels = alert.labels
                groups[tuple((name, labels[name]) for name in self._settings.group_by)].append(alert)
        for group, alerts in groups.items():
            refused = _send(receiver, dict(group), alerts, now_ns)
            self._note(receiver, alerts, refused, now_ns)
            if refused is not None:
                return

    def _is_told(
        self, receiver: Receiver, alert: StoredAlert, told: Told, silences: Sequence[Silence], now_ns: int
    ) -> bool:
        """Whether `receiver` is one of those who are told of `alert`, and may be now."""
        if receiver.records or (told.state == "firing" and alert.state == "resolved"):
            return True  # who was told that it fires is told of its end
        settings = self._settings
        return receiver.name in routed(alert, settings.routes, self._names) and not is_muted(
            alert, silences, settings.maintenance, now_ns
        )

    def _is_due(self, receiver: Receiver, alert: StoredAlert, told: Told, now_ns: int) -> bool:
        if alert.state == "pending":
            return False
        if told.state != alert.state:
            missed = alert.ends_ns is not None and alert.ends_ns < now_ns - _TOLD_WITHIN_NS
            return told.state == "firing" or not missed
        if alert.state != "firing" or receiver.records:
            return False
        return now_ns - told.time_ns >= int((receiver.resend_s or self._settings.repeat) * _NS)

    def _note(self, receiver: Receiver, alerts: Sequence[StoredAlert], refused: str | None, now_ns: int) -> None:
        """Remember that `receiver` took `alerts`, or why it did not."""
        outcome = "sent" if refused is None else "failed"
        self._telemetry.add("tracegrade.alerts.notifications", receiver=receiver.name, outcome=outcome)
        if refused is None:
            self._failures[receiver.name] = 0
        else:
            self._failures[receiver.name] += 1
            delay_ns = min(self._interval_ns << min(self._failures[receiver.name] - 1, 10), _MAX_BACKOFF_NS)
            self._not_before_ns[receiver.name] = now_ns + delay_ns
        with self._engine.begin() as connection:
            for alert in alerts:
                told = alert.notified.get(receiver.name, Told())
                if refused is None:
                    told = Told(alert.state, now_ns)
                else:
                    told = replace(told, tries=told.tries + 1, error=refused)
                save_alert(connection, replace(alert, notified={**alert.notified, receiver.name: told}))


def _send(receiver: Receiver, group: dict[str, str], alerts: Sequence[StoredAlert], now_ns: int) -> str | None:
    try:
        return receiver.send(group, alerts, now_ns)
    except Exception as error:  # what a library raises on some text or setting must not end the judge
        logger.exception("receiver %s failed", receiver.name)
        return f"failed: {type(error).__name__}"
