"""The API of suites: what the evaluation that it is from documents, called as its users call it."""

import asyncio
import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from starlette.types import Message

from build import each, store_with
from build.api import Api
from build.asgi import call
from build.site import Site
from suites.build.api import TOOL_EVAL_DOCUMENT
from suites.build.scripted_mcp import TOOL, Handler, Script, scripted
from suites.build.weather_suite import WEATHER_SUITE
from tracegrade.config import Config
from tracegrade.rule.rule_set import RuleSet
from tracegrade.suites.settings import SuitesSettings
from tracegrade.suites.stored import read_suite
from tracegrade.suites.web import servers
from tracegrade.web.api.body import whole_body
from tracegrade.web.problem import PREFIX, Refusal

CASE = {
    "prompt": "What's the weather in Paris?",
    "expected_tool": "get_weather",
    "expected_params": {"city": "Paris"},
    "param_scoring": "exact",
}
MULTI_TURN = {
    "prompt": "Book a flight from NYC to London for next Friday",
    "expected_tool": "book_flight",
    "expected_params": {"origin": "NYC", "destination": "London"},
    "multi_turn": True,
    "max_rounds": 5,
    "optimal_hops": 2,
    "valid_prerequisites": ["search_flights", "get_availability"],
    "mock_responses": {
        "search_flights": {"flights": [{"id": "FL123", "price": 450}]},
        "get_availability": {"available": True, "seats": 12},
    },
}


def api_in(folder: Path, **settings: Any) -> Api:
    config = Config(data_dir=str(folder), **settings)
    store_with(folder)
    return Api(Site(config.store_url, RuleSet([]), config), TOOL_EVAL_DOCUMENT)


@pytest.fixture
def api(tmp_path: Path) -> Api:
    return api_in(tmp_path)


def answered(api: Api, method: str, address: str, body: Any = None, status: int = 200) -> Any:
    answer = api.call(method, address, body)
    assert answer.status == status, answer.body
    return answer.json


def refused(api: Api, method: str, address: str, body: Any, status: int, type_: str) -> str:
    answer = api.call(method, address, body)
    assert (answer.status, answer.json["type"]) == (status, PREFIX + type_), answer.body
    return str(answer.json["detail"])


@pytest.fixture
def suite(api: Api) -> str:
    return str(answered(api, "POST", "/tool-eval/import", WEATHER_SUITE, 201)["suite_id"])


def test_the_document_is_valid_and_served(api: Api) -> None:
    assert call(api.app, "GET", "/api/openapi.json").json == TOOL_EVAL_DOCUMENT
    ids = [operation["operationId"] for path in TOOL_EVAL_DOCUMENT["paths"].values() for operation in path.values()]
    assert len(ids) == len(set(ids))
    for schema in TOOL_EVAL_DOCUMENT["components"]["schemas"].values():
        jsonschema_rs.meta.validate({**schema, "$schema": "https://json-schema.org/draft/2020-12/schema"})


def test_an_imported_suite_has_its_tools_and_cases(api: Api, suite: str) -> None:
    found = answered(api, "GET", f"/tool-suites/{suite}")
    assert (found["id"], found["name"], found["description"]) == (
        suite,
        "Weather API Suite",
        "Tests weather tool calling",
    )
    assert found["tools"] == WEATHER_SUITE["tools"]
    assert [(case["prompt"], case["expected_tool"], case["expected_params"]) for case in found["test_cases"]] == [
        ("What's the weather in Paris?", "get_weather", {"city": "Paris"}),
        ("Temperature in Tokyo in Fahrenheit", "get_weather", {"city": "Tokyo", "units": "fahrenheit"}),
    ]
    (head,) = answered(api, "GET", "/tool-suites")["suites"]
    assert (head["id"], head["tool_count"], head["test_case_count"]) == (suite, 1, 2)


def test_import_export_import_is_stable(api: Api, suite: str) -> None:
    first = answered(api, "GET", f"/tool-suites/{suite}/export")
    again = answered(api, "POST", "/tool-eval/import", first, 201)
    assert again["notes"] == []
    assert answered(api, "GET", f"/tool-suites/{again['suite_id']}/export") == first
    shown = call(api.app, "GET", f"/api/tool-suites/{suite}/export")
    assert shown.headers["content-disposition"] == 'attachment; filename="weather-api-suite.json"'


def test_the_example_can_be_imported(api: Api) -> None:
    example = answered(api, "GET", "/tool-eval/import/example")
    made = answered(api, "POST", "/tool-eval/import", example, 201)
    assert (made["test_cases_created"], made["notes"]) == (len(example["test_cases"]), [])


def test_what_an_import_leaves_out_is_said(api: Api) -> None:
    document = {**WEATHER_SUITE, "id": 7, "test_cases": [{**CASE, "suite_id": 7}, {"prompt": ""}]}
    made = answered(api, "POST", "/tool-eval/import", document, 201)
    assert made["test_cases_created"] == 1
    assert made["notes"] == [
        "'id' is not known and left out",
        "test_cases[0]: 'suite_id' is not known and left out",
        "test_cases[1] has no prompt and is left out",
    ]


def test_a_suite_is_made_changed_and_deleted(api: Api) -> None:
    made = answered(api, "POST", "/tool-suites", {"name": "Mine", "description": "of mine", "tools": []}, 201)
    address = f"/tool-suites/{made['id']}"
    prompt = "Always use the available tools. Never respond with plain text."
    assert answered(api, "PATCH", address, {"system_prompt": prompt})["system_prompt"] == prompt
    changed = {"name": "Ours", "description": "of us", "tools": WEATHER_SUITE["tools"]}
    found = answered(api, "PUT", address, changed)
    assert {key: found[key] for key in changed} == changed
    assert found["system_prompt"] == prompt
    answered(api, "POST", f"{address}/cases", CASE, 201)
    assert answered(api, "DELETE", address) == {"deleted": 1, "test_cases_deleted": 1}
    assert "there is no suite" in refused(api, "GET", address, None, 404, "not-found")
    assert "there is no suite" in refused(api, "GET", f"{address}/cases", None, 404, "not-found")
    assert answered(api, "GET", "/tool-suites") == {"suites": []}


def test_cases_are_added_alone_and_in_bulk(api: Api, suite: str) -> None:
    address = f"/tool-suites/{suite}/cases"
    alone = answered(api, "POST", address, MULTI_TURN, 201)
    assert (alone["created"], alone["case_id"]) == (1, "case-3")
    assert MULTI_TURN.items() <= alone["cases"][0].items()
    assert answered(api, "POST", address, [CASE, CASE], 201)["created"] == 2
    several = {"prompt": "Find information about quantum computing", "expected_tool": ["search", "web_search"]}
    bulk = answered(api, "POST", address, {"cases": [several]}, 201)
    assert (bulk["created"], bulk["case_id"], bulk["cases"][0]["expected_tool"]) == (1, None, ["search", "web_search"])
    found = answered(api, "GET", address)["cases"]
    assert [case["id"] for case in found] == [f"case-{number}" for number in range(1, 7)]


def test_a_bulk_with_a_wrong_case_adds_none(api: Api, suite: str) -> None:
    said = refused(api, "POST", f"/tool-suites/{suite}/cases", [CASE, {"prompt": ""}], 400, "invalid-parameter")
    assert said == "cases[1]: prompt: expected what a user says to the model, found nothing"
    assert len(answered(api, "GET", f"/tool-suites/{suite}/cases")["cases"]) == 2


def test_a_case_is_changed_and_deleted(api: Api, suite: str) -> None:
    address = f"/tool-suites/{suite}/cases/case-1"
    fuzzy = {**CASE, "param_scoring": "fuzzy", "scoring_config": {"mode": "case_insensitive", "epsilon": 0.01}}
    assert answered(api, "PUT", address, fuzzy) == {"id": "case-1", **fuzzy}
    assert answered(api, "DELETE", address)["deleted"] == 1
    assert "there is no case 'case-1'" in refused(api, "PUT", address, CASE, 404, "not-found")
    assert "there is no case 'case-1'" in refused(api, "DELETE", address, None, 404, "not-found")
    assert [case["id"] for case in answered(api, "GET", f"/tool-suites/{suite}/cases")["cases"]] == ["case-2"]


def test_what_is_left_out_of_a_changed_case_stays_and_null_clears(api: Api, suite: str) -> None:
    answered(api, "POST", f"/tool-suites/{suite}/cases", {**MULTI_TURN, "category": " easy "}, 201)
    address = f"/tool-suites/{suite}/cases/case-3"
    before = {"id": "case-3", **MULTI_TURN, "category": " easy ", "param_scoring": "exact", "scoring_config": None}
    changed = answered(api, "PUT", address, {"expected_params": {"origin": "Rome"}})
    assert changed == {**before, "expected_params": {"origin": "Rome"}}
    changed = answered(api, "PUT", address, {"multi_turn_config": {"max_rounds": 3}, "optimal_hops": 1})
    assert (changed["max_rounds"], changed["optimal_hops"], changed["mock_responses"]) == (
        3,
        1,
        MULTI_TURN["mock_responses"],
    )
    changed = answered(api, "PUT", address, {"multi_turn": False, "expected_params": None})
    assert changed == {
        "id": "case-3",
        "prompt": MULTI_TURN["prompt"],
        "expected_tool": "book_flight",
        "expected_params": None,
        "param_scoring": "exact",
        "scoring_config": None,
        "category": " easy ",
    }
    assert answered(api, "PUT", address, {"expected_tool": None})["expected_tool"] is None


def test_an_id_of_a_case_may_have_any_characters(api: Api, suite: str) -> None:
    answered(api, "POST", f"/tool-suites/{suite}/cases", {**CASE, "id": "a/b c"}, 201)
    assert answered(api, "DELETE", f"/tool-suites/{suite}/cases/a/b c")["deleted"] == 1


@pytest.mark.parametrize("address", ["/tool-suites/a\0b", "/tool-suites?tenant=%00"])
def test_nothing_is_looked_up_by_the_character_nul(api: Api, address: str) -> None:
    said = refused(api, "GET", address, None, 400, "invalid-parameter")
    assert said == "expected an address without the character NUL (%00)"


def test_suites_are_seen_by_their_tenant_alone(api: Api, suite: str) -> None:
    assert answered(api, "GET", "/tool-suites?tenant=other") == {"suites": []}
    for method, address in [
        ("GET", ""),
        ("DELETE", ""),
        ("GET", "/export"),
        ("GET", "/cases"),
        ("DELETE", "/cases/case-1"),
    ]:
        refused(api, method, f"/tool-suites/{suite}{address}?tenant=other", None, 404, "not-found")
    made = answered(api, "POST", "/tool-eval/import?tenant=other", WEATHER_SUITE, 201)
    assert made["tenant"] == "other"
    assert len(answered(api, "GET", "/tool-suites")["suites"]) == 1


CASES = "/tool-suites/SUITE/cases"
FIELDS = "name, description, system_prompt, tools"
SERVER = "/tool-eval/import/mcp"


@each(
    ("method", "address", "body", "detail"),
    [
        ("POST", "/tool-suites", {}, "name: expected the name of the suite, found nothing"),
        ("POST", "/tool-suites", {"name": "x", "nme": 1}, "'nme' is not a field of a suite; did you mean 'name'?"),
        (
            "POST",
            "/tool-suites",
            {"name": "x", "tools": [{}]},
            "tools[0]: expected {type: function, function: {name, parameters}}",
        ),
        ("POST", "/tool-eval/import", {"name": 7}, "name: expected a text, found 7"),
        ("PATCH", "/tool-suites/SUITE", {}, f"expected at least one of {FIELDS}, found nothing to change"),
        (
            "PUT",
            "/tool-suites/SUITE",
            {"test_cases": []},
            f"'test_cases' cannot be changed here; expected {FIELDS}; its cases have an address of their own, /cases",
        ),
        ("PUT", "/tool-suites/SUITE", {"name": " "}, "name: expected the name of the suite, found nothing"),
        ("POST", CASES, [], "expected a case, or a list of at least one"),
        ("POST", CASES, "x", "expected a case, or a list of at least one"),
        ("POST", CASES, {"cases": [CASE], "x": 1}, "'x' is beside 'cases'; expected only the list of cases"),
        (
            "PUT",
            f"{CASES}/case-1",
            {},
            "the case: expected at least one of its fields, found nothing to change",
        ),
        ("PUT", f"{CASES}/case-1", [], "the case: expected an object, found []"),
        (
            "PUT",
            f"{CASES}/case-1",
            {"prompt": None},
            "the case: prompt: expected what a user says to the model, found nothing",
        ),
        (
            "PUT",
            f"{CASES}/case-1",
            {**CASE, "id": "b"},
            "the case: its id 'case-1' cannot be changed, found 'b'",
        ),
        (
            "PUT",
            f"{CASES}/case-1",
            {"prompt": "x", "max_round": 1},
            "the case: 'max_round' is not a field of a case; did you mean 'max_rounds'?",
        ),
        (
            "PUT",
            f"{CASES}/case-1",
            {"scoring_config": {"mode": "regex"}, "expected_params": {"city": "("}},
            "the case: expected_params.city: RE2 refuses the regular expression '(': missing ): (; "
            "mend it, or set another mode",
        ),
        (
            "POST",
            SERVER,
            {"url": "stdio:touch /tmp/x"},
            "url: expected the address of an MCP server, http://... or https://...",
        ),
        (
            "POST",
            SERVER,
            {"url": "http://h/", "headers": {"Host": "x"}},
            "headers: Host is set by TraceGrade itself; leave it out",
        ),
        ("POST", SERVER, {"url": "http://h/", "nam": "x"}, "'nam' is not known; expected url, name or headers"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(
    api: Api, suite: str, method: str, address: str, body: Any, detail: str
) -> None:
    assert refused(api, method, address.replace("SUITE", suite), body, 400, "invalid-parameter") == detail


@each(
    ("body", "status", "detail"),
    [
        (
            b'{"prompt":\n "x" 1}',
            400,
            "body: not JSON: unexpected character, expected ',' or '}': line 2 column 6 (char 16)",
        ),
        (b"prompt=x", 400, "body: not JSON: unexpected character, expected a JSON value: line 1 column 1 (char 0)"),
        (b'{"prompt": "\xff"}', 400, "body: not UTF-8: byte 13 is 0xff"),
        (b'{"prompt": "\\ud800"}', 400, "body: not JSON: no low surrogate in string: line 1 column 13 (char 12)"),
        (
            b'{"prompt": "x", "expected_params": {"a": NaN}}',
            400,
            "body: not JSON: unexpected character, expected a JSON value: line 1 column 42 (char 41)",
        ),
        (
            b'{"prompt": "x", "expected_params": {"a": ' + b"[" * 500 + b"]" * 500 + b"}}",
            400,
            "the case: expected_params: expected at most 100 objects and lists within each other, found more",
        ),
        (b'{"prompt": "x", "expected_params": {"a": ' + b"[" * 100_000, 400, "body: not JSON: depth limit exceeded"),
        (b'{"prompt": "' + b"x" * (4 << 20) + b'"}', 413, "body: expected at most 4194304 bytes, found more"),
    ],
    ids=["broken", "form", "latin-1", "surrogate", "nan", "deep", "deeper", "long"],
)
def test_bodies_are_bounded(api: Api, suite: str, body: bytes, status: int, detail: str) -> None:
    answer = call(api.app, "POST", f"/api/tool-suites/{suite}/cases", body, content_type="application/json")
    assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json")
    assert answer.json["detail"].startswith(detail)


def test_a_body_that_does_not_come_is_answered() -> None:
    async def nothing() -> Message:
        await asyncio.Event().wait()
        raise AssertionError("nothing sets it")

    for headers, status in (([], 408), ([(b"content-length", b"5000")], 413)):
        with pytest.raises(Refusal) as caught:
            asyncio.run(whole_body({"type": "http", "headers": headers}, nothing, 100, 0.01))
        assert caught.value.status == status


def test_numbers_stay_exact(api: Api, suite: str) -> None:
    large = {**CASE, "expected_params": {"n": 2**70, "f": 0.1}}
    answered(api, "PUT", f"/tool-suites/{suite}/cases/case-1", large)
    found = answered(api, "GET", f"/tool-suites/{suite}/export")["test_cases"][0]
    assert found["expected_params"] == {"n": 2**70, "f": 0.1}


HERE = SuitesSettings(mcp_hosts=["127.0.0.1"])


def test_tools_of_a_server_become_a_suite(tmp_path: Path) -> None:
    api = api_in(tmp_path, suites=HERE)
    with scripted(Script()) as base:
        made = answered(api, "POST", "/tool-eval/import/mcp", {"url": f"{base}/mcp", "name": "Shop"}, 201)
    assert (made["name"], made["test_cases"], made["notes"]) == ("Shop", [], [])
    assert [tool["function"]["name"] for tool in made["tools"]] == [TOOL["name"]]
    assert answered(api, "GET", f"/tool-suites/{made['suite_id']}")["tools"] == made["tools"]


def test_no_redirect_of_a_server_is_followed(tmp_path: Path) -> None:
    def elsewhere(handler: Handler) -> None:
        handler.send_response(307)
        handler.send_header("Location", "http://169.254.169.254/latest")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    script = Script()
    script.answers["POST /mcp"] = elsewhere
    with scripted(script) as base:
        body = {"url": f"{base}/mcp"}
        said = refused(api_in(tmp_path, suites=HERE), "POST", "/tool-eval/import/mcp", body, 409, "not-possible")
    assert "307" in said


@each(
    ("url", "why"),
    [
        ("http://169.254.169.254/mcp", "is a link-local address, which is never asked"),
        ("http://[fe80::1]/mcp", "is a link-local address, which is never asked"),
        ("http://127.0.0.1:4318/mcp", "is this TraceGrade itself (port 4318), which is never asked"),
        ("http://localhost:9/mcp", "its host is allowed: add localhost to suites.mcp_hosts in the settings"),
        ("http://10.0.0.5/mcp", "its host is allowed: add 10.0.0.5 to suites.mcp_hosts in the settings"),
    ],
)
def test_servers_that_may_not_be_asked_are_not(api: Api, url: str, why: str) -> None:
    said = refused(api, "POST", "/tool-eval/import/mcp", {"url": url}, 409, "not-possible")
    assert said.endswith(why)
    assert answered(api, "GET", "/tool-suites") == {"suites": []}


def test_keys_for_a_server_are_sent_as_written_and_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUR_SECRET", "s3cret-of-ours")
    api, script = api_in(tmp_path, suites=HERE), Script()
    with scripted(script) as base:
        body = {"url": f"{base}/mcp", "headers": {"X-Key": "a\nb"}}
        said = refused(api, "POST", "/tool-eval/import/mcp", body, 400, "invalid-parameter")
        body["headers"] = {"X-Key": "${env:OUR_SECRET}"}
        made = answered(api, "POST", "/tool-eval/import/mcp", body, 201)
    assert said == "headers: X-Key: expected printable ASCII, which is not shown: it may be a key"
    assert {key.lower(): value for key, value in script.headers("tools/list").items()}["x-key"] == "${env:OUR_SECRET}"
    assert "OUR_SECRET" not in json.dumps(made)


def test_one_server_is_asked_at_a_time(tmp_path: Path) -> None:
    api = api_in(tmp_path, suites=HERE)
    with scripted(Script()) as base, servers._ONE:
        refused(api, "POST", "/tool-eval/import/mcp", {"url": f"{base}/mcp"}, 503, "busy")


def test_a_stored_suite_is_what_its_json_says(api: Api, suite: str) -> None:
    exported = answered(api, "GET", f"/tool-suites/{suite}/export")
    read = read_suite(WEATHER_SUITE, "default", suite, 1).suite
    assert [case["id"] for case in exported["test_cases"]] == [case.id for case in read.cases]
