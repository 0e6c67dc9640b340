"""Jobs from their submission to their end, by a worker in this process, against a scripted server."""

import re
import sqlite3
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import select, text
from sqlalchemy.exc import SQLAlchemyError

from build import give_up_waiting
from suites.build.jobs import Place, Placed, right
from suites.build.scripted_models import Answer, calling, prompt_of, saying
from tracegrade.store import schema
from tracegrade.store.errors import StoreError
from tracegrade.store.open import one_at_a_time, reading
from tracegrade.store.runs import delete_run
from tracegrade.store.version import VERSION
from tracegrade.suites.jobs.submit import cancel, resume
from tracegrade.suites.jobs.suite_job import SuiteJob
from tracegrade.suites.jobs.worker import Worker
from tracegrade.suites.store import tables
from tracegrade.suites.store.jobs import claim, interrupt_running
from tracegrade.suites.store.suites import delete_suite
from waiting import WITHIN_S, eventually


class Gate:
    """A script that answers `first` requests and then nothing until it is opened, and says how many came."""

    def __init__(self, first: int = 0) -> None:
        self.opened = threading.Event()
        self.came = 0
        self._first = first

    def __call__(self, body: dict[str, Any]) -> Answer:
        self.came += 1
        assert self.came <= self._first or self.opened.wait(WITHIN_S)
        return right(body)


def test_a_job_runs_each_model_and_tells_all_in_order(place: Placed) -> None:
    here = place(right)
    job = here.submit("m-1", "m-2")
    with here.working():
        done = here.until(job.id, "done")
    assert (done.done, done.total, done.message, done.worker) == (6, 6, "", "")
    assert done.result_ref == job.id
    assert done.runs == ["weather/1", "weather/2"]
    assert [(run.state, run.selection["model"]) for run in here.runs()] == [
        ("complete", "one::m-1"),
        ("complete", "one::m-2"),
    ]
    told = here.events(job.id)
    assert [event.number for event in told] == [*range(1, len(told) + 1)]
    of_model = [event for event in told if event.name.startswith("tool_eval_") and event.name != "tool_eval_init"]
    assert [event.name for event in told[:2]] == ["job_created", "tool_eval_init"]
    assert [event.name for event in told[-2:]] == ["tool_eval_complete", "job_completed"]
    assert [event.name for event in of_model] == [
        *(["tool_eval_progress", "tool_eval_result"] * 3 + ["tool_eval_summary"]) * 2,
        "tool_eval_complete",
    ]
    (init,) = here.events(job.id, "tool_eval_init")
    assert {**init.fields} == {
        "job_id": job.id,
        "eval_id": job.id,
        "targets": ["one::m-1", "one::m-2"],
        "total": 6,
        "current": 0,
        "suite_id": here.suite.id,
        "suite_name": "Weather",
    }
    current = [event.fields["current"] for event in here.events(job.id, "tool_eval_progress")]
    assert current == [1, 2, 3, 4, 5, 6]
    assert here.events(job.id, "job_progress")[-1].fields["percentage"] == 100


def test_its_runs_are_those_of_the_command_line(place: Placed) -> None:
    here = place(right)
    job = here.submit("m-1", experiment="tuning", labels={"note": "x"}, temperature=0.5, system_prompt="Be quick.")
    with here.working():
        here.until(job.id, "done")
    (run,) = here.runs()
    assert (run.name, run.labels, run.source) == (
        "tuning/1",
        {"model": "one::m-1", "note": "x"},
        f"suite:{here.suite.id}",
    )
    assert (run.selection["temperature"], run.selection["job"]) == (0.5, job.id)
    body = here.server.requests[0]
    assert (body["temperature"], body["messages"][0]["content"]) == (0.5, "Be quick.")


def test_the_end_says_how_it_stands_against_the_baseline(place: Placed) -> None:
    worse = False
    here = place(lambda body: saying("Sunny.") if worse and "city 3" in prompt_of(body) else right(body))
    with here.working():
        first = here.submit(experiment="tuning")
        here.until(first.id, "done")
        worse = True
        second = here.submit(experiment="tuning")
        here.until(second.id, "done")
    told = [here.events(job.id, "tool_eval_complete")[0].fields for job in (first, second)]
    assert [(item["avg_score"], item["baseline_score"], item["delta"]) for item in told] == [
        (1.0, 1.0, 0.0),
        (0.6667, 1.0, -0.3333),
    ]
    assert told[1]["eval_id"] == second.id
    (summary,) = here.events(second.id, "tool_eval_summary")
    assert (summary.fields["avg_score"], summary.fields["fail"]) == (0.6667, 1)
    failed = [event.fields for event in here.events(second.id, "tool_eval_result") if event.fields["outcome"] == "fail"]
    assert [(item["case_id"], item["overall_score"], item["tool_selection_score"]) for item in failed] == [
        ("case-3", 0, 0)
    ]


def test_events_and_rows_hold_nothing_that_a_model_said_and_no_trace_ids(place: Placed) -> None:
    secret = "secret-of-the-model"
    here = place(lambda body: calling(("get_weather", {"city": secret, "note": secret})))
    job = here.submit()
    with here.working():
        here.until(job.id, "done")
    with reading(here.engine) as connection:
        rows = [repr(row) for table in (tables.jobs, tables.job_events) for row in connection.execute(select(table))]
    assert len(rows) > 10
    for found in (secret, *(trace_id.hex() for trace_id in here.trace_ids())):
        assert not any(found in row for row in rows)


def test_a_tenant_has_jobs_and_runs_of_its_own(place: Placed) -> None:
    here = place(right)
    suite = here.save(here.suite_of("other"))
    job = here.submit_as({"suite": suite.id, "models": ["m-1"]}, "other")
    with here.working():
        eventually(lambda: here.job(job.id, "other").state == "done", "the job of the other tenant")
    assert here.runs() == []
    with reading(here.engine) as connection:
        assert set(connection.execute(select(schema.traces.c.tenant)).scalars()) == {"other"}


def test_cancelling_breaks_off_requests_that_are_under_way(place: Placed) -> None:
    gate = Gate()
    here = place(gate, cases=40, at_a_time=8)
    job = here.submit()
    with here.working() as worker:
        eventually(lambda: gate.came == 8, "8 requests under way")
        cancel(here.config, "default", job.id)
        eventually(lambda: not worker.running, "the job's thread to end while none is answered")
        gate.opened.set()
    assert here.job(job.id).state == "cancelled"
    assert gate.came == 8
    assert (here.runs(), here.trace_ids()) == ([], [])  # nothing was stored, so nothing is left
    assert here.events(job.id)[-1].name == "job_cancelled"


def test_a_cancelled_job_goes_on_where_it_was(place: Placed) -> None:
    gate = Gate(first=8)
    here = place(gate, cases=30, at_a_time=2)
    job = here.submit()
    with here.working() as worker:
        eventually(lambda: here.job(job.id).done >= 5, "some results")
        cancel(here.config, "default", job.id)
        eventually(lambda: not worker.running, "the job's thread to end")
        gate.opened.set()
        assert here.job(job.id).state == "cancelled"
        stored = len(here.trace_ids())
        assert 5 <= stored < 30
        resume(here.config, "default", job.id)
        done = here.until(job.id, "done")
    assert (done.done, len(here.trace_ids()), len({*here.prompts()})) == (30, 30, 30)
    assert len(here.prompts()) <= 30 + 3 * 2  # those under way, and those that waited to be stored
    results = [event.fields["case_id"] for event in here.events(job.id, "tool_eval_result")]
    assert sorted(results) == sorted(f"case-{number}" for number in range(1, 31))
    (summary,) = here.events(job.id, "tool_eval_summary")
    assert summary.fields["results"] == 30
    assert [run.state for run in here.runs()] == ["complete"]


def test_a_queued_job_is_cancelled_and_never_begins(place: Placed) -> None:
    gate = Gate()
    here = place(gate)
    first, second = here.submit(), here.submit()
    with here.working():
        eventually(lambda: here.job(first.id).state == "running", "the first job")
        cancel(here.config, "default", second.id)
        gate.opened.set()
        here.until(first.id, "done")
    assert (here.job(second.id).state, here.job(second.id).begun_ns) == ("cancelled", None)


def test_further_jobs_wait_until_the_limits_let_them_begin(place: Placed) -> None:
    gate = Gate()
    here = place(gate)
    jobs = [here.submit(owner=owner) for owner in ("one", "two", "two")]
    with here.working(of_one_provider=2, of_one_token=1):
        eventually(lambda: here.job(jobs[1].id).state == "running", "two jobs")
        assert [here.job(job.id).state for job in jobs] == ["running", "running", "queued"]
        gate.opened.set()
        for job in jobs:
            here.until(job.id, "done")
    begun = [here.job(job.id).begun_ns for job in jobs]
    ended = [here.job(job.id).ended_ns for job in jobs]
    assert begun[2] is not None
    assert ended[1] is not None
    assert begun[2] > ended[1]


def test_a_second_worker_waits_and_takes_over(place: Placed) -> None:
    gate = Gate()
    here = place(gate, cases=4)
    job = here.submit()
    with here.working():
        with here.working():
            eventually(lambda: gate.came == 4, "the requests of one worker")
            gate.opened.set()
            here.until(job.id, "done")
            assert gate.came == 4
        again = here.submit()
        here.until(again.id, "done")
    assert len(here.trace_ids()) == 8


def _delete_suite(here: Place, run: str) -> None:
    with here.engine.begin() as connection:
        one_at_a_time(connection)
        assert delete_suite(connection, "default", here.suite.id)


def _take_model_away(here: Place, run: str) -> None:
    here.models.write_text(here.models.read_text().replace("m-1", "m-7"))


def _delete_run(here: Place, run: str) -> None:
    delete_run(here.engine, "default", run)


def _change_suite(here: Place, run: str) -> None:
    here.save(replace(here.suite, system_prompt="Another."))


def _break_models_file(here: Place, run: str) -> None:
    here.models.write_text("providers: 7\n")


def _name_an_unset_variable(here: Place, run: str) -> None:
    models = yaml.safe_load(here.models.read_text())
    models["providers"]["one"]["api_key"] = "${env:TRACEGRADE_NOT_SET}"
    here.models.write_text(yaml.safe_dump(models))


CHANGES = [
    (_delete_suite, " was deleted"),
    (_take_model_away, "the model one::m-1 is no longer in "),
    (_break_models_file, "one.models.yaml:1:"),
    (_name_an_unset_variable, "in the environment of 'tracegrade serve'"),
]


@pytest.mark.parametrize(("change", "message"), CHANGES)
def test_a_job_whose_makings_are_gone_when_it_begins_fails_and_says_so(
    place: Placed, change: Any, message: str
) -> None:
    here = place(right)
    job = here.submit()
    change(here, "")
    with here.working():
        failed = here.until(job.id, "failed")
    assert message in failed.message
    assert "\n" not in failed.message
    assert here.events(job.id)[-1].name == "job_failed"
    assert here.events(job.id)[-1].fields["error"] == failed.message
    assert here.runs() == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        *(pytest.param(*row, marks=pytest.mark.long) for row in CHANGES),
        (_delete_run, "what it had stored, run weather/1, was deleted"),
        (
            _change_suite,
            "weather/1 cannot go on, since these changed after it began: suite, system_prompt",
        ),
    ],
)
def test_a_job_whose_makings_are_gone_when_it_goes_on_fails_and_says_so(
    place: Placed, change: Any, message: str
) -> None:
    here = place(right, cases=20, at_a_time=1)
    job = here.submit()
    with here.working() as worker:
        eventually(lambda: here.job(job.id).done, "a result")
        worker.stop()
    assert here.job(job.id).state == "interrupted"
    change(here, "weather/1")
    with here.working():
        failed = here.until(job.id, "failed")
    assert message in failed.message


def test_a_job_whose_run_is_deleted_while_it_runs_fails_and_says_so(place: Placed) -> None:
    here = place(right, cases=300, at_a_time=1)
    job = here.submit()
    with here.working():
        eventually(lambda: here.job(job.id).done, "a result")
        delete_run(here.engine, "default", "weather/1")
        failed = here.until(job.id, "failed")
    assert failed.message.startswith("run 'weather/1'")
    assert failed.message.endswith("takes no more results: it was deleted or completed meanwhile")
    assert (here.runs(), here.trace_ids()) == ([], [])


def test_a_model_that_cannot_be_asked_fails_the_job_and_the_others_are_kept(place: Placed) -> None:
    here = place(lambda body: Answer({"error": {"message": "no"}}, 401) if body["model"] == "m-1" else right(body))
    job = here.submit("m-1", "m-2")
    with here.working():
        failed = here.until(job.id, "failed")
    assert failed.message.startswith("one::m-1: http://127.0.0.1")
    assert "answers 401: no" in failed.message
    assert failed.runs == [here.runs()[0].name]
    assert [(run.labels["model"], run.state) for run in here.runs()] == [("one::m-2", "complete")]
    assert failed.result_ref == job.id


def test_a_job_whose_model_server_is_not_there_fails_and_goes_on_when_it_is(place: Placed) -> None:
    here = place(right, attempts=1)
    there = here.models.read_text()
    here.models.write_text(re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:9", there))
    job = here.submit()
    with here.working():
        failed = here.until(job.id, "failed")
        assert failed.message.startswith("one::m-1: http://127.0.0.1:9/v1 cannot be reached: NewConnectionError")
        assert (failed.runs, here.runs()) == ([], [])
        here.models.write_text(there)
        resume(here.config, "default", job.id)
        here.until(job.id, "done")
    assert [run.state for run in here.runs()] == ["complete"]


def test_a_worker_that_lost_its_job_stores_nothing_of_it(place: Placed) -> None:
    gate = Gate()
    here = place(gate)
    job = here.submit()
    with here.working() as worker:
        eventually(lambda: gate.came == 3, "the requests")
        with here.engine.begin() as connection:  # as if it had hung, and another worker had the job since
            one_at_a_time(connection)
            interrupt_running(connection, time.time_ns())
            assert claim(connection, here.job(job.id), "another", time.time_ns())
        gate.opened.set()
        eventually(lambda: not worker.running, "the end of what it did")
    found = here.job(job.id)
    assert (found.state, found.worker, found.done) == ("running", "another", 0)
    assert (here.trace_ids(), here.events(job.id, "tool_eval_result")) == ([], [])


def test_a_worker_that_stops_leaves_its_job_to_the_next(place: Placed) -> None:
    here = place(right, cases=40, at_a_time=2)
    job = here.submit()
    with here.working():
        eventually(lambda: here.job(job.id).done >= 3, "some results")
    found = here.job(job.id)
    assert (found.state, found.worker, found.message) == ("interrupted", "", "its worker ended")
    assert here.runs()[0].state == "incomplete"
    with here.working():
        here.until(job.id, "done")
    assert len(here.trace_ids()) == len({*here.prompts()}) == 40


def test_a_bug_fails_its_job_and_not_the_worker(place: Placed, monkeypatch: pytest.MonkeyPatch) -> None:
    here = place(right)
    bad, good = here.submit(), here.submit()

    def broken(self: Any) -> None:
        if self.job.id == bad.id:
            raise ZeroDivisionError("no")
        original(self)

    original = SuiteJob.run
    monkeypatch.setattr("tracegrade.suites.jobs.suite_job.SuiteJob.run", broken)
    with here.working():
        failed = here.until(bad.id, "failed")
        here.until(good.id, "done")
    assert "ZeroDivisionError" in failed.message


def test_a_worker_ends_when_nothing_is_left_and_takes_its_note_away(
    place: Placed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracegrade.suites.jobs.worker.IDLE_S", 0.3)
    here = place(right)
    job = here.submit()
    note_path = here.folder / "data" / "jobs.wait"
    assert note_path.exists()
    worker = Worker(here.config, ends_when_idle=True)
    thread = threading.Thread(target=worker.run)
    thread.start()
    here.until(job.id, "done")
    thread.join(WITHIN_S)
    assert not thread.is_alive()
    assert not note_path.exists()
    here.submit()
    assert note_path.exists()


def test_a_clock_that_is_set_back_loses_nothing(place: Placed, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(first=6)  # so that the job is not done, however late this sees that it began
    here = place(gate, cases=12, at_a_time=2)
    clock, back_ns = time.time_ns, 0
    monkeypatch.setattr(time, "time_ns", lambda: clock() - back_ns)
    first, second = here.submit(), here.submit()
    with here.working():
        eventually(lambda: here.job(first.id).done >= 3, "some results")
        back_ns = 3600 * 10**9
    gate.opened.set()
    assert here.job(first.id).state == "interrupted"
    third = here.submit()  # submitted before the others, by the clock
    with here.working():
        for job in (first, second, third):
            here.until(job.id, "done")
    assert len(here.trace_ids()) == 3 * 12
    results = [event.fields["case_id"] for event in here.events(first.id, "tool_eval_result")]
    assert sorted(results) == sorted(f"case-{number}" for number in range(1, 13))


def test_a_store_that_cannot_be_written_ends_the_worker_and_not_the_job(
    place: Placed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_up_waiting(monkeypatch)
    gate = Gate()
    here = place(gate)
    if here.engine.dialect.name != "sqlite":
        pytest.skip("SQLite alone gives up waiting for a lock")
    job = here.submit()
    worker = Worker(here.config, ends_when_idle=True)
    ended: list[BaseException] = []

    def work() -> None:
        try:
            worker.run()
        except (StoreError, SQLAlchemyError) as error:
            ended.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    eventually(lambda: gate.came == 3, "the requests")
    locking = sqlite3.connect(tmp_path / "tracegrade.db", isolation_level=None)
    locking.execute("BEGIN IMMEDIATE")
    gate.opened.set()
    thread.join(WITHIN_S)
    assert not thread.is_alive()
    locking.execute("ROLLBACK")
    locking.close()
    assert len(ended) == 1
    # The end of the worker's process ends the job's thread; here it may still wait for the lock.
    eventually(lambda: not any(job.thread.is_alive() for job in worker.running.values()), "the job's thread to end")
    with here.working():
        here.until(job.id, "done")
    assert len(here.trace_ids()) == 3


def test_a_store_of_an_older_version_is_left_to_the_judge(place: Placed, monkeypatch: pytest.MonkeyPatch) -> None:
    here = place(right)
    job = here.submit()
    with monkeypatch.context() as patched:
        patched.setattr("tracegrade.store.version.VERSION", "9000")
        with pytest.raises(StoreError, match=r"written by an older TraceGrade .* start 'tracegrade serve'"):
            Worker(here.config, ends_when_idle=True)
    with reading(here.engine) as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one() == VERSION
    with here.working():
        here.until(job.id, "done")
