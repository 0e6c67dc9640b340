"""The questions of `questions.md`: SQL gives the answers that it has, and a walk over the page shows them."""

import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from build.browser import browser
from build.fleet import RULES, fleet, trace_id
from build.site import Site, serving
from tracegrade.codec.kept_spans import trace_of
from tracegrade.store.read import stored_traces

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


class Question(NamedTuple):
    text: str
    sql: str
    answer: str
    words: str


_WRITTEN = re.compile(
    r"### (\d+\. .*?)\n\n```sql\n(.*?);\n```\n\n```text\n(.*?)\n```\n(?:\nIn the trace: `([^`]*)`\n)?", re.DOTALL
)
QUESTIONS = [Question(*found) for found in _WRITTEN.findall(Path(__file__).with_name("questions.md").read_text())]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder: Path = tmp_path_factory.mktemp("fleet")
    with serving(folder, str(RULES), config=fleet(folder, time.time_ns())) as served:
        yield served


def test_there_are_twenty_questions() -> None:
    assert [int(question.text.partition(".")[0]) for question in QUESTIONS] == list(range(1, 21))


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.text.partition(".")[0])
def test_sql_gives_the_answer(site: Site, question: Question) -> None:
    with closing(sqlite3.connect(site.config.data_path / "tracegrade.db")) as store:
        rows = store.execute(question.sql).fetchall()
    lines = [" | ".join("" if value is None else str(value) for value in row).rstrip() for row in rows]
    assert "\n".join(lines) == question.answer
    if question.words:
        with site.store() as connection:
            (stored,) = (
                item for item in stored_traces(connection, bytes.fromhex(lines[0])) if item.trace.tenant == "default"
            )
        held = [str(value).replace("\\", "") for span in trace_of(stored).spans for value in span.attributes.values()]
        assert any(question.words in value for value in held)


def _click(name: str, within: str = "main") -> Callable[["Page"], None]:
    return lambda page: page.locator(within).get_by_role("link", name=name).first.click()


def _find(name: str) -> Callable[["Page"], None]:
    """Write a name into the box, as a reader who knows it does."""

    def find(page: "Page") -> None:
        page.locator("input[name=q]").fill(name)
        page.keyboard.press("Enter")

    return find


def _filtered(**chosen: str) -> Callable[["Page"], None]:
    def choose(page: "Page") -> None:
        if (folded := page.locator("details.filter > summary")).count():
            folded.click()
        for name, value in chosen.items():
            field = page.locator(f"form.filters [name={name}]")
            if field.evaluate("element => element.tagName") == "SELECT":
                field.select_option(value)
            else:
                field.fill(value)
        page.get_by_role("button", name="Apply").click()

    return choose


_TRACES = _click("Traces", "nav[aria-label=Sections]")
_SESSION = _click("trip-3", "main .facts")

# By question: the steps from the overview on, each to another address; and what the reader sees there, in this order.
WALKS: dict[int, tuple[list[Callable[["Page"], None]], list[str]]] = {
    1: ([_filtered(rule="seat-not-held", tenant="default")], [r"travel-bot 1\.1 .*10 +20"]),
    2: ([_find(trace_id(45))], ["gpt-4o", r"cost 0\.055"]),
    3: ([], ["Agent payout at claims-bot has sent no results"]),
    4: ([_click("Agent payout at claims-bot")], ["pager firing", "chat not yet ! answered 503"]),
    5: ([_click("charge-failed", "#failures")], ["fail charge-failed", "charge_card", "CardExpired"]),
    6: (
        [_filtered(tenant="default"), _click("6 could not be judged")],
        ["not evaluable charged-amount", "× 6", "booking · travel-bot"],
    ),
    7: ([_find(trace_id(45))], [r"search_flights 9 s"]),
    8: ([_TRACES, _click("Cost")], [trace_id(60), trace_id(59), trace_id(58)]),
    9: ([_TRACES, _filtered(service="travel-bot", duration="5..")], ["20 traces"]),
    10: ([], ["seat-not-held .* 63 10 100", "charge-failed .* 63 1 100"]),
    11: ([_find(trace_id(18)), _SESSION], ["Book order 16: to Oslo, window seat, for default."]),
    12: ([_find(trace_id(17))], ["assistant Order 17 is booked and paid. Have a good flight!"]),
    13: ([_find(trace_id(17))], ['charge_card .*{"amount":117,"order":17}']),
    14: ([_find(trace_id(22))], ["missing: hold_seat"]),
    15: ([_find(trace_id(22))], ["transfer_to_booking", "search_flights", "charge_card", "Spans"]),
    16: ([_find(trace_id(22))], ["You book flights. Hold a seat before you charge a card."]),
    17: ([_find(trace_id(45))], ["4.500 → 250 tokens"]),
    18: (
        [_find(trace_id(22)), _click("A passing run beside this one")],
        ["No trace with the same prompt", trace_id(60)],
    ),
    19: ([_find(trace_id(17)), _SESSION], ["5 turns", r"2\. invoke_agent router .*charge-failed", trace_id(17)]),
    20: (
        [_filtered(tenant="default"), _click("6 could not be judged"), _click("All traces that could not be judged")],
        [trace_id(order) for order in (60, 50, 40, 30, 20, 10)],
    ),
}


@pytest.fixture(scope="module")
def chrome() -> Iterator["Browser"]:
    with browser() as started:
        yield started


@pytest.mark.long
@pytest.mark.parametrize("number", WALKS)
def test_the_page_answers_in_at_most_four_addresses(site: Site, chrome: "Browser", number: int) -> None:
    steps, sights = WALKS[number]
    page = chrome.new_page()
    opened: list[str] = []
    page.on("framenavigated", lambda frame: opened.append(frame.url))
    page.goto(site.url)
    for step in steps:
        before = page.url
        step(page)
        page.wait_for_url(lambda url, before=before: url != before)  # type: ignore[misc]
    page.evaluate("document.querySelectorAll('details').forEach(element => { element.open = true; })")
    ids = " ".join(re.findall(r"/traces/([0-9a-f]{32})", page.locator("main").inner_html()))
    shown = " ".join(f"{page.locator('main').inner_text()} {ids}".split())
    place = 0
    for sight in sights:
        found = re.compile(sight).search(shown, place)
        assert found is not None, (sight, shown)
        place = found.start()
    assert len(dict.fromkeys(opened)) <= 4, opened
    page.close()
