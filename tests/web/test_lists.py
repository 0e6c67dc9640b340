"""Lists of the API, the page and the command line: any filter, followed to its end, gives what plain SQL gives."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, text

from build import store_with
from build.any_store import filled, filters
from build.asgi import call
from build.judged_traces import START_NS
from build.plain_sql import sql_heads, sql_results, sql_sessions
from build.site import Site
from build.stored_alerts import ALERT, store_incident
from tracegrade.cli import main
from tracegrade.config import Config
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.alerts import StoredAlert
from tracegrade.store.open import open_store, reading
from tracegrade.store.result_filter import ResultFilter
from tracegrade.web.app import build_app
from tracegrade.web.view import FILTERS, iso_text

# A store is made from one number: there is nothing to make smaller.
_examples = settings(
    max_examples=settings().max_examples // 7,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
_seeds = st.integers(0, 2**32)
# As many traces as one page of the page holds, and more.
_traces = st.sampled_from((200, 0, 3))


def _as_stored(parameters: dict[str, object]) -> dict[str, object]:
    """Those that are given, without the character NUL, which no store keeps and no address may have."""
    given = {name: value for name, value in parameters.items() if value is not None}
    return {
        name: value.replace("\0", "\N{REPLACEMENT CHARACTER}") if isinstance(value, str) else value
        for name, value in given.items()
    }


class Shown:
    """What shows one store: the API, the page and the command line."""

    def __init__(self, folder: Path) -> None:
        config = Config(data_dir=str(folder))
        self.folder = folder
        self.engine = open_store(config.store_url)
        self.app = build_app(Site(config.store_url, RuleSet([]), config).sources)

    def api(self, address: str, **parameters: object) -> list[Any]:
        """The items of all pages; `next` is null after the last one, and only there."""
        items: list[Any] = []
        cursor: str | None = ""
        while cursor is not None:
            given = _as_stored({**parameters, "cursor": cursor or None})
            answer = call(self.app, "GET", f"/api/v1{address}?{urlencode(given)}")
            assert answer.status == 200, answer.body
            page, cursor = answer.json["items"], answer.json["next"]
            assert (
                len(page) == parameters["limit"] if cursor is not None else len(page) <= int(str(parameters["limit"]))
            )
            items += page
        return items

    def page(self, address: str, **parameters: object) -> list[str]:
        """The ids of all that is listed, followed by what is older."""
        given = _as_stored(parameters)
        following, ids = f"{address}?{urlencode(given)}", []
        while following:
            answer = call(self.app, "GET", following)
            assert answer.status == 200, answer.body
            html = answer.body.decode().partition('id="not-judged"')[0]
            found = re.findall(rf'<th scope="row"><a href="{address}/([0-9a-f]{{32}})', html)
            older = re.search(r'href="([^"]+)" rel="next"', html)
            following = unescape(older[1]) if older else ""
            assert found or not ids, "no further page without anything on it"
            ids += found
            assert len(ids) < 1000, "pages go on"
        return ids

    def command(self, *arguments: str, **options: object) -> list[Any]:
        given = [part for name, value in options.items() if value is not None for part in (f"--{name}", str(value))]
        shown = CliRunner().invoke(main, [*arguments, *given, "--data-dir", str(self.folder)])
        assert shown.exit_code == 0, shown.output
        return [json.loads(line) for line in shown.stdout.splitlines()]


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[Shown]:
    store_with(tmp_path)
    found = Shown(tmp_path)
    yield found
    found.engine.dispose()


def _ids(connection: Connection, numbers: list[int]) -> list[str]:
    rows = connection.execute(text("SELECT number, lower(hex(trace_id)) FROM traces"))
    by_number = {number: str(trace_id) for number, trace_id in rows}
    return [by_number[number] for number in numbers]


def _evaluation_ids(connection: Connection, found: list[tuple[int, int]]) -> list[str]:
    rows = connection.execute(text("SELECT trace, place, id FROM evaluations"))
    by_address = {(trace, place): str(own) for trace, place, own in rows}
    return [by_address[address] for address in found]


def _given(result_filter: ResultFilter, *names: str) -> tuple[ResultFilter, dict[str, Any]]:
    """A filter of these fields alone, as parameters too; an empty one cannot be asked for in an address."""
    fields = {name: getattr(result_filter, name) or None for name in names}
    return ResultFilter(since_ns=result_filter.since_ns, until_ns=result_filter.until_ns, **fields), {
        **fields,
        **_times(result_filter),
    }


def _times(result_filter: ResultFilter) -> dict[str, int | None]:
    return {"since": result_filter.since_ns, "until": result_filter.until_ns}


def _written(time_ns: int | None) -> str | None:
    """A time as one gives it to a command."""
    if time_ns is None:
        return None
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_ns // 1000)).isoformat()


@_examples
@given(seed=_seeds, traces=_traces, result_filter=filters, limit=st.integers(20, 60))
@example(seed=1, traces=3, result_filter=ResultFilter(), limit=1)
def test_the_api_lists_what_plain_sql_gives(
    shown: Shown, seed: int, traces: int, result_filter: ResultFilter, limit: int
) -> None:
    filled(shown.engine, seed, traces)
    with reading(shown.engine) as connection:
        for some in (ResultFilter(), result_filter):
            chosen, given = _given(some, "rule", "outcome", "service", "agent", "release", "session")
            listed = shown.api("/traces", limit=limit, **given)
            assert [item["trace_id"] for item in listed] == _ids(connection, sql_heads(connection, chosen))
            listed = shown.api("/results", limit=limit, **given)
            assert [item["id"] for item in listed] == _evaluation_ids(connection, sql_results(connection, chosen))
            chosen, given = _given(some, "service")
            listed = shown.api("/sessions", limit=limit, **given)
            assert [(item["id"], item["tenant"], item["trace_count"]) for item in listed] == sql_sessions(
                connection, chosen
            )
            for name in {item["id"] for item in listed}:
                whole = call(shown.app, "GET", f"/api/v1/sessions/{name}").json["items"]
                for item in whole:
                    numbers = sql_heads(connection, ResultFilter(session=name, tenant=item["tenant"]))
                    assert [head["trace_id"] for head in item["traces"]] == _ids(connection, numbers)


@_examples
@given(seed=_seeds, traces=_traces, result_filter=filters)
def test_the_page_lists_what_plain_sql_gives(shown: Shown, seed: int, traces: int, result_filter: ResultFilter) -> None:
    filled(shown.engine, seed, traces)
    since, until = START_NS, START_NS + 10**12
    with reading(shown.engine) as connection:
        for some in (ResultFilter(), result_filter):
            chosen, given = _given(replace(some, since_ns=None, until_ns=None), *FILTERS, "outcome")
            given |= {"since": iso_text(since), "until": iso_text(until)}
            for address, sessions in (("/traces", False), ("/sessions", True)):
                numbers = sql_heads(connection, chosen, sessions=sessions)
                assert shown.page(address, **given) == _ids(connection, numbers)


@_examples
@given(seed=_seeds, traces=_traces, result_filter=filters, limit=st.integers(1, 200))
def test_the_command_line_lists_what_plain_sql_gives(
    shown: Shown, seed: int, traces: int, result_filter: ResultFilter, limit: int
) -> None:
    filled(shown.engine, seed, traces)
    with reading(shown.engine) as connection:
        for some in (ResultFilter(), result_filter):
            # A command line holds no NUL, and times to the microsecond.
            times = {name: None if value is None else value // 1000 * 1000 for name, value in _times(some).items()}
            service = some.service and some.service.replace("\0", "\N{REPLACEMENT CHARACTER}")
            asked = replace(some, since_ns=times["since"], until_ns=times["until"], service=service)
            chosen, given = _given(asked, "rule", "outcome", "service", "agent", "release")
            given |= {name: _written(value) for name, value in times.items()}
            numbers = sql_heads(connection, chosen)[:limit]
            listed = shown.command("traces", "list", format="json", limit=limit, **given)
            assert [item["trace_id"] for item in listed] == _ids(connection, numbers)
            found = sql_results(connection, chosen)
            listed = shown.command("results", "list", format="json", limit=limit, **given)
            assert [item["id"] for item in listed] == _evaluation_ids(connection, found[:limit])
            for by, key in (("rule", "rule_id"), ("agent", "agent"), ("service", "service"), ("release", "release")):
                grouped = shown.command("results", "list", format="json", limit=limit, by=by, **given)
                assert grouped == sorted(listed, key=lambda item: _storable(item[key]))
            listed = shown.command("results", "export", **given)
            assert [item["id"] for item in listed] == _evaluation_ids(connection, found)


def _storable(name: str | None) -> str:
    return (name or "").replace("\0", "\N{REPLACEMENT CHARACTER}")


@pytest.mark.parametrize("export", ["traces"])
def test_an_export_writes_the_traces_that_a_list_shows(shown: Shown, export: str) -> None:
    filled(shown.engine, 7, 120)
    listed = shown.command("traces", "list", format="json", limit=1000, service="bank")
    written = shown.command(export, "export", limit=1000, service="bank")
    assert len(written) == len(listed) > 0


def _alert(ended_ns: int, **changes: Any) -> StoredAlert:
    ends_ns = ended_ns if changes["state"] == "resolved" else None
    return replace(ALERT, ends_ns=ends_ns, **changes)


_alerts = st.builds(
    _alert,
    ended_ns=st.sampled_from((START_NS + 5, START_NS + 10**10)),
    fingerprint=st.integers(0, 30).map(lambda number: f"{number:032x}"),
    starts_ns=st.sampled_from((START_NS, START_NS + 10**9)),
    state=st.sampled_from(("firing", "resolved")),
    rule_id=st.sampled_from(("first", "second")),
    service=st.sampled_from(("shop", "bank")),
    agent=st.sampled_from(("support", "")),
    release=st.sampled_from((None, "1.0")),
    kind=st.sampled_from(("below", "coverage")),
)


@_examples
@given(
    alerts=st.lists(_alerts, max_size=20), limit=st.integers(1, 5), since=st.sampled_from((0, START_NS + 60 * 10**9))
)
def test_incidents_are_listed_whole_though_many_begin_at_one_time(
    shown: Shown, alerts: list[StoredAlert], limit: int, since: int
) -> None:
    filled(shown.engine, 0, 0)
    with shown.engine.begin() as connection:
        for alert in alerts:
            store_incident(connection, alert)
    query = "SELECT lower(hex(fingerprint)), starts_ns FROM alerts WHERE (state <> 1 OR ends_ns >= :since) {} "
    query += "ORDER BY starts_ns DESC, fingerprint"
    with reading(shown.engine) as connection:
        for firing in (False, True):
            rows = connection.execute(text(query.format("AND state = 0" if firing else "")), {"since": since}).all()
            listed = shown.api("/incidents", limit=limit, firing=str(firing).lower(), since=since)
            assert [_lead(item) for item in listed] == [tuple(row) for row in rows]
            options = ["--firing"] if firing else []
            listed = shown.command("alerts", "list", *options, format="json", limit=limit, since=_written(since))
            assert [_lead(item) for item in listed] == [tuple(row) for row in rows][:limit]


def _lead(incident: dict[str, Any]) -> tuple[str, int]:
    lead = incident["members"][0]
    return lead["fingerprint"], lead["starts_ns"]
