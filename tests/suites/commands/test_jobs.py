"""The commands of jobs: what they print, and what they refuse."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from build import each
from build.engines import sqlite
from suites.build.jobs import Place, placed, right
from suites.build.scripted_models import Answer
from tracegrade.cli import main
from tracegrade.store.runs import delete_run

__all__ = ["sqlite"]


class Commands:
    """Commands over one store, whose suite is called Weather."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.settings = place.write_settings()

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(main, [*arguments, "-c", str(self.settings)])

    def done(self, *arguments: str) -> str:
        found = self.run(*arguments)
        assert found.exit_code == 0, found.output
        return found.stdout

    def submit(self, *options: str) -> str:
        said = self.done("suite", "run", "Weather", "--background", *(options or ("--model", "m-1")))
        return said.partition("job ")[2].partition(":")[0]

    def listed(self, *options: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.done("jobs", "list", "--format", "json", *options).splitlines()]


@pytest.fixture
def commands(tmp_path: Path, sqlite: Any) -> Iterator[Any]:
    with ExitStack() as stack:
        yield lambda script=right, **more: Commands(stack.enter_context(placed(tmp_path, sqlite, script, **more)))


def test_a_job_is_submitted_shown_and_followed_to_its_end(commands: Any) -> None:
    here = commands()
    id_ = here.submit("--model", "m-1", "--model", "m-2", "--experiment", "tuning", "--repeat", "2", "--label", "a=b")
    (job,) = here.listed()
    assert (job["job_id"], job["state"], job["total"], job["result_ref"]) == (id_, "queued", 0, None)
    assert "queued" in here.done("jobs", "list")
    with here.place.working():
        followed = here.run("jobs", "show", id_, "--follow")
    assert followed.exit_code == 0
    assert "pass one::m-1 case-1 overall 1 " in followed.stderr
    assert followed.stderr.count("pass one::m-2") == 6
    assert "12 of 12" in followed.stdout
    assert "tuning/1, tuning/2" in followed.stdout
    assert here.listed() == []
    (job,) = here.listed("--all")
    assert (job["state"], job["done"], job["runs"], job["result_ref"]) == ("done", 12, ["tuning/1", "tuning/2"], id_)
    events = [json.loads(line) for line in here.done("jobs", "show", id_, "--events").splitlines()]
    assert [event["number"] for event in events] == [*range(1, len(events) + 1)]
    assert (events[0]["event"], events[-1]["event"], events[-1]["job_id"]) == ("job_created", "job_completed", id_)


def test_a_system_prompt_for_one_model_goes_with_the_job(commands: Any) -> None:
    here = commands()
    id_ = here.submit("--model", "m-1", "--model", "m-2", "--system-prompt", "one::m-2=Be quick.")
    assert here.place.job(id_).request["system_prompt"] == {"one::m-2": "Be quick."}


def test_jobs_are_cancelled_and_resumed(commands: Any) -> None:
    here = commands()
    first, second = here.submit(), here.submit()
    assert here.done("jobs", "cancel", first, second) == f"{first}: cancelled\n{second}: cancelled\n"
    assert here.run("jobs", "show", first, "--follow").exit_code == 1
    assert here.done("jobs", "resume", first[:4]) == f"{first}: queued\n"
    assert f"job {first}" in here.done("jobs", "show", first[:6])
    unknown = here.run("jobs", "show", first[:3])  # shorter than anybody writes on purpose
    assert (unknown.exit_code, f"there is no job {first[:3]!r}" in unknown.stderr) == (2, True)
    with here.place.working():
        here.place.until(first, "done")
    assert here.done("jobs", "cancel", first) == f"{first}: done, so nothing was to be cancelled\n"
    refused = here.run("jobs", "resume", first)
    assert (refused.exit_code, refused.stderr) == (2, f"Error: job {first} is done: nothing is left to do\n")


def test_a_run_that_was_deleted_is_not_advised(commands: Any) -> None:
    here = commands()
    id_ = here.submit("--model", "m-1", "--model", "m-2", "--experiment", "two words")
    with here.place.working():
        here.place.until(id_, "done")
    assert "to see a run: tracegrade experiments show 'two words/2'" in here.done("jobs", "show", id_)
    delete_run(here.place.engine, "default", "two words/2")
    shown = here.done("jobs", "show", id_)
    assert "two words/1, two words/2 (deleted)" in shown
    assert "to see a run: tracegrade experiments show 'two words/1'" in shown
    delete_run(here.place.engine, "default", "two words/1")
    assert "experiments show" not in here.done("jobs", "show", id_)


def test_a_job_that_failed_says_why(commands: Any) -> None:
    here = commands(lambda body: Answer({"error": {"message": "wrong key " * 40}}, 401))
    id_ = here.submit()
    with here.place.working():
        followed = here.run("jobs", "show", id_, "--follow")
    assert followed.exit_code == 1
    assert "answers 401: wrong key" in followed.stdout
    listed = here.done("jobs", "list", "--all")
    assert "message" in listed
    assert "…" in listed


@pytest.mark.parametrize("command", ["show", "cancel", "resume"])
def test_a_job_that_is_not_there_is_named(commands: Any, command: str) -> None:
    found = commands().run("jobs", command, "0" * 12)
    assert found.exit_code == 2
    assert found.stderr == f"Error: there is no job '{'0' * 12}'; 'tracegrade jobs list' shows which there are\n"


def test_jobs_are_those_of_one_tenant(commands: Any) -> None:
    here = commands()
    id_ = here.submit()
    assert here.listed("--tenant", "other") == []
    assert here.run("jobs", "cancel", id_, "--tenant", "other").exit_code == 2
    assert here.listed()[0]["state"] == "queued"
    assert "No jobs wait or run; --all shows those that ended." in here.done("jobs", "list", "--tenant", "other")


@each(
    ("options", "said"),
    [
        (["--model", "m-1", "--run", "x"], "--run is not for jobs"),
        (["--model", "m-1", "--rules", "x"], "--rules is not for jobs"),
        (["--model", "m-1", "--models", "x"], "--models is not for jobs"),
        (["--agent-command", "true"], "--background: an agent of your own is not run as a job"),
        (["--model", "m-9"], "no model 'm-9' in the file of models"),
        ([], "--model: expected at least one of one::m-1, one::m-2"),
    ],
)
def test_what_a_job_cannot_do_is_refused(commands: Any, options: list[str], said: str) -> None:
    here = commands()
    found = here.run("suite", "run", "Weather", "--background", *options)
    assert found.exit_code == 2
    assert said in found.stderr
    assert here.listed() == []


def test_a_suite_that_is_not_stored_is_named(commands: Any) -> None:
    found = commands().run("suite", "run", "Nope", "--background", "--model", "m-1")
    assert (found.exit_code, found.stderr) == (
        2,
        "Error: no suite 'Nope' is stored; 'tracegrade suite list' shows those that are\n",
    )
