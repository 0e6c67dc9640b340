"""What is declared of a read is what the command line, the API and the store take."""

from dataclasses import fields
from typing import Any

import click
import pytest

from tracegrade.cli import alerts, replay, results, traces
from tracegrade.queries.parameters import (
    IncidentsQuery,
    JudgedTracesQuery,
    RatesQuery,
    RecentRatesQuery,
    ResultsQuery,
    SessionsQuery,
    StoreQuery,
    TracesQuery,
    TrendsQuery,
    parameters_of,
)
from tracegrade.store.result_filter import ResultFilter
from tracegrade.web.api.app import Api

FILTERS = [ResultsQuery, RatesQuery, RecentRatesQuery, TrendsQuery, TracesQuery, SessionsQuery]


@pytest.mark.parametrize("query", [*FILTERS, IncidentsQuery, JudgedTracesQuery])
def test_each_parameter_has_a_meaning_of_one_sentence(query: type[StoreQuery]) -> None:
    for item in parameters_of(query):
        assert item.kind == "run" or item.meaning[:1].isupper(), item
        assert not item.meaning.endswith("."), item


@pytest.mark.parametrize("query", FILTERS)
def test_what_is_asked_is_what_the_store_selects_by(query: type[StoreQuery]) -> None:
    written: dict[str, Any] = {"time": 7, "trace id": "ab" * 16}
    stored: dict[str, Any] = {"trace_id": b"\xab" * 16, "since_ns": 7, "until_ns": 7}
    names = [item.name for item in parameters_of(query)]
    asked = query(**{item.name: written.get(item.kind, item.name) for item in parameters_of(query)})
    found = asked.filter(with_backfilled=True)
    left = {item.name: getattr(found, item.name) for item in fields(ResultFilter)}
    left = {name: value for name, value in left.items() if value not in (None, "live")}
    expected = {name: name for name in names if name not in ("since", "until", "trace_id", "by", "step")}
    expected |= {name: stored[name] for name in stored if name.removesuffix("_ns") in names}
    assert left == expected | {"with_backfilled": True}


@pytest.mark.parametrize(
    ("command", "query", "without"),
    [
        (results.list_, ResultsQuery, ()),
        (results.export, ResultsQuery, ()),
        (results.stats, RatesQuery, ()),
        (traces.list_, TracesQuery, ()),
        (traces.export, TracesQuery, ()),
        (replay.command, JudgedTracesQuery, ("tenant",)),
        (alerts.list_, IncidentsQuery, ()),
    ],
)
def test_commands_have_an_option_for_each(
    command: click.Command, query: type[StoreQuery], without: tuple[str, ...]
) -> None:
    helps = {option.name: option.help for option in command.params if isinstance(option, click.Option)}
    for item in parameters_of(query):
        if item.name not in without:
            assert item.kind in ("run", "tenant") or (helps[item.name] or "").startswith(item.meaning), item


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/results", ResultsQuery),
        ("/rates", RecentRatesQuery),
        ("/trends", TrendsQuery),
        ("/traces", TracesQuery),
        ("/sessions", SessionsQuery),
        ("/incidents", IncidentsQuery),
    ],
)
def test_operations_have_each(path: str, query: type[StoreQuery]) -> None:
    shown = {item["name"]: item for item in Api().openapi()["paths"][path]["get"]["parameters"]}
    for item in parameters_of(query):
        assert item.meaning in shown[item.name]["description"], item
        assert not shown[item.name]["required"]
