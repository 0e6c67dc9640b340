"""Experiments, as the evaluation that they are from documents them, called as its users call them."""

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import Engine, func, select

from build import each, store_with
from build.api import Api
from build.asgi import call
from build.judged_traces import START_NS, judged
from build.site import Site
from build.stored_runs import run_of
from suites.build.api import TOOL_EVAL_DOCUMENT
from suites.web.test_suites_api import WEATHER_SUITE
from tracegrade.cli import main
from tracegrade.config import Config
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.open import changing_store, open_store
from tracegrade.store.runs import (
    Experiment,
    note_writing,
    save_experiment,
    save_run,
    stored_experiment,
    stored_run,
    take_back_run,
)
from tracegrade.store.schema import experiment_entries
from tracegrade.store.write import StoreWriter
from tracegrade.suites.runs.experiments import experiment_for
from tracegrade.suites.store.jobs import Job, add_job, stored_job
from tracegrade.suites.store.suites import stored_suite
from tracegrade.web.problem import PREFIX

SECOND = 10**9
KEPT_NONE = {"runs_deleted": 0, "runs_kept": 0, "evals_kept": 0}


@pytest.fixture
def api(tmp_path: Path) -> Api:
    config = Config(data_dir=str(tmp_path))
    store_with(tmp_path)
    return Api(Site(config.store_url, RuleSet([]), config), TOOL_EVAL_DOCUMENT)


@pytest.fixture
def engine(api: Api) -> Iterator[Engine]:
    found = open_store(api.site.config.store_url)
    yield found
    found.dispose()


def ran(engine: Engine, name: str, outcomes: Sequence[Any], at_s: int, **known: Any) -> None:
    """A complete run with these outcomes, which is as old as `at_s` says."""
    run = run_of(name, **({"state": "complete", "begun_ns": START_NS + at_s * SECOND} | known))
    with engine.begin() as connection:
        if stored_experiment(connection, "default", run.experiment) is None:
            save_experiment(connection, Experiment("default", run.experiment, run.begun_ns, None, 0))
        save_run(connection, replace(run, state="incomplete"))
    StoreWriter(engine).write(judged(place, outcome, run=name) for place, outcome in enumerate(outcomes, 1))
    with engine.begin() as connection:
        save_run(connection, run)


def tool_eval(engine: Engine, id_: str, runs: list[str], models: list[str], at_s: int, suite: str = "s") -> None:
    """The job that made these runs, as they say themselves."""
    request = {"suite": suite, "models": models, "temperature": 0.0, "tool_choice": "required", "experiment": "tuning"}
    with engine.begin() as connection:
        for name in runs:
            run = stored_run(connection, "default", name)
            assert run is not None
            save_run(connection, replace(run, selection={"job": id_}))
        add_job(connection, Job(tenant="default", id=id_, request=request, runs=runs, state="done", created_ns=at_s))


def made(api: Api, **fields: Any) -> Any:
    answer = api.call("POST", "/experiments", {"name": "tuning", **fields})
    assert answer.status == 201, answer.body
    return answer.json


@pytest.fixture
def tuning(api: Api) -> Api:
    """The API of a store with the experiment `tuning`."""
    made(api)
    return api


def refusal(api: Api, method: str, address: str, body: Any, status: int, type_: str) -> str:
    answer = api.call(method, address, body)
    assert (answer.status, answer.json["type"]) == (status, PREFIX + type_), answer.body
    return str(answer.json["detail"])


def reported(api: Api, type_: str, score: float | None, **configuration: Any) -> list[Any]:
    sent = {"type": type_, "score": score, "configuration": configuration}
    answer = api.call("POST", "/experiments/tuning/timeline", sent)
    assert answer.status == 201, answer.body
    found: list[Any] = answer.json["entries"]
    return found


def test_an_experiment_is_made_about_a_suite_listed_shown_changed_and_deleted(api: Api) -> None:
    suite = api.call("POST", "/tool-suites", WEATHER_SUITE).json["id"]
    one = made(api, name="Weather prompts", suite_id=suite, description="Which prompt?")
    assert one["id"] == one["experiment_id"]
    assert re.fullmatch("[0-9a-f]{12}", one["id"])
    assert (one["name"], one["suite_id"], one["suite_name"]) == ("Weather prompts", suite, "Weather API Suite")
    assert [one[name] for name in ("baseline_eval_id", "baseline_score", "best_config", "evals")] == [
        None,
        None,
        None,
        [],
    ]
    assert api.get("/experiments") == {"experiments": [one], "next": None}
    assert api.get(f"/experiments/{one['id']}") == api.get("/experiments/Weather%20prompts") == one
    changed = api.call("PUT", f"/experiments/{one['id']}", {"name": "prompts", "description": "The best one"}).json
    assert changed == {
        **one,
        "name": "prompts",
        "description": "The best one",
    }
    assert api.get(f"/experiments/{one['id']}")["name"] == "prompts"
    assert api.call("DELETE", "/experiments/prompts").json == {"deleted": 1, "traces_deleted": 0, **KEPT_NONE}
    assert api.get("/experiments") == {"experiments": [], "next": None}
    assert "no experiment 'prompts'" in api.refused("/experiments/prompts", 404, "not-found")


def test_a_name_is_one_segment_of_the_address_whatever_it_holds(api: Api) -> None:
    parent, child = made(api, name="a"), made(api, name="a/timeline")
    assert api.get("/experiments/a%2Ftimeline") == api.get(f"/experiments/{child['id']}") == child
    assert api.get("/experiments/a/timeline")["experiment_id"] == parent["id"]
    assert api.get("/experiments/a%2ftimeline/timeline")["experiment_id"] == child["id"]
    for written in ("%3F", "a%252Ftimeline", "-x", "%FF", "x" * 101):
        assert "experiment_id: " in api.refused(f"/experiments/{written}", 400, "invalid-parameter")
    for written in ("none", "0123456789ab", "a%2Fb", "a%0Ab"):  # no address holds a line break
        api.refused(f"/experiments/{written}", 404, "not-found")
    assert call(api.app, "GET", "/api/experiments/a/b").status == 404
    for method, address, allowed in (
        ("DELETE", "/baseline", "PUT"),
        ("PUT", "/timeline", "GET, HEAD, POST"),
        ("GET", "/run-best", "POST"),
        ("POST", "", "DELETE, GET, HEAD, PUT"),
    ):
        answer = call(api.app, method, f"/api/experiments/a{address}", b"{}")
        assert (answer.status, answer.headers["allow"]) == (405, allowed), address


def test_no_name_looks_like_an_id(api: Api) -> None:
    one = made(api)
    for method, address in (("POST", "/experiments"), ("PUT", f"/experiments/{one['id']}")):
        said = refusal(api, method, address, {"name": "0123456789ab"}, 400, "invalid-parameter")
        assert "12 hex digits are the id of an experiment" in said
    suite = {**WEATHER_SUITE, "name": "0123456789ab"}
    id_ = api.call("POST", "/tool-suites", suite).json["id"]
    with changing_store(api.site.config.store_url) as connection:
        found = stored_suite(connection, "default", id_)
        assert found is not None
        assert experiment_for(connection, found, None, 1).name == f"0123456789ab-{id_}"


@each(
    ("body", "status", "type_", "said"),
    [
        ({}, 400, "invalid-parameter", "name"),
        ({"name": " "}, 400, "invalid-parameter", "expected at most 100 letters"),
        ({"name": "-x"}, 400, "invalid-parameter", "expected at most 100 letters"),
        ({"name": "a  b"}, 400, "invalid-parameter", "single spaces between them"),
        ({"name": "live"}, 400, "invalid-parameter", "is reserved; choose another name"),
        ({"name": "tuning"}, 409, "not-possible", "there is an experiment 'tuning' already"),
        ({"name": "x", "suite_id": "none"}, 404, "not-found", "there is no suite 'none'"),
        ({"name": "x", "baseline_eval_id": "none"}, 404, "not-found", "no eval 'none'"),
        ({"name": "x", "description": "a\0b"}, 400, "invalid-parameter", "none of them NUL"),
        ({"name": "x", "suite": "y"}, 400, "invalid-parameter", "suite: is not a parameter"),
    ],
)
def test_what_cannot_be_made_is_told_in_a_sentence(tuning: Api, body: Any, status: int, type_: str, said: str) -> None:
    assert said in refusal(tuning, "POST", "/experiments", body, status, type_)
    assert len(tuning.get("/experiments")["experiments"]) == 1


def test_the_timeline_has_evals_with_their_score_delta_and_configuration(api: Api, engine: Engine) -> None:
    ran(engine, "tuning/1", ["pass", "fail"], 1)
    ran(engine, "tuning/2", ["pass", "pass"], 2)
    ran(engine, "tuning/3", ["pass", "fail", "fail", "fail"], 3)
    tool_eval(engine, "aaaaaaaaaaaa", ["tuning/1", "tuning/2"], ["cloud::large", "cloud::small"], 1)
    tool_eval(engine, "bbbbbbbbbbbb", ["tuning/3"], ["cloud::large"], 3)
    found = api.get("/experiments/tuning/timeline")
    assert found["baseline"] == {"eval_id": "aaaaaaaaaaaa", "score": 0.75}  # the mean of 0.5 and 1
    first, second = found["entries"]
    assert (first["type"], first["id"], first["score"], first["delta"]) == ("eval", "aaaaaaaaaaaa", 0.75, 0.0)
    assert (first["is_baseline"], first["is_best"], first["runs"]) == (True, True, ["tuning/1", "tuning/2"])
    assert first["config_summary"] == 'models ["cloud::large","cloud::small"], temperature 0.0, tool_choice required'
    assert first["timestamp"] < second["timestamp"]
    assert (second["score"], second["delta"], second["is_best"]) == (0.25, -0.5, False)
    best = {"models": ["cloud::large", "cloud::small"], "temperature": 0.0, "tool_choice": "required"}
    assert found["best"] == {"score": 0.75, "source": "eval", "source_id": "aaaaaaaaaaaa", "config": best}


@pytest.mark.parametrize("field", ["eval_id", "eval_run_id", "baseline_eval_id"])
def test_a_pinned_eval_is_what_the_others_are_measured_against(api: Api, engine: Engine, field: str) -> None:
    ran(engine, "tuning/1", ["pass", "fail"], 1)
    ran(engine, "tuning/2", ["pass", "pass"], 2)
    tool_eval(engine, "bbbbbbbbbbbb", ["tuning/2"], ["cloud::large"], 2)
    address = "/experiments/tuning/baseline"
    pinned = api.call("PUT", address, {field: "bbbbbbbbbbbb"}).json
    id_ = api.get("/experiments/tuning")["id"]
    assert pinned == {"experiment_id": id_, "baseline_eval_id": "bbbbbbbbbbbb", "baseline_score": 1.0}
    assert [item["delta"] for item in api.get("/experiments/tuning/timeline")["entries"]] == [-0.5, 0.0]
    assert api.get("/experiments/tuning")["pinned"]
    assert api.call("PUT", address, {field: None}).json["baseline_eval_id"] == "tuning/1"


def test_an_eval_that_was_there_before_can_be_the_baseline_of_another_experiment(api: Api, engine: Engine) -> None:
    ran(engine, "earlier/1", ["pass", "fail"], 1, experiment="earlier")
    one = made(api, baseline_eval_id="earlier/1")
    assert (one["baseline_eval_id"], one["baseline_score"], one["evals"]) == ("earlier/1", 0.5, [])
    ran(engine, "tuning/1", ["pass", "pass"], 2)
    (entry,) = api.get("/experiments/tuning/timeline")["entries"]
    assert (entry["id"], entry["delta"], entry["is_baseline"]) == ("tuning/1", 0.5, False)


def test_only_an_eval_of_the_same_suite_with_a_score_can_be_pinned(api: Api, engine: Engine) -> None:
    suite = api.call("POST", "/tool-suites", WEATHER_SUITE).json["id"]
    made(api, suite_id=suite)
    ran(engine, "tuning/1", ["pass"], 1, state="failed", problem="x")
    ran(engine, "tuning/2", ["pass"], 1)
    tool_eval(engine, "bbbbbbbbbbbb", ["tuning/2"], ["cloud::large"], 2, suite="another")
    no_models = Job(
        tenant="default", id="cccccccccccc", request={"suite": suite}, state="failed", message="no model", created_ns=3
    )
    with engine.begin() as connection:
        add_job(connection, no_models)
    found = api.get("/tool-eval/history/cccccccccccc")
    assert (found["status"], found["error"], found["results"]) == ("failed", "no model", [])
    for eval_id, said in (
        ("cccccccccccc", "is failed (no model) and stored nothing"),
        ("tuning/1", "is failed (x)"),
        ("bbbbbbbbbbbb", "is of the suite another"),
    ):
        detail = refusal(api, "PUT", "/experiments/tuning/baseline", {"eval_id": eval_id}, 409, "not-possible")
        assert said in detail
        assert detail.endswith("nothing can be measured against it")
    assert "no eval 'c'" in refusal(api, "PUT", "/experiments/tuning/baseline", {"eval_id": "c"}, 404, "not-found")
    refusal(api, "PUT", "/experiments/tuning/baseline", {}, 400, "invalid-parameter")


def test_an_experiment_is_about_the_suite_of_its_first_eval(api: Api, engine: Engine) -> None:
    made(api)
    for place, suite in ((1, "s"), (2, "another")):
        ran(engine, f"tuning/{place}", ["pass"], place)
        tool_eval(engine, f"{place}" * 12, [f"tuning/{place}"], ["cloud::large"], place, suite=suite)
    said = refusal(api, "PUT", "/experiments/tuning/baseline", {"eval_id": "2" * 12}, 409, "not-possible")
    assert "is of the suite another, and tuning is about s" in said
    assert api.call("PUT", "/experiments/tuning/baseline", {"eval_id": "1" * 12}).status == 200


def test_tunes_and_judges_are_entries_and_the_best_of_a_tune_is_promoted(api: Api, engine: Engine) -> None:
    ran(engine, "tuning/1", ["pass", "fail"], 1)
    tune, promoted = reported(api, "param_tune", 0.8, temperature=0.2, tool_choice="auto")
    assert (tune["type"], tune["score"], tune["delta"], tune["is_best"]) == ("param_tune", 0.8, 0.3, True)
    assert tune["config_summary"] == "temperature 0.2, tool_choice auto"
    assert (promoted["type"], promoted["promoted_from"], promoted["is_best"]) == ("eval", tune["id"], False)
    assert [promoted[name] for name in ("score", "delta", "configuration")] == [0.8, 0.3, tune["configuration"]]
    (judge,) = reported(api, "judge", 0.95, grade="A")
    assert (judge["delta"], judge["is_best"]) == (None, False)
    better, _ = reported(api, "prompt_tune", 0.9, system_prompt="Always use\nthe tools.")
    assert better["config_summary"] == "system_prompt Always use the tools."
    worse, _ = reported(api, "prompt_tune", 0.9, system_prompt="as good, not better")
    assert not worse["is_best"]
    (without,) = reported(api, "param_tune", None)
    found = api.get("/experiments/tuning/timeline")
    assert [item["type"] for item in found["entries"]] == [
        *("eval", "param_tune", "eval", "judge", "prompt_tune", "eval", "prompt_tune", "eval", "param_tune")
    ]
    assert (without["score"], without["delta"]) == (None, None)
    best = {"system_prompt": "Always use\nthe tools."}
    assert found["best"] == {"score": 0.9, "source": "prompt_tune", "source_id": better["id"], "config": best}
    one = api.get("/experiments/tuning")
    assert [one[f"best_{name}"] for name in ("score", "source", "source_id", "config")] == [*found["best"].values()]
    assert one["baseline_eval_id"] == "tuning/1"  # a tune is none


def test_an_eval_is_best_only_if_it_is_better_than_the_tunes_before_it(api: Api, engine: Engine) -> None:
    ran(engine, "tuning/1", ["pass", "fail"], 1)
    tune, _ = reported(api, "param_tune", 0.8)
    later_s = (time.time_ns() - START_NS) // SECOND + 60
    ran(engine, "tuning/2", ["pass", "pass", "fail"], later_s)
    assert api.get("/experiments/tuning")["best_source_id"] == tune["id"]
    ran(engine, "tuning/3", ["pass"], later_s + 1)
    found = api.get("/experiments/tuning/timeline")
    assert [item["is_best"] for item in found["entries"]] == [True, True, False, False, True]
    assert found["best"]["source_id"] == "tuning/3"


@each(
    "body",
    [
        {"type": "eval", "score": 0.5},
        {"type": "param_tune", "score": 1.5},
        {"type": "param_tune", "score": "x"},
        {"score": 0.5},
        {"type": "judge", "configuration": []},
        {"type": "judge", "config": {}, "delta": 1},
    ],
)
def test_an_entry_that_is_none_is_refused(tuning: Api, body: Any) -> None:
    refusal(tuning, "POST", "/experiments/tuning/timeline", body, 400, "invalid-parameter")
    assert tuning.get("/experiments/tuning/timeline")["entries"] == []


def test_entries_are_bounded_and_need_an_experiment(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    body = {"type": "judge", "score": 0.5}
    assert "no experiment 'none'" in refusal(api, "POST", "/experiments/none/timeline", body, 404, "not-found")
    made(api)
    long = {**body, "configuration": {"x": "y" * (4 << 20)}}
    assert "at most 4194304 bytes" in refusal(api, "POST", "/experiments/tuning/timeline", long, 413, "too-long")
    deep: Any = {}
    for _ in range(100):
        deep = {"a": deep}
    said = refusal(
        api, "POST", "/experiments/tuning/timeline", {**body, "configuration": deep}, 400, "invalid-parameter"
    )
    assert said.startswith("configuration: expected at most 100 objects and lists within each other")
    monkeypatch.setattr("tracegrade.history.runs.experiment_entries.MOST_ENTRIES", 1)
    reported(api, "judge", 0.5)
    assert "the most there may be" in refusal(api, "POST", "/experiments/tuning/timeline", body, 409, "not-possible")


def test_deleting_an_experiment_keeps_its_evals_of_stored_suites(api: Api, engine: Engine) -> None:
    suite = api.call("POST", "/tool-suites", WEATHER_SUITE).json["id"]
    made(api)
    for place in (1, 2):
        ran(engine, f"tuning/{place}", ["pass"], place, source=f"suite:{suite}")
    tool_eval(engine, "aaaaaaaaaaaa", ["tuning/1", "tuning/2"], ["cloud::large"], 1, suite=suite)
    reported(api, "param_tune", 0.8)
    answer = api.call("DELETE", "/experiments/tuning").json
    assert answer == {"deleted": 1, "traces_deleted": 0, "runs_deleted": 0, "runs_kept": 2, "evals_kept": 1}
    (own,) = api.get("/experiments")["experiments"]
    assert (own["name"], own["suite_id"], own["evals"]) == ("weather-api-suite", suite, ["aaaaaaaaaaaa"])
    found = api.get("/tool-eval/history/aaaaaaaaaaaa")
    assert (found["experiment_id"], [run["run"] for run in found["runs"]]) == (own["id"], ["tuning/1", "tuning/2"])
    with engine.connect() as connection:
        job = stored_job(connection, "default", "aaaaaaaaaaaa")
        assert job is not None
        assert job.request["experiment"] == "weather-api-suite"
    again = api.call("DELETE", f"/experiments/{own['id']}").json  # the suite's own is made anew
    assert (again["evals_kept"], len(api.get("/experiments")["experiments"])) == (1, 1)
    api.refused(f"/experiments/{own['id']}", 404, "not-found")


def test_what_another_experiment_has_pinned_is_deleted_only_by_force(api: Api, engine: Engine) -> None:
    ran(engine, "tuning/1", ["pass", "fail"], 1)
    ran(engine, "tuning/2", ["pass"], 2)
    tool_eval(engine, "bbbbbbbbbbbb", ["tuning/2"], ["cloud::large"], 2)
    made(api, name="other", baseline_eval_id="bbbbbbbbbbbb")
    v1 = Api(api.site)
    for answerer, address in (
        (api, "/tool-eval/history/bbbbbbbbbbbb"),
        (api, "/experiments/tuning?runs=true"),
        (v1, "/jobs/bbbbbbbbbbbb"),
        (v1, "/runs/tuning/2"),
        (v1, "/experiments/tuning"),
    ):
        said = refusal(answerer, "DELETE", address, None, 409, "not-possible")
        assert "the experiment other has tuning/2 pinned as its baseline" in said, address
    options = ["--yes", "--data-dir", api.site.config.data_dir]
    refused = CliRunner().invoke(main, ["experiments", "delete", "tuning/2", *options])
    assert (refused.exit_code, "--force" in refused.output) == (2, True)
    assert CliRunner().invoke(main, ["experiments", "delete", "tuning/2", "--force", *options]).exit_code == 0
    note = api.get("/experiments/other")["baseline_note"]
    assert "the run tuning/2, which was pinned, was deleted" in note
    assert v1.get("/experiments/other")["baseline_note"] == note
    assert api.call("PUT", "/experiments/other/baseline", {"eval_id": None}).status == 200
    assert api.get("/experiments/other")["baseline_note"] == note
    assert api.call("PUT", "/experiments/other/baseline", {"eval_id": "tuning/1"}).status == 200
    assert api.get("/experiments/other")["baseline_note"] is None
    assert api.call("DELETE", "/experiments/tuning?runs=true&force=true").json["runs_deleted"] == 1


def test_what_a_process_writes_is_not_deleted(api: Api, engine: Engine) -> None:
    def writes(now_ns: int | None) -> None:
        with engine.begin() as connection:
            note_writing(connection, "default", "tuning/1", now_ns)

    ran(engine, "tuning/1", ["pass"], 1, state="incomplete")
    v1 = Api(api.site)
    writes(time.time_ns())
    for answerer, address in (
        (api, "/experiments/tuning?runs=true"),
        (v1, "/experiments/tuning"),
        (v1, "/runs/tuning/1"),
    ):
        assert "a process writes run tuning/1" in refusal(answerer, "DELETE", address, None, 409, "not-possible")
    writes(time.time_ns() - 60 * SECOND)  # it was killed
    assert v1.call("DELETE", "/experiments/tuning").json == {"deleted": 1, "runs_deleted": 1, "runs_kept": 0}


def test_deleting_an_experiment_deletes_its_entries_and_runs(api: Api, engine: Engine) -> None:
    ran(engine, "tuning/1", ["pass", "fail"], 1)
    made(api, name="other")
    reported(api, "param_tune", 0.8)
    said = refusal(api, "DELETE", "/experiments/tuning", None, 409, "not-possible")
    assert ("holds 1 runs of no stored suite, such as tuning/1" in said, "?runs=true" in said) == (True, True)
    answer = api.call("DELETE", "/experiments/tuning?runs=true").json
    assert answer == {"deleted": 1, "traces_deleted": 2, **KEPT_NONE, "runs_deleted": 1}
    with engine.connect() as connection:
        assert connection.execute(select(func.count()).select_from(experiment_entries)).scalar() == 0
    assert [item["name"] for item in api.get("/experiments")["experiments"]] == ["other"]


def test_an_experiment_that_a_person_made_stays_when_its_first_run_stored_nothing(api: Api, engine: Engine) -> None:
    made(api)
    with engine.begin() as connection:
        save_experiment(connection, Experiment("default", "of-a-run", START_NS, None, 0))
        save_experiment(connection, Experiment("default", "of-a-tool", START_NS, None, 0))
    sent = {"type": "judge", "score": 1}
    assert api.call("POST", "/experiments/of-a-tool/timeline", sent).status == 201
    for name in ("tuning", "of-a-run", "of-a-tool"):
        ran(engine, f"{name}/1", [], 1, experiment=name, state="incomplete")
        with engine.begin() as connection:
            take_back_run(connection, "default", f"{name}/1")
    assert [item["name"] for item in api.get("/experiments")["experiments"]] == ["of-a-tool", "tuning"]


def test_it_is_renamed_with_its_runs_and_entries_and_not_while_one_is_written(api: Api, engine: Engine) -> None:
    ran(engine, "tuning/1", ["pass"], 1)
    reported(api, "param_tune", 0.8)
    ran(engine, "tuning/2", ["pass"], 2, state="incomplete")
    assert "run tuning/2" in refusal(api, "PUT", "/experiments/tuning", {"name": "new"}, 409, "not-possible")
    ran(engine, "tuning/2", ["pass"], 2)
    with engine.begin() as connection:
        add_job(connection, Job(tenant="default", id="c", request={"experiment": "tuning"}, created_ns=1))
    assert "job c" in refusal(api, "PUT", "/experiments/tuning", {"name": "new"}, 409, "not-possible")
    assert "job c" in refusal(api, "DELETE", "/experiments/tuning", None, 409, "not-possible")
    assert "taken" not in refusal(api, "PUT", "/experiments/tuning", {"name": "tuning/1"}, 409, "not-possible")
    assert api.call("PUT", "/experiments/tuning", {"description": "x"}).status == 200
    with engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM jobs")
    assert api.call("PUT", "/experiments/tuning", {"name": "new"}).json["evals"] == ["tuning/1", "tuning/2"]
    assert len(api.get("/experiments/new/timeline")["entries"]) == 4


def test_another_tenant_sees_and_changes_nothing_of_it(api: Api) -> None:
    made(api)
    reported(api, "judge", 0.5)
    elsewhere = "?tenant=other"
    assert api.get(f"/experiments{elsewhere}") == {"experiments": [], "next": None}
    for method, address, body in (
        ("GET", "", None),
        ("PUT", "", {"description": "x"}),
        ("DELETE", "", None),
        ("GET", "/timeline", None),
        ("POST", "/timeline", {"type": "judge"}),
        ("PUT", "/baseline", {"eval_id": None}),
    ):
        assert api.call(method, f"/experiments/tuning{address}{elsewhere}", body).status == 404
    assert len(api.get("/experiments/tuning/timeline")["entries"]) == 1


def test_the_command_line_shows_entries_between_the_runs(api: Api, engine: Engine) -> None:
    ran(engine, "tuning/1", ["pass", "fail"], 1)
    tune, _ = reported(api, "param_tune", 0.8, temperature=0.2)
    lines = api.command("experiments", "timeline", "tuning")
    assert [(line.get("run"), line.get("type"), line["score"], line["delta"]) for line in lines] == [
        ("tuning/1", None, 0.5, 0.0),
        (None, "param_tune", 0.8, 0.3),
        (None, "eval", 0.8, 0.3),
    ]
    assert (lines[1]["entry"], lines[2]["promoted_from"]) == (tune["id"], tune["id"])
    arguments = ["--data-dir", api.site.config.data_dir]
    shown = CliRunner().invoke(main, ["experiments", "timeline", "tuning", *arguments], env={"COLUMNS": "160"}).stdout
    rows = [line.split()[2:] for line in shown.splitlines() if "0.8000" in line]
    assert rows[0] == ["param_tune", "0.8000", "+0.3000", "★", "temperature", "0.2"]
    assert rows[1] == ["eval,", "promoted", "from", "the", "tune", "0.8000", "+0.3000", "temperature", "0.2"]
    best = CliRunner().invoke(main, ["experiments", "best", "tuning", *arguments]).stdout
    assert best.splitlines()[-1] == "Better is what a param_tune reported, score 0.8000: temperature 0.2"
