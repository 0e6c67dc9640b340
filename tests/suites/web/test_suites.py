"""The pages of suites, and what their forms change."""

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from build import each, store_with
from build.asgi import Called, call
from build.site import Site, rows_of, serving, text_of
from build.stored_runs import begin
from suites.build.scripted_mcp import Script, scripted
from tracegrade.config import Config
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.open import open_store, reading_store
from tracegrade.suites.keeping import add_suite
from tracegrade.suites.settings import SuitesSettings
from tracegrade.suites.store.suites import StoredSuite, stored_suite, suite_heads
from tracegrade.suites.web.pages.suites import MOST_BYTES
from tracegrade.web.app import build_app

FORM = {"content_type": "application/x-www-form-urlencoded", "sec_fetch_site": "same-origin"}
WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "Of a <b>city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}}}}  # fmt: skip
PARIS = {"prompt": "Weather in Paris?", "expected_tool": "get_weather", "expected_params": {"city": "<Paris>"}}
FLIGHT = {
    "id": "a/b",
    "prompt": "Book a flight\nto London",
    "expected_tool": ["book", "reserve"],
    "scoring_config": {"mode": "numeric_tolerance", "epsilon": 0.5},
    "category": "travel",
    "should_call_tool": True,
    "multi_turn": True,
    "max_rounds": 3,
    "optimal_hops": 2,
    "valid_prerequisites": ["search"],
    "mock_responses": {"search": {"flights": [1.5]}},
}
SUITE = {
    "name": "Weather <i>",
    "description": "of cities",
    "system_prompt": "Use\n<tools>.",
    "tools": [WEATHER],
    "test_cases": [PARIS, FLIGHT, {"id": "none", "prompt": "Tell me a joke, please", "expected_tool": None}],
}


class Place:
    """A page over a store with one suite."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.app = build_app(site.sources)
        self.id = add_suite(site.config.store_url, "default", SUITE, 7).suite.id

    def post(self, address: str, body: bytes = b"", status: int = 303, **fields: str) -> Called:
        sent = body or "&".join(f"{name}={quote(value)}" for name, value in fields.items()).encode()
        answer = call(self.app, "POST", address, sent, **FORM)
        assert answer.status == status, answer.body
        return answer

    def refused(self, address: str, **fields: str) -> str:
        """What a form that is shown again says."""
        return alert_of(self.post(address, status=400, **fields).body.decode())

    def suite(self, id_: str | None = None, tenant: str = "default") -> StoredSuite:
        with reading_store(self.site.config.store_url) as connection:
            found = stored_suite(connection, tenant, id_ or self.id)
        assert found is not None
        return found

    def ids(self, tenant: str = "default") -> list[str]:
        with reading_store(self.site.config.store_url) as connection:
            return [head.id for head in suite_heads(connection, tenant)]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    config = Config(data_dir=str(tmp_path), suites=SuitesSettings(mcp_hosts=["127.0.0.1"]))
    store_with(tmp_path)
    with serving(tmp_path, config=config) as site:
        yield Place(site)


def alert_of(html: str) -> str:
    found = re.search(r'role="alert">(.*?)</p>', html, re.DOTALL)
    assert found is not None, html
    return unescape(found[1])


def fields_of(html: str) -> dict[str, str]:
    """What a browser would post of the form of a page, untouched; with the line ends that browsers send."""
    form = re.findall(r"<form method=\"post\".*?</form>", html, re.DOTALL)[-1]
    found = {
        name: unescape(text).removeprefix("\n").replace("\n", "\r\n")
        for name, text in re.findall(r'<textarea[^>]*\bname="([^"]*)"[^>]*>(.*?)</textarea>', form, re.DOTALL)
    }
    for item in re.findall(r"<input[^>]*>", form):
        given = dict(re.findall(r'(\w+)="([^"]*)"', item))
        if given.get("type") != "checkbox" or " checked" in item:
            found[given["name"]] = unescape(given.get("value", ""))
    for name, options in re.findall(r'<select[^>]*\bname="([^"]*)"[^>]*>(.*?)</select>', form, re.DOTALL):
        every = re.findall(r"<option([^>]*)>(.*?)</option>", options)
        chosen = next((item for item in every if " selected" in item[0]), every[0])
        value = re.search(r'value="([^"]*)"', chosen[0])
        found[name] = chosen[1] if value is None else value[1]
    return found


def uploaded(place: Place, file: bytes, text: str, status: int = 303, at: str = "/suites/import") -> Called:
    parts = [
        b'Content-Disposition: form-data; name="file"; filename="a.json"\r\nContent-Type: application/json\r\n\r\n'
        + file,
        b'Content-Disposition: form-data; name="text"\r\n\r\n' + text.encode(),
    ]
    body = b"".join(b"--XyZ\r\n" + part + b"\r\n" for part in parts) + b"--XyZ--\r\n"
    form = {**FORM, "content_type": "multipart/form-data; boundary=XyZ"}
    answer = call(place.app, "POST", at, body, **form)
    assert answer.status == status, answer.body
    return answer


def test_suites_are_listed(place: Place) -> None:
    html = place.site.get("/suites").text
    assert rows_of(html)["Weather <i>"].startswith("Weather <i> of cities 1 3")
    assert "New suite Import JSON Import from MCP" in text_of(html)


def test_a_suite_shows_what_it_has(place: Place) -> None:
    html = place.site.get(f"/suites/{place.id}").text
    rows, said = rows_of(html), text_of(html)
    assert rows["case-1"] == ('case-1 Weather in Paris? get_weather {"city":"<Paris>"} parameters: exact Delete case-1')
    assert "book or reserve" in rows["a/b"]
    assert "at most 3 turns, 2 calls at best, answers of search" in rows["a/b"]
    assert "no call the tool alone" in rows["none"]
    assert "Use <tools>." in said
    assert "get_weather Of a <b>city" in said
    assert "No tool of the suite has the name that is expected in 1 case (a/b)" in said
    assert f"/evals/new?suite={place.id}" in html


def test_of_many_cases_the_first_are_shown_until_all_are_asked_for(place: Place) -> None:
    document: Any = {"name": "many", "test_cases": [{"prompt": f"question number {n}"} for n in range(250)]}
    id_ = add_suite(place.site.config.store_url, "default", document, 8).suite.id
    html = place.site.get(f"/suites/{id_}").text
    assert "And 50 more cases. Show all" in text_of(html)
    assert ("case-200" in rows_of(html), "case-201" in rows_of(html)) == (True, False)
    assert "case-250" in rows_of(place.site.get(f"/suites/{id_}?all=1").text)


def test_runs_of_a_suite_are_named(place: Place) -> None:
    engine = open_store(place.site.config.store_url)
    begin(engine, "weather/1", source=f"suite:{place.id}", labels={"model": "cloud::large"})
    begin(engine, "other/1")
    engine.dispose()
    html = place.site.get(f"/suites/{place.id}").text
    assert "cloud::large" in rows_of(html)["weather/1"]
    assert "other/1" not in html


def test_a_new_suite_is_made(place: Place) -> None:
    form = place.site.get("/suites/new").text
    assert fields_of(form) == {"name": "", "description": "", "system_prompt": "", "tools": ""}
    written = {"name": " Mine ", "description": "a", "system_prompt": "b\r\nc", "tools": json.dumps([WEATHER])}
    made = place.post("/suites/new", **written)
    suite = place.suite(made.headers["location"].removeprefix("/suites/"))
    assert (suite.name, suite.description, suite.system_prompt, suite.tools) == ("Mine", "a", "b\nc", [WEATHER])
    assert "No cases yet: there is nothing to run." in place.site.get(f"/suites/{suite.id}").text


def test_saving_a_suite_untouched_changes_nothing(place: Place) -> None:
    before = place.suite()
    place.post(f"/suites/{place.id}/edit", **fields_of(place.site.get(f"/suites/{place.id}/edit").text))
    after = place.suite()
    assert (after.name, after.system_prompt, after.tools, after.cases) == (
        before.name, before.system_prompt, before.tools, before.cases,
    )  # fmt: skip


@pytest.mark.parametrize("case", ["case-1", "a/b", "none"])
def test_saving_a_case_untouched_changes_nothing(place: Place, case: str) -> None:
    before = place.suite().cases
    address = f"/suites/{place.id}/cases/{case}"
    saved = place.post(address, **fields_of(place.site.get(address).text))
    assert saved.headers["location"] == f"/suites/{place.id}#cases"
    assert place.suite().cases == before


@each(
    "expected", ["a", ["a", "b"], ["a"], None, ["with, comma", "b"], "with, comma", "[a]"], ids=str
)  # fmt: skip
def test_every_expected_tool_survives_its_form(place: Place, expected: Any) -> None:
    id_ = add_suite(place.site.config.store_url, "default", {
        "name": "x", "test_cases": [{"prompt": "some words here", "expected_tool": expected}]}, 8).suite.id  # fmt: skip
    before = place.suite(id_).cases
    address = f"/suites/{id_}/cases/case-1"
    place.post(address, **fields_of(place.site.get(address).text))
    after = place.suite(id_).cases[0].body["expected_tool"]
    assert after == before[0].body["expected_tool"] or after == [before[0].body["expected_tool"]]


def test_a_case_is_added_and_deleted(place: Place) -> None:
    written = fields_of(place.site.get(f"/suites/{place.id}/new-case").text)
    typed = {"prompt": " a\r\nb\r\n", "expected_tool": " x, y", "id": " mine ", "category": " easy "}
    place.post(f"/suites/{place.id}/new-case", **{**written, **typed})
    case = place.suite().cases[-1]
    assert case.id == "mine"
    assert case.body == {"prompt": "a\nb", "expected_tool": ["x", "y"], "category": "easy"}, "without blanks around it"
    place.post(f"/suites/{place.id}/delete-case", case="mine")
    assert [case.id for case in place.suite().cases] == ["case-1", "a/b", "none"]
    place.post(f"/suites/{place.id}/delete-case", status=404, case="mine")


def test_a_suite_is_deleted(place: Place) -> None:
    assert place.post(f"/suites/{place.id}/delete").headers["location"] == "/suites"
    assert place.ids() == []
    assert place.site.get(f"/suites/{place.id}").status == 404
    place.post(f"/suites/{place.id}/delete", status=404)


def test_what_was_typed_is_shown_again_with_what_is_wrong(place: Place) -> None:
    shown = place.post("/suites/new", status=400, name="x", tools="[1", description="<kept>").body.decode()
    assert alert_of(shown).startswith("Nothing was stored: tools: expected JSON: ")
    assert fields_of(shown) == {"name": "x", "description": "<kept>", "system_prompt": "", "tools": "[1"}
    address = f"/suites/{place.id}/cases/a/b"
    written = fields_of(place.site.get(address).text)
    again = place.post(address, status=400, **{**written, "max_rounds": "1000"}).body.decode()
    assert alert_of(again) == "Nothing was stored: max_rounds: expected a number of at most 100, found 1000."
    assert fields_of(again) == {**written, "max_rounds": "1000"}
    assert len(place.suite().cases) == 3


@each(
    ("fields", "said"),
    [
        ({"prompt": " "}, "prompt: expected what a user says to the model, found nothing."),
        ({"prompt": "x", "expected_params": "[1]"}, "expected_params: expected an object, found a list of 1."),
        ({"prompt": "x", "expected_tool": "[1"}, "expected_tool: expected JSON: "),
        ({"prompt": "x"}, "expected_tool: expected the tool that should be called, or that no call is expected"),
        ({"prompt": "x", "expected_tool": "a", "no_call": "1"}, "expected_tool: expected no tool where no call"),
        ({"prompt": "x", "id": "none"}, "the suite has a case 'none' already; leave the id out for a new one."),
        ({"prompt": "x", "multi_turn": "1", "mock_responses": "[]x"}, "mock_responses: expected JSON: "),
        ({"prompt": "x", "expected_params": '{"a": NaN}'}, "expected_params.a: expected JSON, found nan"),
        ({"prompt": "x", "max_rounds": "3"}, "max_rounds: is for cases of several turns; set multi_turn, or leave it"),
        ({"prompt": "x", "mode": "numeric_tolerance", "epsilon": "much"}, "epsilon: expected JSON: "),
        (
            {"prompt": "x", "mode": "regex", "expected_params": '{"a": "("}'},
            "expected_params.a: RE2 refuses the regular expression",
        ),
    ],
)
def test_a_wrong_case_is_refused(place: Place, fields: dict[str, str], said: str) -> None:
    assert place.refused(f"/suites/{place.id}/new-case", **fields).startswith(f"Nothing was stored: {said}")
    assert len(place.suite().cases) == 3


def test_forms_are_bounded(place: Place) -> None:
    long = b"name=x&description=" + b"a" * MOST_BYTES
    assert b"longer than" in place.post("/suites/new", long, status=400).body
    assert b"longer than" in uploaded(place, b"a" * MOST_BYTES, "", status=400).body


def test_a_suite_is_imported_from_a_file_or_a_text(place: Place) -> None:
    whole = json.dumps(SUITE, ensure_ascii=False)
    ids = [
        uploaded(place, b"\xef\xbb\xbf" + whole.encode(), "").headers["location"].removeprefix("/suites/"),
        uploaded(place, b"", whole.replace("\n", "\r\n")).headers["location"].removeprefix("/suites/"),
    ]
    for id_ in ids:
        assert place.suite(id_).cases == place.suite().cases


def test_an_import_replaces_a_suite_which_keeps_its_id(place: Place) -> None:
    at = f"/suites/import?replace={place.id}"
    assert at in place.site.get(f"/suites/{place.id}").text
    form = place.site.get(at).text
    assert at in form
    assert "replace those of Weather <i>" in text_of(form)
    sent = json.dumps({"name": "Rain", "tools": SUITE["tools"], "test_cases": SUITE["test_cases"][:1]})
    assert uploaded(place, b"", sent, at=at).headers["location"] == f"/suites/{place.id}"
    assert (place.suite().name, len(place.suite().cases), place.ids()) == ("Rain", 1, [place.id])
    shown = uploaded(place, b"", '{"tools": 3}', status=400, at=at).body.decode()
    assert alert_of(shown) == "Nothing was imported: tools: expected a list, found 3."
    assert at in shown
    assert len(place.suite().cases) == 1
    for query in ("replace=none", f"replace={place.id}&tenant=other"):
        uploaded(place, b"", sent, status=404, at=f"/suites/import?{query}")
        assert place.site.get(f"/suites/import?{query}").status == 404


def test_what_an_import_leaves_out_is_shown(place: Place) -> None:
    shown = text_of(uploaded(place, json.dumps({**SUITE, "version": 2}).encode(), "", status=200).body.decode())
    assert "Imported Weather <i> 1 tool, 3 cases. Not all of it was taken: 'version' is not known and left out" in shown
    assert len(place.ids()) == 2


@each(
    ("file", "text", "said"),
    [
        (b"", " ", "expected a file or a text, found neither."),
        (b"{}", "{}", "expected a file or a text, found both."),
        (b"\xff", "", "the file: expected text in UTF-8."),
        (b"{", "", "the file: expected JSON: Expecting property name"),
        (b"", "[" * 100_000, "the text: expected JSON: "),
        (b"[]", "", "a list of BFCL cannot be run; 'tracegrade rules import' makes a rule of it"),
        (b'{"name": "x", "tools": 3}', "", "tools: expected a list, found 3."),
    ],
)
def test_a_wrong_import_is_refused(place: Place, file: bytes, text: str, said: str) -> None:
    shown = uploaded(place, file, text, status=400).body.decode()
    assert alert_of(shown).startswith(f"Nothing was imported: {said}")
    assert place.ids() == [place.id]


def test_another_form_than_the_pages_is_refused(place: Place) -> None:
    assert b"multipart/form-data" in place.post("/suites/import", status=400, text="{}").body
    form = {**FORM, "content_type": "multipart/form-data; boundary=XyZ"}
    assert call(place.app, "POST", "/suites/import", b"garbage", **form).status == 400


def test_tools_of_a_server_are_imported(place: Place) -> None:
    script = Script()
    with scripted(script) as base:
        made = place.post("/suites/import-mcp", url=f"{base}/mcp", name="Shop", headers="X-Key: k1\r\n\r\nX-Team: a:b")
    suite = place.suite(made.headers["location"].removeprefix("/suites/"))
    assert (suite.name, len(suite.tools), suite.cases) == ("Shop", 1, [])
    assert script.headers("tools/list")["x-key"] == "k1"
    assert script.headers("tools/list")["x-team"] == "a:b"
    assert "make poor prompts" in place.site.get(f"/suites/{suite.id}").text


@each(
    ("fields", "said"),
    [
        ({"url": "stdio:ls"}, "url: expected the address of an MCP server, http://... or https://...."),
        ({"url": "http://169.254.169.254/"}, "http://169.254.169.254/: 169.254.169.254 is a link-local address"),
        ({"url": "http://127.0.0.1:4318/"}, "http://127.0.0.1:4318/: 127.0.0.1 is this TraceGrade itself (port 4318)"),
        ({"url": "http://h/", "headers": "sk-secret"}, "headers: expected NAME: VALUE in line 1, which is not shown"),
    ],
)
def test_a_server_that_may_not_be_asked_is_not(place: Place, fields: dict[str, str], said: str) -> None:
    shown = place.post("/suites/import-mcp", status=400, **fields).body.decode()
    assert alert_of(shown).startswith(f"Nothing was imported: {said}")
    assert fields_of(shown)["url"] == fields["url"]
    assert "sk-secret" not in shown
    assert place.ids() == [place.id]


def test_suites_of_others_are_not_found(place: Place) -> None:
    assert "Weather" not in place.site.get("/suites?tenant=other").text
    for page in ("", "/edit", "/new-case", "/cases/case-1"):
        assert place.site.get(f"/suites/{place.id}{page}?tenant=other").status == 404
    for act in ("edit", "delete", "new-case", "delete-case", "cases/case-1"):
        place.post(f"/suites/{place.id}/{act}?tenant=other", status=404, name="x", prompt="some words", case="none")
    made = place.post("/suites/new?tenant=other", name="Theirs")
    assert made.headers["location"].endswith("?tenant=other")
    assert place.ids("default") == [place.id]
    assert len(place.suite().cases) == 3


@each("page", ["new", "import", "import-mcp", "ID/edit", "ID/new-case", "ID/cases/case-1"])
def test_who_may_not_write_gets_no_form(place: Place, page: str) -> None:
    web = {"endpoint": "0.0.0.0:4319", "insecure": True}
    config = Config.model_validate({"data_dir": place.site.config.data_dir, "web": web})
    app = build_app(Site(config.store_url, RuleSet([]), config).sources)
    assert call(app, "GET", f"/suites/{page.replace('ID', place.id)}").status == 403
    shown = call(app, "GET", f"/suites/{place.id}").body.decode()
    assert "case-1" in shown
    assert '<form method="post"' not in shown
    assert "New suite" not in call(app, "GET", "/suites").body.decode()


def test_a_page_of_another_site_changes_nothing(place: Place) -> None:
    form = {**FORM, "sec_fetch_site": "cross-site"}
    assert call(place.app, "POST", f"/suites/{place.id}/delete", b"", **form).status == 403
    assert place.ids() == [place.id]
