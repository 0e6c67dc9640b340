"""Alerts beside the judge: a check each interval, then everyone is told who has not been."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from tracegrade.alert.check import alerting_rules, check
from tracegrade.alert.receivers.webhook import Webhook
from tracegrade.alert.settings import AlertsSettings
from tracegrade.match.rule_set import RuleSet
from tracegrade.store.alerts import StoredAlert, firing_alerts, recent_alerts, save_alert
from tracegrade.store.open import reading
from tracegrade.telemetry import Telemetry

_NS = 1_000_000_000
# A receiver that was away is told of an alert that came and went meanwhile, but not of last week's.
_TOLD_WITHIN_NS = 3600 * _NS
_MAX_BACKOFF_NS = 300 * _NS


class Receiver(Protocol):
    """One place that alerts are sent to."""

    name: str

    def send(self, rule_id: str, alerts: Sequence[StoredAlert]) -> str | None:
        """Tell it of `alerts`, all of one rule; None when it took them, else why not. May block."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


def receivers(settings: AlertsSettings) -> list[Receiver]:
    """The receivers that the settings name."""
    return [Webhook(name, receiver.webhook, settings.external_url) for name, receiver in settings.receivers.items()]


class AlertLoop:
    """Checks the rules in force against the store, stores what fires, and tells every receiver at least once.

    What a receiver was told is stored after it took it: after a crash in between it is told again.
    """

    def __init__(
        self,
        engine: Engine,
        rules_in_force: Callable[[], RuleSet],
        receivers: Sequence[Receiver],
        telemetry: Telemetry,
        *,
        interval_s: float = 15.0,
    ) -> None:
        self._engine = engine
        self._rules_in_force = rules_in_force
        self._receivers = receivers
        self._telemetry = telemetry
        self._interval_s = interval_s
        self._failures: dict[str, int] = defaultdict(int)  # in a row, by receiver
        self._not_before_ns: dict[str, int] = {}  # by receiver, after failures

    async def run(self, stop: asyncio.Event) -> None:
        """A step each interval until `stop` is set."""
        while not stop.is_set():
            await asyncio.to_thread(self.step, time.time_ns())
            try:
                await asyncio.wait_for(stop.wait(), self._interval_s)
            except TimeoutError:
                continue
        for receiver in self._receivers:
            receiver.close()

    def step(self, now_ns: int) -> None:
        """Check once, and tell those who are to be told. A store that refuses is asked again in the next step."""
        try:
            self._check(now_ns)
            for receiver in self._receivers:
                if now_ns >= self._not_before_ns.get(receiver.name, 0):
                    self._notify(receiver, now_ns)
        except SQLAlchemyError:
            self._telemetry.add("tracegrade.alerts.failed_checks")

    def _check(self, now_ns: int) -> None:
        rule_set = self._rules_in_force()
        with reading(self._engine) as connection:
            before = firing_alerts(connection)
            if not before and not alerting_rules(rule_set):
                return
            firing, resolved = check(connection, rule_set, before, now_ns)
        changed = [alert for alert in (*firing, *resolved) if alert not in before]
        if changed:
            with self._engine.begin() as connection:
                for alert in changed:
                    save_alert(connection, alert)
        for rule_id in {alert.rule_id for alert in before} | {alert.rule_id for alert in firing}:
            fire_now = sum(alert.rule_id == rule_id for alert in firing)
            self._telemetry.set("tracegrade.alerts.firing", fire_now, rule=rule_id)

    def _notify(self, receiver: Receiver, now_ns: int) -> None:
        with reading(self._engine) as connection:
            recent = recent_alerts(connection, now_ns - _TOLD_WITHIN_NS)
        by_rule: dict[str, list[StoredAlert]] = defaultdict(list)
        for alert in recent:
            if alert.notified.get(receiver.name) != alert.state:
                by_rule[alert.rule_id].append(alert)
        for rule_id, untold in by_rule.items():
            if receiver.send(rule_id, untold) is not None:
                self._telemetry.add("tracegrade.alerts.notifications", receiver=receiver.name, outcome="failed")
                self._failures[receiver.name] += 1
                delay = min(int(self._interval_s * _NS) << min(self._failures[receiver.name] - 1, 10), _MAX_BACKOFF_NS)
                self._not_before_ns[receiver.name] = now_ns + delay
                return
            self._failures[receiver.name] = 0
            self._telemetry.add("tracegrade.alerts.notifications", receiver=receiver.name, outcome="sent")
            with self._engine.begin() as connection:
                for alert in untold:
                    save_alert(connection, replace(alert, notified={**alert.notified, receiver.name: alert.state}))
