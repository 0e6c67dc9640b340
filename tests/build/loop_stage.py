"""The loop over a store, with channels that take notes."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from sqlalchemy import Engine

from build.judged_traces import MINUTE_NS, START_NS, judged
from tracegrade.alert.detect.finding import Finding, Observations, measure
from tracegrade.alert.loop import AlertLoop, Recipients, Standing
from tracegrade.alert.settings import AlertsSettings
from tracegrade.document.tenants import ForTenants
from tracegrade.model.evaluation import Decision
from tracegrade.model.tally import total
from tracegrade.rule.alert import Alert
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet
from tracegrade.rule.watched import UNJUDGED
from tracegrade.store.alerts import StoredAlert, open_alerts
from tracegrade.store.incidents import Incident, open_incidents
from tracegrade.store.open import reading
from tracegrade.store.write import StoreWriter
from tracegrade.telemetry.metrics import Telemetry


class Channel:
    """Takes notes; refuses while ``away``."""

    resend_s: float | None = None

    def __init__(self, name: str = "pager", records: bool = False) -> None:
        self.name = name
        self.records = records
        self.told: list[tuple[str, str, str]] = []
        self.keys: list[str] = []
        self.members: list[int] = []
        self.calls = 0
        self.away = False
        self.killed_after = False
        self.broken = False
        self.closed = False

    def send(self, incident: Incident, now_ns: int) -> str | None:
        self.calls += 1
        if self.away:
            return "answered 503"
        self.told.append((incident.lead.rule_id, incident.lead.service, incident.state))
        self.members.append(len(incident.members))
        self.keys.append(incident.id)
        if self.killed_after:
            raise KeyboardInterrupt
        if self.broken:
            raise ValueError("a text that it does not like")
        return None

    def close(self) -> None:
        self.closed = True


def rules(*alerts: dict[str, Any], **changes: Any) -> RuleSet:
    content: dict[str, Any] = {
        "id": "checkout-order",
        "evaluate": [{"evaluator": "tool-call-order", "tool_calls_order": ["a", "b"]}],
        "alert": list(alerts) or [{"below": 0.9, "over": "10m", "min_samples": 2}],
    }
    return RuleSet([Rule.model_validate(content | changes)])


def plain_look(rule: Rule, alert: Alert, bound: float, seen: Observations) -> Finding | None:
    """Decides by the rate in the window alone: the loop is tested with few results, the detectors by themselves."""
    found = measure(rule, alert, total(item.tally for item in seen.shown))
    if found is None:
        return None
    is_past = found.value > bound if alert.of in UNJUDGED else found.value < bound
    decided = 100.0 if is_past == (seen.firing is None) else 0.0
    enough = found.samples >= alert.min_samples
    return Finding(
        found.value, found.low, found.high, round(found.samples), bound, evidence=decided if enough else None
    )


def _by(rule: Rule, decision: Decision) -> Decision:
    """The same decision by another rule."""
    copy = deepcopy(decision)
    copy.pair.rule_id, copy.pair.rule_hash = rule.id, rule.hash
    return copy


class Stage:
    """A store, a loop with one channel over it, and traces received at any minute."""

    def __init__(
        self,
        engine: Engine,
        *channels: Channel,
        for_tenants: Mapping[str, ForTenants] | None = None,
        **settings: Any,
    ) -> None:
        self.engine = engine
        self.rule_set = rules()
        self.channel = channels[0] if channels else Channel()
        self.telemetry = Telemetry("judge")
        read = AlertsSettings.model_validate(settings)
        self.judged_to_ns = 2**63
        self.leads = True
        self.loop = AlertLoop(
            engine,
            lambda: self.rule_set,
            Recipients(channels or [self.channel], for_tenants or {}),
            self.telemetry,
            read,
            Standing(lambda: self.leads, lambda: self.judged_to_ns),
        )
        self._writer = StoreWriter(engine)
        self.next_trace = 0

    def receive(
        self,
        minute: int,
        *outcomes: str,
        rule_hash: str = "",
        judged_by: Sequence[Rule] | None = None,
        **changes: Any,
    ) -> None:
        received_ns = START_NS + minute * MINUTE_NS
        changes = {"first_received_ns": received_ns, "last_received_ns": received_ns} | changes
        level, measured = changes.pop("level", "high"), changes.pop("measured", ())
        rule_hash = rule_hash or (self.rule_set.rules[0].hash if self.rule_set.rules else "0")
        traces = [judged(number, outcome, **changes) for number, outcome in enumerate(outcomes, self.next_trace)]
        for trace in traces:
            for decision in trace.decisions:
                decision.pair.rule_hash, decision.pair.level = rule_hash, level
                decision.measured = measured
            if judged_by is not None:
                trace.decisions[:] = [_by(rule, each) for rule in judged_by for each in trace.decisions]
        self._writer.write(traces)
        self.next_trace += len(traces)

    def step(self, minute: float) -> list[tuple[str, str, str]]:
        """Check at `minute`; what the channel was told in this step."""
        before = len(self.channel.told)
        self.loop.step(START_NS + int(minute * MINUTE_NS))
        return self.channel.told[before:]

    def incidents(self) -> list[Incident]:
        with reading(self.engine) as connection:
            return open_incidents(connection)

    def firing(self) -> list[StoredAlert]:
        with reading(self.engine) as connection:
            return [alert for alert in open_alerts(connection) if alert.state == "firing"]
