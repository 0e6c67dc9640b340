"""The backtest of a rule, from the form on its page and by the API."""

import json
import re
import time
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pytest
from click.testing import CliRunner

from build import each
from build.api import Api, trace_id
from build.asgi import Called, call
from build.code_files import EVALUATOR, write_rule
from build.shop import GOOD, HOUR, SECOND, WRONG_ORDER, fill, order
from build.site import Site, serving, text_of
from tracegrade.access.caller import Caller
from tracegrade.cli import main
from tracegrade.compare.web.backtesting import Backtesting
from tracegrade.config import Config
from tracegrade.web import rights
from tracegrade.web.app import build_app
from tracegrade.web.own_process import Busy
from tracegrade.web.problem import PREFIX

pytestmark = pytest.mark.usefixtures("work_done_here")

RULE = "order-steps-out-of-order"
FORM = {"content_type": "application/x-www-form-urlencoded", "sec_fetch_site": "same-origin"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """30 orders of 1.4.2, all right, and 30 of 1.5.0, of which half were created before the stock was looked up."""
    folder: Path = tmp_path_factory.mktemp("backtest")
    now_ns = time.time_ns() - HOUR
    old = [(order(n, now_ns + n * SECOND, "1.4.2", GOOD), None) for n in range(1, 31)]
    new = [(order(n, now_ns + n * SECOND, "1.5.0", WRONG_ORDER if n % 2 else GOOD), None) for n in range(31, 61)]
    with serving(folder) as served:
        served.rules = fill(folder, iter(old + new))
        yield served


def deployed(site: Site) -> str:
    """The text in the form of the rule's page, as a browser reads it."""
    found = re.search(r"<textarea[^>]*>\n(.*?)</textarea>", site.get(f"/rules/{RULE}").text, re.DOTALL)
    assert found is not None
    return unescape(found[1])


def changed(site: Site) -> str:
    """The rule with other steps: those that were out of order for it are now right, and the others wrong."""
    ordered = "[validate_user, check_inventory, create_order]"
    text = deployed(site)
    assert ordered in text
    return text.replace(ordered, "[create_order, validate_user, check_inventory]")


def post(site: Site, text: str, since: str = "1d", **headers: str) -> Called:
    body = f"rule={quote_plus(text)}&since={since}".encode()
    return call(build_app(site.sources), "POST", f"/rules/{RULE}/backtest", body, **{**FORM, **headers})


def test_the_form_has_the_rule_in_force_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "a.rule.yaml"
    written = "# why\nid: a\nevaluate: [{evaluator: budget, max_calls: 3}]\n"
    file.write_text(written)
    fill(tmp_path, iter([]))
    with serving(tmp_path, str(file)) as site:
        address, form = "/rules/a", re.compile(r"<textarea[^>]*>\n(.*?)</textarea>", re.DOTALL)
        assert form.findall(site.get(address).text) == [written]
        for other in (written.replace("3", "4"), "id: ["):
            file.write_text(other)  # not in force yet
            (shown,) = form.findall(site.get(address).text)
            assert ("max_calls: 3" in shown, "# why" in shown) == (True, False)


def test_a_changed_rule_shows_what_it_would_have_said(site: Site) -> None:
    answer = post(site, changed(site))
    assert answer.status == 200, text_of(answer.body.decode())
    html = answer.body.decode()
    text = text_of(html)
    assert f"{RULE}: 45 subjects newly fail, 15 newly pass On 60 stored traces" in text
    assert "Pass rate before 75 % 60 results Pass rate after 25 % 60 results" in text
    newest = [trace_id(number) for number in (60, 58, 56)]
    fails = text.partition("Newly fail 3 of 45")[2].partition("Newly pass 3 of 15")[0]
    assert fails.count("✓ pass → ✗ fail") == 3
    assert re.findall(r'href="/traces/(\w+)\?rule=' + RULE, html)[:3] == newest
    assert "order-agent 1.4.2 100 % 0 % 30 30" in text
    assert "order-agent 1.5.0 50 % 50 % 30 30" in text
    assert "would have fired at" in text
    assert changed(site) in unescape(html)  # to change it further


def test_the_rule_as_deployed_would_have_said_the_same(site: Site) -> None:
    text = text_of(post(site, deployed(site)).body.decode())
    assert f"{RULE}: 0 subjects newly fail, 0 newly pass On 60 stored traces" in text


def test_a_wrong_rule_is_shown_with_line_and_column(site: Site) -> None:
    text = deployed(site).replace("evaluator: tool-call-order", "evaluator: tool-call-ordr").replace("\n", "\r\n")
    answer = post(site, text)
    assert answer.status == 400
    html = answer.body.decode()
    said = re.search(r"Line (\d+), column (\d+): (.*?)</li>", html)
    assert said is not None, text_of(html)
    assert "tool-call-ordr" in text.splitlines()[int(said[1]) - 1]
    assert "did you mean &#39;tool-call-order&#39;" in said[3]
    assert "tool-call-ordr" in html.partition("<textarea")[2]


@each(
    ("text", "since", "status", "said"),
    [
        ("", "1d", 400, "Line 1, column 1"),
        ("id: [", "1d", 400, "Line 1, column 6: not YAML"),
        (None, "soon", 400, "since: expected a time such as"),
        (None, "2020-01-01", 200, "60 stored traces"),
        (None, "1s", 409, "no trace between"),
        (None, "2999-01-01", 409, "the first is not before the second"),
    ],
)
def test_what_cannot_be_judged_is_said(site: Site, text: str | None, since: str, status: int, said: str) -> None:
    answer = post(site, deployed(site) if text is None else text, since)
    assert (answer.status, said in text_of(answer.body.decode())) == (status, True), text_of(answer.body.decode())


def test_another_site_may_not_ask(site: Site) -> None:
    assert post(site, deployed(site), sec_fetch_site="cross-site").status == 403


def test_callers_without_the_right_see_no_form(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rights, "KNOWN", Caller(frozenset({"read"})))
    shown = call(build_app(site.sources), "GET", f"/rules/{RULE}").body.decode()
    assert RULE in shown
    assert "<textarea" not in shown
    assert post(site, "id: x").status == 403


def test_a_busy_page_says_when_to_try_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*_: object) -> None:
        raise Busy("another backtest is being made; try again in a moment")

    monkeypatch.setattr(Backtesting, "backtest", busy)
    answer = post(site, "id: x")
    assert (answer.status, answer.headers["retry-after"]) == (503, "5")
    assert "another backtest is being made" in text_of(answer.body.decode())


@pytest.fixture(scope="module")
def api(site: Site) -> Api:
    return Api(site)


def by_command(site: Site, text: str, folder: Path) -> Any:
    """What the command line says of the rule with this text."""
    (folder / "rule.yaml").write_text(text)
    arguments = ["rules", "backtest", str(folder), "--rule", RULE, "--since", "1d", "--jobs", "1", "--format", "json"]
    shown = CliRunner().invoke(main, [*arguments, "--data-dir", site.config.data_dir])
    assert shown.exit_code == 0, shown.output
    return json.loads(shown.stdout)


def test_the_api_answers_as_the_command_line(site: Site, api: Api, tmp_path: Path) -> None:
    text = changed(site)
    answer = api.call("POST", "/backtests", {"rule": text, "since": "1d"})
    assert answer.status == 200, answer.body
    found, expected = answer.json, by_command(site, text, tmp_path)
    assert expected["rules"][0]["changes"]["newly_fails"]["examples"][0]["explanation"]
    for one in (found, expected):
        one["until_ns"] = one["since_ns"] = 0
        one["rules"][0]["path"] = None
        for alert in one["rules"][0]["alerts"]:
            alert["updated_ns"] = 0
    assert found == expected


def test_explanations_are_for_those_who_may_see_values(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rights, "KNOWN", Caller(frozenset({"read", "run"})))
    answer = Api(site).call("POST", "/backtests", {"rule": changed(site), "since": "1d"})
    (rule,) = answer.json["rules"]
    examples = [example for found in rule["changes"].values() for example in found["examples"]]
    assert len(examples) == 6
    assert not any(example["explanation"] or example["explanation_before"] for example in examples)


@each(
    ("body", "status", "type_", "said"),
    [
        ({"rule": "id: x\nlevel: grave\n"}, 400, "invalid-parameter", "rule:2:1: "),
        ({}, 400, "invalid-parameter", "rule: "),
        ({"rule": "id: x", "since": "soon"}, 400, "invalid-parameter", "since: "),
        ({"rule": "id: x", "agents": "x"}, 400, "invalid-parameter", "agents: is not a parameter"),
        (None, 409, "not-possible", "no trace of agent 'nobody'"),
    ],
)
def test_the_api_refuses_what_cannot_be_judged(
    site: Site, api: Api, body: dict[str, Any] | None, status: int, type_: str, said: str
) -> None:
    answer = api.call("POST", "/backtests", {"rule": deployed(site), "agent": "nobody"} if body is None else body)
    assert (answer.status, answer.json["type"]) == (status, PREFIX + type_), answer.body
    assert said in answer.json["detail"]


def test_code_from_the_network_never_runs(tmp_path: Path) -> None:
    """Also where the rules on this machine may name code, and though the file is there."""
    mark = tmp_path / "ran"
    path = write_rule(tmp_path / "rules", f"import pathlib\npathlib.Path({str(mark)!r}).touch()\n{EVALUATOR}")
    fill(tmp_path, iter([]))
    config = Config(data_dir=str(tmp_path), rules={"allow_code": True})
    with serving(tmp_path, str(path), config=config) as site:
        assert mark.exists()
        mark.unlink()
        for text in (path.read_text(), path.read_text().replace("./few_calls.py", str(path.with_name("few_calls.py")))):
            answer = Api(site).call("POST", "/backtests", {"rule": text})
            assert (answer.status, answer.json["type"]) == (400, PREFIX + "invalid-parameter")
            said = "is code, which runs only for a rule in a file on this machine, and never for a rule that was sent"
            assert re.search(
                rf"rule:3:5: evaluate\[0\].evaluator: the file \S+few_calls.py {said}", answer.json["detail"]
            )
        shown = text_of(site.get("/rules/few").text)
        assert "./few_calls.py" in shown
        assert not mark.exists()


def test_a_page_without_a_store_says_so(tmp_path: Path) -> None:
    config = Config(data_dir=str(tmp_path))
    app = build_app(Site(config.store_url, Site(config.store_url, None, config).rules, config).sources)  # type: ignore[arg-type]
    answer = call(app, "POST", "/api/v1/backtests", b'{"rule": "id: x"}', content_type="application/json")
    assert (answer.status, answer.json["type"]) == (503, PREFIX + "no-store")
