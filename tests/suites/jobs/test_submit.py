"""What is refused of a job when it is submitted, cancelled and resumed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from build import each
from suites.build.jobs import Place, Placed, right, weather
from suites.build.scripted_models import Answer
from tracegrade.access.quotas import QuotasSettings
from tracegrade.model.errors import NotFound, NotPossible, WrongValue
from tracegrade.store.open import changing_store
from tracegrade.store.runs import delete_run
from tracegrade.suites.jobs.submit import MOST_WAITING, cancel, resume
from tracegrade.suites.jobs.suite_request import suite_request
from tracegrade.suites.store.suites import delete_suite


def test_a_job_is_submitted_with_its_models_by_their_keys_and_a_worker_is_asked_for(place: Placed) -> None:
    here = place(right)
    job = here.submit("m-1", owner="token", system_prompt={"one::m-1": "Be quick."}, repeat=3, labels={"a": "b"})
    assert here.job(job.id) == replace(job, runs=[])
    assert (job.state, job.owner) == ("queued", "token")
    assert job.request == {
        "suite": here.suite.id,
        "models": ["one::m-1"],
        "temperature": 0.0,
        "tool_choice": "required",
        "system_prompt": {"one::m-1": "Be quick."},
        "repeat": 3,
        "experiment": "weather",
        "labels": {"a": "b"},
        "max_parallel": None,
    }
    assert (here.folder / "data" / "jobs.wait").exists()


def _empty_suite(here: Place) -> Any:
    return {"suite": here.save(weather(0)).id}


@each(
    ("wrong", "kind", "message"),
    [
        ({"models": ["m-9"]}, WrongValue, "models: no model 'm-9' in the file of models; expected one of one::m-1"),
        ({"models": []}, NotPossible, "models: "),
        ({"suite": "000000000000"}, NotPossible, "there is no suite '000000000000'"),
        (_empty_suite, NotPossible, "the suite 'Weather' has no cases; add one first"),
        ({"temperature": 3}, NotPossible, "temperature: expected a number of at most 2, found 3"),
        ({"temperature": "hot"}, NotPossible, "temperature: "),
        ({"tool_choice": "any"}, NotPossible, "tool_choice: "),
        (
            {"repeat": 1000, "models": ["m-1", "m-2"]},
            NotPossible,
            "expected at most 100000 runs of cases in a job, found 120000: 60 cases, 2 models, repeat 1000",
        ),
        ({"repeat": 0}, NotPossible, "repeat: "),
        ({"system_prompt": {"one::m-2": "x"}}, NotPossible, "system_prompt: 'one::m-2' is not asked; expected one of"),
        ({"system_prompt": 7}, NotPossible, "system_prompt: "),
        ({"experiment": "../x"}, WrongValue, "experiment: expected at most 100 letters"),
        ({"experiment": "a/../b"}, WrongValue, "experiment: expected no part between its '/' that is empty"),
        ({"tempreature": 1}, NotPossible, "tempreature: unknown key 'tempreature'; did you mean 'temperature'?"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_sentence(
    place: Placed, wrong: Any, kind: type[Exception], message: str
) -> None:
    here = place(right, cases=60)
    given = wrong(here) if callable(wrong) else wrong
    with pytest.raises(kind) as refused:
        here.submit_as({"suite": here.suite.id, "models": ["m-1"], **given})
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)
    assert not (here.folder / "data" / "jobs.wait").exists()


def test_what_was_deleted_is_known_when_a_job_is_to_go_on(place: Placed) -> None:
    here = place(lambda body: Answer({}, 401) if body["model"] == "m-2" else right(body))
    job = here.submit("m-1", "m-2")
    with here.working():
        here.until(job.id, "failed")
    assert resume(here.config, "default", job.id).state == "queued"
    cancel(here.config, "default", job.id)
    with changing_store(here.url) as connection:
        delete_suite(connection, "default", here.suite.id)
    with pytest.raises(NotPossible, match=f"job {job.id} cannot go on: its suite {here.suite.id} was deleted; submit"):
        resume(here.config, "default", job.id)
    delete_run(here.engine, "default", "weather/1")
    with pytest.raises(NotPossible, match="what it had stored, run weather/1, was deleted; submit a new one"):
        resume(here.config, "default", job.id)
    assert here.job(job.id).state == "cancelled"


def test_an_experiment_that_has_the_name_of_a_run_is_refused(place: Placed) -> None:
    here = place(right)
    with here.working():
        here.until(here.submit(experiment="two words").id, "done")
    assert [run.name for run in here.runs()] == ["two words/1"]
    with pytest.raises(WrongValue, match="experiment: 'two words/1' is the name of a run; choose another"):
        here.submit(experiment="two words/1")


def test_a_request_without_models_or_suite_is_refused() -> None:
    for missing in ("suite", "models"):
        written = {"suite": "x", "models": ["m"]}
        del written[missing]
        with pytest.raises(NotPossible, match=f"key '{missing}' is missing"):
            suite_request(written)


def test_without_a_file_of_models_nothing_is_submitted(place: Placed) -> None:
    here = place(right)
    Path(here.models).unlink()
    with pytest.raises(
        NotPossible, match=r"there is no file .*one\.models\.yaml, where the setting suites\.models says"
    ):
        here.submit()


def test_no_more_than_so_many_jobs_of_one_token_wait(place: Placed, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_WAITING == 100
    monkeypatch.setattr("tracegrade.suites.jobs.submit.MOST_WAITING", 3)
    here = place(right)
    for _ in range(3):
        here.submit(owner="one")
    with pytest.raises(NotPossible, match="3 jobs wait already"):
        here.submit(owner="one")
    here.submit(owner="two")


def test_a_job_of_another_tenant_or_none_is_not_found(place: Placed) -> None:
    here = place(right)
    job = here.submit()
    for change in (cancel, resume):
        with pytest.raises(NotFound, match="there is no job"):
            change(here.config, "other", job.id)
        with pytest.raises(NotFound):
            change(here.config, "default", "000000000000")


def test_what_was_cancelled_before_it_began_can_be_queued_again(place: Placed) -> None:
    here = place(right)
    job = here.submit()
    assert cancel(here.config, "default", job.id).state == "cancelled"
    assert cancel(here.config, "default", job.id).state == "cancelled"
    assert resume(here.config, "default", job.id).state == "queued"
    assert resume(here.config, "default", job.id).state == "queued"
    names = [event.name for event in here.events(job.id)]
    assert names == ["job_created", "job_cancelled", "job_created"]


def test_no_more_jobs_of_a_tenant_than_its_quota_allows(place: Placed) -> None:
    here = place(right)
    quotas = QuotasSettings.model_validate({"tenants": {"default": {"jobs": 2}}})
    here.config = here.config.model_copy(update={"quotas": quotas})
    first, _ = here.submit(owner="one"), here.submit(owner="two")
    with pytest.raises(NotPossible, match="2 jobs of tenant 'default' wait or run, the most that its quota allows"):
        here.submit(owner="three")
    cancel(here.config, "default", first.id)
    here.submit(owner="three")
