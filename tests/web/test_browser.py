"""The page as people use it, in a real browser."""

import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from build.browser import axe, browser
from build.shop import GOOD, SECOND, WRONG_ORDER, WRONG_QUANTITY, fill, order
from build.shop_incidents import fall, over, store, store_waiting
from build.shop_runs import store_run
from build.site import Site
from tracegrade.alert.noting import Author, acknowledge, comment, own
from tracegrade.model.session import session_trace_id
from tracegrade.suites.keeping import add_suite
from tracegrade.suites.web.api.suites import EXAMPLE

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FAILING = f"/traces/a1{1:030x}"
PATHS = (
    "/",
    "/?agent=nobody",
    "/traces",
    "/traces?outcome=fail&sort=duration&columns=prompt&columns=release&columns=cost",
    FAILING,
    f"{FAILING}/spans/{(1 << 20) + 3:016x}",
    f"/traces/a1{3:030x}",
    f"/traces/a1{7:030x}",
    "/sessions",
    f"/sessions/{session_trace_id('default', 'talk').hex()}",
    "/find?q=order",
    "/find?q=nothing-has-this-name",
    "/rules",
    "/rules/order-steps-out-of-order",
    "/alerts",
    "/ingest",
    "/nowhere",
)


RUNS = (
    "/experiments",
    "/experiments/prompts",
    "/runs/prompts/2",
    "/traces?run=prompts/2",
    "/compare",
    "/compare?a=prompts/1&b=prompts/2&full=1",
    f"/compare/traces?a=a1{201:030x}&b=a1{201:030x}&run_a=prompts/1&run_b=prompts/2",
)


@pytest.fixture(scope="module")
def shop_with_runs(shop: Site) -> Site:
    """The shop, and two runs over the same orders."""
    folder, now_ns = shop.config.data_path, time.time_ns() - 1000 * SECOND
    store_run(folder, shop.rules, "prompts/1", [GOOD] * 6, now_ns, first=201, labels={"prompt": "v1"})
    worse = [WRONG_QUANTITY] * 4 + [GOOD] * 2
    store_run(folder, shop.rules, "prompts/2", worse, now_ns + SECOND, first=201, labels={"prompt": "v" * 80})
    return shop


def _paths(shop: Site) -> list[str]:
    """The addresses of all pages, with an incident among them."""
    members = fall(shop.rules, time.time_ns(), 3.0)
    firing = store(shop.config.data_path, members, silenced=True)
    store_waiting(shop.config.data_path, time.time_ns())
    act(shop.store_url, firing.id)
    silences = (f"/silences/new?incident={firing.id}", "/silences/new?service=shoop", "/silences/new")
    return [*PATHS, *RUNS, *_suite_paths(shop), f"/incidents/{firing.id}", *silences]


def act(url: str, incident_id: str) -> None:
    """What people do about an incident: they acknowledge it, own it, and say much in one word."""
    author, now_ns = Author("local", None, lambda text, tenant: text, lambda text, tenant: text), time.time_ns()
    acknowledge(url, incident_id, author, now_ns)
    own(url, incident_id, author, now_ns)
    comment(url, incident_id, author, "a-lock-" * 40, now_ns)


def _suite_paths(shop: Site) -> list[str]:
    """The pages of a suite with everything that a case may have."""
    case = {"prompt": "x" * 80, "expected_tool": ["get_weather", "x" * 60], "expected_params": {"town": "x" * 200}}
    example = json.loads(EXAMPLE.read_text(encoding="utf-8"))
    example["test_cases"].append(case)
    suite = f"/suites/{add_suite(shop.config.store_url, 'default', example, time.time_ns()).suite.id}"
    pages = ["/suites", "/suites/new", "/suites/import", "/suites/import-mcp"]
    return [*pages, suite, f"{suite}/edit", f"{suite}/new-case", f"{suite}/cases/tower"]


@pytest.fixture(scope="module")
def chrome() -> "Iterator[Browser]":
    with browser() as started:
        yield started


@pytest.fixture
def page(chrome: "Browser") -> "Iterator[Page]":
    """A page that must have nothing to complain of."""
    opened = chrome.new_page(viewport={"width": 1280, "height": 900})
    troubles: list[str] = []
    opened.on("console", lambda said: troubles.append(said.text) if said.type in ("error", "warning") else None)
    opened.on("pageerror", lambda error: troubles.append(str(error)))
    yield opened
    opened.close()
    assert not [item for item in troubles if "404 (Not Found)" not in item]  # one of the addresses is nowhere


def test_from_the_overview_to_a_failing_trace_to_what_differs(shop: Site, page: "Page") -> None:
    page.goto(shop.url)
    page.locator("#failures").get_by_role("link", name="order-steps-out-of-order").click()
    page.wait_for_url(f"**{FAILING}?rule=*")
    row = page.get_by_role("row", name="out of order").filter(has_text="create_order").first
    assert row.is_visible()
    page.goto(f"{shop.url}/traces/a1{7:030x}")
    diff = page.locator(".diff").first
    assert diff.get_by_role("rowheader", name="qty different").is_visible()
    assert diff.locator("tr", has_text="qty").locator("td").all_inner_texts() == ["2", "5"]


def test_an_incident_is_opened_read_and_accepted(shop: Site, page: "Page") -> None:
    folder = shop.config.data_path
    firing = store(folder, fall(shop.rules, time.time_ns(), 3.0))
    page.goto(f"{shop.url}/alerts")
    page.get_by_role("link", name="pass rate fell from 97.2% to 78.4%").click()
    page.wait_for_url(f"**/incidents/{firing.id}")
    assert page.get_by_role("heading", level=1).inner_text().endswith("(+2 alerts)")
    said = page.locator("#curve svg.curve").get_attribute("aria-label")
    assert said is not None
    assert said.startswith("Pass rate from")
    assert page.locator("#curve svg.curve text.found").is_visible()
    page.get_by_text("The values as a table").click()
    assert page.get_by_role("region", name="Values as a table").get_by_role("row").count() > 1
    assert page.locator("#members li").count() == 3
    page.get_by_role("button", name="Accept this level as normal").click()
    page.get_by_text("Accepted at").wait_for()
    assert page.url.endswith(f"/incidents/{firing.id}")
    assert page.get_by_role("button", name="Accept this level as normal").count() == 0


@pytest.mark.parametrize("scripts", [True, False])
def test_from_a_notification_to_a_silence_are_two_touches_on_a_telephone(
    shop: Site, chrome: "Browser", scripts: bool
) -> None:
    firing = store(shop.config.data_path, [fall(shop.rules, time.time_ns(), 3.0)[2 if scripts else 0]])
    context = chrome.new_context(
        viewport={"width": 400, "height": 800}, has_touch=True, is_mobile=True, java_script_enabled=scripts
    )
    opened = context.new_page()
    opened.goto(f"{shop.url}/incidents/{firing.id}")
    for role, name in (("link", "Silence"), ("button", "Silence")):
        touched = opened.get_by_role(role, name=name, exact=True)  # type: ignore[arg-type]
        touched.wait_for()
        box = touched.bounding_box()
        assert box is not None
        assert min(box["width"], box["height"]) >= 44, name
        assert box["y"] + box["height"] < 800, "it is seen without scrolling"
        touched.tap()
    opened.wait_for_url(f"**/incidents/{firing.id}")
    assert opened.get_by_text("silenced until").first.is_visible()
    opened.get_by_role("button", name="End the silence").tap()
    opened.get_by_role("link", name="Silence", exact=True).wait_for()
    context.close()


def test_what_somebody_types_stays_while_the_page_brings_in_what_is_new(shop: Site, page: "Page") -> None:
    firing = store(shop.config.data_path, fall(shop.rules, time.time_ns(), 3.0))
    page.goto(f"{shop.url}/incidents/{firing.id}")
    page.locator("#text").fill("not sent yet")
    page.get_by_role("heading", level=1).click()  # it has the focus no more
    page.wait_for_function("document.getElementById('live-state') !== null")
    page.wait_for_timeout(1500)  # the stream has begun
    author = Author("somebody else", None, lambda text, tenant: text, lambda text, tenant: text)
    own(shop.store_url, firing.id, author, time.time_ns())
    page.get_by_text("Owned by somebody else").wait_for()
    assert page.locator("#text").input_value() == "not sent yet"


def test_from_an_experiment_to_what_a_run_called_otherwise(shop_with_runs: Site, page: "Page") -> None:
    site = shop_with_runs
    page.goto(site.url)
    page.get_by_role("link", name="Tests").click()
    page.get_by_role("link", name="Experiments").first.click()
    page.get_by_role("link", name="prompts", exact=True).click()
    assert "the best prompts/1 1.0000" in (page.locator("svg.scores").get_attribute("aria-label") or "")
    page.get_by_role("button", name="Pin prompts/2 as baseline").click()
    page.get_by_text(", pinned").wait_for()
    page.get_by_role("button", name="Unpin prompts/2").click()
    page.get_by_text(", the first with a score").wait_for()
    page.locator("#runs").get_by_role("link", name="prompts/2", exact=True).click()
    page.get_by_label("One a line, KEY=VALUE").fill("prompt=v2\nmodel=m-2")
    page.get_by_role("button", name="Save labels").click()
    page.wait_for_url("**/runs/prompts/2")
    assert page.get_by_label("One a line, KEY=VALUE").input_value() == "model=m-2\nprompt=v2"
    page.get_by_role("link", name="Compare with the baseline prompts/1").click()
    page.get_by_label("in full").check()
    page.get_by_role("button", name="Compare", exact=True).click()
    page.get_by_role("heading", name="What changed, pair by pair").wait_for()
    page.get_by_role("link", name="side by side").first.click()
    page.get_by_role("heading", name="Two traces side by side").wait_for()
    diff = page.locator(".diff").first
    assert diff.locator("tr", has_text="qty").locator("td").all_inner_texts() == ["2", "5"]


def test_the_end_of_an_incident_appears_without_a_reload(shop: Site, page: "Page") -> None:
    members = [
        replace(alert, fingerprint=f"{place:032x}") for place, alert in enumerate(fall(shop.rules, time.time_ns(), 3.0))
    ]
    firing = store(shop.config.data_path, members)
    page.goto(f"{shop.url}/incidents/{firing.id}")
    page.evaluate("window.unchanged = true")
    page.locator("#what").get_by_text("firing").wait_for()
    page.wait_for_function("document.getElementById('live').hidden === false")
    store(shop.config.data_path, [over(alert, time.time_ns()) for alert in members])
    page.locator("#what").get_by_text("release replaced").wait_for(timeout=600_000)
    assert page.evaluate("window.unchanged")


def test_new_results_appear_without_a_reload(shop: Site, page: "Page") -> None:
    page.goto(f"{shop.url}/traces?service=shop&range=1h")
    page.evaluate("window.unchanged = true")
    before = page.locator("tbody tr").count()
    number = 100 + int(time.time()) % 1_000_000
    fill(
        shop.config.data_path,
        iter([(order(number, time.time_ns() - 5 * SECOND, "1.5.0", WRONG_ORDER), None)]),
        shop.rules,
    )
    page.locator("tbody tr").nth(before).wait_for(timeout=600_000)
    assert page.evaluate("window.unchanged")
    assert re.fullmatch(r"updated \d\d:\d\d:\d\d UTC", page.locator("#live-state").inner_text())


def test_live_updates_can_be_paused(shop: Site, page: "Page") -> None:
    page.goto(shop.url)
    button = page.get_by_role("button", name="Live")
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert page.locator("#live-state").inner_text() == "paused"


def test_what_was_chosen_is_in_the_address_and_can_be_shared(shop: Site, page: "Page", chrome: "Browser") -> None:
    page.goto(shop.url)
    page.locator("select[name=agent]").select_option("crawler")
    page.get_by_role("button", name="Apply").click()
    page.get_by_role("link", name="6h").click()
    assert "agent=crawler" in page.url
    assert "range=6h" in page.url
    other = chrome.new_context().new_page()
    other.goto(page.url)
    names = "#failures li > a"  # not how long ago they failed
    assert other.locator(names).all_inner_texts() == page.locator(names).all_inner_texts() != []
    assert "Over budget" in other.locator("#failures").inner_text()
    other.context.close()


# What can be touched, and is less than 44 px wide or high. Links within a sentence are as high as its lines.
SMALL = """() => {
  const inSentence = (element) => getComputedStyle(element).display === "inline" &&
    [...element.parentElement.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
  const touched = "a[href], button, input:not([type=hidden]), select, textarea, summary";
  return [...document.querySelectorAll(touched)].filter((element) => {
    if (element.closest("svg, .skip") || !element.checkVisibility() || inSentence(element)) return false;
    const { width, height } = (element.closest("label") ?? element).getBoundingClientRect();
    return width && (width < 43.5 || height < 43.5);
  }).map((element) => element.outerHTML.slice(0, 200));
}"""


BEYOND = """[...document.querySelectorAll("main *")].filter((element) => !element.closest(".scroll") &&
  element.getBoundingClientRect().right > innerWidth + 1).map((element) => element.outerHTML.slice(0, 200))"""


@pytest.mark.parametrize("width", [320, 400, 768, 1280, 1920])
def test_every_page_fits_every_width(shop_with_runs: Site, page: "Page", width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    small = {}
    for path in _paths(shop_with_runs):
        page.goto(shop_with_runs.url + path)
        if width >= 400:
            page.evaluate("document.querySelectorAll('details').forEach(element => { element.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, (path, page.evaluate(BEYOND))
        small[path] = page.evaluate(SMALL) if width == 400 else []
    assert not {path: found for path, found in small.items() if found}


def test_dark_and_light_follow_the_system(shop: Site, chrome: "Browser") -> None:
    seen = set()
    for scheme in ("light", "dark"):
        opened = chrome.new_page(color_scheme=scheme)
        opened.goto(shop.url)
        seen.add(opened.evaluate("getComputedStyle(document.body).backgroundColor"))
        opened.close()
    assert len(seen) == 2


def test_the_keyboard_is_enough(shop: Site, page: "Page") -> None:
    page.goto(shop.url + FAILING)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    passed = page.locator("details.group").first
    assert not passed.evaluate("element => element.open")
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('details.group > summary')"):
            break
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    page.keyboard.press("Enter")
    assert passed.evaluate("element => element.open")
    assert outline == "solid"


def test_keys_lead_through_a_list_and_its_traces_and_close_a_span(shop: Site, page: "Page") -> None:
    page.goto(f"{shop.url}/traces?service=shop")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    first = page.evaluate("document.activeElement.href")
    assert first == page.locator("tbody th a").first.evaluate("element => element.href")
    page.keyboard.press("Enter")
    page.wait_for_url(first)
    page.keyboard.press("j")
    page.wait_for_url(lambda url: url not in (first, f"{shop.url}/traces?service=shop"))
    page.keyboard.press("k")
    page.wait_for_url(first)
    page.locator(".waterfall a").nth(1).click()
    page.wait_for_url("**/spans/*")
    assert page.locator("#span").is_visible()
    page.keyboard.press("Escape")
    page.wait_for_url(first)
    page.keyboard.press("/")
    page.keyboard.type("order-differs")
    page.keyboard.press("Enter")
    page.wait_for_url("**/rules/order-differs-from-request")


def test_an_id_is_copied(shop: Site, chrome: "Browser") -> None:
    context = chrome.new_context(permissions=["clipboard-read", "clipboard-write"])
    opened = context.new_page()
    opened.goto(shop.url + FAILING)
    opened.get_by_role("button", name="Copy the trace id").click()
    opened.get_by_role("button", name="Copied").wait_for()
    assert opened.evaluate("navigator.clipboard.readText()") == FAILING.removeprefix("/traces/")
    context.close()


def test_times_are_utc_in_the_source_and_the_readers_on_the_screen(shop: Site, chrome: "Browser") -> None:
    source = re.search(r'<time datetime="([^"]+)"', shop.get(f"/traces{FAILING.removeprefix('/traces')}").text)
    assert source is not None
    at = datetime.strptime(source[1], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)  # RFC 3339
    for days, shown in ((0, r"just now|\d+ (min|h) ago"), (3, f"{at.year}.* (?!{at:%H})\\d+:")):
        context = chrome.new_context(timezone_id="Asia/Tokyo", locale="en-GB")
        opened = context.new_page()
        opened.clock.install(time=at + timedelta(days=days, minutes=5))
        opened.goto(shop.url + FAILING)
        time_shown = opened.locator("time").first
        assert re.search(shown, time_shown.inner_text()), time_shown.inner_text()
        assert f"{at:%Y-%m-%d %H:%M:%S} UTC" in (time_shown.get_attribute("title") or "")
        assert not opened.locator(".utc").first.is_visible()
        assert opened.locator("header .zone").first.inner_text() == "Asia/Tokyo"
        context.close()


def test_on_a_telephone_the_head_is_one_row_with_a_menu(shop: Site, chrome: "Browser") -> None:
    context = chrome.new_context(java_script_enabled=False, viewport={"width": 400, "height": 800})
    opened = context.new_page()
    opened.goto(shop.url)
    assert (opened.locator("header.top").bounding_box() or {})["height"] <= 56
    link = opened.get_by_role("link", name="Alerts", exact=True)
    assert not link.is_visible()
    opened.get_by_text("Menu", exact=True).click()
    link.click()
    assert opened.url == f"{shop.url}/alerts"
    context.close()


def test_the_columns_chosen_are_remembered(shop: Site, chrome: "Browser") -> None:
    context = chrome.new_context()
    opened = context.new_page()
    opened.goto(f"{shop.url}/traces")
    opened.get_by_text("Filter and columns").click()
    opened.get_by_label("Spans", exact=True).check()
    opened.get_by_role("button", name="Apply").click()
    opened.goto(f"{shop.url}/traces")
    assert "Spans" in opened.locator("thead").inner_text()
    context.close()


def test_it_works_without_the_script(shop: Site, chrome: "Browser") -> None:
    context = chrome.new_context(java_script_enabled=False)
    opened = context.new_page()
    opened.goto(shop.url)
    assert not opened.locator("#live").is_visible()
    opened.locator("select[name=agent]").select_option("crawler")
    opened.get_by_role("button", name="Apply").click()
    assert "Over budget" in opened.locator("#failures").inner_text()
    context.close()


def test_nothing_is_asked_of_anybody_else_and_nothing_is_complained_of(shop_with_runs: Site, page: "Page") -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for path in _paths(shop_with_runs):
        page.goto(shop_with_runs.url + path)
    assert asked
    assert all(url.startswith(shop_with_runs.url) for url in asked)


AXE = """axe.run({runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice"]})
    .then((found) => found.violations)"""


@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(shop_with_runs: Site, chrome: "Browser", scheme: Any, width: int) -> None:
    script = axe()
    opened = chrome.new_page(color_scheme=scheme, viewport={"width": width, "height": 900})
    found = {}
    for path in _paths(shop_with_runs):
        opened.goto(shop_with_runs.url + path)
        opened.evaluate("document.querySelectorAll('details').forEach(element => { element.open = true; })")
        opened.evaluate(script)
        for item in opened.evaluate(AXE):
            found[path, item["id"]] = [node["html"] for node in item["nodes"]][:3]
    opened.close()
    assert found == {}
