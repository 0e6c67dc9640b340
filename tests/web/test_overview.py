import re
import time
from html import unescape
from pathlib import Path

import pytest

from build import each
from build.fleet import RULES, fleet
from build.site import Site, rows_of, serving, text_of


def test_each_rule_has_its_pass_rate_and_the_newest_worst_comes_first(shop: Site) -> None:
    rows = rows_of(shop.get("/").text)
    assert next(iter(rows)) == "answers-from-search"
    assert "0 % 0–94.5 %" in rows["answers-from-search"].replace("\u202f", " ")
    assert "66.7 %" in rows["order-steps-out-of-order"].replace("\u202f", " ")


def test_rules_without_results_are_listed_last_and_said_to_have_none(shop: Site) -> None:
    rows = rows_of(shop.get("/").text)
    name = next(name for name in rows if name.startswith("payment-details"))
    assert "no results" in rows[name]
    assert list(rows).index(name) == len(shop.rules) - 1


def test_a_rule_that_is_no_longer_in_force_is_still_shown(shop: Site) -> None:
    kept, shop.rules = shop.rules, type(shop.rules)([])
    try:
        rows = rows_of(shop.get("/").text)
    finally:
        shop.rules = kept
    assert "no longer in force" in rows["order-steps-out-of-order"]


def test_incomplete_traces_are_left_out_and_said_to_be(shop: Site) -> None:
    page = text_of(shop.get("/").text)
    assert "of incomplete traces not counted" in page


def test_what_fails_now_is_told_in_words_and_leads_to_its_trace(shop: Site) -> None:
    html = shop.get("/").text
    assert "2 of 3 expected calls were made in the expected order" in text_of(html)
    link = re.search(r'href="(/traces/[0-9a-f]{32}\?rule=order-steps-out-of-order)"', html)
    assert link is not None


def test_fails_that_say_the_same_are_one(shop: Site) -> None:
    assert text_of(shop.get("/").text).count("Over budget: 40 calls (limit 25).") == 1


@each(
    ("query", "shown", "left_out"),
    [
        ("agent=crawler", "Over budget", "expected order"),
        ("rule=order-steps-out-of-order", "expected order", "Over budget"),
        ("service=support", "Nothing failed", "Over budget"),
        ("release=1.4.2", "Nothing failed", "Over budget"),
        ("since=2020-01-01T00:00Z&until=2020-01-02T00:00Z", "Nothing failed", "Over budget"),
    ],
)
def test_filters_and_times_are_in_the_address(shop: Site, query: str, shown: str, left_out: str) -> None:
    page = text_of(shop.get(f"/?{query}").text)
    assert shown in page
    assert left_out not in page


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("range=2w", "range: expected one of 1h, 6h, 24h, 7d, 30d, found '2w'"),
        ("since=yesterday", "since: expected a time such as 2026-11-21T08:00:00Z"),
        ("since=2026-01-02&until=2026-01-01", "until: expected a time after since"),
    ],
)
def test_an_address_that_says_nothing_is_refused_with_what_was_expected(shop: Site, query: str, message: str) -> None:
    answer = shop.get(f"/?{query}")
    assert answer.status == 400
    assert message in text_of(answer.text)


def test_a_range_that_moves_with_time_has_an_address_that_does_not(shop: Site) -> None:
    html = shop.get("/?range=1h&agent=crawler").text
    fixed = re.search(r'class="fixed" href="([^"]+)"', html)
    assert fixed is not None
    address = fixed[1].replace("&amp;", "&")
    assert "since=" in address
    assert "until=" in address
    assert "range=" not in address
    assert "Over budget" in text_of(shop.get(address).text)


def test_names_from_traces_are_text_and_nothing_else(shop: Site) -> None:
    html = shop.get("/?service=%3Cscript%3Ealert(1)%3C/script%3E").text
    assert "<script>alert" not in html


def test_nothing_is_asked_of_another_host_and_nothing_is_inline(shop: Site) -> None:
    for path in ("/", "/traces"):
        html = shop.get(path).text
        assert not re.findall(r'(?:src|href|action)="(?:https?:)?//', html)
        assert not re.findall(r"<style|\sstyle=|\son[a-z]+=|<script(?![^>]*\bsrc=)", html)


def test_rules_that_need_no_attention_are_folded_below_those_that_do(shop: Site) -> None:
    html = shop.get("/").text
    needing, _, folded = html.partition('<details class="group">')
    assert ">order-steps-out-of-order</a>" in needing[needing.index('id="rules"') :]
    folded = folded.partition("</details>")[0]
    assert "payment-details-are-never-passed" in folded
    assert 'class="bad"' not in folded


def test_what_could_not_be_judged_is_said_with_its_service_and_why(tmp_path: Path) -> None:
    with serving(tmp_path, str(RULES), config=fleet(tmp_path, time.time_ns())) as site:
        html = site.get("/?tenant=default").text
    assert '<a href="#not-judged">6 could not be judged</a>' in html
    said = text_of(html[html.index('id="not-judged"') :])
    assert "charged-amount" in said
    assert "travel-bot" in said
    assert "× 6" in said
    assert "were not recorded" in said or "was not recorded" in said


def test_counts_lead_to_what_they_count(tmp_path: Path) -> None:
    with serving(tmp_path, str(RULES), config=fleet(tmp_path, time.time_ns())) as site:
        overview = site.get("/?tenant=default").text
        rule = site.get("/rules/charged-amount?tenant=default").text
        link = re.search(r'<a href="([^"]+)">6 not evaluable</a>', rule)
        assert link is not None
        counted = site.get(unescape(link[1])).text
        broken = text_of(site.get("/rules/seat-not-held?tenant=default").text)
    assert re.search(r'<b class="bad"><a href="/alerts\?tenant=default">\d+</a></b>', overview)
    assert re.search(r'<b class="bad"><a href="/traces\?tenant=default&amp;outcome=fail">\d+</a></b>', overview)
    assert counted.count('<th scope="row">') == 6
    assert re.search(r"Fails by agent .* booking travel-bot 1\.2 ", broken)
