"""The API: every answer is what its document says, and what the command line says."""

import re
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jsonschema_rs
import pytest

from build import each, store_with
from build.api import DOCUMENT, Api, trace_id
from build.asgi import call
from build.shop import GOOD, REFUNDED, RULES, SECOND, WRONG_ORDER, fill, order, refund
from build.site import Site
from build.stored_alerts import store_incident
from tracegrade.config import Config, WebSettings
from tracegrade.deletion.request import Choice, Deletions
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.alerts import Facts, Silence, StoredAlert, WaitingAlert, save_silence, save_waiting
from tracegrade.store.incidents import Notification
from tracegrade.store.open import open_store
from tracegrade.web.app import build_app
from tracegrade.web.problem import PREFIX

OPERATIONS = [(method.upper(), path) for path, operations in DOCUMENT["paths"].items() for method in operations]
FAILING, PASSING, OTHER = 1, 2, 3


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Api:
    folder: Path = tmp_path_factory.mktemp("api")
    now_ns = time.time_ns()
    some = [
        (order(FAILING, now_ns - 400 * SECOND, "1.5.0", WRONG_ORDER, "talk/1"), "talk/1"),
        (order(PASSING, now_ns - 390 * SECOND, "1.4.2", GOOD, "talk/1"), "talk/1"),
        (refund(OTHER, now_ns - 200 * SECOND, REFUNDED), None),
    ]
    rules = fill(folder, iter(some))
    config = Config(data_dir=str(folder))
    engine = open_store(store_with(folder))
    with engine.begin() as connection:
        for number, state in enumerate(("firing", "resolved", "firing")):
            ends_ns = now_ns if state == "resolved" else None
            # Two began at the same time; the last is measured against earlier results.
            facts = Facts(worst=[trace_id(FAILING)], was=0.97 if number == 2 else None, was_samples=500)
            alert = StoredAlert(
                f"{number:032x}", now_ns - number // 2, ends_ns, state, "default", "xr" if number == 2 else "r", "s",
                "high", "t", "pass_rate", 0.9, 60.0, 0.1, 9, now_ns, facts=facts,
            )  # fmt: skip
            store_incident(connection, alert, notified={"ops": Notification(state="firing", time_ns=1)})
        save_silence(connection, Silence("ab12", {"rule": "x*"}, now_ns, now_ns + 10**12, "why"))
        save_waiting(connection, [WaitingAlert("r", "a fall of 5 points", "default", "s", "", "no_baseline", now_ns)])
    engine.dispose()
    snapshots = [{"role": "judge", "time_ns": now_ns, "metrics": {"tracegrade.spans": [{"labels": {}, "value": 3}]}}]
    return Api(Site(config.store_url, rules, config, snapshots))


def test_the_document_is_valid_and_names_every_operation_once() -> None:
    assert DOCUMENT["openapi"].startswith("3.1")
    ids = [operation["operationId"] for path in DOCUMENT["paths"].values() for operation in path.values()]
    assert len(ids) == len(set(ids))
    for schema in DOCUMENT["components"]["schemas"].values():
        jsonschema_rs.meta.validate({**schema, "$schema": "https://json-schema.org/draft/2020-12/schema"})


def test_the_document_is_served_and_need_not_be_sent_twice(api: Api) -> None:
    first = call(api.app, "GET", "/api/v1/openapi.json")
    assert first.json == DOCUMENT
    again = call(api.app, "GET", "/api/v1/openapi.json", if_none_match=first.headers["etag"])
    assert (again.status, again.body) == (304, b"")


def test_results_are_those_of_the_command_line(api: Api) -> None:
    assert api.get("/results?limit=1000")["items"] == api.command("results", "list", "--limit", "1000")
    fails = api.get("/results?outcome=fail&service=shop")["items"]
    assert {item["outcome"] for item in fails} == {"fail"}
    assert api.get(f"/results?trace_id={trace_id(OTHER)}")["items"] == [
        item for item in api.get("/results?limit=1000")["items"] if item["trace_id"] == trace_id(OTHER)
    ]
    assert api.get("/results?agent=nobody")["items"] == []


@each("choice", ["", "outcome=pass&", "session=talk%2F1&", "release=1.5.0&"])
def test_pages_put_together_are_the_whole(api: Api, choice: str) -> None:
    whole = api.get(f"/results?{choice}limit=1000")
    assert whole["next"] is None
    assert whole["items"]
    found, address = [], f"/results?{choice}limit=2"
    while True:
        page = api.get(address)
        found += page["items"]
        if page["next"] is None:
            break
        address = f"/results?{choice}limit=2&cursor={page['next']}"
    assert found == whole["items"]


def test_a_session_chooses_its_traces_results_and_its_own(api: Api) -> None:
    found = api.get("/results?session=talk%2F1&limit=1000")["items"]
    assert {item["trace_id"] for item in found} >= {trace_id(FAILING), trace_id(PASSING)}
    assert trace_id(OTHER) not in {item["trace_id"] for item in found}


def test_traces_are_those_of_the_command_line(api: Api) -> None:
    listed = api.get("/traces?limit=1000")["items"]
    assert listed == api.command("traces", "list", "--limit", "1000")
    first = api.get("/traces?limit=1")
    assert [*first["items"], *api.get(f"/traces?limit=1000&cursor={first['next']}")["items"]] == listed
    assert api.get(f"/traces/{trace_id(FAILING).upper()}")["items"] == api.command("traces", "show", trace_id(FAILING))


def test_why_says_what_the_command_line_says(api: Api) -> None:
    (item,) = api.get(f"/traces/{trace_id(FAILING)}/why")["items"]
    said = api.command("why", trace_id(FAILING), "--rules", str(RULES))
    assert item["pairs"] == said
    assert {pair["decision"] for pair in said} >= {"evaluated", "not_matched"}


def test_a_session_is_shown_with_its_traces(api: Api) -> None:
    (session,) = api.get("/sessions")["items"]
    assert (session["id"], session["trace_count"]) == ("talk/1", 2)
    (whole,) = api.get("/sessions/talk/1")["items"]
    assert {trace["trace_id"] for trace in whole["traces"]} == {trace_id(FAILING), trace_id(PASSING)}


def test_rates_are_those_of_the_command_line(api: Api) -> None:
    assert api.get("/rates")["items"] == api.command("results", "stats")


@each("by", ["rule", "service", "agent", "release"])
@each("step", ["1m", "1h", "1d"])
def test_trends_add_up_to_the_rates(api: Api, by: str, step: str) -> None:
    shown = api.get(f"/trends?by={by}&step={step}")
    assert shown["items"]
    assert (shown["until_ns"] - shown["since_ns"]) / shown["step_ns"] <= 2001
    passed = sum(step["passed"] for line in shown["items"] for step in line["steps"])
    whole = [rate for rate in api.get("/rates")["items"] if rate["evaluation"] == ""]
    assert passed == sum(rate["passed"] for rate in whole) > 0


def test_rules_are_those_in_force(api: Api) -> None:
    rules = api.get("/rules")["items"]
    assert [rule["rule"] for rule in rules] == [rule.id for rule in api.site.rules.rules]
    shown = api.get(f"/rules/{rules[0]['rule']}")
    assert shown["definition"]["id"] == rules[0]["rule"]
    latest = shown["versions"][0]
    assert (latest["text_hash"], latest["rule_hash"]) == (rules[0]["text_hash"], rules[0]["hash"])
    assert 0 < latest["since_ns"] < time.time_ns()
    assert "no-such-rule" in api.refused("/rules/no-such-rule", 404, "not-found")


def test_incidents_and_silences_are_those_of_the_command_line(api: Api) -> None:
    listed = api.get("/incidents?limit=1000")["items"]
    assert listed == api.command("alerts", "list", "--limit", "1000")
    assert [incident["state"] for incident in api.get("/incidents?firing=true")["items"]] == ["firing", "firing"]
    silenced = {incident["members"][0]["rule_id"]: incident["silenced_until_ns"] for incident in listed}
    assert silenced["r"] is None
    assert silenced["xr"] > time.time_ns()
    found, cursor = [], ""
    while True:
        page = api.get(f"/incidents?limit=1{cursor}")
        found += page["items"]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert found == listed
    assert [silence["id"] for silence in api.get("/silences")["items"]] == ["ab12"]
    id_ = listed[0]["id"]
    assert [api.get(f"/incidents/{id_}")] == api.command("alerts", "show", id_)
    assert "no-such" in api.refused("/incidents/no-such", 404, "not-found")


def test_alerts_that_cannot_tell_yet_are_listed(api: Api) -> None:
    (waiting,) = api.get("/alerts/waiting")["items"]
    assert waiting["reason"] == "no_baseline"
    assert waiting["alert"] == "a fall of 5 points"


def test_the_level_of_an_incident_is_accepted_where_it_is_measured_against_earlier_results(api: Api) -> None:
    by_rule = {item["members"][0]["rule_id"]: item["id"] for item in api.get("/incidents?firing=true")["items"]}
    before_ns = time.time_ns()
    accepted = api.call("POST", f"/incidents/{by_rule['xr']}/accept")
    assert accepted.status == 202
    assert accepted.json["accepted_ns"] >= before_ns
    assert api.get(f"/incidents/{by_rule['xr']}") == accepted.json
    refused = api.call("POST", f"/incidents/{by_rule['r']}/accept")
    assert (refused.status, refused.json["type"]) == (409, PREFIX + "not-possible")
    assert "its bound stands in the rule r" in refused.json["detail"]
    assert api.get(f"/incidents/{by_rule['r']}")["accepted_ns"] is None
    (over,) = (item["id"] for item in api.get("/incidents")["items"] if item["state"] == "resolved")
    assert "nothing to accept" in api.call("POST", f"/incidents/{over}/accept").json["detail"]
    assert api.call("POST", "/incidents/no-such/accept").status == 404


@pytest.mark.parametrize(
    ("web", "status"),
    [
        ({"endpoint": "127.0.0.1:4319"}, 409),
        ({"endpoint": "0.0.0.0:4319", "insecure": True}, 403),
    ],
    ids=["on loopback", "open to other machines without authentication"],
)
def test_only_known_callers_may_accept(api: Api, web: dict[str, Any], status: int) -> None:
    (over,) = (item["id"] for item in api.get("/incidents")["items"] if item["state"] == "resolved")
    config = api.site.config.model_copy(update={"web": WebSettings.model_validate(web)})
    opened = Api(replace(api.site, config=config))
    answer = opened.call("POST", f"/incidents/{over}/accept")
    assert answer.status == status
    from_another_site = opened.call("POST", f"/incidents/{over}/accept", sec_fetch_site="cross-site")
    assert from_another_site.json["type"] == PREFIX + "other-site"


def test_error_budgets_are_those_of_the_command_line(api: Api) -> None:
    """Of the two runs of the order agent one failed: a half of 5 %, ten times the budget."""
    answer = api.get("/slos")
    told = api.command("alerts", "slo", str(RULES))
    keys = ("tenant", "rule", "of", "objective", "window_s", "service", "agent", "level", "judged", "budget_left")
    assert [[item[key] for key in keys] for item in answer["items"]] == [[item[key] for key in keys] for item in told]
    first = answer["items"][0]
    assert (first["rule"], first["objective"], first["judged"]) == ("order-steps-out-of-order", 0.95, 2)
    assert first["budget_left"] == pytest.approx(1 - 10)
    assert (first["spent_in_s"], first["firing"], answer["more"]) == (None, False, 0)
    (support,) = api.get("/slos?service=support")["items"]
    assert (support["rule"], support["agent"], support["budget_left"]) == ("refund-without-lookup", "refund-agent", 1)
    assert api.get("/slos?rule=refund-without-lookup")["items"] == [support]
    assert api.get("/slos?agent=nobody") == {"items": [], "more": 0}
    assert api.get("/slos?limit=1")["items"] == [first]
    assert api.get("/slos?limit=1")["more"] == len(answer["items"]) - 1


def test_health_shows_what_the_roles_published(api: Api) -> None:
    (role,) = api.get("/health")["roles"]
    assert role["metrics"] == {"tracegrade.spans": [{"labels": {}, "value": 3}]}
    assert role["age_s"] >= 0


def test_all_before_a_time_are_asked_for_by_that_time_alone(tmp_path: Path) -> None:
    config = Config(data_dir=str(tmp_path))
    (tmp_path / "journal").mkdir()
    app = build_app(Site(config.store_url, RuleSet([]), config).sources)
    assert call(app, "DELETE", "/api/v1/traces").status == 400
    assert call(app, "DELETE", "/api/v1/traces?before=1970-01-01T00:00:01Z").status == 202
    (waiting,) = Deletions(tmp_path).waiting("requested")
    assert waiting.choice == Choice(before_ns=10**9)


@pytest.mark.parametrize(
    ("address", "what"),
    [(f"/traces/{trace_id(7)}", {}), ("/sessions/talk/1", {"session": "talk/1"}), ("/users/a%2Fb", {"user": "a/b"})],
)
def test_a_deletion_is_asked_for_and_can_be_followed(tmp_path: Path, address: str, what: dict[str, str]) -> None:
    config = Config(data_dir=str(tmp_path))
    app = build_app(Site(config.store_url, RuleSet([]), config).sources)
    refused = call(app, "DELETE", f"/api/v1{address}")
    assert (refused.status, refused.json["type"]) == (409, PREFIX + "not-possible")
    (tmp_path / "journal").mkdir()
    asked = call(app, "DELETE", f"/api/v1{address}".replace("%2F", "/"))
    assert (asked.status, asked.json["state"]) == (202, "requested")
    (waiting,) = Deletions(tmp_path).waiting("requested")
    choice = waiting.choice
    assert {"session": choice.session, "user": choice.user} == {"session": None, "user": None} | what
    assert waiting.trace_ids == (frozenset() if what else {bytes.fromhex(trace_id(7))})
    assert call(app, "GET", f"/api/v1/deletions/{asked.json['id']}").json == asked.json
    assert call(app, "GET", "/api/v1/deletions").json == {"items": [asked.json]}
    assert "talk" not in asked.body.decode()


def test_times_are_taken_as_the_command_line_takes_them(api: Api) -> None:
    whole = api.get("/traces")["items"]
    middle_ns = whole[1]["first_received_ns"]
    later = [trace for trace in whole if trace["first_received_ns"] >= middle_ns]
    assert api.get(f"/traces?since={middle_ns}")["items"] == later
    moment = datetime.fromtimestamp(middle_ns / 1e9, UTC)
    assert api.get(f"/traces?since={quote(moment.isoformat(timespec='microseconds'))}&until=2999-01-01")["items"]
    assert api.get("/traces?since=2d")["items"] == whole
    assert api.get("/traces?until=1970-01-01T00:00:00Z")["items"] == []
    assert api.get("/traces?since=2016-12-31T23:59:60Z")["items"] == whole


@each(
    ("address", "named"),
    [
        ("/results?limit=0", "limit: "),
        ("/results?limit=1001", "limit: "),
        ("/results?limit=x", "limit: "),
        ("/results?outcome=maybe", "outcome: "),
        ("/results?since=soon", "since: "),
        ("/results?trace_id=12", "trace_id: "),
        ("/results?cursor=x", "cursor: "),
        ("/results?nothing=1", "nothing: is not a parameter of this operation"),
        ("/results?rule=a&rule=b", "rule: expected it once"),
        ("/results?rule=", "rule: "),
        ("/traces/12", "trace_id: "),
        ("/trends?step=1s", "step: "),
    ],
)
def test_a_wrong_parameter_is_named(api: Api, address: str, named: str) -> None:
    assert api.refused(address, 400, "invalid-parameter").startswith(named)


def test_what_is_not_there_is_a_problem_too(api: Api) -> None:
    api.refused(f"/traces/{trace_id(99)}", 404, "not-found")
    api.refused(f"/traces/{trace_id(99)}/why", 404, "not-found")
    api.refused("/sessions/nobody", 404, "not-found")
    api.refused("/deletions/none", 404, "not-found")
    api.refused("/nowhere", 404, "not-found")


@each(
    ("method", "address", "allowed"),
    [
        ("DELETE", "/results", {"GET", "HEAD"}),
        ("POST", f"/traces/{'a' * 32}", {"GET", "HEAD", "DELETE"}),
        ("GET", "/users/somebody", {"DELETE"}),
        ("POST", "/openapi.json", {"GET", "HEAD"}),
    ],
)
def test_another_method_is_told_which_the_address_takes(api: Api, method: str, address: str, allowed: set[str]) -> None:
    wrong = api.call(method, address)
    assert (wrong.status, wrong.json["type"]) == (405, PREFIX + "method-not-allowed")
    assert set(wrong.headers["allow"].split(", ")) == allowed


@each(("method", "path"), OPERATIONS)
def test_every_operation_refuses_parameters_that_it_does_not_know(api: Api, method: str, path: str) -> None:
    address = re.sub(r"\{.*?\}", "a" * 32, path)
    needed = {
        ("DELETE", "/traces"): "before=1&",
        ("GET", "/runs"): "experiment=e&",
        ("GET", "/compare"): "a=a&b=b&",
    }.get((method, path), "")
    for query, detail in (
        ("x=1", "x: is not a parameter of this operation"),
        ("x=1&x=2", "x: expected it once, found it twice"),
    ):
        refused = api.call(method, f"{address}?{needed}{query}")
        assert (refused.status, refused.json["type"]) == (400, PREFIX + "invalid-parameter")
        assert refused.json["detail"] == detail


@pytest.mark.parametrize("path", ["/docs", "/redoc"])
def test_no_page_is_served_that_loads_scripts_from_another_host(api: Api, path: str) -> None:
    api.refused(path, 404, "not-found")


def test_without_a_store_results_are_not_there_yet(tmp_path: Path) -> None:
    config = Config(data_dir=str(tmp_path))
    empty = Api(Site(config.store_url, RuleSet([]), config))
    empty.refused("/results", 503, "no-store")
    assert empty.get("/rules") == {"items": []}
    assert empty.get("/health") == {"roles": []}
    assert empty.get("/deletions") == {"items": []}


def test_a_crash_is_a_problem_that_tells_nothing(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api.site, "rules", None)
    said = api.refused("/rules", 500, "internal")
    assert said.startswith("AttributeError while this was answered")
    assert "NoneType" not in said


def test_answers_are_kept_by_no_cache(api: Api) -> None:
    assert api.call("GET", "/rules").headers["cache-control"] == "no-store"
    head = call(api.app, "HEAD", "/api/v1/rules")
    assert (head.status, head.headers["content-type"]) == (200, "application/json")
