"""Experiments and runs by the API: what the command line says, and what it changes."""

import time
from pathlib import Path
from typing import Any

import pytest

from build import each
from build.api import Api, trace_id
from build.asgi import call
from build.shop import GOOD, RULES, SECOND, UNFINISHED, WRONG_ORDER, fill, order
from build.shop_runs import store_run
from build.site import Site
from tracegrade.config import Config
from tracegrade.rule.load import load_rules
from tracegrade.web.problem import PREFIX


@pytest.fixture
def api(tmp_path: Path) -> Api:
    """Runs prompts/1 (2 of 4 good), prompts/2 (4 of 4), prompts/3 (broken off), and one order judged live."""
    now_ns = time.time_ns() - 1000 * SECOND
    rules = load_rules([str(RULES)])
    fill(tmp_path, iter([(order(1, now_ns, "1.4.2", WRONG_ORDER), None)]), rules)
    half = [WRONG_ORDER, UNFINISHED, GOOD, GOOD]
    store_run(tmp_path, rules, "prompts/1", half, now_ns, labels={"prompt": "v1"}, git_revision="abc")
    store_run(tmp_path, rules, "prompts/2", [GOOD] * 4, now_ns + SECOND, labels={"prompt": "v2"})
    store_run(tmp_path, rules, "prompts/3", [GOOD], now_ns + 2 * SECOND, state="incomplete")
    config = Config(data_dir=str(tmp_path))
    return Api(Site(config.store_url, rules, config))


def test_experiments_and_runs_are_those_of_the_command_line(api: Api) -> None:
    listed = api.get("/experiments")["items"]
    assert listed == api.command("experiments", "list")
    assert [api.get("/experiments/prompts")] == listed
    assert (listed[0]["baseline"], listed[0]["best"]) == ("prompts/1", "prompts/2")
    runs = api.get("/runs?experiment=prompts")["items"]
    assert runs == api.command("experiments", "timeline", "prompts")
    assert [run["run"] for run in runs] == ["prompts/1", "prompts/2", "prompts/3"]
    assert api.get("/runs/prompts/2") == runs[1]
    assert runs[1]["delta"] > 0


def test_another_tenant_sees_nothing(api: Api) -> None:
    assert api.get("/experiments?tenant=other")["items"] == []
    for address in ("/experiments/prompts", "/runs/prompts/1", "/runs?experiment=prompts"):
        mark = "&" if "?" in address else "?"
        detail = api.refused(f"{address}{mark}tenant=other", 404, "not-found")
        assert "prompts/2" not in detail
    for method, body in (("PATCH", {"labels": {}}), ("DELETE", None)):
        assert api.call(method, "/runs/prompts/1?tenant=other", body).status == 404
    assert api.get("/runs/prompts/1")["labels"] == {"prompt": "v1"}


def test_a_name_that_is_not_there_is_said_with_one_that_is_like_it(api: Api) -> None:
    assert "'prompts/1'" in api.refused("/runs/promts/1", 404, "not-found")
    assert "'prompts'" in api.refused("/experiments/promts", 404, "not-found")
    assert "'prompts/1'" in api.refused("/traces?run=promts/1", 404, "not-found")


def test_a_baseline_is_pinned_and_taken_away_again(api: Api) -> None:
    pinned = api.call("PATCH", "/experiments/prompts", {"baseline": "prompts/2"})
    assert pinned.status == 200
    assert (pinned.json["baseline"], pinned.json["pinned"]) == ("prompts/2", True)
    assert api.command("experiments", "list") == [pinned.json]
    refused = api.call("PATCH", "/experiments/prompts", {"baseline": "prompts/3"})
    assert (refused.status, refused.json["type"]) == (409, PREFIX + "not-possible")
    assert "prompts/3 is incomplete: nothing can be measured against it" in refused.json["detail"]
    assert "no run 'prompts/4'" in api.call("PATCH", "/experiments/prompts", {"baseline": "prompts/4"}).json["detail"]
    assert api.call("PATCH", "/experiments/prompts", {"baseline": None}).json["baseline"] == "prompts/1"


def test_labels_are_put_in_place_of_those_before(api: Api) -> None:
    changed = api.call("PATCH", "/runs/prompts/1", {"labels": {"model": "m-2", "note": "größer"}})
    assert changed.status == 200
    assert changed.json["labels"] == {"model": "m-2", "note": "größer"}
    assert api.get("/runs/prompts/1") == changed.json
    assert api.get("/runs/prompts/2")["labels"] == {"prompt": "v2"}


@each(
    ("run", "body", "status", "said"),
    [
        ("prompts/3", {"labels": {"a": "b"}}, 409, "prompts/3 is incomplete"),
        ("prompts/1", {"labels": {"": "b"}}, 409, "expected a key of at most 200"),
        ("prompts/1", {"labels": {"a\nb": "c"}}, 409, "without line breaks"),
        ("prompts/1", {"labels": {"a": "b" * 1001}}, 400, "labels.a: String should have at most 1000"),
        ("prompts/1", {"labels": {str(n): "" for n in range(101)}}, 400, "labels: Dictionary should have at most 100"),
        ("prompts/1", {"labels": ["a=b"]}, 400, "labels: Input should be a valid dictionary"),
        ("prompts/1", {"lables": {}}, 400, "labels: Field required"),
        ("prompts/1", {"labels": {}, "state": "failed"}, 400, "state: is not a parameter"),
        ("prompts/1", None, 400, "body: Field required"),
        ("prompts/1", {"labels": {"a": "x" * 2_000_000}}, 413, "body: expected at most 1048576 bytes"),
    ],
)
def test_labels_that_cannot_be_are_refused(api: Api, run: str, body: Any, status: int, said: str) -> None:
    before = api.get(f"/runs/{run}")
    refused = api.call("PATCH", f"/runs/{run}", body)
    assert refused.status == status, refused.body
    assert said in refused.json["detail"]
    assert api.get(f"/runs/{run}") == before


def test_a_body_that_is_no_json_is_refused(api: Api) -> None:
    for body in (b"{", b"\xff", b"[" * 100_000):
        answer = call(api.app, "PATCH", "/api/v1/runs/prompts/1", body, content_type="application/json")
        assert (answer.status, answer.json["type"]) == (400, PREFIX + "invalid-parameter"), answer.body
        assert answer.json["detail"].startswith("body: ")


def test_a_deleted_run_is_gone_and_what_was_judged_live_stays(api: Api) -> None:
    assert api.call("DELETE", "/runs/prompts/1").json == {"deleted": 4}
    assert api.get("/experiments/prompts")["runs"] == ["prompts/2", "prompts/3"]
    assert api.call("DELETE", "/runs/prompts/1").status == 404
    deleted = api.call("DELETE", "/experiments/prompts").json
    assert (deleted["deleted"], deleted["runs_kept"]) == (5, 0)
    assert api.get("/experiments")["items"] == []
    assert len(api.get("/traces?limit=1000")["items"]) == 1


def test_results_and_traces_of_a_run_are_shown_apart(api: Api) -> None:
    id_ = trace_id(1)
    for name in ("prompts/1", "prompts/2"):
        option = ("--run", name)
        results = api.get(f"/results?run={name}&limit=1000")["items"]
        assert results == api.command("results", "list", *option, "--limit", "1000")
        assert {item["run"] for item in results} == {name}
        assert api.get(f"/traces?run={name}")["items"] == api.command("traces", "list", *option)
        assert api.get(f"/traces/{id_}?run={name}")["items"] == api.command("traces", "show", id_, *option)
        (why,) = api.get(f"/traces/{id_}/why?run={name}")["items"]
        assert why["pairs"] == api.command("why", id_, *option, "--rules", str(RULES))
    assert len(api.get("/traces")["items"]) == 1
