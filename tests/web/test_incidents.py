"""Incidents on the page: listed, told whole, and accepted."""

import json
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest

from build.shop import HOUR, SECOND, fill, traffic
from build.shop_incidents import FELL, fall, over, store, store_waiting
from build.site import Site, serving, text_of
from tracegrade.access.tokens import new_token
from tracegrade.config import Config, WebSettings
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.alerts import StoredAlert
from tracegrade.store.incidents import stored_incident
from waiting import WITHIN_S


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RuleSet]:
    """A folder whose store holds 15 hours of traffic, to be copied, and the rules that judged it."""
    folder: Path = tmp_path_factory.mktemp("filled")
    return folder, fill(folder, traffic(500, time.time_ns() - 60 * SECOND, 15.0))


@pytest.fixture
def site(tmp_path: Path, filled: tuple[Path, RuleSet]) -> Iterator[Site]:
    folder, rules = filled
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    with serving(tmp_path) as served:
        served.rules = rules
        yield served


def _fall(site: Site, hours: float = 3.5) -> list[StoredAlert]:
    return fall(site.rules, time.time_ns(), hours)


def forms(html: str) -> set[str]:
    """What the forms of the page do: the last parts of their addresses."""
    return {address.rpartition("/")[2] for address in re.findall(r'<form[^>]* method="post" action="([^"]*)"', html)}


def _post(site: Site, path: str, form: dict[str, str] | None = None, **headers: str) -> tuple[int, str]:
    data = urlencode(form or {}).encode()
    named = {k.replace("_", "-"): v for k, v in headers.items()}
    request = Request(site.url + path, data, method="POST", headers=named)
    try:
        with urlopen(request, timeout=WITHIN_S) as response:
            return response.status, response.url
    except HTTPError as error:
        with error:
            return error.code, text_of(error.read().decode())


def test_incidents_are_listed_with_how_they_are_or_how_they_ended(site: Site) -> None:
    folder, now_ns = site.config.data_path, time.time_ns()
    assert "No alerts are firing" in text_of(site.get("/alerts").text)
    members = _fall(site)
    firing = store(folder, members, silenced=True)
    ended = store(folder, [over(replace(members[0], fingerprint="0f" * 16), now_ns - HOUR)])
    store_waiting(folder, now_ns)
    html = site.get("/alerts").text
    page = text_of(html)
    assert "Firing 1 ▲ firing ‖ silenced until" in page
    assert f"{FELL} at shop, agent order-agent: pass rate fell from 97.2% to 78.4% (342 results)" in page
    assert "3 alerts · ! chat was not notified" in page
    assert "Resolved 1 → release replaced high" in page
    assert "new-agent shop no baseline yet" in page
    assert "unnamed agent support too few results yet" in page
    assert f'href="/incidents/{firing.id}"' in html
    assert f'href="/incidents/{ended.id}"' in html
    other = text_of(site.get("/alerts?rule=refund-without-lookup").text)
    assert "No matching alerts" in other
    assert "new-agent" not in other
    assert f'href="/incidents/{firing.id}"' in site.get("/").text
    assert "1 incident firing" in text_of(site.get("/").text)
    assert f'href="/incidents/{firing.id}"' in site.get(f"/rules/{FELL}").text


def test_an_incident_is_told_whole(site: Site) -> None:
    firing = store(site.config.data_path, _fall(site), silenced=True)
    html = site.get(f"/incidents/{firing.id}").text
    page = text_of(html)
    assert "Before 97.2% pass rate of 912 results When found 76.2%" in page
    assert "Now 78.4% pass rate of 342 results, between 71% and 85%" in page
    assert "Chance alone would cause this at most once in 2 years." in page
    assert "Nobody is notified until" in page
    assert "rule=order-steps-out-of-order we know: OPS-41" in page
    assert "2 of 3 expected calls were made in the expected order" in page
    assert "release 1.5.0 97 % 21.6% – 30 %" in page.replace("\N{NARROW NO-BREAK SPACE}", " ")
    assert "release 1.5.0 first seen at 2026-11-22 22:33 UTC" in page
    assert "release 1.5.0: pass rate fell from" in page
    assert "pager firing," in page
    assert "chat not yet ! answered 503 tried 3 times" in page
    assert "! refused firing, high, 3 times:" in page
    assert "✓ took firing, high:" in page
    trace_id = firing.lead.facts.worst[0]
    assert f'href="/traces/{trace_id}?rule={FELL}"' in html
    assert site.get(f"/traces/{trace_id}").status == 200
    (results,) = re.findall(r'href="(/traces\?[^"]*)"', html)
    assert site.get(results.replace("&amp;", "&")).status == 200


def test_an_incident_of_another_tenant_than_default_says_whose_it_is(site: Site) -> None:
    found = [replace(alert, tenant="globex") for alert in _fall(site)]
    incident = store(site.config.data_path, found)
    for path in ("/alerts", f"/incidents/{incident.id}"):
        assert "tenant globex" in text_of(site.get(path).text), path


def test_the_curve_is_readable_without_seeing_it(site: Site) -> None:
    firing = store(site.config.data_path, _fall(site))
    html = site.get(f"/incidents/{firing.id}").text
    (curve,) = re.findall(r'<svg class="curve" .*?</svg>\s*<figcaption', html, re.DOTALL)
    (said,) = re.findall(r'aria-label="([^"]*)"', curve)
    assert said.startswith("Pass rate from ")
    assert re.search(r"mostly between [\d.]+% and [\d.]+% before it began at", said)
    assert re.search(r"between [\d.]+% and [\d.]+% since then, [\d.]+% at the end", said)
    names = re.findall(r'<text class="name (\w+)"', curve)
    assert sorted(names) == ["began", "found", "was"]
    assert "before 97.2%" in text_of(curve)
    rows = re.findall(r"<tr><td><time", html)
    assert len(rows) == curve.count("<circle") > 5


def test_a_short_incident_fills_the_curve_and_the_day_before_is_shown_below(site: Site) -> None:
    def shaded(address: str) -> list[float]:
        """Of each large curve, how much of its width is that of the incident, in per cent."""
        curves = re.findall(r'<svg class="curve" .*?</svg>', site.get(address).text, re.DOTALL)
        return [float(re.search(r'class="during"[^>]* width="([\d.]+)', curve)[1]) for curve in curves]  # type: ignore[index]

    firing = store(site.config.data_path, _fall(site))
    near, wide = shaded(f"/incidents/{firing.id}")
    assert near > 40 > 20 > wide
    long_ago = store(site.config.data_path, fall(site.rules, time.time_ns(), 14.0))
    assert len(shaded(f"/incidents/{long_ago.id}")) == 1


def test_references_are_links_only_to_web_pages(site: Site) -> None:
    firing = store(site.config.data_path, _fall(site))
    html = site.get(f"/incidents/{firing.id}").text
    assert '<a href="https://wiki.example/orders" rel="noopener noreferrer">' in html
    assert "<li>javascript://example.com/%0Aalert(1)</li>" in html
    assert 'href="javascript' not in html


def test_an_incident_that_is_over_says_how_it_ended_and_has_nothing_to_accept(site: Site) -> None:
    ended = store(site.config.data_path, [over(alert, time.time_ns() - HOUR) for alert in _fall(site)])
    html = site.get(f"/incidents/{ended.id}").text
    page = text_of(html)
    assert "→ release replaced high" in page
    assert "when release 1.5.1 replaced it" in page
    assert 'class="name ended"' in html
    assert forms(html) == {"own", "comments"}
    status, said = _post(site, f"/incidents/{ended.id}/accept")
    assert status == 409
    assert "there is nothing to accept" in said


def test_the_level_is_accepted_by_the_form(site: Site) -> None:
    firing = store(site.config.data_path, _fall(site))
    html = site.get(f"/incidents/{firing.id}").text
    assert "2 alerts will end with the next check" in text_of(html)
    assert "1 alert with a bound in the rule will stay" in text_of(html)
    assert forms(html) == {"accept", "acknowledge", "own", "comments"}
    form = f"/incidents/{firing.id}/accept"
    status, said = _post(site, form, origin="https://elsewhere.example")
    assert (status, "Asked for by another site" in said) == (403, True)
    assert _post(site, form, origin=site.url) == (200, f"{site.url}/incidents/{firing.id}")
    with site.store() as connection:
        stored = stored_incident(connection, firing.id)
    assert stored is not None
    assert stored.accepted_ns is not None
    page = text_of(site.get(f"/incidents/{firing.id}").text)
    assert "Accepted at" in page
    assert "Its alerts end with the next check" in page


def test_a_bound_cannot_be_accepted_and_the_page_says_what_to_do(site: Site) -> None:
    _, bound, _ = _fall(site)
    firing = store(site.config.data_path, [bound])
    html = site.get(f"/incidents/{firing.id}").text
    assert "accept" not in forms(html)
    assert "To accept this level, change the bound in the rule." in text_of(html)
    status, said = _post(site, f"/incidents/{firing.id}/accept")
    assert status == 409
    assert "its bound stands in the rule" in said


def test_nobody_accepts_from_other_machines_without_being_known(site: Site) -> None:
    firing = store(site.config.data_path, _fall(site))
    web = WebSettings(endpoint="0.0.0.0:4319", insecure=True)
    config = site.config.model_copy(update={"web": web})
    with serving(site.config.data_path, config=config) as open_to_all:
        html = open_to_all.get(f"/incidents/{firing.id}").text
        assert '<form method="post"' not in html
        assert f"tracegrade alerts accept {firing.id}" in text_of(html)
        assert _post(open_to_all, f"/incidents/{firing.id}/accept")[0] == 403


def test_people_acknowledge_own_and_comment_and_the_page_says_who(site: Site) -> None:
    firing = store(site.config.data_path, _fall(site))
    address = f"/incidents/{firing.id}"
    assert "Nobody owns it." in text_of(site.get(address).text)
    for form, sent in (("acknowledge", {}), ("own", {}), ("comments", {"text": "<b>a lock</b> & more"})):
        assert _post(site, f"{address}/{form}", sent) == (200, site.url + address)
    html = site.get(address).text
    assert forms(html) == {"accept", "comments"}
    page = text_of(html)
    assert "Owned by local . Acknowledged by local" in page
    assert re.search(
        r"What people did 3 local acknowledged it [-\d: ]+ local became its owner [-\d: ]+ local said", page
    )
    assert "&lt;b&gt;a lock&lt;/b&gt; &amp; more" in html
    status, said = _post(site, f"{address}/comments", {"text": "x" * 2001})
    assert (status, "expected at most 2,000 characters, found 2,001" in said) == (400, True)
    assert _post(site, f"{address}/comments", {"text": "x"}, origin="https://elsewhere.example")[0] == 403
    assert _post(site, "/incidents/0000000000/own")[0] == 404


def test_a_silence_is_made_from_an_incident_by_two_touches_and_ended(site: Site) -> None:
    firing = store(site.config.data_path, _fall(site))
    html = site.get(f"/incidents/{firing.id}").text
    (asked,) = re.findall(r'<a class="button" href="([^"]*)">Silence</a>', html)
    form = site.get(asked).text
    assert "Matches 3 firing of this incident, 0 others." in text_of(form)
    labels = dict(re.findall(r'id="of-\w+" name="(\w+)" value="([^"]*)"', form))
    assert {name: glob for name, glob in labels.items() if glob} == {
        "rule": FELL,
        "service": "shop",
        "agent": "order-agent",
        "tenant": "default",
    }
    sent = {**labels, "incident": firing.id, "duration": "2h", "comment": "we <know>"}
    assert _post(site, "/silences", sent) == (200, f"{site.url}/incidents/{firing.id}")
    html = site.get(f"/incidents/{firing.id}").text
    page = text_of(html)
    assert "‖ silenced until" in page
    assert "we <know>, by local" in page
    assert re.search(r"local silenced rule=order-steps-out-of-order .* until", page)
    (end,) = re.findall(r'action="(/silences/[^"]*)"', html)
    assert f'action="{end}"' in site.get("/alerts").text
    assert _post(site, end, {"incident": firing.id}) == (200, f"{site.url}/incidents/{firing.id}")
    assert "silenced until" not in text_of(site.get(f"/incidents/{firing.id}").text)
    assert _post(site, end)[0] == 404


def test_a_silence_that_matches_nothing_is_warned_of_and_one_without_labels_refused(site: Site) -> None:
    form = text_of(site.get("/silences/new?service=shoop").text)
    assert "Warning: it matches nothing: no stored result has the service 'shoop'; did you mean 'shop'?" in form
    assert "see what it matches" in text_of(site.get("/silences/new").text)
    status, said = _post(site, "/silences", {"comment": "x"})
    assert (status, "labels: expected at least one of" in said) == (400, True)
    assert site.get("/silences/new?incident=0000000000").status == 404


def test_a_bearer_of_review_takes_part_and_silences_nothing(site: Site) -> None:
    firing = store(site.config.data_path, _fall(site), silenced=True)
    config = Config.model_validate({"data_dir": str(site.config.data_path), "web": {"auth": {}}})
    tokens = {
        role: new_token(config.tokens_path, role, [role], None, None, time.time_ns())[1]
        for role in ("read", "read-values", "review", "admin")
    }
    with serving(site.config.data_path, config=config) as asked:
        address = f"/api/v1/incidents/{firing.id}"

        def call(role: str, method: str, path: str, body: object = None) -> tuple[int, Any]:
            data = None if body is None else json.dumps(body).encode()
            headers = {"authorization": f"Bearer {tokens[role]}", "content-type": "application/json"}
            try:
                with urlopen(Request(asked.url + path, data, headers, method=method), timeout=WITHIN_S) as answer:
                    return answer.status, json.loads(answer.read())
            except HTTPError as error:
                with error:
                    return error.code, json.loads(error.read())

        said = {"text": "planted words"}
        assert call("read-values", "POST", f"{address}/comments", said)[0] == 403
        assert call("review", "POST", f"{address}/comments", said)[0] == 201
        assert call("review", "POST", f"{address}/acknowledge")[0] == 200
        status, found = call("review", "POST", f"{address}/own")
        assert (status, found["owner"], found["acknowledged"]["author"]) == (200, "review", "review")
        for method, path, body in (
            ("POST", "/api/v1/silences", {"labels": {"rule": FELL}}),
            ("DELETE", "/api/v1/silences/5e1f", None),
            ("POST", f"{address}/accept", None),
        ):
            assert call("review", method, path, body)[0] == 403, path
        assert [note["text"] for note in call("read", "GET", address)[1]["notes"]] == ["[hidden]", "", ""]
        assert [note["text"] for note in call("read-values", "GET", address)[1]["notes"]] == ["planted words", "", ""]
        asked_for = {"labels": {"rule": FELL}, "duration": "1h", "comment": "x", "incident": firing.id}
        status, tried = call("admin", "POST", "/api/v1/silences", asked_for | {"dry_run": True})
        assert (status, tried["silence"], tried["matched"]["text"]) == (
            200, None, "Matches 3 firing of this incident, 0 others.",
        )  # fmt: skip
        status, made = call("admin", "POST", "/api/v1/silences", asked_for)
        assert (status, made["silence"]["author"], made["matched"]) == (201, "admin", tried["matched"])
        assert call("admin", "DELETE", f"/api/v1/silences/{made['silence']['id']}")[1]["id"] == made["silence"]["id"]
        assert call("admin", "DELETE", f"/api/v1/silences/{made['silence']['id']}")[0] == 404
        assert [item["comment"] for item in call("read", "GET", "/api/v1/silences")[1]["items"]] == ["[hidden]"] * 2


def test_the_runbook_is_linked_where_the_settings_name_one(site: Site) -> None:
    firing = store(site.config.data_path, _fall(site))
    assert ">Runbook</a>" not in site.get(f"/incidents/{firing.id}").text
    settings = {"data_dir": str(site.config.data_path), "alerts": {"runbook_url": "https://wiki.example/r/{rule}"}}
    with serving(site.config.data_path, config=Config.model_validate(settings)) as asked:
        html = asked.get(f"/incidents/{firing.id}").text
    assert f'href="https://wiki.example/r/{FELL}" rel="noopener noreferrer">Runbook</a>' in html


def test_of_very_many_alerts_some_are_shown_at_first(site: Site) -> None:
    drop, *_ = _fall(site)
    many = [replace(drop, fingerprint=f"{number:032x}", agent=f"agent-{number}") for number in range(100)]
    firing = store(site.config.data_path, many)
    html = site.get(f"/incidents/{firing.id}").text
    shown, _, rest = html.partition("80 more alerts")
    assert len(re.findall(r"agent agent-\d+: pass rate", rest)) == 80
    assert "Alerts 100" in text_of(shown)


def test_what_has_no_results_any_more_is_told_without_a_curve(site: Site) -> None:
    alert = replace(_fall(site)[0], agent="long-gone")
    firing = store(site.config.data_path, [alert])
    html = site.get(f"/incidents/{firing.id}").text
    assert '<svg class="curve"' not in html
    assert "No values are stored of that time" in text_of(html)


def test_there_is_no_such_incident(site: Site) -> None:
    answer = site.get("/incidents/0000000000")
    assert answer.status == 404
    assert "There is no incident" in text_of(answer.text)
    assert _post(site, "/incidents/0000000000/accept")[0] == 404
    assert site.get("/incidents/0000000000/accept").status == 405
