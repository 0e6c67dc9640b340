import re
from pathlib import Path

import pytest

from build import store_with
from build.code_files import changed, judged, write_rule
from build.site import Site, rows_of, text_of
from tracegrade.rule.load import load_rules
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.open import open_store
from tracegrade.store.rule_texts import RuleText, rule_sets_so_far, rule_versions, rules_of, save_rule_texts

ORDERS = "order-steps-out-of-order"
NOW_NS = 2_000_000_000_000_000_000
HOUR = 3_600_000_000_000


def _changed(rule: Rule, **changes: object) -> Rule:
    return Rule.model_validate({**rule.written, **changes})


def test_all_rules_in_force_are_listed_with_what_they_do(shop: Site) -> None:
    rows = rows_of(shop.get("/rules").text)
    assert len(rows) == len(shop.rules)
    assert "66.7" in rows[ORDERS]
    assert "agent run stable tool-call-order" in rows[ORDERS]
    assert "no results" in next(row for name, row in rows.items() if name.startswith("payment-details"))


def test_a_rule_is_shown_in_words_and_as_it_is_written(shop: Site) -> None:
    page = text_of(shop.get(f"/rules/{ORDERS}").text)
    assert "It judges every agent run, where all of these hold: the agent is order-agent" in page
    assert "tool_calls_order: [validate_user, check_inventory, create_order]}" in page
    assert "2 of 3 expected calls were made in the expected order" in page


def test_what_changed_between_two_contents_is_shown_line_by_line(shop: Site) -> None:
    rule = shop.rules.rule(ORDERS)
    assert rule is not None
    old, judging_otherwise = _changed(rule, level="low"), _changed(rule, scope="trace")
    engine = open_store(shop.store_url)
    with engine.begin() as connection:
        for text, since_ns in ((judging_otherwise, NOW_NS), (old, NOW_NS + HOUR), (rule, NOW_NS + 2 * HOUR)):
            save_rule_texts(connection, RuleSet([text]), since_ns)
    engine.dispose()
    html = shop.get(f"/rules/{ORDERS}").text
    assert re.findall(r'class="(plus|minus)">(.*)', html) == [("minus", "-level: low"), ("plus", "+level: high")]
    other = shop.get(f"/rules/{ORDERS}?from={judging_otherwise.text_hash}&to={rule.text_hash}").text
    assert re.findall(r'class="minus">(.*)', other) == ["-scope: trace"]
    said = text_of(html)
    assert old.hash == rule.hash != judging_otherwise.hash
    assert said.count(f" {rule.hash[:8]} in force") == 1, "two texts that judge alike have one history"
    assert f"{old.text_hash[:8]} 2033-05-18 04:33" in said
    assert f"{judging_otherwise.hash[:8]} 2033-05-18 03:33" in said
    assert f"{rule.text_hash[:8]} 2033-05-18 05:33" in said


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
    rule_set = load_rules(paths)
    rules = rule_set.rules
    engine = open_store(store_with(tmp_path))
    with engine.begin() as connection:
        save_rule_texts(connection, rule_set, 5)
        save_rule_texts(connection, rule_set, 6)  # in force already
    with engine.connect() as connection:
        read = rules_of(connection, [rule.hash for rule in rules])
        assert {item.hash for item in read.values()} == {rule.hash for rule in rules}
        (first,) = rule_versions(connection, rules[0].id)
    engine.dispose()
    assert isinstance(first, RuleText)
    assert (first.since_ns, first.text_hash) == (5, rules[0].text_hash)


def test_code_beside_a_rule_is_a_version_of_its_own_and_does_not_run_for_a_stored_text(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    reads = changed("score=score)", 'score=score, attributes=frozenset({"b.c", "a"}))')
    source = f"import pathlib\npathlib.Path({str(mark)!r}).touch()\n{reads}"
    path = write_rule(tmp_path / "rules", source)
    path.write_text(path.read_text() + "    threshold: 0.5\nalert: [{of: few-calls, below: 0.9}]\n")
    first = load_rules([path], allow_code=True)
    (tmp_path / "rules" / "few_calls.py").write_text(source + "# changed\n")
    second = load_rules([path], allow_code=True)
    mark.unlink()
    engine = open_store(store_with(tmp_path))
    with engine.begin() as connection:
        for number, rule_set in enumerate((first, second), 1):
            save_rule_texts(connection, rule_set, number)
    with engine.connect() as connection:
        texts = [item.text for item in rule_versions(connection, "few")]
        read = rules_of(connection, [first.rules[0].hash])[first.rules[0].hash]
        so_far = list(rule_sets_so_far(connection))
    engine.dispose()
    digests = [rule_set.rules[0].code["./few_calls.py"] for rule_set in (second, first)]
    lines = [f'# ./few_calls.py: {digest} reads ["a", "b.c"]' for digest in digests]
    assert [text.splitlines()[-1] for text in texts] == lines
    assert [spec.name for spec in read.specs] == ["few-calls"]
    assert [rule_set.attributes_read for rule_set in so_far] == [first.attributes_read] * 2
    assert not mark.exists()
    (evaluation,) = judged(RuleSet([read]))
    assert (evaluation.outcome, evaluation.score) == ("error", None)
