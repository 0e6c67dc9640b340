"""Runs of suites by the API that the evaluation documents, from real jobs against a scripted server.

The suite, its curl lines and the flow of events are those of the documentation.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import Engine, func, select

from build import each
from build.api import DOCUMENT, Api
from build.asgi import call
from build.site import serving
from build.websockets import opened
from suites.build.api import TOOL_EVAL_DOCUMENT
from suites.build.job_streams import names, page
from suites.build.jobs import Place, placed
from suites.build.scripted_models import Answer, calling, prompt_of, saying
from suites.web.test_suites_api import WEATHER_SUITE
from tracegrade.access.caller import Caller
from tracegrade.cli import main
from tracegrade.store.schema import runs, traces
from tracegrade.suites.store.tables import job_events, jobs
from tracegrade.web import rights
from tracegrade.web.problem import PREFIX

LARGE, SMALL = "one::m-1", "one::m-2"
FORM = {"content_type": "application/x-www-form-urlencoded", "sec_fetch_site": "same-origin"}
FLOW = ["job_created", "tool_eval_init", "tool_eval_progress", "tool_eval_result", "tool_eval_summary"]


def model(body: dict[str, Any]) -> Answer:
    """The large one does what is asked; the small one knows no units, the one that is told to talk talks."""
    system = [message["content"] for message in body["messages"] if message["role"] == "system"]
    if system == ["Talk."]:
        return saying("It is warm.")
    city = "Paris" if "Paris" in prompt_of(body) else "Tokyo"
    units = {"units": "fahrenheit"} if city == "Tokyo" and body["model"] == "m-1" else {}
    return calling(("get_weather", {"city": city, **units}))


@pytest.fixture
def here(tmp_path: Path, engine: Engine) -> Iterator[Place]:
    (tmp_path / "data").mkdir()
    with placed(tmp_path, engine, model, cases=1) as place:
        yield place


@pytest.fixture
def api(here: Place) -> Iterator[Api]:
    with serving(here.folder, config=here.config) as site:
        yield Api(site, TOOL_EVAL_DOCUMENT)


@pytest.fixture
def suite(api: Api) -> str:
    answer = api.call("POST", "/tool-eval/import", WEATHER_SUITE)
    assert answer.status in (200, 201), answer.body
    return str(answer.json["suite_id"])


def submitted(api: Api, suite: str, *models: str, **more: Any) -> str:
    answer = api.call("POST", "/tool-eval", {"suite_id": suite, "models": [*(models or (LARGE,))], **more})
    assert answer.status == 202, answer.body
    assert answer.json["status"] == "submitted"
    return str(answer.json["job_id"])


def ran(here: Place, api: Api, suite: str, *models: str, **more: Any) -> str:
    """The id of an eval that has ended."""
    job = submitted(api, suite, *models, **more)
    with here.working():
        here.until(job, "done")
    return job


def by_command(here: Place, folder: Path, suite: str, *more: str) -> Result:
    """`suite run` with the large model."""
    settings = folder / "settings.yaml"
    document = {"data_dir": here.config.data_dir, "store": {"url": here.url}, "suites": {"models": str(here.models)}}
    settings.write_text(json.dumps(document))
    models = () if "--background" in more else ("--models", str(here.models))
    return CliRunner().invoke(main, ["suite", "run", suite, "--model", "m-1", *models, *more, "-c", str(settings)])


def refused(api: Api, method: str, address: str, body: Any, status: int, type_: str) -> str:
    answer = api.call(method, address, body)
    assert (answer.status, answer.json["type"]) == (status, PREFIX + type_), answer.body
    return str(answer.json["detail"])


def test_a_case_that_needs_what_is_not_set_is_stored_with_a_note_and_not_run(api: Api, suite: str) -> None:
    of_cases = f"/tool-suites/{suite}/cases"
    (needs,) = api.call("PUT", f"{of_cases}/case-1", {"param_scoring": "semantic"}).json["notes"]
    assert ("case 'case-1': param_scoring" in needs, "rules.semantic_model" in needs) == (True, True)
    detail = refused(api, "POST", "/tool-eval", {"suite_id": suite, "models": [LARGE]}, 409, "not-possible")
    assert needs in detail
    assert api.call("GET", "/tool-eval/history").json["runs"] == []
    assert api.call("GET", f"/tool-suites/{suite}").json["notes"] == [needs]
    assert "notes" not in api.call("PUT", f"{of_cases}/case-1", {"param_scoring": "exact"}).json
    case = {"prompt": "x", "expected_tool": "get_weather", "param_scoring": "semantic"}
    assert len(api.call("POST", of_cases, [case, {**case, "param_scoring": "exact"}]).json["notes"]) == 1
    assert len(api.call("POST", "/tool-eval/import", {**WEATHER_SUITE, "test_cases": [case]}).json["notes"]) == 1


def test_an_eval_is_submitted_watched_listed_shown_and_deleted(
    here: Place, api: Api, suite: str, engine: Engine
) -> None:
    experiment = api.call("POST", "/experiments", {"name": "Which model", "suite_id": suite}).json["id"]
    with page(here) as site, opened(site.url, "/ws") as client, here.working():
        asked = {"temperature": 0.0, "tool_choice": "required", "experiment_id": experiment}
        job = submitted(api, suite, LARGE, SMALL, **asked)
        events = [client.read()]
        while events[-1]["type"] != "job_completed":
            events.append(client.read())
    assert [name for name in FLOW if name not in names(events)] == []
    complete = next(event for event in events if event["type"] == "tool_eval_complete")
    assert complete["eval_id"] == job
    one = api.get(f"/tool-eval/history/{job}")
    (listed,) = api.get("/tool-eval/history")["runs"]
    assert listed == {name: one[name] for name in listed}
    assert (one["status"], one["job_id"], one["suite_id"], one["experiment_id"]) == ("done", job, suite, experiment)
    assert (one["suite_name"], one["models"]) == ("Weather API Suite", [LARGE, SMALL])
    # The small one has the tool and one of two parameters of the second case: (1 + (0.6 + 0.4 / 2)) / 2 = 0.9.
    assert [(run["model"], run["score"], run["traces"]) for run in one["runs"]] == [(LARGE, 1.0, 2), (SMALL, 0.9, 2)]
    assert (one["avg_score"], one["delta"], one["is_baseline"], one["baseline_score"]) == (0.95, 0.0, True, 0.95)
    assert [(item["model"], item["overall"]) for item in one["summary"]] == [(LARGE, 1.0), (SMALL, 0.9)]
    assert [(item["model"], item["overall_score"]) for item in one["results"]] == [
        *((LARGE, 1.0), (LARGE, 1.0), (SMALL, 1.0), (SMALL, 0.8))
    ]
    last = one["results"][-1]
    assert (last["tool_selection_score"], last["param_accuracy"]) == (1.0, 0.5)
    assert (last["expected_params"], last["actual_params"]) == (
        {"city": "Tokyo", "units": "fahrenheit"},
        {"city": "Tokyo"},
    )
    assert one["configuration"]["temperature"] == 0.0
    deleted = api.call("DELETE", f"/tool-eval/history/{job}").json
    assert deleted == {"deleted": 1, "traces_deleted": 4}
    with engine.connect() as connection:
        for table in (jobs, job_events, runs, traces):
            assert connection.execute(select(func.count()).select_from(table)).scalar() == 0, table.name
    assert api.get("/tool-eval/history") == {"runs": [], "next": None}
    assert "no eval" in refused(api, "GET", f"/tool-eval/history/{job}", None, 404, "not-found")
    assert "no eval" in refused(api, "DELETE", f"/tool-eval/history/{job}", None, 404, "not-found")


def test_the_delta_is_against_the_baseline_of_the_experiment(here: Place, api: Api, suite: str) -> None:
    api.call("POST", "/experiments", {"name": "tuning", "suite_id": suite})
    first = ran(here, api, suite, SMALL, experiment_id="tuning")
    second = ran(here, api, suite, LARGE, experiment_id="tuning")
    found = api.get("/tool-eval/history")["runs"]
    assert [(item["id"], item["avg_score"], item["delta"]) for item in found] == [(second, 1.0, 0.1), (first, 0.9, 0.0)]
    (complete,) = here.events(second, "tool_eval_complete")
    assert (complete.fields["delta"], complete.fields["baseline_score"]) == (0.1, 0.9)
    assert api.call("PUT", "/experiments/tuning/baseline", {"eval_id": second}).json["baseline_score"] == 1.0
    assert [item["delta"] for item in api.get("/tool-eval/history?limit=1")["runs"]] == [0.0]
    assert [item["delta"] for item in api.get("/tool-eval/history?limit=1&offset=1")["runs"]] == [-0.1]
    entries = api.get("/experiments/tuning/timeline")["entries"]
    assert [(entry["type"], entry["id"], entry["delta"]) for entry in entries] == [
        ("eval", first, -0.1),
        ("eval", second, 0.0),
    ]


def test_evals_of_suites_with_one_name_go_into_an_experiment_of_each(here: Place, api: Api, suite: str) -> None:
    other = api.call("POST", "/tool-eval/import", {**WEATHER_SUITE, "system_prompt": "Talk."}).json["suite_id"]
    first, second, third = ran(here, api, suite, SMALL), ran(here, api, other, SMALL), ran(here, api, suite, LARGE)
    found = {item["id"]: item for item in api.get("/tool-eval/history")["runs"]}
    names = {item["id"]: item["name"] for item in api.get("/experiments")["experiments"]}
    assert [names[found[id_]["experiment_id"]] for id_ in (first, second, third)] == [
        *("weather-api-suite", f"weather-api-suite-{other}", "weather-api-suite")
    ]
    assert [(found[id_]["delta"], found[id_]["baseline_eval_id"]) for id_ in (first, second, third)] == [
        *((0.0, first), (0.0, second), (0.1, first))
    ]
    (complete,) = here.events(third, "tool_eval_complete")
    assert complete.fields["baseline_eval_id"] == first
    api.call("PUT", "/experiments/weather-api-suite", {"name": "renamed"})
    api.call("PATCH", f"/tool-suites/{suite}", {"name": "Renamed, too"})
    again = api.call("POST", "/tool-eval", {"suite_id": suite, "models": [LARGE]}).json
    assert (names[again["experiment_id"]], again["baseline_eval_id"]) == ("weather-api-suite", first)
    assert api.get(f"/experiments/{again['experiment_id']}")["name"] == "renamed"


def test_an_eval_of_another_suite_than_the_experiments_is_refused_at_every_door(
    here: Place, api: Api, suite: str, tmp_path: Path
) -> None:
    other = api.call("POST", "/tool-eval/import", {**WEATHER_SUITE, "name": "Other"}).json["suite_id"]
    for name in ("made", "first-eval"):
        api.call("POST", "/experiments", {"name": name, "suite_id": suite if name == "made" else None})
        submitted(api, suite, experiment_id=name)  # decides at once, not when it runs
    v1 = Api(api.site, DOCUMENT)
    before = len(v1.get("/jobs")["items"])
    for name in ("made", "first-eval"):
        of_other = {"suite_id": other, "models": [LARGE], "experiment_id": name}
        said = refused(api, "POST", "/tool-eval", of_other, 409, "not-possible")
        assert f"the experiment '{name}' is about the suite {suite} ('Weather API Suite')" in said
        assert ("suite_id" in said, f"suite import --replace {suite}" in said) == (True, True)
        job = {"suite": other, "models": [LARGE], "experiment": name}
        assert "is about the suite" in refused(v1, "POST", "/jobs", job, 409, "not-possible")
        form = {"suite": other, "experiment": name, f"model:{LARGE}": "1"}
        assert call(api.app, "POST", "/evals", urlencode(form).encode(), **FORM).status == 409
        for more in ((), ("--background",)):
            done = by_command(here, tmp_path, other, "--experiment", name, *more)
            assert (done.exit_code, "is about the suite" in done.output) == (2, True)
    assert len(v1.get("/jobs")["items"]) == before


def test_an_import_replaces_the_cases_of_a_suite_whose_runs_stay_comparable(here: Place, api: Api, suite: str) -> None:
    first = ran(here, api, suite)
    sent = {"suite_id": suite, "tools": WEATHER_SUITE["tools"], "test_cases": WEATHER_SUITE["test_cases"][:1]}
    answer = api.call("POST", "/tool-eval/import", sent)
    assert (answer.status, answer.json["suite_id"], answer.json["test_cases_created"]) == (200, suite, 1)
    assert (answer.json["name"], len(api.get(f"/tool-suites/{suite}")["test_cases"])) == ("Weather API Suite", 1)
    second = ran(here, api, suite, SMALL)
    assert api.get(f"/tool-eval/history/{second}")["baseline_eval_id"] == first
    for wrong, status in (({**sent, "suite_id": "none"}, 404), ({**sent, "suite_id": 7}, 400), ({"tools": []}, 400)):
        assert api.call("POST", "/tool-eval/import", wrong).status == status, wrong
    assert len(api.get(f"/tool-suites/{suite}")["test_cases"]) == 1


def test_an_agent_and_a_file_decide_nothing_and_are_not_refused(
    here: Place, api: Api, suite: str, tmp_path: Path
) -> None:
    path = tmp_path / "weather.json"
    path.write_text(json.dumps(WEATHER_SUITE))
    assert by_command(here, tmp_path, str(path), "--experiment", "mixed").exit_code == 0
    submitted(api, suite, experiment_id="mixed")
    assert by_command(here, tmp_path, str(path), "--experiment", "mixed").exit_code == 0
    assert api.get("/experiments/mixed")["suite_id"] == suite
    stored = by_command(here, tmp_path, suite)
    assert "of experiment weather-api-suite" in stored.output


def test_targets_name_models_and_a_system_prompt_is_for_all_or_one(here: Place, api: Api, suite: str) -> None:
    targets = [{"provider_key": "one", "model_id": "m-1"}, {"provider_key": "one", "model_id": "m-2"}]
    body = {"suite_id": suite, "targets": targets, "system_prompt": {LARGE: "Talk."}}
    job = api.call("POST", "/tool-eval", body).json["job_id"]
    with here.working():
        here.until(job, "done")
    scores = {run["model"]: run["score"] for run in api.get(f"/tool-eval/history/{job}")["runs"]}
    assert scores == {LARGE: 0.0, SMALL: 0.9}
    other = ran(here, api, suite, LARGE, SMALL, system_prompt="Talk.", tool_choice="auto")
    found = api.get(f"/tool-eval/history/{other}")
    assert found["avg_score"] == 0.0
    assert set(found["hints"]) == {LARGE, SMALL}
    assert "tool_choice required" in found["hints"][LARGE][0]


@each(
    ("body", "status", "type_", "said"),
    [
        ({}, 400, "invalid-parameter", "suite_id"),
        ({"models": []}, 400, "invalid-parameter", "models: expected at least one"),
        ({"suite_id": "none"}, 404, "not-found", "no suite 'none'"),
        ({"models": ["m-9"]}, 400, "invalid-parameter", "m-9"),
        ({"experiment_id": "none"}, 404, "not-found", "no experiment 'none'; 'POST /api/experiments' makes one"),
        ({"temperature": 3}, 400, "invalid-parameter", "temperature"),
        ({"tool_choice": "always"}, 400, "invalid-parameter", "tool_choice"),
        ({"system_prompt": {"one::m-9": "x"}}, 400, "invalid-parameter", "'one::m-9' is not asked"),
        ({"repeat": 0}, 400, "invalid-parameter", "repeat"),
        ({"judge": {}}, 400, "invalid-parameter", "judge: is not a parameter"),
    ],
)
def test_what_cannot_be_run_is_told_in_a_sentence(
    api: Api, suite: str, body: dict[str, Any], status: int, type_: str, said: str
) -> None:
    whole = body if not body else {"suite_id": suite, "models": [LARGE], **body}
    assert said in refused(api, "POST", "/tool-eval", whole, status, type_)
    assert Api(api.site, DOCUMENT).get("/jobs")["items"] == []


def test_more_than_a_job_may_ask_is_a_wrong_parameter(api: Api) -> None:
    many = {**WEATHER_SUITE, "test_cases": WEATHER_SUITE["test_cases"] * 60}
    made = api.call("POST", "/tool-eval/import", many).json["suite_id"]
    body = {"suite_id": made, "models": [LARGE], "repeat": 1000}
    assert "expected at most 100000 runs of cases" in refused(api, "POST", "/tool-eval", body, 400, "invalid-parameter")


def test_without_a_file_of_models_it_says_so(here: Place, api: Api, suite: str) -> None:
    here.models.unlink()
    detail = refused(api, "POST", "/tool-eval", {"suite_id": suite, "models": [LARGE]}, 409, "not-possible")
    assert str(here.models) in detail


def test_a_job_is_cancelled_by_its_id_and_can_go_on(here: Place, api: Api, suite: str) -> None:
    job = submitted(api, suite, LARGE)
    assert api.call("POST", "/tool-eval/cancel", {"job_id": job}).json == {"job_id": job, "status": "cancelled"}
    assert api.call("POST", "/tool-eval/cancel", {"job_id": job}).json["status"] == "cancelled"
    assert "no job 'abc123'" in refused(api, "POST", "/tool-eval/cancel", {"job_id": "abc123"}, 404, "not-found")
    refused(api, "POST", "/tool-eval/cancel", {}, 400, "invalid-parameter")
    assert [(item["id"], item["status"]) for item in api.get("/tool-eval/history")["runs"]] == [(job, "cancelled")]
    v1 = Api(api.site, DOCUMENT)
    assert v1.call("POST", f"/jobs/{job}/resume").json["status"] == "submitted"
    with here.working():
        here.until(job, "done")
    assert "is done" in refused(v1, "POST", f"/jobs/{job}/resume", None, 409, "not-possible")


def test_an_eval_that_has_stored_nothing_yet_is_there(here: Place, api: Api, suite: str) -> None:
    first = ran(here, api, suite, SMALL)
    second = submitted(api, suite, LARGE, repeat=2)
    found = api.get("/tool-eval/history")["runs"]
    assert [(item["id"], item["status"]) for item in found] == [(second, "submitted"), (first, "done")]
    one = api.get(f"/tool-eval/history/{second}")
    assert one == {**found[0], "summary": [], "results": [], "hints": {}}
    assert (one["models"], one["runs"], one["avg_score"], one["delta"]) == ([LARGE], [], None, None)
    assert (one["experiment_id"], one["baseline_score"]) == (found[1]["experiment_id"], 0.9)
    assert [item["id"] for item in api.get("/tool-eval/history?limit=1&offset=1")["runs"]] == [first]
    api.call("POST", "/tool-eval/cancel", {"job_id": second})
    assert api.call("DELETE", f"/tool-eval/history/{second}").json == {"deleted": 1, "traces_deleted": 0}
    assert [item["id"] for item in api.get("/tool-eval/history")["runs"]] == [first]


def test_jobs_are_submitted_listed_shown_cancelled_and_deleted(here: Place, api: Api, suite: str) -> None:
    v1 = Api(api.site, DOCUMENT)
    first = v1.call("POST", "/jobs", {"suite": suite, "models": ["m-1"], "repeat": 2})
    assert (first.status, first.json["status"], first.json["request"]["models"]) == (202, "submitted", [LARGE])
    second = v1.call("POST", "/jobs", {"suite": suite, "models": [SMALL], "experiment": "tuning"}).json["id"]
    assert v1.get("/jobs")["items"][0]["id"] == second
    assert v1.call("POST", f"/jobs/{second}/cancel").json["status"] == "cancelled"
    id_ = first.json["id"]
    assert f"job {id_} is queued" in refused(v1, "DELETE", f"/jobs/{id_}", None, 409, "not-possible")
    with here.working():
        here.until(id_, "done")
    done = v1.get(f"/jobs/{id_}")
    assert (done["status"], done["current"], done["total"], done["result_ref"]) == ("done", 4, 4, id_)
    assert [item["id"] for item in v1.get("/jobs?state=done")["items"]] == [id_]
    assert [item["id"] for item in v1.get("/jobs?limit=1&offset=1")["items"]] == [id_]
    v1.refused("/jobs?state=queued", 400, "invalid-parameter")
    assert v1.get("/jobs?tenant=other") == {"items": [], "next": None}
    v1.refused(f"/jobs/{id_}?tenant=other", 404, "not-found")
    assert v1.call("DELETE", f"/jobs/{id_}").json == {"deleted": 1, "traces_deleted": 4}
    v1.refused(f"/jobs/{id_}", 404, "not-found")
    assert v1.call("POST", "/jobs", {"suite": suite}).status == 400
    assert v1.call("POST", "/jobs", {"suite": "none", "models": [LARGE]}).status == 409


def test_a_run_of_the_command_line_is_an_eval_of_its_own(here: Place, api: Api, tmp_path: Path) -> None:
    path = tmp_path / "weather.json"
    path.write_text(json.dumps(WEATHER_SUITE))
    shown = by_command(here, tmp_path, str(path), "--experiment", "by-hand")
    assert shown.exit_code == 0, shown.output
    (one,) = api.get("/tool-eval/history")["runs"]
    assert (one["id"], one["job_id"], one["suite_id"], one["status"]) == ("by-hand/1", None, None, "done")
    assert len(api.get("/tool-eval/history/by-hand/1")["results"]) == 2
    assert api.call("DELETE", "/tool-eval/history/by-hand/1").json == {"deleted": 1, "traces_deleted": 2}


def test_history_and_jobs_are_paged_by_a_cursor_and_filtered(here: Place, api: Api, suite: str) -> None:
    other = api.call("POST", "/tool-eval/import", WEATHER_SUITE).json["suite_id"]
    first, second = ran(here, api, suite, LARGE, SMALL), ran(here, api, other, SMALL)
    reported(api, "param_tune", 0.8, {"model": LARGE}, experiment="weather-api-suite")
    failed = api.call("POST", "/tool-eval", {"suite_id": suite, "models": [LARGE]}).json["job_id"]
    api.call("POST", "/tool-eval/cancel", {"job_id": failed})
    whole = api.get("/tool-eval/history")
    (promoted,) = (item["id"] for item in whole["runs"] if item["reported"])
    assert [item["id"] for item in whole["runs"]] == [failed, promoted, second, first]
    assert whole["next"] is None

    def ids(**asked: Any) -> list[str]:
        return [item["id"] for item in api.get(f"/tool-eval/history?{urlencode(asked)}")["runs"]]

    began = {item["id"]: item["begun_ns"] for item in whole["runs"]}
    own = api.get("/experiments/weather-api-suite")["id"]
    for asked, expected in (
        ({"suite_id": suite}, [failed, promoted, first]),
        ({"suite_id": "none"}, []),
        ({"experiment_id": own}, [failed, promoted, first]),
        ({"experiment_id": f"weather-api-suite-{other}"}, [second]),
        ({"model": LARGE}, [failed, promoted, first]),
        ({"model": SMALL}, [second, first]),
        ({"status": "cancelled"}, [failed]),
        ({"status": "done", "limit": 2}, [promoted, second]),
        ({"since": began[second]}, [failed, promoted, second]),
        ({"until": began[second]}, [first]),
        ({"suite_id": suite, "model": SMALL, "status": "done"}, [first]),
    ):
        assert ids(**asked) == expected, asked
    assert "no experiment" in refused(api, "GET", "/tool-eval/history?experiment_id=none", None, 404, "not-found")
    refused(api, "GET", "/tool-eval/history?status=queued", None, 400, "invalid-parameter")

    v1 = Api(api.site, DOCUMENT)
    api.call("POST", "/experiments", {"name": "a third"})
    for answerer, address, name in (
        (api, "/tool-eval/history", "runs"),
        (v1, "/jobs", "items"),
        (api, "/experiments", "experiments"),
    ):
        expected = [item["id"] for item in answerer.get(address)[name]]
        assert len(expected) >= 3, address
        found, cursor = [], ""
        while cursor is not None:
            page_ = answerer.get(f"{address}?limit=1{cursor and f'&cursor={cursor}'}")
            assert len(page_[name]) == 1, address
            found += [item["id"] for item in page_[name]]
            cursor = page_["next"]
            if address != "/experiments":
                submitted(api, suite)  # newer items shift nothing
        assert found == expected, address
        assert [item["id"] for item in answerer.get(f"{address}?offset=1&limit=1")[name]] != found[:1]
        wrong = "offset=1&cursor=AAAAAAAAAAAAAAAAAAAAAA"
        assert "cursor" in refused(answerer, "GET", f"{address}?{wrong}", None, 400, "invalid-parameter")


def test_a_promoted_result_is_an_eval_that_is_shown_pinned_and_deleted(here: Place, api: Api, suite: str) -> None:
    api.call("POST", "/experiments", {"name": "tuning", "suite_id": suite})
    eval_id = ran(here, api, suite, SMALL, experiment_id="tuning")
    configuration = {"model": LARGE, "temperature": 0.2}
    tune, promoted = reported(api, "param_tune", 0.8, configuration)
    one = api.get(f"/tool-eval/history/{promoted['id']}")
    assert (one["reported"], one["status"], one["avg_score"], one["delta"]) == (True, "done", 0.8, -0.1)
    assert (one["runs"], one["results"], one["summary"], one["job_id"]) == ([], [], [], None)
    assert (one["configuration"], one["models"], one["suite_id"]) == (configuration, [LARGE], suite)
    api.refused(f"/tool-eval/history/{tune['id']}", 404, "not-found")
    pinned = api.call("PUT", "/experiments/tuning/baseline", {"eval_id": promoted["id"]}).json
    assert (pinned["baseline_eval_id"], pinned["baseline_score"]) == (promoted["id"], 0.8)
    found = api.get(f"/tool-eval/history/{eval_id}")
    assert (found["delta"], found["baseline_eval_id"], found["is_baseline"]) == (0.1, promoted["id"], False)
    entries = {entry["id"]: entry for entry in api.get("/experiments/tuning/timeline")["entries"]}
    assert (entries[promoted["id"]]["is_baseline"], entries[eval_id]["delta"]) == (True, 0.1)
    v1 = Api(api.site, DOCUMENT)
    shown = v1.get("/experiments/tuning")
    assert (shown["baseline"], shown["baseline_entry"], shown["pinned"]) == (None, promoted["id"], True)
    assert [item["delta"] for item in v1.get("/runs?experiment=tuning")["items"]] == [0.1]
    assert b"which was reported" in call(api.app, "GET", "/experiments/tuning").body
    other = api.call("POST", "/tool-eval/import", WEATHER_SUITE).json["suite_id"]
    api.call("POST", "/experiments", {"name": "of-other", "suite_id": other})
    body = {"eval_id": promoted["id"]}
    assert "is of the suite" in refused(api, "PUT", "/experiments/of-other/baseline", body, 409, "not-possible")
    api.call("POST", "/experiments", {"name": "same", "suite_id": suite, "baseline_eval_id": promoted["id"]})
    address = f"/tool-eval/history/{promoted['id']}"
    assert "the experiment same has" in refused(api, "DELETE", address, None, 409, "not-possible")
    assert api.call("DELETE", f"{address}?force=true").json == {"deleted": 1, "traces_deleted": 0}
    api.refused(address, 404, "not-found")
    same = api.get("/experiments/same")
    assert (same["pinned"], promoted["id"] in same["baseline_note"]) == (False, True)
    assert [entry["id"] for entry in api.get("/experiments/tuning/timeline")["entries"]] == [eval_id, tune["id"]]


def test_who_may_not_see_values_gets_scores_alone(
    here: Place, api: Api, suite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = ran(here, api, suite)
    monkeypatch.setattr(rights, "KNOWN", Caller(frozenset({"read", "run"})))
    first = Api(api.site, TOOL_EVAL_DOCUMENT).get(f"/tool-eval/history/{job}")["results"][0]
    assert first["overall_score"] == 1.0
    hidden = ("prompt", "trace_id", "expected_tool", "actual_tool", "actual_params", "calls", "explanation", "notes")
    assert {first[name] for name in hidden} == {None}


def reported(
    api: Api, type_: str, score: float, configuration: Mapping[str, Any], experiment: str = "tuning"
) -> list[Any]:
    sent = {"type": type_, "score": score, "configuration": configuration}
    answer = api.call("POST", f"/experiments/{experiment}/timeline", sent)
    assert answer.status == 201
    found: list[Any] = answer.json["entries"]
    return found


def test_run_best_runs_the_best_eval_or_tune_again(here: Place, api: Api, suite: str) -> None:
    api.call("POST", "/experiments", {"name": "tuning", "suite_id": suite})
    address = "/experiments/tuning/run-best"
    assert "no best" in refused(api, "POST", address, None, 409, "not-possible")
    ran(here, api, suite, SMALL, experiment_id="tuning", temperature=0.5)
    best = api.call("POST", address).json
    assert best["status"] == "submitted"
    assert {key: best["config_used"][key] for key in ("models", "temperature", "tool_choice")} == {
        "models": [SMALL],
        "temperature": 0.5,
        "tool_choice": "required",
    }
    with here.working():
        here.until(best["job_id"], "done")
    assert api.get("/tool-eval/history")["runs"][0]["id"] == best["job_id"]
    reported(api, "prompt_tune", 0.95, {"system_prompt": "Talk.", "tool_choice": "auto"})
    tuned = api.call("POST", address).json
    assert {key: tuned["config_used"][key] for key in ("models", "system_prompt", "tool_choice")} == {
        "models": [SMALL],  # the tune names none: those of the best eval
        "system_prompt": "Talk.",
        "tool_choice": "auto",
    }
    assert api.call("POST", address, {"models": [LARGE]}).json["config_used"]["models"] == [LARGE]
    one = {"provider_key": "one", "model_id": "m-1"}
    reported(api, "param_tune", 0.97, {"models": [one], "temperature": 0.2, "learning_rate": 1})
    assert api.call("POST", address).json["config_used"]["models"] == [LARGE]
    reported(api, "param_tune", 0.99, {"model": "m-1", "temperature": "hot"})
    assert "temperature" in refused(api, "POST", address, None, 409, "not-possible")


def test_run_best_needs_a_stored_suite(here: Place, api: Api, suite: str) -> None:
    api.call("POST", "/experiments", {"name": "tuning"})
    reported(api, "param_tune", 0.9, {"temperature": 0.1})
    address = "/experiments/tuning/run-best"
    assert "no stored suite" in refused(api, "POST", address, None, 409, "not-possible")
    ran(here, api, suite, SMALL, experiment_id="tuning")
    assert api.call("POST", address).json["config_used"]["models"] == [SMALL]
    api.call("DELETE", f"/tool-suites/{suite}")
    assert "no suite" in refused(api, "POST", address, None, 404, "not-found")
    assert "no experiment" in refused(api, "POST", "/experiments/none/run-best", None, 404, "not-found")


def test_another_tenant_sees_and_changes_nothing(here: Place, api: Api, suite: str) -> None:
    job = ran(here, api, suite)
    elsewhere = "?tenant=other"
    assert api.get(f"/tool-eval/history{elsewhere}") == {"runs": [], "next": None}
    for method, address, body in (
        ("GET", f"/tool-eval/history/{job}", None),
        ("DELETE", f"/tool-eval/history/{job}", None),
        ("POST", "/tool-eval/cancel", {"job_id": job}),
        ("POST", "/tool-eval", {"suite_id": suite, "models": [LARGE]}),
    ):
        assert api.call(method, address + elsewhere, body).status == 404, address
    assert len(api.get("/tool-eval/history")["runs"]) == 1
