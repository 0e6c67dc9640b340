"""What an alert becomes: it fires when its condition holds, and is resolved when that is known not to hold."""

from dataclasses import replace
from hashlib import blake2b

from tracegrade.match.rule import BelowAlert, Rule
from tracegrade.store.alerts import StoredAlert
from tracegrade.store.rates import Rate


def fingerprint(rule: Rule, alert: BelowAlert, tenant: str, service: str) -> str:
    """32 hex digits that stand for this alert of this rule at this service, whenever it fires."""
    parts = (tenant, service, rule.id, alert.of, repr(alert.below), repr(alert.over))
    return blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def next_state(
    current: StoredAlert | None, holds: bool | None, rule: Rule, alert: BelowAlert, rate: Rate, now_ns: int
) -> StoredAlert | None:
    """The alert after a look at its condition.

    Args:
        current: the alert as it fires now, None when it does not.
        holds: whether the condition holds; None when nobody can tell, which changes nothing.
        rule: whose alert it is.
        alert: the condition.
        rate: what was seen.
        now_ns: when it was seen, ns since 1970 UTC.

    Returns:
        The alert as it is now: firing, just resolved, or None when it neither fires nor did.
    """
    if holds is None:
        return current
    if not holds:
        return resolved(current, now_ns, rate) if current is not None else None
    if current is not None:
        return replace(current, value=rate.passed / rate.judged, samples=rate.judged, updated_ns=now_ns)
    return StoredAlert(
        fingerprint=fingerprint(rule, alert, rate.tenant, rate.service),
        starts_ns=now_ns,
        ends_ns=None,
        state="firing",
        tenant=rate.tenant,
        rule_id=rule.id,
        service=rate.service,
        level=rule.level,
        title=rule.title,
        of=alert.of,
        below=alert.below,
        over_s=alert.over,
        value=rate.passed / rate.judged,
        samples=rate.judged,
        updated_ns=now_ns,
    )


def resolved(current: StoredAlert, now_ns: int, rate: Rate | None = None) -> StoredAlert:
    """`current`, resolved; without a `rate` because its rule is no longer in force."""
    seen = replace(current, value=rate.passed / rate.judged, samples=rate.judged) if rate is not None else current
    return replace(seen, state="resolved", ends_ns=now_ns, updated_ns=now_ns)
