from dataclasses import replace
from typing import Any

from tracegrade.alert.detect.finding import Finding, Verdict
from tracegrade.alert.states import AlertCondition, next_state, resolved
from tracegrade.rule.alert import Alert
from tracegrade.rule.rule import Rule
from tracegrade.store.history import SeriesKey

RULE = Rule.model_validate(
    {
        "id": "checkout-order",
        "title": "Orders are validated first",
        "level": "high",
        "evaluate": [{"evaluator": "tool-call-order", "tool_calls_order": ["a", "b"]}],
    }
)
SERIES = SeriesKey("default", RULE.id, RULE.hash, "", "shop", "support", "1.0")
BAD = Finding(value=0.5, low=0.3, high=0.7, samples=20, bound=0.9, evidence=2.0, since=3)
GOOD = replace(BAD, value=1.0)
SECOND = 1_000_000_000


def condition(series: SeriesKey = SERIES, rule: Rule = RULE, **fields: Any) -> AlertCondition:
    return AlertCondition(rule, Alert.model_validate({"below": 0.9, "over": "1h"} | fields), series)


def test_a_condition_that_holds_fires() -> None:
    alert = next_state(None, "holds", condition(), BAD, 100)
    assert alert is not None
    assert (alert.state, alert.starts_ns, alert.ends_ns, alert.value, alert.samples) == ("firing", 100, None, 0.5, 20)
    assert (alert.rule_id, alert.service, alert.level, alert.title) == (RULE.id, "shop", "high", RULE.title)
    assert (alert.agent, alert.release, alert.rule_hash) == ("support", "1.0", RULE.hash)
    assert alert.facts.since_ns == 180 * SECOND


def test_it_goes_on_firing_between_its_bound_and_recovery_with_what_was_last_seen() -> None:
    first = next_state(None, "holds", condition(), BAD, 100)
    assert first is not None
    verdicts: tuple[Verdict, ...] = ("holds", "between")
    for verdict in verdicts:
        after = next_state(first, verdict, condition(), replace(BAD, value=0.0, samples=40, since=9), 200)
        assert after is not None
        assert (after.state, after.value, after.samples, after.updated_ns) == ("firing", 0.0, 40, 200)
        assert after.facts.since_ns == first.facts.since_ns, "when it began is told as when it was found"


def test_recovery_resolves() -> None:
    after = next_state(next_state(None, "holds", condition(), BAD, 100), "recovered", condition(), GOOD, 200)
    assert after is not None
    assert (after.state, after.starts_ns, after.ends_ns, after.value) == ("resolved", 100, 200, 1.0)


def test_what_never_held_does_not_begin() -> None:
    verdicts: tuple[Verdict, ...] = ("between", "recovered", "unknown")
    for verdict in verdicts:
        assert next_state(None, verdict, condition(), GOOD, 100) is None


def test_a_condition_has_one_fingerprint_and_no_other_has_it() -> None:
    others = [
        condition(),
        condition(SERIES._replace(tenant="other")),
        condition(SERIES._replace(service="bank")),
        condition(SERIES._replace(agent="sales")),
        condition(SERIES._replace(release="1.1")),
        condition(SERIES._replace(rule_hash="0")),
        condition(below=0.8),
        condition(over="1m"),
        condition(of="tool-call-order"),
    ]
    assert len({other.fingerprint for other in others}) == len(others)
    same = condition(false_alarm_every="7d", min_samples=50, resolve_at=0.95)
    assert same.fingerprint == condition().fingerprint, "how soon and how surely it fires is not what it is"


def test_the_key_of_a_firing_is_its_own() -> None:
    alert = next_state(None, "holds", condition(), BAD, 100 * SECOND)
    assert alert is not None
    assert alert.key == resolved(alert, 200 * SECOND).key
    assert alert.key != replace(alert, starts_ns=300 * SECOND).key
