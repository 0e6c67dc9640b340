"""What readers of the fleet's pages stumbled over: which rules did not judge, what failed, who is silent."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from build.fleet import PRICES, RULES, fleet, fleet_order, trace_id
from build.shop import fill
from build.site import Site, serving, text_of
from tracegrade.config import Config
from tracegrade.model.session import session_trace_id
from tracegrade.rule.load import load_rules
from tracegrade.store.incidents import open_incidents
from tracegrade.web.talks import STEPS_DIFFER


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder: Path = tmp_path_factory.mktemp("fleet")
    with serving(folder, str(RULES), config=fleet(folder, time.time_ns())) as served:
        yield served


def _text(site: Site, address: str) -> str:
    answer = site.get(address)
    assert answer.status == 200, answer.text
    return text_of(answer.text)


def test_a_rule_that_judged_one_agent_of_a_trace_is_not_listed_as_one_that_did_not(site: Site) -> None:
    page = site.get(f"/traces/{trace_id(17)}").text
    _, _, others = page.partition("did not judge this trace</span>")
    rules = re.findall(r'<th scope="row">([a-z-]+)</th>', others.partition("</table>")[0])
    assert rules == ["claim-answered"]
    assert "1 rule did not judge this trace" in text_of(page)


def test_passes_of_the_session_are_counted_as_such(site: Site) -> None:
    assert "3 pass 1 of its session, the others of this trace" in _text(site, f"/traces/{trace_id(17)}")


def test_a_call_that_failed_shows_its_error_in_place_of_an_output(site: Site) -> None:
    page = _text(site, f"/traces/{trace_id(17)}")
    assert "3 charge_card ! CardExpired: the card expired in 10/26 Where Expected Found" in page
    assert '{"status":"paid"} ! CardExpired: the card expired in 10/26' in page
    assert "Actual: CardExpired: the card expired in 10/26, Expected:" in page.replace('\\"', "").replace('"', "")


def test_traces_side_by_side_say_not_evaluable_and_which_arguments_are_not_recorded(site: Site) -> None:
    page = _text(site, f"/compare/traces?a={trace_id(22)}&passing=seat-not-held")
    assert "charged-amount ✓ 1 pass – 1 not evaluable" in page
    assert "did not judge" not in page
    _, _, calls = page.partition("Tool calls = ")
    assert "4 charge_card not recorded" in calls
    assert "null" not in calls


def test_an_incident_of_silence_says_since_when_and_how_many_results_came_before(site: Site) -> None:
    with site.store() as connection:
        (incident,) = open_incidents(connection)
    page = _text(site, f"/incidents/{incident.id}")
    assert "Agent payout at claims-bot has sent no results for 2 hours 6 minutes" in page
    assert "Before 15 results in the 7 days before No results for 2 hours 6 minutes the rule allows 30 minutes" in page
    assert "No values are stored" not in page


def test_costs_are_those_of_when_it_was_judged_also_after_prices_have_changed(tmp_path: Path) -> None:
    fleet(tmp_path, time.time_ns())
    later = {model: {"input": 900, "output": 900} for model in PRICES}
    config = Config.model_validate({"data_dir": str(tmp_path), "traces": {"prices": later}})
    with serving(tmp_path, str(RULES), config=config) as site:
        trace = _text(site, f"/traces/{trace_id(45)}")
        session = _text(site, f"/sessions/{session_trace_id('default', 'trip-8').hex()}")
    assert trace.count("cost 0.055") == 1
    assert re.findall(r"cost (0\.\d+)", trace) == ["0.055"]
    assert STEPS_DIFFER in trace
    assert re.findall(r"cost (0\.\d+)", session) == ["0.28", *["0.055"] * 5]


def test_a_cost_that_was_not_known_when_it_was_judged_is_not_made_up_afterwards(tmp_path: Path) -> None:
    order = iter([(fleet_order(45), "trip-8")])
    fill(tmp_path, order, load_rules([str(RULES)]))
    config = Config.model_validate({"data_dir": str(tmp_path), "traces": {"prices": PRICES}})
    with serving(tmp_path, str(RULES), config=config) as site:
        page = _text(site, f"/traces/{trace_id(45)}")
    assert "cost not known: none was stored when it was judged" in page
    assert not re.findall(r"cost 0\.\d+", page)
