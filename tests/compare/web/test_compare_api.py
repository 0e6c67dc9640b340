"""Comparisons by the API: the same object as the command line's, bounded, one full one at a time."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from build import each
from build.api import Api
from build.shop import GOOD, HOUR, SECOND, UNFINISHED, WRONG_ORDER, WRONG_QUANTITY, fill, order
from build.shop_runs import store_run
from build.site import Site
from tracegrade.access.caller import Caller
from tracegrade.cli import main
from tracegrade.compare.web.comparing import Comparing
from tracegrade.config import Config
from tracegrade.web import rights
from tracegrade.web.own_process import Busy
from tracegrade.web.problem import PREFIX

pytestmark = pytest.mark.usefixtures("work_done_here")


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Api:
    """Releases 1.4.2 and 1.5.0 judged live, and two runs over the same 30 orders."""
    folder: Path = tmp_path_factory.mktemp("compare")
    now_ns = time.time_ns() - HOUR
    old = [(order(n, now_ns + n * SECOND, "1.4.2", GOOD), None) for n in range(1, 31)]
    new = [(order(n, now_ns + n * SECOND, "1.5.0", WRONG_ORDER if n % 2 else GOOD), None) for n in range(31, 61)]
    rules = fill(folder, iter(old + new))
    store_run(folder, rules, "prompts/1", [GOOD] * 30, now_ns, first=101)
    store_run(folder, rules, "prompts/2", [WRONG_QUANTITY] * 10 + [UNFINISHED] * 5 + [GOOD] * 15, now_ns, first=101)
    config = Config(data_dir=str(folder))
    return Api(Site(config.store_url, rules, config))


def by_command(api: Api, *arguments: str) -> Any:
    shown = CliRunner().invoke(
        main, ["compare", *arguments, "--format", "json", "--data-dir", api.site.config.data_dir]
    )
    assert shown.exit_code in (0, 1, 3), shown.output
    return json.loads(shown.stdout)


@each(
    ("sides", "query", "options"),
    [
        (("release:1.4.2", "release:1.5.0"), "", ["--rates-only"]),
        (("release:1.4.2", "release:1.5.0"), "full=true", []),
        (("prompts/1", "prompts/2"), "full=true&behaviour=false", ["--no-behaviour"]),
        (("prompts/1", "prompts/2"), "margin=0.2&rule=order-steps-out-of-order", [
            "--rates-only", "--margin", "0.2", "--rule", "order-steps-out-of-order",
        ]),
    ],
)  # fmt: skip
def test_a_comparison_is_that_of_the_command_line(
    api: Api, sides: tuple[str, str], query: str, options: list[str]
) -> None:
    a, b = sides
    found = api.get(f"/compare?a={a}&b={b}&{query}")
    assert found == by_command(api, a, b, *options)
    assert (found["measures"] is None) is ("full" not in query)


def test_what_got_worse_is_worse_and_its_pairs_are_named(api: Api) -> None:
    found = api.get("/compare?a=prompts/1&b=prompts/2&full=true")
    rules = {rule["rule_id"]: rule for rule in found["rules"]}
    worse = rules["order-differs-from-request"]
    assert (found["exit_code"], worse["verdict"]) == (1, "worse")
    assert (worse["pairs"]["by"], worse["pairs"]["worse"]) == ("trace", 15)
    assert "notify_sales" in {tool["tool"] for tool in found["behaviour"]["tools"] if tool["change"] == "new"}


@each(
    ("query", "said"),
    [
        ("a=prompts/1&b=prompts/1", "A and B are the same"),
        ("a=prompts/1&b=promts/2", "no run 'promts/2' in the store; did you mean 'prompts/2'?"),
        ("a=release:1.4.2&b=release:", "expected a name after 'release:'"),
        ("a=live&b=release:9.9&full=true", "no result of release '9.9' in the store"),
        ("a=live@soon..&b=prompts/1", "expected a time such as"),
        ("a=model:x&b=live", "results are not counted by model; compare in full"),
        ("a=prompts/1@2h..&b=prompts/2", "results of a run are not counted by time; compare in full"),
    ],
)
def test_what_cannot_be_compared_is_said(api: Api, query: str, said: str) -> None:
    assert said in api.refused(f"/compare?{query}", 409, "not-possible")


def test_another_tenant_has_nothing_to_compare(api: Api) -> None:
    assert "no result of tenant 'other'" in api.refused(
        "/compare?a=prompts/1&b=prompts/2&tenant=other", 409, "not-possible"
    )


def test_who_is_busy_says_when_to_try_again(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*_: object) -> None:
        raise Busy("another full comparison is being made; try again in a moment")

    monkeypatch.setattr(Comparing, "compare", busy)
    answer = api.call("GET", "/compare?a=prompts/1&b=prompts/2&full=true")
    assert (answer.status, answer.json["type"], answer.headers["retry-after"]) == (503, PREFIX + "busy", "5")


def test_values_of_arguments_are_for_those_who_may_see_them(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    address = "/compare?a=prompts/1&b=prompts/2&full=true"
    assert '"values": [{' in json.dumps(api.get(address)["behaviour"]["arguments"])
    monkeypatch.setattr(rights, "KNOWN", Caller(frozenset({"read"})))
    other = Api(api.site)
    found = other.get(address)["behaviour"]["arguments"]
    assert found
    assert all(item["values"] == [] for item in found)
