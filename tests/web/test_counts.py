"""Numbers beside a filter: each is what plain SQL counts under that filter."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from sqlalchemy import Connection, text

from build import each
from build.asgi import call
from build.shop import fill, traffic
from build.site import Site, serving, text_of
from tracegrade.web.app import build_app

_FILTERS: list[dict[str, str]] = [
    {},
    {"release": "1.5.0"},
    {"service": "support"},
    {"agent": "order-agent"},
    {"agent": "refund-agent", "service": "support"},
    {"rule": "order-steps-out-of-order", "release": "1.5.0"},
    {"service": "nobody"},
]
_COLUMNS = {"release": "s.release", "service": "s.service", "agent": "s.agent", "rule": "s.rule_id"}


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A page over some hundred traces of the last hours, of two releases, some of them in sessions."""
    folder: Path = tmp_path_factory.mktemp("busy")
    rules = fill(folder, traffic(400, time.time_ns(), 6.0))
    with serving(folder) as site:
        site.rules = rules
        yield site


def _counted(connection: Connection, what: str, chosen: dict[str, str]) -> Any:
    """One row of numbers over the results, with their series and traces, that `chosen` lets through."""
    where = " AND ".join(f"{_COLUMNS[name]} = :{name}" for name in chosen) or "1 = 1"
    return connection.execute(text(f"{what} WHERE s.run = 'live' AND {where}"), chosen).one()


_DECISIONS = (
    "SELECT coalesce(sum(d.outcome IN (0, 1)), 0), coalesce(sum(d.outcome = 1), 0), "
    "coalesce(sum(d.outcome IN (2, 3)), 0) "
    "FROM decisions AS d JOIN series AS s ON s.number = d.series JOIN traces AS t ON t.number = d.trace AND t.complete"
)
_TRACES = (
    "SELECT count(DISTINCT e.trace) FROM evaluations AS e JOIN series AS s ON s.number = e.series "
    "JOIN traces AS t ON t.number = e.trace AND t.members IS NULL"
)


def _figures(html: str) -> dict[str, list[int]]:
    """The numbers of each figure by its label: the large one first, then those of its note."""
    found = {}
    for figure in re.findall(r'<div class="figure.*?</div>', html, re.DOTALL):
        shown = text_of(re.sub(r"<svg.*?</svg>", "", figure, flags=re.DOTALL))
        shown = re.sub(r"(?<=\d)\s(?=\d{3}\b)", "", shown)
        label, _, rest = shown.partition(" in the last 24 hours ")
        if not rest:
            label, rest = re.match(r"(\D+?) ([\d–-].*)", shown).groups()  # type: ignore[union-attr]
        found[label] = [int(number) for number in re.findall(r"\d+", rest)]
    return found


@each("chosen", _FILTERS, ids=urlencode)
def test_the_figures_of_the_overview_obey_its_filters(busy: Site, chosen: dict[str, str]) -> None:
    figures = _figures(busy.get(f"/?{urlencode(chosen)}").text)
    with busy.store() as connection:
        judged, failed, unjudged = _counted(connection, _DECISIONS, chosen)
        if chosen.keys() - {"service"}:
            (traces,) = _counted(connection, _TRACES, chosen)
        else:
            where = "AND service = :service" if chosen else ""
            query = text(f"SELECT count(*) FROM traces WHERE members IS NULL {where}")
            traces = connection.execute(query, chosen).scalar_one()
    assert figures["Traces"][0] == traces
    assert figures["Fails"] == [failed, judged]
    assert unjudged in figures["Coverage"]


@each("chosen", _FILTERS, ids=urlencode)
def test_what_fails_now_is_counted_whole_and_never_rises_by_a_filter(busy: Site, chosen: dict[str, str]) -> None:
    def fails(html: str) -> list[int]:
        shown = html.partition('id="failures"')[2].partition("</section>")[0]
        items = re.findall(r"<li>.*?</li>", shown, re.DOTALL)
        return [int(times[1]) if (times := re.search(r"× (\d+)", item)) else 1 for item in items]

    found = fails(busy.get(f"/?{urlencode(chosen)}").text)
    query = (
        "SELECT count(*), count(DISTINCT s.rule_id || '|' || s.evaluation || '|' || s.service || '|' || s.agent) "
        "FROM evaluations AS e JOIN series AS s ON s.number = e.series AND e.outcome = 1"
    )
    with busy.store() as connection:
        total, groups = _counted(connection, query, chosen)
    assert len(found) == min(10, groups)
    if groups <= 10:
        assert sum(found) == total
    assert sum(found) <= sum(fails(busy.get("/").text))


@each("chosen", [item for item in _FILTERS if "rule" not in item], ids=urlencode)
def test_the_numbers_of_each_rule_obey_the_filters(busy: Site, chosen: dict[str, str]) -> None:
    listed = busy.get(f"/rules?{urlencode(chosen)}").text
    for rule in busy.rules.rules:
        html = busy.get(f"/rules/{rule.id}?{urlencode(chosen)}").text
        with busy.store() as connection:
            judged, failed, _ = _counted(connection, _DECISIONS, {**chosen, "rule": rule.id})
        assert _figures(html)["Fails"] == [failed, judged]
        row = next(row for row in re.findall(r"<tr.*?</tr>", listed, re.DOTALL) if f">{rule.id}</a>" in row)
        assert f'<td class="num">{judged}</td>' in row


@each("chosen", _FILTERS, ids=urlencode)
def test_rates_and_trends_of_the_api_obey_their_parameters(busy: Site, chosen: dict[str, str]) -> None:
    app = build_app(busy.sources)
    with busy.store() as connection:
        judged, failed, unjudged = _counted(connection, _DECISIONS, chosen)
    rates = call(app, "GET", f"/api/v1/rates?{urlencode(chosen)}").json["items"]
    whole = [rate for rate in rates if not rate["evaluation"]]
    assert sum(rate["passed"] + rate["failed"] for rate in whole) == judged
    assert sum(rate["failed"] for rate in whole) == failed
    assert sum(rate["not_evaluable"] + rate["errors"] for rate in whole) == unjudged
    for by in ("rule", "service", "agent", "release"):
        lines = call(app, "GET", f"/api/v1/trends?{urlencode({**chosen, 'by': by})}").json["items"]
        steps = [step for line in lines for step in line["steps"]]
        assert sum(step["passed"] + step["failed"] for step in steps) == judged


def test_a_chart_begins_at_its_data(busy: Site) -> None:
    """Six hours in a range of thirty days: steps of minutes, of which the first one has results."""
    html = busy.get("/?range=30d").text
    volume = re.search(r'<svg class="chart volume".*?</svg>', html, re.DOTALL)
    assert volume is not None
    bars = [float(x) for x in re.findall(r'<rect[^>]* x="([\d.]+)"', volume[0])]
    assert bars[0] < 240 / 36
    assert len(bars) > 20
    assert "The charts begin with the first results" in text_of(html)
    assert "The charts begin with the first results" not in text_of(busy.get("/?range=1h").text)


def test_a_session_rule_leads_to_sessions_and_counts_them(busy: Site) -> None:
    (rule,) = [rule.id for rule in busy.rules.rules if rule.scope == "session"]
    html = busy.get(f"/?rule={rule}").text
    with busy.store() as connection:
        sessions = connection.execute(text("SELECT count(*) FROM traces WHERE members IS NOT NULL")).scalar_one()
    assert _figures(html)["Sessions"][0] == sessions > 0
    html = busy.get(f"/sessions?rule={rule}").text
    assert len(re.findall(r'<th scope="row"><a href="/sessions/', html)) == min(50, sessions)
