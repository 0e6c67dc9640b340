"""The page that compares two sides, and two traces side by side."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from build import each
from build.api import trace_id
from build.asgi import call
from build.shop import GOOD, HOUR, SECOND, UNFINISHED, WRONG_ORDER, WRONG_QUANTITY, fill, order
from build.shop_runs import store_run
from build.site import Site, rows_of, serving, text_of
from tracegrade.access.caller import Caller
from tracegrade.compare.shares import Difference
from tracegrade.compare.web.comparing import Comparing
from tracegrade.compare.web.pages.compare import IntervalScale, interval_chart, scale_for
from tracegrade.web import rights
from tracegrade.web.app import build_app
from tracegrade.web.own_process import Busy

pytestmark = pytest.mark.usefixtures("work_done_here")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Two runs over the same 30 orders, of which the second went wrong in 15; and one order judged live."""
    folder: Path = tmp_path_factory.mktemp("compare")
    now_ns = time.time_ns() - HOUR
    with serving(folder) as served:
        served.rules = fill(folder, iter([(order(1, now_ns, "1.4.2", WRONG_ORDER), None)]))
        store_run(folder, served.rules, "prompts/1", [GOOD] * 30, now_ns, first=101)
        worse = [WRONG_QUANTITY] * 10 + [UNFINISHED] * 5 + [GOOD] * 15
        store_run(folder, served.rules, "prompts/2", worse, now_ns + SECOND, first=101)
        yield served


def test_the_form_offers_what_there_is(site: Site) -> None:
    html = site.get("/compare").text
    sides = re.findall(r'<select name="([ab])" required>(.*?)</select>', html, re.DOTALL)
    assert [name for name, _ in sides] == ["a", "b"]
    for _, options in sides:
        offered = re.findall(r'<option value="([^"]+)"', options)
        assert offered == ["live", "release:1.4.2", "agent:order-agent", "prompts/2", "prompts/1"]
    assert 'id="verdict"' not in html


def test_the_form_keeps_what_was_chosen_also_what_it_does_not_offer(site: Site) -> None:
    html = site.get("/compare?a=live&a_time=14d..7d&b=model:x@2026-11-01..").text
    chosen = re.findall(r"<option(?: value=\"[^\"]*\")? selected>([^<]*)", html)
    assert chosen == ["all that was judged live", "the 7 days before", "model:x", "2026-11-01.."]


def test_a_time_that_is_chosen_in_the_form_is_that_of_the_side(site: Site) -> None:
    answer = site.get("/compare?a=prompts/1&b=live&b_time=7d..")
    assert "B live@7d.. against A prompts/1" in text_of(answer.text)
    old = site.get("/compare?a=prompts/1&b=live&b_time=14d..7d")
    assert (old.status, "live@14d..7d: no result in this time" in text_of(old.text)) == (409, True)


def test_pages_of_experiments_and_runs_lead_here(site: Site) -> None:
    for path in ("/experiments/prompts", "/runs/prompts/2"):
        assert "/compare?a=prompts%2F1&amp;b=prompts%2F2&amp;tenant=default" in site.get(path).text, path


def test_a_quick_comparison_says_the_verdict_of_each_rule_and_leads_to_the_full_one(site: Site) -> None:
    html = site.get("/compare?a=prompts/1&b=prompts/2&margin=3").text
    assert "Worse: 1 rule worse" in text_of(html)
    row = rows_of(html)["order-differs-from-request"]
    assert row.startswith("order-differs-from-request ✗ worse 100.00% 50.00% −50.00")
    assert "a fall by 3 points" in text_of(html)
    assert 'href="/compare?a=prompts%2F1&amp;b=prompts%2F2&amp;margin=3&amp;full=1"' in html
    assert "side by side" not in html


def test_a_full_one_shows_pairs_measures_and_behaviour_with_links(site: Site) -> None:
    html = site.get("/compare?a=prompts/1&b=prompts/2&full=1").text
    text = text_of(html)
    assert "15 worse, 0 better of 30 pairs by trace" in text
    assert "✗ passes on A, fails on B 15" in text
    assert "and 5 more" in text
    changed = re.findall(r'href="(/compare/traces\?[^"]*)">side by side', html)
    assert changed[0].startswith("/compare/traces?a=a1")
    assert changed[0].endswith("&amp;run_a=prompts%2F1&amp;run_b=prompts%2F2")
    assert "notify_sales + new" in text
    assert "duration, s" in text
    assert "validate_user, check_inventory, notify_sales, create_order" in text
    assert 'href="/runs/prompts/2"' in html


def test_a_difference_is_drawn_to_scale_and_said() -> None:
    drawn = interval_chart(Difference(-0.05, -0.08, -0.02, 0.01, "mcnemar"), IntervalScale(0.1, 0.02))
    assert 'aria-label="Difference -5.00 points, 95 % interval -8.00 to -2.00; the margin is at -2.00"' in drawn
    assert '<circle class="dot" cx="25.00%"' in drawn  # -0.05 of -0.1..0.1
    assert '<line class="margin" x1="40.00%"' in drawn
    assert '<line class="interval" x1="10.00%" x2="40.00%"' in drawn


def test_one_large_difference_is_cut_off_so_that_small_ones_stay_readable() -> None:
    small, large = Difference(-0.005, -0.01, 0.0, 0.5, "mcnemar"), Difference(-0.5, -0.6, -0.4, 0.01, "mcnemar")
    scale = scale_for([small, small, large], 0.02)
    assert scale.reach < 0.1
    drawn = interval_chart(large, scale)
    assert "◂ −60.00</text>" in drawn
    assert "−40.00</text>" in drawn
    assert 'class="dot"' not in drawn
    assert "95 % interval -60.00 to -40.00" in drawn
    assert 'class="cut"' not in interval_chart(small, scale)
    assert scale_for([large, large], 0.02).reach > 0.6
    assert scale_for([], 0.02).reach > 0.02


@each(
    ("query", "status", "said"),
    [
        ("a=prompts/1&b=prompts/1", 409, "A and B are the same"),
        ("a=prompts/1&b=promts/2", 409, "did you mean 'prompts/2'"),
        ("a=model:x&b=live", 409, "compare in full, not rates alone. Compare in full"),
        ("a=prompts/1&b=prompts/2&margin=x", 400, "margin: expected points from 0 to 100, found 'x'"),
        ("a=prompts/1&b=prompts/2&margin=nan", 400, "margin: expected points from 0 to 100"),
        ("a=live&b=prompts/2&since=soon", 400, "since: expected a time such as"),
        ("a=live@2d..&b=prompts/2&since=3d", 409, "'live@2d..': since and until name another time"),
        ("a=<script>&b=live", 409, "no run '<script>' in the store"),
        ("a=prompts/1&b=prompts/2&tenant=other", 409, "no result of tenant 'other'"),
    ],
)
def test_what_cannot_be_compared_is_said(site: Site, query: str, status: int, said: str) -> None:
    answer = site.get(f"/compare?{query}")
    assert answer.status == status
    assert said in text_of(answer.text)
    assert "<script>&" not in answer.text


def test_a_busy_page_says_when_to_try_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*_: object) -> None:
        raise Busy("another full comparison is being made; try again in a moment")

    monkeypatch.setattr(Comparing, "compare", busy)
    answer = site.get("/compare?a=prompts/1&b=prompts/2&full=1")
    assert (answer.status, answer.headers["retry-after"]) == (503, "5")
    assert "another full comparison" in text_of(answer.text)


def test_two_traces_are_shown_call_by_call(site: Site) -> None:
    address = f"/compare/traces?a={trace_id(101)}&b={trace_id(101)}&run_a=prompts/1&run_b=prompts/2"
    html = site.get(address).text
    text = text_of(html)
    assert "= 2 the same ≠ 1 other arguments + 1 only on B" in text
    assert rows_of(html)["order-differs-from-request"].startswith("order-differs-from-request ✓ 1 pass ✗ 1 fail")
    assert re.search(r"<code>qty</code>.*?<code>2</code>.*?<code>5</code>", html, re.DOTALL)
    swapped = re.search(r'href="([^"]*)">Swap', html)
    assert swapped is not None
    assert "− 1 only on A" in text_of(site.get(swapped[1].replace("&amp;", "&")).text)


@each(
    ("query", "status", "said"),
    [
        ("a=ab", 404, "or the first 4 or more of a trace in the store"),
        (f"a={trace_id(101)}", 404, "not in the store"),
        (f"a={trace_id(1)}", 400, "b: expected a trace id, found nothing"),
        (f"a={trace_id(101)}&run_a=promts/1", 404, "no run 'promts/1'"),
        (f"a={trace_id(101)}&run_a=prompts/1&tenant=other", 404, "no such trace"),
    ],
)
def test_traces_that_are_not_there_are_named(site: Site, query: str, status: int, said: str) -> None:
    answer = site.get(f"/compare/traces?{query}")
    assert answer.status == status
    assert said in text_of(answer.text)


def test_values_are_for_those_who_may_see_them(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"/compare/traces?a={trace_id(101)}&b={trace_id(101)}&run_a=prompts/1&run_b=prompts/2"
    assert b"A-1" in call(build_app(site.sources), "GET", address).body
    monkeypatch.setattr(rights, "KNOWN", Caller(frozenset({"read"})))
    hidden = call(build_app(site.sources), "GET", address).body
    assert b"A-1" not in hidden
    assert b"values are hidden" in hidden
