"""The incident that people send to themselves, to see that a channel works."""

from dataclasses import replace
from hashlib import blake2b

from tracegrade.store.alerts import Facts, StoredAlert
from tracegrade.store.incidents import Incident, incident_id


def sample_incidents(now_ns: int, ends_ns: int) -> list[Incident]:
    """An incident that begins, and the same as it ends; neither of them was stored, and no rule has their name.

    Args:
        now_ns: when it began, ns since 1970 UTC.
        ends_ns: when it ends.
    """
    firing = StoredAlert(
        fingerprint=blake2b(str(now_ns).encode(), digest_size=16).hexdigest(),
        starts_ns=now_ns,
        ends_ns=None,
        state="firing",
        tenant="default",
        rule_id="test-notification",
        service="test",
        level="info",
        title="This is a test. Nothing is wrong.",
        of="pass_rate",
        bound=0.95,
        over_s=3600.0,
        value=0.8,
        samples=40,
        updated_ns=now_ns,
        facts=Facts(low=0.63, high=0.91, fired_at=0.8),
    )
    ended = replace(
        firing, state="resolved", ends_ns=ends_ns, value=0.97, facts=replace(firing.facts, end_reason="recovered")
    )
    return [Incident(incident_id(firing), [alert]) for alert in (firing, ended)]
