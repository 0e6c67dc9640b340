"""The alert loop in the judge process: in each interval, it checks the rules and sends due notifications."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from tracegrade.alert.check import Before, Ending, alerting_rules, check, looks_back_s, waiting_in
from tracegrade.alert.diagnose.diagnose import with_diagnoses
from tracegrade.alert.findings_cache import FindingsCache
from tracegrade.alert.incidents import FailingTraces, incidents_now
from tracegrade.alert.notify.channels.registry import Channel
from tracegrade.alert.notify.notifier import Notifier
from tracegrade.alert.settings import AlertsSettings
from tracegrade.alert.slo import publish
from tracegrade.alert.stored_history import SettledHours, StoredHistory
from tracegrade.document.tenants import ForTenants
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.alerts import StoredAlert, WaitingAlert, recent_alerts, save_alert, save_waiting, stored_waiting
from tracegrade.store.incidents import Incident, open_incidents, save_incident
from tracegrade.store.open import reading
from tracegrade.telemetry.metrics import METRICS, Labels, Telemetry, series
from tracegrade.telemetry.series_bound import OTHER

logger = logging.getLogger(__name__)

_NS = 1_000_000_000
_FIRING = "tracegrade.alerts.firing"
# The judge shares its core with us: with very many series, checks are made less often.
_MOST_OF_A_CORE = 0.01
# Causes are computed anew with each check, or less often when that takes long.
_MOST_FOR_CAUSES = 0.05


class Recipients(NamedTuple):
    """Where notifications go: ``channels``, and whose incidents each is notified of, of all where it is not named.

    ``include_values``: whether notifications may hold values.
    """

    channels: Sequence[Channel]
    for_tenants: Mapping[str, ForTenants] = MappingProxyType({})
    include_values: bool = False


class Standing(NamedTuple):
    """What a process is among those that use the store: whether it leads now, and how far all of them are.

    ``judged_to_ns`` gives the time up to which everything that came is judged and stored, ns since 1970 UTC. While the
    judge is behind, what came later is not known, which is not the same as that nothing came.
    """

    leads: Callable[[], bool] = lambda: True
    judged_to_ns: Callable[[], int] = time.time_ns


class AlertLoop:
    """Checks the rules in force against the store, stores what fires, and notifies the channels of it.

    If several processes use one store, only the leader does this.
    """

    def __init__(
        self,
        engine: Engine,
        rules_in_force: Callable[[], RuleSet],
        recipients: Recipients,
        telemetry: Telemetry,
        settings: AlertsSettings | None = None,
        standing: Standing | None = None,
    ) -> None:
        """Prepare.

        Args:
            engine: the store.
            rules_in_force: gives the rules that judge now.
            recipients: where notifications go.
            telemetry: counts notifications and what fires.
            settings: the ``alerts`` section.
            standing: that of this process; it alone uses the store by default.
        """
        self._engine = engine
        self._rules_in_force = rules_in_force
        self._telemetry = telemetry
        self._settings = settings or AlertsSettings()
        self._include_values = recipients.include_values
        self._standing = standing or Standing()
        self._notifier = Notifier(
            engine, recipients.channels, telemetry, self._settings, self._settings.interval, recipients.for_tenants
        )
        self._ending = Ending(self._settings.replaced_after, self._settings.stale_after)
        self._settled = SettledHours()
        self._kept = FindingsCache()
        self._counted_firing: tuple[Labels, ...] = ()
        self._diagnosing_s = 0.0
        self._causes_anew_at_ns = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Run a step in each interval, or less often when steps are costly, until `stop` is set."""
        while not stop.is_set():
            spent_s = await asyncio.to_thread(self._timed_step)
            try:
                await asyncio.wait_for(stop.wait(), max(self._settings.interval, spent_s / _MOST_OF_A_CORE))
            except TimeoutError:
                continue
        await asyncio.to_thread(self._notifier.close)

    def _timed_step(self) -> float:
        """Run a step. Returns the seconds of processor time that it took.

        Without those for saying what broke: that has a share of its own.
        """
        self._diagnosing_s = 0.0
        before_s = time.thread_time()
        self.step(time.time_ns())
        return time.thread_time() - before_s - self._diagnosing_s

    def step(self, now_ns: int) -> None:
        """Check the rules once, and send what is due. When the store refuses, the next step tries again."""
        if not self._standing.leads():
            self._count_firing(())  # another process shows what fires
            publish(self._telemetry, ())
            return
        try:
            self._check(now_ns)
            self._notifier.notify(now_ns)
        except Exception as error:  # an error in alerts must not end the judge
            self._telemetry.add("tracegrade.alerts.failed_checks")
            if not isinstance(error, SQLAlchemyError):
                logger.exception("alerts could not be checked; trying again in %s s", self._settings.interval)

    def _check(self, now_ns: int) -> None:
        in_force = self._rules_in_force()
        rules = alerting_rules(in_force)
        with reading(self._engine) as connection:
            incidents = open_incidents(connection)
            waiting = stored_waiting(connection)
            if not incidents and not rules and not waiting:
                publish(self._telemetry, ())
                return
            judged_to_ns = self._standing.judged_to_ns()
            if judged_to_ns < max((alert.updated_ns for each in incidents for alert in each.members), default=1):
                return  # it has just started, and is not yet where it was
            now_ns = min(now_ns, judged_to_ns)
            before = _before(connection, incidents, rules, in_force, now_ns)
            history = StoredHistory(connection, rules, now_ns, self._settled)
            checked = check(history, rules, before, now_ns, self._ending, self._kept)
            fired = {alert.key for alert in before.firing}
            counting_incomplete = {rule.id for rule in rules if rule.incomplete == "count"}
            together = FailingTraces(connection, counting_incomplete).are_shared
            now = incidents_now(incidents, [*checked.open, *checked.resolved], together)
            before_s = time.thread_time()
            told = self._settings.slices, self._include_values
            anew = now_ns >= self._causes_anew_at_ns
            now = with_diagnoses(connection, now, fired, counting_incomplete, *told, anew=anew)
            self._diagnosing_s = time.thread_time() - before_s
            if anew:
                self._causes_anew_at_ns = now_ns + int(self._diagnosing_s / _MOST_FOR_CAUSES * _NS)
        now_waiting = waiting_in(checked.not_fired, waiting, now_ns)
        changed = [incident for incident in now if incident not in incidents]
        if changed or now_waiting != waiting:
            self._save(changed, incidents, None if now_waiting == waiting else now_waiting)
        self._count_firing(checked.open)
        publish(self._telemetry, checked.slos)

    def _save(
        self, changed: Sequence[Incident], before: Sequence[Incident], waiting: Sequence[WaitingAlert] | None
    ) -> None:
        known = {alert.key: alert for incident in before for alert in incident.members}
        with self._engine.begin() as connection:
            for incident in changed:
                save_incident(connection, incident)
                for alert in incident.members:
                    if known.get(alert.key) != alert:
                        save_alert(connection, alert)
            if waiting is not None:
                save_waiting(connection, waiting)

    def _count_firing(self, open_alerts: Iterable[StoredAlert]) -> None:
        """Set the number of firing alerts by tenant, rule, service, agent and level; 0 for those that have ended."""
        firing = dict.fromkeys(self._counted_firing, 0)
        for alert in open_alerts:
            exact = (self._telemetry.tenant(alert.tenant), alert.rule_id, alert.service, alert.agent, alert.level)
            rest, any_rule = ((OTHER, rule, OTHER, OTHER, alert.level) for rule in (alert.rule_id, OTHER))
            names = self._telemetry.fit(_FIRING, METRICS[_FIRING].lines, exact, rest, any_rule)
            key = series(_FIRING, **dict(zip(METRICS[_FIRING].labels, names, strict=True)))
            firing[key] = firing.get(key, 0) + 1
        self._counted_firing = tuple(firing)
        self._telemetry.replace({_FIRING: firing})


def _before(
    connection: Connection, incidents: Sequence[Incident], rules: Sequence[Rule], in_force: RuleSet, now_ns: int
) -> Before:
    """What a check of `rules` needs to know of earlier ones."""
    past = recent_alerts(connection, now_ns - int(looks_back_s(rules) * _NS))
    return Before(
        [alert for incident in incidents for alert in incident.members if alert.state == "firing"],
        [alert for alert in past if alert.state == "resolved"],
        frozenset(
            alert.key
            for each in incidents
            for alert in each.members
            # What joined the incident later is another fall.
            if each.accepted_ns is not None and alert.starts_ns <= each.accepted_ns
        ),
        {rule.id: rule.hash for rule in in_force.rules},
    )
