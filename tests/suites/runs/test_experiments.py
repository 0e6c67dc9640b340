"""Experiments and runs that jobs write, or that are of suites: what may be deleted."""

from pathlib import Path

import pytest
from sqlalchemy import update

from build.api import Api
from build.commands import run
from tracegrade.store.files import sqlite_url
from tracegrade.store.open import changing_store
from tracegrade.suites.store.jobs import UNFINISHED, Job, State, add_job
from tracegrade.suites.store.tables import jobs
from tracegrade.web.problem import PREFIX


@pytest.mark.parametrize(
    ("name", "said"),
    [("tuning", "holds 2 runs of no stored suite"), ("tuning/2", "--keep-runs is for experiments")],
)
def test_runs_of_no_stored_suite_can_be_kept_nowhere(data: Path, name: str, said: str) -> None:
    run(data, "experiments", "delete", "tuning/1", "--yes")
    refused = run(data, "experiments", "delete", name, "--keep-runs", "--yes")
    assert (refused.exit_code, said in refused.stderr) == (2, True), refused.output


@pytest.mark.parametrize("state", UNFINISHED)
def test_what_a_job_writes_is_not_deleted_before_it_has_ended(data: Path, state: State) -> None:
    job = Job(tenant="default", id="aa", request={"suite": "s"}, runs=["tuning/2"], state=state, created_ns=1)
    with changing_store(sqlite_url(data)) as connection:
        add_job(connection, job)
    for name, what in (("tuning/2", "run tuning/2"), ("tuning", "experiment tuning")):
        refused = run(data, "experiments", "delete", name, "--yes")
        assert refused.exit_code == 2
        cancel = "wait for its end, or cancel it: tracegrade jobs cancel aa"
        cannot = f"{what} cannot be deleted now: job aa, which is {state}, writes it"
        assert refused.stderr == f"Error: {cannot}; {cancel}\n"
    assert run(data, "experiments", "delete", "tuning/1", "--yes").exit_code == 0
    with changing_store(sqlite_url(data)) as connection:
        connection.execute(update(jobs).values(state="cancelled"))
    assert run(data, "experiments", "delete", "tuning", "--yes").exit_code == 0


def test_what_a_job_writes_is_not_deleted_by_the_api(api: Api, tmp_path: Path) -> None:
    with changing_store(sqlite_url(tmp_path)) as connection:
        job = Job(tenant="default", id="aa", request={}, runs=["prompts/1"], state="running", created_ns=1)
        add_job(connection, job)
    for path in ("/runs/prompts/1", "/experiments/prompts"):
        refused = api.call("DELETE", path)
        assert (refused.status, refused.json["type"]) == (409, PREFIX + "not-possible")
        assert "job aa, which is running, writes it" in refused.json["detail"]
    assert api.get("/experiments/prompts")["runs"] == ["prompts/1", "prompts/2", "prompts/3"]
    assert api.call("DELETE", "/runs/prompts/2").status == 200
