"""What broke, in the words of a notification."""

from dataclasses import replace
from typing import Any

from build import each
from build.stored_alerts import ALERT
from tracegrade.alert.notify.message import lines
from tracegrade.store.alerts import StoredAlert
from tracegrade.store.diagnosis import Reason, Slice

REASON = Reason("order", "Not called: check_inventory.", 48, 60, 0.16, 1, 20, 0.004)
SLICE = Slice("release", "1.1", 0.97, 0.525, 0.02, 0.3)


def alert(reason: Reason, where: Slice, **changes: Any) -> StoredAlert:
    facts = replace(ALERT.facts, reasons=[reason], slices=[where])
    return replace(ALERT, facts=facts, **changes)


@each(
    ("found", "why", "where"),
    [
        (
            alert(REASON, SLICE),
            "Not called: check_inventory (48 of 60 fails; 16% of all results, 0.4% before)",
            "explains 97% of the fall (52.5% fails there, 2% before)",
        ),
        (
            alert(replace(REASON, share_before=None, example="pay args.total: expected 3, found 5"), SLICE),
            "Not called: check_inventory, such as pay args.total: expected 3, found 5 "
            "(48 of 60 fails; 16% of all results, no results before)",
            "explains 97% of the fall (52.5% fails there, 2% before)",
        ),
        (
            alert(REASON, replace(SLICE, bad_before=None), kind="above", of="not_evaluable"),
            "Not called: check_inventory (48 of 60 not evaluable; 16% of all results, 0.4% before)",
            "explains 97% of the rise (52.5% not evaluable there, none came before)",
        ),
        (
            alert(REASON, SLICE, of="order.score"),
            "Not called: check_inventory (48 of 60 fails; 16% of all results, 0.4% before)",
            "explains 97% of the fall (mean score 0.475 there, 0.98 before)",
        ),
        (
            alert(REASON, replace(SLICE, bad=12_400.0, bad_before=3.0), of="tokens", kind="rise"),
            "Not called: check_inventory (48 of 60 fails; 16% of all results, 0.4% before)",
            "explains 97% of the rise (12,400 there on average, 3 before)",
        ),
    ],
)
def test_reasons_and_slices_are_said_with_their_numbers(found: StoredAlert, why: str, where: str) -> None:
    told = lines(found)
    assert f"Reason: order: {why}" in told
    assert f"Where: release 1.1, 30% of all results, {where}" in told


def test_whose_alert_it_is_is_said_of_other_tenants_than_default() -> None:
    assert "Tenant: shop" in lines(replace(ALERT, tenant="shop"))
    assert "Tenant" not in " ".join(lines(ALERT))
