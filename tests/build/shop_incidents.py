"""Incidents of the shop's traffic, as the judge would store them: what their page is tested and looked at with."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from build import store_with
from build.shop import HOUR, SECOND
from build.stored_alerts import incident as incident_of
from tracegrade.alert.diagnose.diagnose import with_diagnoses
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.alerts import Facts, Silence, StoredAlert, WaitingAlert, save_alert, save_silence, save_waiting
from tracegrade.store.diagnosis import Slice
from tracegrade.store.incidents import Attempts, Incident, Notification, save_incident
from tracegrade.store.open import open_store, reading

FELL = "order-steps-out-of-order"
_NOTIFIED = {
    "pager": ("firing", 0, ""),
    "chat": ("", 3, "answered 503"),
}


def fall(rule_set: RuleSet, now_ns: int, hours: float) -> list[StoredAlert]:
    """Alerts of one fall that began so many hours ago: a drop, a bound, and the release to blame."""
    rule = rule_set.rule(FELL)
    assert rule is not None
    began_ns = now_ns - round(hours * HOUR)
    facts = Facts(
        low=0.71, high=0.85, was=0.972, was_samples=912, by_chance_every_s=7.8e7, fired_at=0.762, since_ns=began_ns,
        changed=["release 1.5.0 first seen at 2026-11-22 22:33 UTC"],
        slices=[Slice("release", "1.5.0", 0.97, 0.216, None, 0.3), Slice("tool", "create_order", 0.9, 0.2, 0.02, 0.4)],
        description=rule.description, references=["https://wiki.example/orders", "javascript://example.com/%0Aalert(1)"],
    )  # fmt: skip
    drop = StoredAlert(
        "a1" * 16, began_ns + HOUR // 2, None, "firing", "default", rule.id, "shop", "high", rule.title, "pass_rate",
        0.922, 86_400.0, 0.784, 342, now_ns, "drop", rule.hash, "order-agent", None, facts,
    )  # fmt: skip
    bound = replace(
        drop, fingerprint="b2" * 16, starts_ns=began_ns + 2 * HOUR // 3, kind="below", bound=0.95, over_s=3600.0,
        facts=replace(facts, was=None, was_samples=0),
    )  # fmt: skip
    of_release = replace(drop, fingerprint="c3" * 16, starts_ns=began_ns + HOUR, release="1.5.0")
    return [drop, bound, of_release]


def over(alert: StoredAlert, ends_ns: int) -> StoredAlert:
    """The same alert, ended because the release was replaced."""
    facts = replace(alert.facts, end_reason="superseded", ended_by="release 1.5.1 replaced it")
    return replace(alert, state="resolved", ends_ns=ends_ns, updated_ns=ends_ns, facts=facts)


def store(folder: Path, members: Sequence[StoredAlert], *, silenced: bool = False) -> Incident:
    """Store an incident with these alerts, with what broke as the stored traces tell."""
    engine = open_store(store_with(folder))
    starts_ns = members[0].starts_ns
    notified = {
        name: Notification(state, starts_ns if state else 0, tries, error, "high", _sent(starts_ns, tries, error))
        for name, (state, tries, error) in _NOTIFIED.items()
    }
    made = incident_of(*members, notified=notified)
    with reading(engine) as connection:
        (told,) = with_diagnoses(connection, [made], (), (), (), include_values=True)
    told = replace(told, members=[_with_words(one, other) for one, other in zip(told.members, members, strict=True)])
    with engine.begin() as connection:
        save_incident(connection, told)
        for member in told.members:
            save_alert(connection, member)
        if silenced:
            rule_id = members[0].rule_id
            ends_ns = members[0].updated_ns + 2 * HOUR
            save_silence(connection, Silence("5e1f", {"rule": rule_id}, starts_ns, ends_ns, "we know: OPS-41"))
    engine.dispose()
    return told


def _sent(starts_ns: int, tries: int, error: str) -> list[Attempts]:
    """One that was taken, or so many that were refused, a minute apart."""
    until_ns = starts_ns + max(0, tries - 1) * 60 * SECOND
    return [Attempts("firing", "high", starts_ns, until_ns, max(1, tries), error)]


def _with_words(told: StoredAlert, given: StoredAlert) -> StoredAlert:
    facts = replace(
        told.facts,
        end_reason=given.facts.end_reason,
        ended_by=given.facts.ended_by,
        changed=given.facts.changed or told.facts.changed,
        slices=given.facts.slices or told.facts.slices,
    )
    return replace(told, facts=facts)


def store_waiting(folder: Path, now_ns: int) -> None:
    """Store alerts that cannot tell yet."""
    engine = open_store(store_with(folder))
    with engine.begin() as connection:
        save_waiting(
            connection,
            [
                WaitingAlert(
                    FELL, "a fall by 5 points against 7d", "default", "shop", "new-agent", "no_baseline", now_ns
                ),
                WaitingAlert(
                    "refund-without-lookup", "below 0.95", "default", "support", "", "too_few", now_ns - SECOND
                ),
            ],
        )
    engine.dispose()
