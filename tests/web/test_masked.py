"""Callers without the right to see values find none, on no page and in no answer of the API."""

import json
import re
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp

from build import each
from build.asgi import Called, call
from build.planted_store import FAILED, JOB, OTHER, PLANTED, RULE, SESSION, TRACE, planted_store, trace_id
from build.site import Site, text_of
from tracegrade.access.caller import Caller
from tracegrade.access.rights import Role
from tracegrade.access.tokens import new_token
from tracegrade.config import Config
from tracegrade.model.session import session_trace_id
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.read import stored_traces
from tracegrade.web.app import build_app
from tracegrade.web.masked import hidden, seen_by
from web.test_rights import every_route

pytestmark = pytest.mark.usefixtures("work_done_here")

ROLES_APART: tuple[Role, Role] = ("read", "read-values")
READER = Caller(frozenset({"read"}))


@dataclass
class Place:
    """The app, and a token for each role."""

    app: ASGIApp
    tokens: dict[Role, str]
    suite: str
    incident: str
    rule: str  # the text of a rule
    folder: Path

    def call(self, role: Role, method: str, address: str, body: Any = None) -> Called:
        sent = b"" if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode()
        kind = "application/x-www-form-urlencoded" if isinstance(body, str) else "application/json"
        headers = {"authorization": f"Bearer {self.tokens[role]}", "content_type": kind}
        return call(self.app, method, address, sent, sec_fetch_site="same-origin", **headers)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder: Path = tmp_path_factory.mktemp("masked")
    rules, suite, incident = planted_store(folder)
    roles: tuple[Role, ...] = ("send", "read", "run", "read-values", "admin", "all")
    tokens = {role: new_token(folder / "tokens.json", role, [role], None, None, time.time_ns())[1] for role in roles}
    config = Config.model_validate({"data_dir": str(folder), "web": {"auth": {}}})
    text = (Path(__file__).with_name("rules") / "orders.rule.yaml").read_text()
    return Place(build_app(Site(config.store_url, rules, config).sources), tokens, suite, incident, text, folder)


def addresses(place: Place, path: str) -> list[str]:
    """The addresses of a route over what is stored; one for each thing that shows values."""
    one, other, failed = trace_id(TRACE), trace_id(OTHER), trace_id(FAILED)
    spans = [span["span_id"] for span in call_json(place, f"/api/v1/traces/{one}")["items"][0]["spans"]]
    named = {
        "{trace_id}": [one, failed],
        "{span_id}": spans,
        "{rule_id}": [RULE, "order-steps-out-of-order", "refund-without-lookup"],
        "{suite_id}": [place.suite],
        "{case_id:path}": ["first"],
        "{id}": [JOB],
        "{eval_id}": ["weather/1"],
        "{eval_id:path}": ["weather/1", JOB],
        "{experiment:path}": ["prompts", "weather"],
        "{experiment_id}": ["prompts", "weather"],
        "{run:path}": ["prompts/1", "weather/1"],
        "{rule_id:path}": [RULE],
        "{incident_id}": [place.incident],
        "{session_id:path}": [SESSION],
        "{job_id}": [JOB],
        "{deletion_id}": ["none"],
        "{silence_id}": ["none"],
    }
    found = [path]
    for name, values in named.items():
        found = [address.replace(name, value) for address in found for value in values if name in address] or found
    more = {
        "/runs/{run:path}": ["/runs/weather/1?case=first", "/runs/weather/1?all=1"],
        "/compare": ["/compare?a=usual/1&b=prompts/2&full=1", "/compare?a=prompts/1&b=prompts/2"],
        "/compare/traces": [f"/compare/traces?a={one}&b={other}"],
        "/api/v1/compare": ["/api/v1/compare?a=usual/1&b=prompts/2&full=true"],
        "/traces/{trace_id}": [f"/traces/{one}?all=1", f"/traces/{one}?rule={RULE}"],
        "/traces": ["/traces?columns=prompt&columns=session&sort=duration"],
        "/find": ["/find?q=order", f"/find?q={one[:30]}"],
        "/sessions/{trace_id}": [f"/sessions/{session_trace_id('default', SESSION).hex()}"],
        "/suites/{suite_id}": [f"/suites/{place.suite}?all=1"],
        "/evals/new": [f"/evals/new?again={JOB}"],
        "/suites/from-traces": [f"/suites/from-traces?trace_id={one}&rule={RULE}"],
        "/silences/new": [f"/silences/new?incident={place.incident}"],
        "/rules/{rule_id}/tests.zip": [f"/rules/{RULE}/tests.zip?trace_id={one}"],
    }
    assert not any("{" in address for address in found), f"say what stands for the names in {path}"
    return [*found, *more.get(path, [])]


def call_json(place: Place, address: str) -> Any:
    answer = place.call("all", "GET", address)
    assert answer.status == 200, (address, answer.body)
    return answer.json


READS = [param for param in every_route() if "GET" in param.values[1] and param.values[0] not in ("/live",)]
STREAMS = {"/live", "/api/v1/jobs/events", "/api/v1/jobs/{job_id}/events"}

SHOWS = {
    "/traces",
    "/traces/{trace_id}",
    "/traces/{trace_id}/spans/{span_id}",
    "/traces/{trace_id}/tests/{rule_id}.zip",
    "/rules/{rule_id}/tests.zip",
    "/traces/{trace_id}/trace.json",
    "/traces/{trace_id}/trace.otlp.jsonl",
    "/sessions/{trace_id}",
    "/suites/{suite_id}",
    "/suites/{suite_id}/cases/{case_id:path}",
    "/suites/{suite_id}/edit",
    "/evals",
    "/evals/{id}",
    "/experiments/{experiment:path}",
    "/runs/{run:path}",
    "/compare",
    "/compare/traces",
    "/alerts",
    "/incidents/{incident_id}",
    "/api/v1/silences",
    "/api/v1/compare",
    "/api/v1/results",
    "/api/v1/traces/{trace_id}",
    "/api/v1/incidents",
    "/api/v1/incidents/{incident_id}",
    "/api/tool-suites/{suite_id}",
    "/api/tool-suites/{suite_id}/cases",
    "/api/tool-suites/{suite_id}/export",
    "/api/tool-eval/history",
    "/api/tool-eval/history/{eval_id:path}",
    "/api/experiments",
    "/api/experiments/{experiment_id}",
    "/api/experiments/{experiment_id}/timeline",
    "/api/v1/jobs",
    "/api/v1/jobs/{job_id}",
}
"""The reads whose answers hold planted values for those who may see them: so the others are not looked at in vain."""


@each("path", sorted({param.values[0] for param in READS} - STREAMS))
def test_a_read_without_the_right_holds_no_value(place: Place, path: str) -> None:
    asked = addresses(place, path)
    everything = [place.call("all", "GET", address) for address in asked]
    roles: tuple[Role, ...] = ("read", "run")
    for role in roles:
        for address, whole in zip(asked, everything, strict=True):
            answer = place.call(role, "GET", address)
            assert PLANTED.encode() not in answer.body, (role, address)
            assert answer.status in (whole.status, 403), (role, address, answer.body)
    assert {place.call("send", "GET", address).status for address in asked} == {403}
    if path in SHOWS:
        assert any(PLANTED.encode() in whole.body or path.endswith(".zip") for whole in everything), path


def test_every_read_that_is_said_to_show_values_is_there() -> None:
    assert {param.values[0] for param in READS} >= SHOWS


def test_a_prompt_is_found_only_by_those_who_may_read_it(place: Place) -> None:
    address = f"/find?q={PLANTED}"
    found = text_of(place.call("read-values", "GET", address).body.decode())
    assert "Prompts" in found
    hidden = place.call("read", "GET", address)
    assert hidden.status == 200
    page = text_of(hidden.body.decode())
    assert "Nothing has this name." in page
    assert "prompt" not in page


def test_who_may_see_values_sees_them(place: Place) -> None:
    roles: tuple[Role, ...] = ("read-values", "admin")
    for role in roles:
        assert PLANTED.encode() in place.call(role, "GET", f"/traces/{trace_id(TRACE)}").body


def test_the_form_of_a_conversation_stays(place: Place) -> None:
    page = text_of(place.call("read", "GET", f"/traces/{trace_id(TRACE)}").body.decode())
    assert "user [hidden] [hidden] assistant [hidden]" in page
    assert "2 earlier messages of this conversation user [hidden] assistant [hidden]" in page


def test_names_and_paths_stay(place: Place) -> None:
    page = place.call("read", "GET", f"/traces/{trace_id(TRACE)}").body.decode()
    assert "create_order" in page
    assert "&#34;sku&#34;:&#34;[hidden]&#34;" in page or '"sku":"[hidden]"' in page
    found = place.call("read", "GET", f"/api/v1/traces/{trace_id(TRACE)}").json["items"][0]
    assert found["tool_calls"][0]["arguments"] == {
        "sku": "[hidden]",
        "qty": "[hidden]",
        "ship": {"country": "[hidden]"},
    }
    assert {span["attributes"].get("gen_ai.tool.name") for span in found["spans"]} > {"create_order"}


def test_what_is_sent_is_not_shown_back(place: Place) -> None:
    """Writes answer with what is there afterwards: to callers without the right, without its values."""
    backtest = place.call("run", "POST", "/api/v1/backtests", {"rule": place.rule, "since": "1d"})
    assert backtest.status == 200, backtest.body
    assert PLANTED.encode() not in backtest.body
    form = place.call("run", "POST", f"/rules/{RULE}/backtest", "since=1d")
    assert PLANTED.encode() not in form.body
    for method in ("PUT", "PATCH"):
        changed = place.call("run", method, f"/api/tool-suites/{place.suite}", {"description": "new"})
        assert changed.status == 200, changed.body
        assert PLANTED.encode() not in changed.body
    case = place.call("run", "PUT", f"/api/tool-suites/{place.suite}/cases/second", {"category": "new"})
    assert case.status == 200, case.body
    assert PLANTED.encode() not in case.body
    assert place.call("run", "POST", f"/suites/{place.suite}/cases/second", "prompt=new").status == 403
    assert place.call("run", "POST", f"/suites/{place.suite}/edit", "name=new").status == 403
    again = f"/evals/new?again={JOB}"  # its form would ask with the prompt
    assert [place.call(role, "GET", again).status for role in ("run", "all")] == [403, 200]
    entry = {"type": "judge", "score": 0.1, "configuration": {"system_prompt": "planted-judge"}}
    for method, address, body in (
        ("POST", f"/api/v1/jobs/{JOB}/cancel", None),
        ("POST", "/api/experiments/prompts/timeline", entry),
        ("PUT", "/api/experiments/prompts", {"description": "new"}),
    ):
        answer = place.call("run", method, address, body)
        assert answer.status in (200, 201), (address, answer.body)
        assert PLANTED.encode() not in answer.body, address


def test_of_what_the_evaluators_of_others_say_nothing_is_shown(place: Place) -> None:
    found = place.call("all", "GET", f"/api/v1/traces/{trace_id(TRACE)}").json["items"][0]["evaluations"]
    assert any(item["explanation"] for item in found)
    config = Config(data_dir=str(place.folder))
    with Site(config.store_url, RuleSet([]), config).store() as connection:
        (stored,) = stored_traces(connection, bytes.fromhex(trace_id(TRACE)))
    one = next(evaluation for evaluation in stored.evaluations if evaluation.explanation)
    assert seen_by(READER, one).explanation == one.explanation
    others = replace(one, evaluator="theirs", reason="planted-reason", explanation="planted-explanation")
    shown = seen_by(READER, others)
    assert (shown.reason, shown.explanation, shown.details) == ("[hidden]", "[hidden]", {})
    failed = seen_by(READER, replace(others, outcome="error", reason="KeyError: 'planted'"))
    assert (failed.reason, failed.explanation) == ("KeyError", "the evaluator failed: KeyError")


def test_json_keeps_its_form() -> None:
    assert hidden({"a": [1, None, {"b": True}], "c": "text"}) == {
        "a": ["[hidden]", None, {"b": "[hidden]"}],
        "c": "[hidden]",
    }


def test_a_record_of_which_nothing_is_known_is_never_shown() -> None:
    with pytest.raises(TypeError, match="it is not known what the values of str are"):
        seen_by(READER, "text")


def test_a_rules_own_sentence_has_its_value_only_for_those_who_may_see_values(place: Place) -> None:
    for address in (f"/traces/{trace_id(FAILED)}?all=1", "/rules/refund-unasked", f"/api/v1/traces/{trace_id(FAILED)}"):
        without, with_values = (place.call(role, "GET", address).body.decode() for role in ROLES_APART)
        assert "planted-order was refunded unasked" in with_values, address
        assert "planted-order" not in without
        assert re.search(r"(?<!\.)order_id was refunded unasked", without), address
