"""The pages of evals: the form that runs a suite, the list, and one with its progress."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from build import each, store_with
from build.asgi import Called, call
from build.site import Site, rows_of, serving, text_of
from build.without_parts import MISSING
from suites.build.scripted_models import write_models
from suites.build.suite_runs import SUITE, store_suite_runs
from tracegrade.access.caller import Caller
from tracegrade.config import Config
from tracegrade.history.runs.experiment_entries import report as report_entry
from tracegrade.store.open import one_at_a_time, open_store
from tracegrade.suites.store.jobs import Job, claim, note, stored_jobs
from tracegrade.web.app import build_app

FORM = {"content_type": "application/x-www-form-urlencoded", "sec_fetch_site": "same-origin"}
MODELS = "{good: {}, odd: {price: {input: 10, output: 100}}}"
RIGHT: dict[str, str] = {"model:one::good": "1", "temperature": "0", "tool_choice": "required", "repeat": "1"}


class Evals:
    """Pages over a store with one suite, and a file of two models."""

    def __init__(self, site: Site, suite: str) -> None:
        self.site = site
        self.suite = suite

    def post(self, address: str, fields: dict[str, str], **headers: str) -> Called:
        body = "&".join(f"{quote(name)}={quote(value)}" for name, value in fields.items()).encode()
        return call(build_app(self.site.sources), "POST", address, body, **{**FORM, **headers})

    def run(self, **fields: str) -> Called:
        return self.post("/evals", {"suite": self.suite, **RIGHT, **fields})

    def text(self, address: str) -> str:
        return text_of(self.site.get(address).text)

    def jobs(self) -> list[Job]:
        with self.site.store() as connection:
            return stored_jobs(connection, "default")

    def write(self, change: Any) -> None:
        """Change the store as a worker does."""
        engine = open_store(self.site.store_url)
        with engine.begin() as connection:
            one_at_a_time(connection)
            assert change(connection)
        engine.dispose()


@pytest.fixture
def evals(tmp_path: Path) -> Iterator[Evals]:
    models = write_models(tmp_path, "http://127.0.0.1:9/v1", models=MODELS)
    config = Config.model_validate({"data_dir": str(tmp_path), "suites": {"models": str(models)}})
    store_with(tmp_path)
    with serving(tmp_path, config=config) as site:
        document = json.dumps(SUITE).encode()
        answer = call(
            build_app(site.sources), "POST", "/api/tool-eval/import", document, content_type="application/json"
        )
        assert answer.status in (200, 201), answer.body
        yield Evals(site, answer.json["id"])


def alert(answer: Called) -> str:
    found = re.search(r'role="alert">(.*?)</p>', answer.body.decode(), re.DOTALL)
    assert found is not None, answer.body
    return text_of(found[1])


def test_the_form_offers_suites_and_models_and_queues_what_is_chosen(evals: Evals) -> None:
    page = evals.site.get(f"/evals/new?suite={evals.suite}&experiment=tuning").text
    assert "Weather (6 cases)" in page
    assert re.findall(r'type="checkbox" name="([^"]*)"', page) == ["model:one::good", "model:one::odd"]
    assert 'value="tuning"' in page
    answer = evals.run(
        **{
            "model:one::odd": "1",
            "temperature": "0.5",
            "tool_choice": "auto",
            "repeat": "3",
            "experiment": "tuning",
            "system_prompt": "Be\r\nbrief.",
            "prompt:one::odd": "Call <tools>.",
        }
    )
    (job,) = evals.jobs()
    assert (answer.status, answer.headers["location"]) == (303, f"/evals/{job.id}")
    assert job.request == {
        "suite": evals.suite,
        "models": ["one::good", "one::odd"],
        "temperature": 0.5,
        "tool_choice": "auto",
        "system_prompt": {"one::good": "Be\nbrief.", "one::odd": "Call <tools>."},
        "repeat": 3,
        "experiment": "tuning",
        "labels": {},
        "max_parallel": None,
    }
    again = evals.site.get(f"/evals/new?again={job.id}").text
    assert len(re.findall(r'name="model:[^"]*" value="1" checked', again)) == 2
    assert "<option selected>auto</option>" in again
    assert "Call &lt;tools&gt;.</textarea>" in again


@each(
    ("fields", "problem"),
    [
        ({"repeat": "often"}, "Nothing was queued: repeat: expected a whole number, found 'often'."),
        ({"temperature": "3"}, "Nothing was queued: temperature: expected a number of at most 2"),
        ({"tool_choice": "maybe"}, "Nothing was queued: tool_choice: expected"),
        ({"suite": ""}, "Nothing was queued: choose a suite."),
        ({"suite": "0123456789ab"}, "Nothing was queued: there is no suite '0123456789ab'"),
        ({"model:one::gone": "1"}, "Nothing was queued: models: no model 'one::gone' in the file of models"),
        ({"experiment": "-x"}, "Nothing was queued: experiment: expected at most 100 letters"),
    ],
)
def test_what_cannot_be_run_is_said_and_the_form_keeps_what_was_written(
    evals: Evals, fields: dict[str, str], problem: str
) -> None:
    answer = evals.run(**{"system_prompt": "Keep me.", **fields})
    assert answer.status == 400
    assert alert(answer).startswith(problem)
    assert "Keep me.</textarea>" in answer.body.decode()
    assert evals.jobs() == []


def test_at_least_one_model_has_to_be_chosen(evals: Evals) -> None:
    answer = evals.post("/evals", {"suite": evals.suite, "repeat": "1"})
    assert (answer.status, alert(answer)) == (400, "Nothing was queued: choose at least one model.")


def test_what_is_missing_is_said_instead_of_a_form(evals: Evals, tmp_path: Path) -> None:
    models = Path(evals.site.config.suites.models)
    models.unlink()
    page = evals.site.get("/evals/new").text
    assert "There are no models to ask" in page
    assert '<form method="post"' not in page
    with serving(tmp_path / "other", config=Config(data_dir=str(tmp_path / "other"))) as other:
        assert other.get("/evals").status == 503  # as every page while there is no store


def test_a_queued_eval_is_cancelled_and_goes_on(evals: Evals) -> None:
    id_ = evals.run().headers["location"].rpartition("/")[2]
    page = evals.site.get(f"/evals/{id_}").text
    assert "It waits for its turn" in page
    assert f'data-live="/api/v1/jobs/{id_}/events"' in page
    assert '<noscript><meta http-equiv="refresh" content="3"></noscript>' in page
    assert evals.post(f"/evals/{id_}", {"action": "cancel"}).status == 303
    assert evals.jobs()[0].state == "cancelled"
    page = evals.site.get(f"/evals/{id_}").text
    assert "data-live" not in page
    assert "http-equiv" not in page
    assert evals.post(f"/evals/{id_}", {"action": "resume"}).status == 303
    assert evals.jobs()[0].state == "queued"
    refused = evals.post(f"/evals/{id_}", {"action": "explode"})
    assert (refused.status, b"action: expected cancel or resume" in refused.body) == (400, True)


def test_one_that_is_not_there_and_one_that_is_done(evals: Evals) -> None:
    assert evals.site.get("/evals/0123456789ab").status == 404
    gone = evals.post("/evals/0123456789ab", {"action": "cancel"})
    assert (gone.status, "There is no job" in text_of(gone.body.decode())) == (404, True)
    id_ = evals.run().headers["location"].rpartition("/")[2]
    finish(evals, id_)
    done = evals.post(f"/evals/{id_}", {"action": "resume"})
    assert (done.status, f"job {id_} is done" in text_of(done.body.decode())) == (409, True)


def finish(evals: Evals, id_: str, *runs: str, state: str = "done") -> None:
    now_ns = time.time_ns()
    job = next(found for found in evals.jobs() if found.id == id_)
    evals.write(lambda connection: claim(connection, job, "w", now_ns))
    changed = {"runs": list(runs), "done": 24, "total": 24, "state": state, "ended_ns": now_ns}
    evals.write(lambda connection: note(connection, job, "w", now_ns, **changed))


def test_results_are_shown_as_they_come_and_listed_at_the_end(evals: Evals, tmp_path: Path) -> None:
    id_ = evals.run(**{"model:one::odd": "1", "repeat": "2"}).headers["location"].rpartition("/")[2]
    assert "one::good none yet" in evals.text(f"/evals/{id_}")
    store_suite_runs(tmp_path)
    write_models(tmp_path, "http://127.0.0.1:9/v1", models=MODELS)
    now_ns, (job,) = time.time_ns(), evals.jobs()
    evals.write(lambda connection: claim(connection, job, "w", now_ns))
    evals.write(lambda connection: note(connection, job, "w", now_ns, runs=["weather/1"], done=12, total=24))
    page = evals.site.get(f"/evals/{id_}").text
    shown = text_of(page)
    assert '<progress max="24" value="12"' in page
    assert "▸ running" in shown
    assert "one::odd none yet" in shown
    evals.write(
        lambda connection: note(
            connection, job, "w", now_ns, runs=["weather/1", "weather/2"], done=24, state="done", ended_ns=now_ns
        )
    )
    page = evals.site.get(f"/evals/{id_}").text
    rows = rows_of(page)
    assert "✓ 6 pass" not in rows["one::good"]
    assert "✓ 12 pass" in rows["one::good"]
    # Of 14 requests that were answered, at 100 and 10 tokens.
    assert "flaky: case-3 ✓ 5 pass ✗ 5 fail ! 2 error 0.7733 −0.2267 87.5 % 66.7 % 1 540 0.028 " in rows["one::odd"]
    assert "kelvin" in page
    assert "1 400 in, 140 out, cost 0.028" in evals.text("/runs/weather/2")
    assert "Cost 0.002" in evals.text("/runs/weather/2?case=case-1")
    assert ("Compare the two models" in page) == ("compare" not in MISSING)
    assert 'href="/runs/weather/2?case=case-2"' in page
    listed = text_of(evals.site.get("/evals").text)
    assert "By suite run" not in listed  # they are of the job
    assert f"Weather {id_} ✓ done one::good 1.0000 baseline weather" in listed
    assert "one::odd 0." in listed


def test_an_eval_is_deleted_with_its_runs_once_it_has_ended(evals: Evals, tmp_path: Path) -> None:
    store_suite_runs(tmp_path, "--model", "good")
    id_ = evals.run().headers["location"].rpartition("/")[2]
    early = evals.post(f"/evals/{id_}/delete", {})
    assert (early.status, f"job {id_} is queued: cancel it" in text_of(early.body.decode())) == (409, True)
    assert "Delete this eval" not in evals.text(f"/evals/{id_}")
    finish(evals, id_, "weather/1")
    assert "Delete this eval" in evals.text(f"/evals/{id_}")
    assert evals.post(f"/evals/{id_}/delete", {}).status == 303
    assert evals.jobs() == []
    assert evals.site.get("/runs/weather/1").status == 404
    with evals.site.store() as connection:
        assert connection.exec_driver_sql("select count(*) from traces").scalar() == 0
        assert connection.exec_driver_sql("select count(*) from job_events").scalar() == 0
    assert evals.post(f"/evals/{id_}/delete", {}).status == 404


def test_runs_of_the_command_line_are_listed_too(evals: Evals, tmp_path: Path) -> None:
    store_suite_runs(tmp_path)
    listed = evals.text("/evals")
    assert "By suite run the last 2 runs of the command line" in listed
    assert "weather/2 one::odd 0.7733 −0.2267 weather" in listed
    assert "weather/2" not in evals.text("/evals?page=2")


def test_a_lost_worker_shows_as_interrupted(evals: Evals) -> None:
    id_ = evals.run().headers["location"].rpartition("/")[2]
    (job,) = evals.jobs()
    evals.write(lambda connection: claim(connection, job, "w", time.time_ns() - 60 * 10**9))
    assert "… interrupted" in evals.text(f"/evals/{id_}")


def test_evals_of_another_tenant_are_not_shown(evals: Evals) -> None:
    id_ = evals.run().headers["location"].rpartition("/")[2]
    assert evals.site.get(f"/evals/{id_}?tenant=other").status == 404
    assert "No eval was submitted for other here yet." in evals.text("/evals?tenant=other")
    assert evals.post(f"/evals/{id_}?tenant=other", {"action": "cancel"}).status == 404
    assert evals.jobs()[0].state == "queued"


def test_a_page_of_another_site_cannot_run_or_cancel(evals: Evals) -> None:
    answer = evals.post("/evals", {"suite": evals.suite, **RIGHT}, sec_fetch_site="cross-site")
    assert (answer.status, evals.jobs()) == (403, [])
    id_ = evals.run().headers["location"].rpartition("/")[2]
    assert evals.post(f"/evals/{id_}", {"action": "cancel"}, sec_fetch_site="cross-site").status == 403
    assert evals.jobs()[0].state == "queued"


def test_who_may_only_read_sees_no_forms(evals: Evals, monkeypatch: pytest.MonkeyPatch) -> None:
    id_ = evals.run().headers["location"].rpartition("/")[2]
    monkeypatch.setattr("tracegrade.web.access.caller_without_token", lambda settings: Caller(frozenset({"read"})))
    app = build_app(evals.site.sources)
    for address in ("/evals", f"/evals/{id_}", "/evals/new"):
        page = call(app, "GET", address).body.decode()
        assert '<form method="post"' not in page, address
        assert "/evals/new" not in page, address
    assert evals.post("/evals", {"suite": evals.suite, **RIGHT}).status == 403


def test_a_long_list_has_pages(evals: Evals) -> None:
    for _ in range(51):
        assert evals.run().status == 303
    first = evals.site.get("/evals").text
    assert len(re.findall(r'<th scope="row"', first)) == 50
    assert "/evals?page=2" in first
    assert len(re.findall(r'<th scope="row"', evals.site.get("/evals?page=2").text)) == 1
    assert evals.site.get("/evals?page=x").status == 400


def test_the_best_of_an_experiment_is_run_by_one_button(evals: Evals, tmp_path: Path) -> None:
    made = evals.post("/experiments", {"name": "tuned", "suite": evals.suite, "description": "Which <prompt>?"})
    assert (made.status, made.headers["location"]) == (303, "/experiments/tuned")
    page = evals.site.get("/experiments/tuned").text
    assert "about the suite Weather" in text_of(page)
    assert "Which &lt;prompt&gt;?" in page
    assert "Run best" not in page  # nothing of it has a score
    report_entry(
        evals.site.store_url,
        "default",
        "tuned",
        "param_tune",
        0.9,
        {"models": ["one::odd"], "temperature": 0.3, "tool_choice": "auto"},
    )
    assert 'value="run-best"' in evals.site.get("/experiments/tuned").text
    answer = evals.post("/experiments/tuned", {"action": "run-best"})
    (job,) = evals.jobs()
    assert (answer.status, answer.headers["location"]) == (303, f"/evals/{job.id}")
    chosen = {key: job.request[key] for key in ("suite", "models", "temperature", "tool_choice", "experiment")}
    assert chosen == {
        "suite": evals.suite,
        "models": ["one::odd"],
        "temperature": 0.3,
        "tool_choice": "auto",
        "experiment": "tuned",
    }
    Path(evals.site.config.suites.models).write_text("providers: {one: {base_url: 'http://h/v1', models: {m: {}}}}")
    refused = evals.post("/experiments/tuned", {"action": "run-best"})
    assert (refused.status, "no model 'one::odd' in the file" in text_of(refused.body.decode())) == (409, True)
    assert evals.post("/experiments", {"name": "tuned"}).status == 409
    assert evals.post("/experiments", {"name": "other", "suite": "0123456789ab"}).status == 404
