"""What the page and the API show of results that were made afterwards."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from build import store_with
from build.backtested import RULE, stored, write_rule
from build.commands import run
from build.judged_traces import trace_id
from build.site import Site, rows_of, serving, text_of

HOUR_NS = 3_600_000_000_000
CHANGED = RULE.replace("'<=', 1", "'<=', 0")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """`brand-new` never judged live; `order-checked` passed live in an earlier form, and fails as it is now."""
    folder: Path = tmp_path_factory.mktemp("site")
    now_ns = time.time_ns()
    times = [now_ns - number * HOUR_NS for number in range(20)]
    store_with(
        folder,
        *(
            stored(number, "1.0", calls=1 + number % 2, received_ns=received_ns)
            for number, received_ns in enumerate(times)
        ),
    )
    write_rule(folder / "rules", CHANGED)
    write_rule(folder / "rules", RULE.replace("order-checked", "brand-new"), "brand-new")
    assert run(folder, "rules", "backtest", str(folder / "rules"), "--store", "--since", "2d").exit_code == 0
    with serving(folder, str(folder / "rules")) as found:
        yield found


def api(site: Site, path: str) -> Any:
    answer = site.get("/api/v1" + path)
    assert answer.status == 200, answer.text
    return json.loads(answer.text)


def test_the_chart_of_a_new_rule_is_full_and_dashed(site: Site) -> None:
    html = site.get("/rules/brand-new").text
    said = text_of(html)
    assert "Pass rate in the last 24 hours 50 %" in said
    assert "20 results of these, the dashed curve: judged afterwards by rules backtest --store on 20" in said
    assert "20 judged afterwards" in html
    assert '<polyline class="rate backfilled"' in html
    assert '<polyline class="rate"' not in html, "nothing was judged live"
    assert "create_order was called twice (expected at most 1 time)" in said
    assert said.count("judged afterwards 20") == 1, "the latest fail says so"


def test_of_a_changed_rule_what_was_judged_live_has_a_curve_of_its_own(site: Site) -> None:
    html = site.get("/rules/order-checked").text
    assert '<polyline class="rate backfilled"' in html
    assert '<polyline class="rate"' in html
    said = text_of(html)
    assert "Pass rate in the last 24 hours 100 %" in said, "by the form that judged live alone"
    assert "The dashed curve, 0 % of 20, is what the rule says in another form" in said
    versions = text_of(html.partition('id="versions"')[2])
    assert "in force 20 judged afterwards" in versions
    assert "bbbbbbbb not known 100 % 20" in versions


def test_lists_and_the_overview_show_both_and_mark_what_came_afterwards(site: Site) -> None:
    rows = rows_of(site.get("/").text)
    assert "50 %" in next(row for name, row in rows.items() if name.startswith("brand-new"))
    assert "judged afterwards" in text_of(site.get("/").text)
    of_changed = next(row for name, row in rows.items() if name.startswith("order-checked"))
    assert of_changed.endswith("20 0 100 %"), "no subject counts twice, by two forms of a rule"
    assert "50 %" in next(row for name, row in rows_of(site.get("/rules").text).items() if "brand-new" in name)
    assert site.get("/traces?rule=brand-new&outcome=fail").text.count('href="/traces/0') == 10
    assert "afterwards" not in text_of(site.get("/traces").text)


def test_a_trace_shows_both_and_says_which_is_which(site: Site) -> None:
    said = text_of(site.get(f"/traces/{trace_id(1)}").text)
    assert "fail brand-new high judged afterwards" in said
    assert "did not judge this trace" not in said, "they did, afterwards"
    assert "pass order-checked support" in said


def test_the_api_marks_them(site: Site) -> None:
    by_run = {item["run"] for item in api(site, "/results?limit=1000")["items"]}
    assert by_run == {"live", "backfill"}
    assert len(api(site, "/results?run=backfill&limit=1000")["items"]) == 40
    rates = {item["rule_id"]: item for item in api(site, "/rates")["items"] if not item["evaluation"]}
    assert (rates["brand-new"]["failed"], rates["brand-new"]["backfilled"]) == (10, 20)
    assert (rates["order-checked"]["passed"], rates["order-checked"]["backfilled"]) == (20, 20)
    trends = {item["name"]: item["steps"] for item in api(site, "/trends")["items"]}
    assert sum(step["backfilled"] for step in trends["brand-new"]) == 20
    assert {item["run"] for item in api(site, f"/traces/{trace_id(1)}")["items"][0]["evaluations"]} == by_run
    (backfill,) = api(site, "/rules/brand-new")["backfills"]
    assert (backfill["tenant"], backfill["subjects"], backfill["complete"]) == ("default", 20, True)
    assert backfill["rule_hash"] == api(site, "/rules/brand-new")["hash"]
    pairs = api(site, f"/traces/{trace_id(1)}/why")["items"][0]["pairs"]
    (why,) = (pair for pair in pairs if pair["rule_id"] == "brand-new")
    assert (why["decision"], "judged it afterwards" in why["reason"]) == ("not_judged", True)


def test_comparing_reads_what_was_judged_live_alone(site: Site, tmp_path: Path) -> None:
    folder = Path(site.config.data_dir)
    result = run(folder, "compare", "live", "release:1.0", "--format", "json")
    assert "brand-new" not in result.stdout
    assert "order-checked" in result.stdout
