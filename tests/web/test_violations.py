import re
import time
from pathlib import Path

from build.shop import SECOND, WRONG_ORDER, fill, order
from build.site import serving, text_of
from tracegrade.rule.load import load_rules

UNREAD = """\
id: small-orders
level: high
scope: agent
evaluate:
  - evaluator: constraints
    constraints:
      - {before: check_inventory, comes: login}
      - {never: {tool: create_order, where: {args: {qty: {$gt: 100}}}}}
"""

RULE = """\
id: checked-first
title: The stock is checked before the order is created
level: high
scope: agent
evaluate:
  - evaluator: constraints
    constraints:
      - {before: create_order, comes: check_inventory, same: sku}
      - {after: reserve, comes: release}
      - {never: "delete_*"}
"""


def test_a_violated_constraint_names_its_calls_with_links_and_on_the_timeline(tmp_path: Path) -> None:
    rule = tmp_path / "checked.rule.yaml"
    rule.write_text(RULE)
    made = order(1, time.time_ns() - 60 * SECOND, "1.5.0", WRONG_ORDER)
    fill(tmp_path, iter([(made, None)]), load_rules([str(rule)]))
    with serving(tmp_path, str(rule)) as site:
        html = site.get(f"/traces/a1{1:030x}").text
        rule_page = site.get("/rules/checked-first").text
    page = text_of(html)
    assert (
        "✗ fail check_inventory comes before every create_order with the same sku 0 of 1 check passed 1 create_order"
        in page
    )
    assert "nearest: 3 check_inventory" in page
    assert "– not evaluable release comes after every reserve did not apply" in page
    assert "✓ pass delete_* is never called 1 of 1 check passed" in page
    marked = re.findall(r'<th scope="row".*?</th>', html, re.DOTALL)
    assert [text_of(line) for line in marked if "checked-first" in line and "tool" in line] == [
        "tool: execute_tool create_order ✗ checked-first"
    ]
    assert "<ul><li>check_inventory comes before every create_order with the same sku (precedence)</li>" in rule_page


def test_a_constraint_of_which_nothing_can_be_told_is_not_shown_as_violated(tmp_path: Path) -> None:
    rule = tmp_path / "unread.rule.yaml"
    rule.write_text(UNREAD)
    made = order(1, time.time_ns() - 60 * SECOND, "1.5.0", WRONG_ORDER)
    for span in made.spans:
        span.attributes.pop("gen_ai.tool.call.arguments", None)
    fill(tmp_path, iter([(made, None)]), load_rules([str(rule)]))
    with serving(tmp_path, str(rule)) as site:
        html = site.get(f"/traces/a1{1:030x}").text
    page = text_of(html)
    assert "✗ fail login comes before every check_inventory 0 of 1 check passed" in page
    assert "– not evaluable create_order (args.qty as in the rule) is never called 0 of 1 check passed" in page
    marked = re.findall(r'<th scope="row".*?</th>', html, re.DOTALL)
    assert not any("small-orders" in line and "execute_tool create_order" in line for line in marked)
