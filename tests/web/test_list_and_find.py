"""The list of traces by what they took, the way through it, the box that finds names, and a passing run beside."""

import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from html import unescape
from pathlib import Path
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest

from build import each
from build.fleet import PRICES, RULES, fleet, fleet_order, prices, trace_id
from build.shop import fill
from build.site import Site, serving, text_of
from tracegrade.config import Config
from tracegrade.rule.load import load_rules
from tracegrade.web.pages.traces import short_ids

_COST = "sum(c.input_tokens * 10 + c.output_tokens * 40)"
_TOKENS = "sum(c.input_tokens + c.output_tokens)"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder: Path = tmp_path_factory.mktemp("fleet")
    with serving(folder, str(RULES), config=fleet(folder, time.time_ns())) as served:
        yield served


@pytest.fixture
def sql(site: Site) -> Callable[[str], list[str]]:
    """The trace ids that a query gives, in its order."""

    def ask(query: str) -> list[str]:
        with closing(sqlite3.connect(site.config.data_path / "tracegrade.db")) as store:
            return [row[0] for row in store.execute(query)]

    return ask


def _listed(html: str) -> list[str]:
    return re.findall(r'<th scope="row"><a href="/traces/([0-9a-f]{32})', html)


def _whole(site: Site, query: str) -> list[str]:
    """All traces of a list, page by page."""
    found, address = [], f"/traces?tenant=default&{query}"
    while address:
        html = site.get(address).text
        found += _listed(html)
        older = re.search(r'<a href="([^"]+)" rel="next"', html)
        address = unescape(older[1]) if older else ""
    return found


_TRACES = "FROM traces AS t {} WHERE t.tenant = 'default' AND t.members IS NULL {} GROUP BY t.number ORDER BY {}"
_RUNS = "JOIN agent_runs AS c ON c.trace = t.number"


@each(
    ("query", "joined", "where", "order"),
    [
        ("sort=duration", "", "", "t.end_ns - t.start_ns DESC, t.number DESC"),
        ("sort=duration.asc", "", "", "t.end_ns - t.start_ns, t.number"),
        ("sort=started", "", "", "t.start_ns DESC, t.number DESC"),
        ("sort=started.asc", "", "", "t.start_ns, t.number"),
        ("sort=calls", "", "", "t.call_count DESC, t.number DESC"),
        ("sort=tokens", _RUNS, "", f"{_TOKENS} DESC, t.number DESC"),
        ("duration=5..", "", "AND t.end_ns - t.start_ns >= 5000000000", "t.number DESC"),
        ("duration=..5&calls=4", "", "AND t.end_ns - t.start_ns <= 5000000000 AND t.call_count >= 4", "t.number DESC"),
        ("calls=1..3&service=travel-bot", "", "AND t.call_count < 4 AND t.service = 'travel-bot'", "t.number DESC"),
        ("close_reason=settled&session=trip-3", "", "AND t.session = 'trip-3'", "t.number DESC"),
        ("close_reason=idle", "", "AND t.close_reason = 'idle'", "t.number DESC"),
        ("cost=0.05..", _RUNS, "AND c.model = 'gpt-4o'", "t.number DESC"),
        ("cost=0.05..&sort=cost", _RUNS, "AND c.model = 'gpt-4o'", f"{_COST} DESC, t.number DESC"),
    ],
)
def test_the_list_is_what_sql_gives(
    site: Site, sql: Callable[[str], list[str]], query: str, joined: str, where: str, order: str
) -> None:
    wanted = sql(f"SELECT lower(hex(t.trace_id)) {_TRACES.format(joined, where, order)}")
    assert _whole(site, query) == wanted
    assert wanted or "idle" in query


def test_what_fails_most_comes_first(site: Site) -> None:
    listed = _whole(site, "sort=outcome&service=travel-bot")
    assert set(listed[:11]) == set(_whole(site, "outcome=fail"))
    assert set(listed[11:15]) == {trace_id(order) for order in (10, 20, 50, 60)}  # 30 and 40 fail, too


def test_a_cost_that_is_not_known_is_empty_and_comes_last(tmp_path: Path) -> None:
    orders = iter([(fleet_order(order), None) for order in (17, 45)])
    fill(tmp_path, orders, load_rules([str(RULES)]), cost_of=prices("gpt-4o"))
    later = {"traces": {"prices": {model: {"input": 900, "output": 900} for model in PRICES}}}  # they change no cost
    config = Config.model_validate({"data_dir": str(tmp_path), **later})
    with serving(tmp_path, config=config) as site:
        always = "since=1970-01-01T00:00:00Z&columns=cost"
        for sort, first in (("cost", 45), ("cost.asc", 45)):
            html = site.get(f"/traces?{always}&sort={sort}").text
            assert _listed(html)[0] == trace_id(first)
        assert re.findall(r'<td class="num">\s*(.*?)\s*</td>', html) == ["0.055", ""]
        assert "0.055" not in site.get(f"/traces?{always}&cost=..1&columns=spans&release=1.0").text


def test_more_than_are_sorted_are_said_to_be_left_out(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "All 105 matching traces, sorted by cost" in text_of(site.get("/traces?tenant=default&sort=cost").text)
    monkeypatch.setattr("tracegrade.queries.measured.MOST_SORTED", 20)
    page = site.get("/traces?tenant=default&sort=duration").text
    assert "The newest 20 matching traces, sorted by duration; older ones are not looked at." in text_of(page)
    assert len(_listed(page)) == 20
    assert len(_whole(site, "duration=5..")) == 20  # of which none is lost, however many are looked at for one page


@each(
    ("query", "message"),
    [
        ("sort=colour", "sort: expected one of duration, calls, tokens, cost, started, outcome, or with '.asc'"),
        ("columns=agent&columns=colour", "columns: expected some of agent, release,"),
        ("duration=nan", "duration: expected 5.., ..5 or 1..5, found 'nan'"),
        ("tokens=5..1", "tokens: expected 5.., ..5 or 1..5, found '5..1'"),
        ("cost=cheap", "cost: expected 5.., ..5 or 1..5, found 'cheap'"),
    ],
)
def test_what_cannot_be_listed_is_refused(site: Site, query: str, message: str) -> None:
    answer = site.get(f"/traces?{query}")
    assert answer.status == 400
    assert message in text_of(answer.text)


def test_the_list_without_any_filter_leads_on_too(site: Site) -> None:
    first = re.search(r'<th scope="row"><a href="([^"]+)"', site.get("/traces").text)
    assert first is not None
    assert 'rel="next"' in site.get(unescape(first[1])).text


def test_columns_are_chosen_and_kept_in_further_addresses(site: Site) -> None:
    html = site.get("/traces?tenant=default&columns=release&columns=prompt&columns=session&outcome=fail").text
    row = text_of(next(row for row in re.findall(r"<tr>.*?</tr>", html, re.DOTALL) if trace_id(17) in row))
    assert row.endswith(" 1.0 trip-3")
    assert row.startswith(
        "invoke_agent router Book order 17: to Oslo, window seat, for default. a100…00000011 travel-bot"
    )
    assert "columns=release%2Cprompt%2Csession" in html


def test_rows_are_told_apart_by_prompt_id_and_tenant(site: Site) -> None:
    html = site.get("/traces?rule=charge-failed").text
    rows = [text_of(row) for row in re.findall(r'<th scope="row">.*?</th>', html, re.DOTALL)]
    assert len(set(rows)) == len(rows) > 10
    assert {row.split()[-1] for row in rows} == {"default", "globex"}
    assert 'title="Tenant">globex</span>' in site.get("/sessions?since=1970-01-01T00:00:00Z").text


@each(
    ("ids", "shown"),
    [
        (["5b8e9d3c17a0f2e1", "00e1f2a3b4c5d6e7"], ["5b8e9d3c", "00e1f2a3"]),
        (["5b8e9d3c17a0f2e1", "5b00f2a3b4c5d6e7"], ["5b8e9d3c", "5b00f2a3"]),
        (["a100000000000011", "a100000000000012"], ["a100…00000011", "a100…00000012"]),
        (["a1000000100000001", "a1000000200000001"], ["a1000000100000001", "a1000000200000001"]),
    ],
)
def test_ids_are_cut_where_they_still_differ(ids: list[str], shown: list[str]) -> None:
    assert [*map(short_ids(ids), ids)] == shown


def test_the_columns_chosen_last_are_those_of_a_list_that_names_none(site: Site) -> None:
    request = Request(f"{site.url}/traces", headers={"Cookie": "columns=spans.nothing"})
    with urlopen(request) as answer:
        heads = re.findall(r'<th scope="col"[^>]*>(?:<a[^>]*>)?([A-Z][a-z]+)', answer.read().decode())
    assert heads == ["Trace", "Results", "Started", "Spans"]


def test_the_list_says_in_which_order_it_is(site: Site) -> None:
    html = site.get("/traces").text
    assert "Traces in the order in which they were stored, the last first. Sort by start" in text_of(html)
    assert "Costs are in the currency of your traces.prices" in text_of(html)


def test_a_trace_is_found_by_the_words_of_its_prompt(site: Site) -> None:
    with urlopen(f"{site.url}/find?q={quote('ORDER 17: to oslo, window seat, for default')}") as answer:
        assert answer.url.startswith(f"{site.url}/traces/{trace_id(17)}")
    page = text_of(site.get("/find?q=window%20seat").text)
    assert "Prompts Book order" in page
    assert "The newest 10; write more to find others." in page


def test_a_chip_takes_its_filter_away(site: Site) -> None:
    html = site.get("/traces?service=travel-bot&outcome=fail&sort=cost").text
    chips = dict(re.findall(r'<a class="chip" href="([^"]+)"><span class="note">(\w+)', html))
    assert {name: unescape(there) for there, name in chips.items()} == {
        "service": "/traces?outcome=fail&sort=cost",
        "outcome": "/traces?service=travel-bot&sort=cost",
    }


@each("query", ["outcome=fail", "sort=cost", "duration=5.."])
def test_from_each_trace_of_a_list_a_link_leads_to_the_next_over_its_pages(
    site: Site, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    monkeypatch.setattr("tracegrade.web.pages.traces._AT_A_TIME", 8)
    wanted = _whole(site, query)[:20]
    assert len(wanted) > 8
    first = re.search(r'<th scope="row"><a href="([^"]+)"', site.get(f"/traces?tenant=default&{query}").text)
    assert first is not None
    walked: list[str] = []
    address = unescape(first[1])
    while len(walked) < len(wanted):
        html = site.get(address).text
        walked.append(address[8:40])
        before = re.search(r'rel="prev" href="/traces/([0-9a-f]{32})', html)
        if (len(walked) - 1) % 8:  # at the first of a page there is none
            assert before is not None
            assert before[1] == walked[-2]
        after = re.search(r'rel="next" href="([^"]+)"', html)
        if after is None:
            break
        address = unescape(after[1])
    assert walked == wanted


@each(
    ("written", "address"),
    [
        (trace_id(22), f"/traces/{trace_id(22)}"),
        ("trip-11", "/sessions/"),
        ("payout", "/traces?agent=payout"),
        ("CLAIMS", "/traces?service=claims-bot"),
        ("seat-n", "/rules/seat-not-held"),
        ("hold_", "/traces/"),
        ("1.2", "/traces?release=1.2"),
        ("0000000001100009", ""),  # a model call's span is in no list
        ("", ""),
        ("%", ""),
    ],
)
def test_what_a_text_names_alone_is_opened(site: Site, written: str, address: str) -> None:
    with urlopen(f"{site.url}/find?q={quote(written)}") as answer:
        there = answer.url.removeprefix(site.url)
    assert there.startswith(address or "/find"), there


def test_what_several_names_hold_is_listed_by_kind(site: Site) -> None:
    page = text_of(site.get("/find?q=charge").text)
    assert "Rules charge-failed charged-amount Tools charge_card invoke_agent router travel-bot" in page
    with closing(sqlite3.connect(site.config.data_path / "tracegrade.db")) as store:
        (result,) = store.execute("SELECT id FROM results LIMIT 1").fetchone()
        (span,) = store.execute("SELECT span_id FROM tool_calls LIMIT 1").fetchone()
        (incident,) = store.execute("SELECT id FROM incidents").fetchone()
    for id_ in (result, span, incident[:6]):
        assert "Nothing has this name" not in site.get(f"/find?q={id_}").text


def test_a_passing_run_is_shown_beside_a_failing_one(site: Site) -> None:
    html = site.get(f"/traces/{trace_id(22)}?tenant=default").text
    address = re.search(r'href="(/compare/traces\?[^"]+)">A passing run beside this one', html)
    assert address is not None
    page = site.get(unescape(address[1]))
    assert "No trace with the same prompt passes. B is the newest in which seat-not-held passes at booking." in text_of(
        page.text
    )
    assert re.findall(r"<code>([0-9a-f]{32})</code>", page.text) == [trace_id(22), trace_id(60)]
    assert site.get(f"/compare/traces?a={trace_id(22)}&passing=nothing").status == 404


def test_a_passing_run_with_the_same_prompt_is_preferred(tmp_path: Path) -> None:
    failing, passing = fleet_order(22), fleet_order(22)
    call = next(span for span in fleet_order(21).spans if span.name == "execute_tool hold_seat")
    for span in (*passing.spans, call):
        span.trace_id = bytes.fromhex(trace_id(500))
    passing.trace_id, passing.spans = bytes.fromhex(trace_id(500)), _with(passing.spans, call)
    rules = load_rules([str(RULES)])
    fill(tmp_path, iter([(trace, None) for trace in (passing, fleet_order(21), failing)]), rules)
    with serving(tmp_path, str(RULES)) as site:
        page = text_of(site.get(f"/compare/traces?a={trace_id(22)}&passing=seat-not-held").text)
    assert "B is the newest trace with the same prompt in which seat-not-held passes at booking." in page
    assert trace_id(500) in page


def _with(spans: list, call: object) -> list:  # type: ignore[type-arg]
    """The spans with a call between the search and the charge."""
    charge = next(span for span in spans if span.name == "execute_tool charge_card")
    call.parent_span_id, call.start_ns, call.end_ns = charge.parent_span_id, charge.start_ns - 2, charge.start_ns - 1  # type: ignore[attr-defined]
    return sorted([*spans, call], key=lambda span: (span.start_ns, span.end_ns, span.span_id))
