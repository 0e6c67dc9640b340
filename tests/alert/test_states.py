from dataclasses import replace

from tracegrade.alert.states import fingerprint, next_state, resolved
from tracegrade.match.rule import BelowAlert, Rule
from tracegrade.store.rates import Rate

ALERT = BelowAlert(below=0.9, over=3600.0, min_samples=10)
RULE = Rule.model_validate(
    {
        "id": "checkout-order",
        "title": "Orders are validated first",
        "level": "high",
        "evaluate": [{"evaluator": "tool-call-order", "tool_calls_order": ["a", "b"]}],
    }
)
BAD = Rate("default", "checkout-order", "", "shop", 5, 5, 0, 0, 0, 0.0, 5.0, 5.0)
GOOD = replace(BAD, passed=10, failed=0)


def test_a_condition_that_holds_fires() -> None:
    alert = next_state(None, True, RULE, ALERT, BAD, 100)
    assert alert is not None
    assert (alert.state, alert.starts_ns, alert.ends_ns, alert.value, alert.samples) == ("firing", 100, None, 0.5, 10)
    assert (alert.rule_id, alert.service, alert.level, alert.title) == (RULE.id, "shop", "high", RULE.title)


def test_it_goes_on_firing_as_the_same_alert_with_what_was_last_seen() -> None:
    first = next_state(None, True, RULE, ALERT, BAD, 100)
    worse = replace(BAD, passed=0, failed=20)
    after = next_state(first, True, RULE, ALERT, worse, 200)
    assert first is not None
    assert after == replace(first, value=0.0, samples=20, updated_ns=200)


def test_a_condition_known_not_to_hold_resolves() -> None:
    after = next_state(next_state(None, True, RULE, ALERT, BAD, 100), False, RULE, ALERT, GOOD, 200)
    assert after is not None
    assert (after.state, after.starts_ns, after.ends_ns, after.value) == ("resolved", 100, 200, 1.0)


def test_silence_changes_nothing() -> None:
    firing = next_state(None, True, RULE, ALERT, BAD, 100)
    assert next_state(firing, None, RULE, ALERT, BAD, 200) is firing
    assert next_state(None, None, RULE, ALERT, BAD, 200) is None


def test_what_never_fired_is_not_resolved() -> None:
    assert next_state(None, False, RULE, ALERT, GOOD, 100) is None


def test_an_alert_has_the_same_fingerprint_whenever_it_fires_and_no_other_has() -> None:
    marks = {
        fingerprint(RULE, ALERT, "default", "shop"),
        fingerprint(RULE, ALERT, "other", "shop"),
        fingerprint(RULE, ALERT, "default", "bank"),
        fingerprint(RULE, BelowAlert(below=0.8, over=3600.0), "default", "shop"),
        fingerprint(RULE, BelowAlert(below=0.9, over=60.0), "default", "shop"),
        fingerprint(RULE, BelowAlert(below=0.9, over=3600.0, of="tool-call-order"), "default", "shop"),
    }
    assert len(marks) == 6
    assert fingerprint(RULE, ALERT.model_copy(), "default", "shop") in marks


def test_a_rule_that_is_gone_resolves_with_what_was_last_seen() -> None:
    firing = next_state(None, True, RULE, ALERT, BAD, 100)
    assert firing is not None
    assert resolved(firing, 200) == replace(firing, state="resolved", ends_ns=200, updated_ns=200)
