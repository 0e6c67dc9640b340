"""The page of a run of a suite, and of one of its cases."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from build.asgi import call
from build.site import Site, rows_of, serving, text_of
from suites.build.scripted_models import Answer, calling, saying
from suites.build.suite_runs import CASES, SUITE, store_suite_runs
from tracegrade.access.caller import Caller
from tracegrade.web.app import build_app


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Runs weather/1 of the model that does well and weather/2 of the odd one, each case twice."""
    folder = tmp_path_factory.mktemp("suite")
    store_suite_runs(folder)
    with serving(folder) as served:
        yield served


def hints(page: str) -> list[str]:
    return [text_of(found) for found in re.findall(r'<p class="hint">.*?</p>', page, re.DOTALL)]


def test_a_run_shows_each_case_with_what_was_expected_and_called(site: Site) -> None:
    page = site.get("/runs/weather/2").text
    rows = rows_of(page)
    assert list(rows)[:6] == [f"case-{number}" for number in range(1, 7)]
    tokyo = rows["case-2"]
    assert 'get_weather or weather {"city":"Tokyo","units":"fahrenheit"}' in tokyo
    assert 'fail × 2 get_weather {"city":"Tokyo","units":"kelvin"} 0.8 1 0.5' in tokyo
    assert "<b>Fahrenheit</b>" in tokyo  # as text
    assert "flaky" in rows["case-3"]
    assert "! error × 2 no_answer" in rows["case-4"]
    assert rows["case-5"].startswith("case-5 Hello no call ✓ pass × 2 no call 1")
    shown = text_of(page)
    assert "flaky case-3 passed and failed" in shown
    assert "get_weather: the call came as JSON in the text (2 times)" in shown
    assert "all 6 not passed 4 flaky 1" in shown
    assert hints(page) == []


def test_a_run_shows_the_averages_of_its_model(site: Site) -> None:
    shown = text_of(site.get("/runs/weather/1").text)
    found = re.search(r"Overall 1\.0000 95 % interval (\S+)–(\S+) Right tool", shown)
    assert found is not None  # six cases: the fewest that give one
    assert 0.5 < float(found[1]) < float(found[2]) <= 1
    assert "Right tool 100 % Right parameters 100 %" in shown
    assert "in, 140 out" in shown


def test_only_the_cases_that_are_asked_for(site: Site) -> None:
    assert list(rows_of(site.get("/runs/weather/2?cases=flaky").text))[:1] == ["case-3"]
    failed = rows_of(site.get("/runs/weather/2?cases=failed").text)
    assert [name for name in failed if name.startswith("case-")] == ["case-2", "case-3", "case-4", "case-6"]
    assert "No case is so." in site.get("/runs/weather/1?cases=flaky").text
    refused = site.get("/runs/weather/2?cases=other")
    assert (refused.status, "cases: expected one of failed, flaky, found" in refused.text) == (400, True)


def test_a_case_shows_where_a_parameter_differs_and_what_was_said(site: Site) -> None:
    page = site.get("/runs/weather/2?case=case-2").text
    shown = text_of(page)
    assert shown.count("Where Expected Found units different") == 2
    assert '"fahrenheit" "kelvin"' in shown
    assert "system Use the tools. user Tokyo in <b>Fahrenheit</b> Reply" in shown
    assert shown.count("Tokens in 100 Tokens out 10") == 2
    assert 'rel="prev">case-1</a>' in page
    assert 'rel="next">case-3</a>' in page
    trace = re.search(r'href="(/traces/[0-9a-f]{32}\?run=weather%2F2)"', page)
    assert trace is not None
    assert "weather/2" in site.get(trace[1]).text


def test_a_case_of_several_turns_shows_its_numbers_and_each_request(site: Site) -> None:
    shown = text_of(site.get("/runs/weather/2?case=case-6").text)
    assert "Completion 1 Efficiency 0.6667 Redundancy penalty 0 Detour penalty 0.1 Calls 3" in shown
    assert "note no mock response for the tool 'get_visa'" in shown
    assert "What was said, in 3 requests" in shown
    # Each request shows only what is new in it.
    assert shown.count('answers {"flights":["FL123"]}') == 2  # once in each of two repetitions
    assert shown.count("user Book a flight") == 2
    assert "the 2 messages before tool answers" in shown


def test_a_flaky_case_and_an_error_say_what_happened(site: Site) -> None:
    shown = text_of(site.get("/runs/weather/2?case=case-3").text)
    assert "Results ✓ 1 pass ✗ 1 fail flaky" in shown
    assert "assistant It is <i>sunny</i>." in shown
    error = text_of(site.get("/runs/weather/2?case=case-4").text)
    assert "! error Repetition 1" in error
    assert "out of <order>" in error


def test_a_case_that_is_not_there_is_said(site: Site) -> None:
    answer = site.get("/runs/weather/1?case=case-9")
    assert (answer.status, "Run weather/1 has no result of a case" in answer.text) == (404, True)
    assert site.get("/runs/nowhere?case=case-1").status == 404


def test_values_need_their_right(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Caller(frozenset({"read"}))
    monkeypatch.setattr("tracegrade.web.access.caller_without_token", lambda settings: reader)
    app = build_app(site.sources)
    run = call(app, "GET", "/runs/weather/2").body.decode()
    assert "kelvin" not in run
    assert "get_weather" in run
    assert "came as JSON" not in run  # a note may repeat what a model wrote
    case = call(app, "GET", "/runs/weather/2?case=case-2").body.decode()
    assert "kelvin" not in case
    assert "Values are hidden" in case
    assert "sunny" not in call(app, "GET", "/runs/weather/2?case=case-3").body.decode()


def test_words_instead_of_calls_give_a_hint(tmp_path: Path) -> None:
    store_suite_runs(tmp_path, "--model", "good", "--tool-choice", "auto", script=lambda body: saying("Sunny."))
    with serving(tmp_path) as served:
        (hint,) = hints(served.get("/runs/weather/1").text)
    assert hint.startswith("hint Nothing is called where a tool is expected: with tool_choice auto")


def test_words_of_a_model_that_refuses_to_have_to_call_give_another_hint(tmp_path: Path) -> None:
    def script(body: dict[str, Any]) -> Answer:
        return Answer({"error": "no"}, 400) if body["tool_choice"] == "required" else saying("Sunny.")

    store_suite_runs(tmp_path, "--model", "good", script=script)
    with serving(tmp_path) as served:
        page = served.get("/runs/weather/1").text
    (hint,) = hints(page)
    assert hint.startswith("hint Nothing is called where a tool is expected: this model refuses tool_choice required")
    assert "tool_choice required was refused, so auto was asked for (6 times)" in text_of(page)


def test_right_tools_with_wrong_values_give_a_hint(tmp_path: Path) -> None:
    suite = {**SUITE, "test_cases": CASES[:3]}
    wrong = lambda body: calling(("get_weather", {"city": "Nowhere"}))  # noqa: E731
    store_suite_runs(tmp_path, "--model", "good", suite=suite, script=wrong)
    with serving(tmp_path) as served:
        (hint,) = hints(served.get("/runs/weather/1").text)
    assert hint.startswith("hint The right tools are called, and hardly any parameter is as expected.")


def test_a_run_of_many_cases_shows_some(tmp_path: Path) -> None:
    cases = [{"prompt": f"Weather in Paris? {number}", "expected_tool": "get_weather"} for number in range(203)]
    store_suite_runs(tmp_path, "--model", "good", suite={**SUITE, "test_cases": cases})
    with serving(tmp_path) as served:
        page = served.get("/runs/weather/1").text
        assert "Show 3 more cases" in page
        assert len([name for name in rows_of(page) if name.startswith("case-")]) == 200
        whole = rows_of(served.get("/runs/weather/1?all=1").text)
    assert [name for name in whole if name.startswith("case-")] == [f"case-{number}" for number in range(1, 204)]
