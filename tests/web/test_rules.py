import re
from pathlib import Path

import pytest

from tracegrade.match.load import load_rules
from tracegrade.match.rule import Rule
from tracegrade.store.open import open_store
from tracegrade.store.rule_texts import RuleText, rule_versions, rules_of, save_rule_texts
from web.site import Site, rows_of, text_of

ORDERS = "order-steps-out-of-order"


def _changed(rule: Rule, **changes: object) -> Rule:
    return Rule.model_validate({**rule.written, **changes})


def test_all_rules_in_force_are_listed_with_what_they_do(shop: Site) -> None:
    rows = rows_of(shop.get("/rules").text)
    assert len(rows) == len(shop.rules)
    assert "66.7" in rows[ORDERS]
    assert "each agent run stable tool-call-order" in rows[ORDERS]
    assert "no results" in next(row for name, row in rows.items() if name.startswith("payment-details"))


def test_a_rule_is_shown_in_words_and_as_it_is_written(shop: Site) -> None:
    page = text_of(shop.get(f"/rules/{ORDERS}").text)
    assert "It judges every agent run, where all of these hold: the agent is order-agent" in page
    assert "tool_calls_order: - validate_user - check_inventory - create_order" in page
    assert "2 of 3 expected calls in the expected order" in page


def test_what_changed_between_two_contents_is_shown_line_by_line(shop: Site) -> None:
    rule = shop.rules.rule(ORDERS)
    assert rule is not None
    old = _changed(rule, level="low")
    engine = open_store(shop.store_url)
    with engine.begin() as connection:
        save_rule_texts(connection, [old], 1_700_000_000_000_000_000)
    engine.dispose()
    html = shop.get(f"/rules/{ORDERS}?from={old.hash}&to={rule.hash}").text
    assert re.findall(r'class="(plus|minus)">(.*)', html) == [("minus", "-level: low"), ("plus", "+level: high")]
    assert f"{old.hash[:8]} 2023-11-14" in text_of(html)


def test_a_rule_has_the_tests_beside_it(shop: Site) -> None:
    kept, shop.rules = shop.rules, load_rules(["builtin:demo"])
    try:
        page = text_of(shop.get("/rules/order-steps-out-of-order").text)
    finally:
        shop.rules = kept
    assert "✗ fail tool-call-order" in page
    assert "tracegrade rules test runs them" in page


def test_a_rule_that_nobody_knows_is_not_found(shop: Site) -> None:
    assert shop.get("/rules/nobody").status == 404


@pytest.mark.parametrize("paths", [["builtin:all"], [str(Path(__file__).with_name("rules"))]], ids=["builtin", "ours"])
def test_stored_texts_are_read_as_the_same_rules(tmp_path: Path, paths: list[str]) -> None:
    rules = load_rules(paths).rules
    engine = open_store(f"sqlite:///{tmp_path / 'tracegrade.db'}")
    with engine.begin() as connection:
        save_rule_texts(connection, rules, 5)
        save_rule_texts(connection, rules, 6)  # known already: first seen before
    with engine.connect() as connection:
        read = rules_of(connection, [rule.hash for rule in rules])
        assert {item.hash for item in read.values()} == {rule.hash for rule in rules}
        (first,) = rule_versions(connection, rules[0].id)
    engine.dispose()
    assert isinstance(first, RuleText)
    assert first.first_seen_ns == 5
