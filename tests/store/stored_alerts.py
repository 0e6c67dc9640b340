"""An alert as it is stored, for tests of whatever stores, shows or tells it."""

from tracegrade.store.alerts import Facts, StoredAlert

ALERT = StoredAlert(
    fingerprint="ab" * 16,
    starts_ns=1_767_225_600_000_000_000,  # 2026-01-01T00:00:00Z
    ends_ns=None,
    state="firing",
    tenant="default",
    rule_id="checkout-order",
    service="shop",
    level="high",
    title="Orders are validated first",
    of="pass_rate",
    bound=0.95,
    over_s=3600.0,
    value=0.5,
    samples=40,
    updated_ns=1_767_225_600_000_000_000,
    rule_hash="0123456789abcdef",
    agent="support",
    release="1.1",
    facts=Facts(
        0.35, 0.65, by_chance_every_s=30_000_000.0, worst=["aa" * 16], changed=["release 1.1 first seen at 00:00 UTC"]
    ),
)
