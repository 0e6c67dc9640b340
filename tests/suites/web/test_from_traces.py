"""Traces that somebody chose on the page of an incident become cases of a suite."""

import re
import time
from urllib.parse import quote

import pytest

from build.asgi import Called, call
from build.shop_incidents import FELL, fall, store
from build.site import Site, text_of
from tracegrade.store.open import reading_store
from tracegrade.suites.keeping import add_suite
from tracegrade.suites.store.suites import StoredSuite, stored_suite
from tracegrade.web.app import build_app

FORM = {"content_type": "application/x-www-form-urlencoded", "sec_fetch_site": "same-origin"}
FAILED, PASSED = f"a1{1:030x}", f"a1{2:030x}"


@pytest.fixture
def suite_id(shop: Site) -> str:
    suite = {"name": f"Orders {time.time_ns()}", "tools": [], "test_cases": []}
    return add_suite(shop.store_url, "default", suite, 7).suite.id


def stored(shop: Site, suite_id: str) -> StoredSuite:
    with reading_store(shop.store_url) as connection:
        found = stored_suite(connection, "default", suite_id)
    assert found is not None
    return found


def add(shop: Site, suite_id: str, *trace_ids: str, rule: str = "") -> Called:
    body = f"suite={suite_id}&rule={rule}&trace_ids={quote(' '.join(trace_ids))}"
    return call(build_app(shop.sources), "POST", "/suites/from-traces", body.encode(), **FORM)


def test_chosen_traces_lead_from_the_incident_to_cases_of_a_suite(shop: Site, suite_id: str) -> None:
    members = fall(shop.rules, time.time_ns(), 1.0)
    incident = store(shop.config.data_path, members)
    html = shop.get(f"/incidents/{incident.id}").text
    assert '<button type="submit" formaction="/suites/from-traces">Make cases of a suite</button>' in html
    chosen = re.findall(r'name="trace_id" value="(\w+)"', html)
    assert FAILED in chosen
    form = shop.get(f"/suites/from-traces?trace_id={FAILED}&rule={FELL}").text
    assert "1 trace, rule order-steps-out-of-order : a1000000" in text_of(form)
    assert f'<option value="{suite_id}">' in form
    done = add(shop, suite_id, FAILED, rule=FELL)
    assert (done.status, done.headers["location"]) == (303, f"/suites/{suite_id}#cases")
    (case,) = stored(shop, suite_id).cases
    assert case.id == f"trace-{FAILED}"
    assert case.body["expected_tool"] == "create_order"
    assert add(shop, suite_id, FAILED, rule=FELL).status == 303
    assert len(stored(shop, suite_id).cases) == 1, "a case that is there already is not added again"


def test_what_cannot_be_a_case_changes_nothing_and_is_said(shop: Site, suite_id: str) -> None:
    for given, said in (
        ((FAILED,), f"trace {FAILED} failed"),
        (("0" * 32,), "is not in the store"),
        (("zz",), "no stored trace has this id"),
        ((), "expected at least one trace and at most 50, found 0"),
        ([f"{number:032x}" for number in range(51)], "at most 50, found 51"),
    ):
        answer = add(shop, suite_id, *given)
        assert (answer.status, said in text_of(answer.body.decode())) == (400, True), said
    assert add(shop, suite_id, FAILED, rule="none").status == 400
    assert add(shop, "0" * 12, PASSED).status == 404
    assert not stored(shop, suite_id).cases
