"""Jobs and their events: claimed once, changed by whoever runs them alone, and seen by their tenant alone."""

from dataclasses import replace
from typing import Any

from sqlalchemy import Engine, func, select

from tracegrade.store.documents import new_id
from tracegrade.store.open import one_at_a_time
from tracegrade.suites.store import tables
from tracegrade.suites.store.jobs import (
    Job,
    add_events,
    add_job,
    cancel_job,
    claim,
    delete_job,
    delete_old_events,
    events_after,
    interrupt_running,
    note,
    resume_job,
    stored_job,
    stored_jobs,
)

S = 10**9
WEEK_NS = 7 * 24 * 3600 * S
JOB = Job(tenant="default", id="0123456789ab", request={"suite": "x", "models": ["one::m-1"]}, created_ns=10)


def do(engine: Engine, function: Any, *arguments: Any, **more: Any) -> Any:
    with engine.begin() as connection:
        one_at_a_time(connection)
        return function(connection, *arguments, **more)


def state_of(engine: Engine, job: Job = JOB) -> str:
    found = do(engine, stored_job, job.tenant, job.id)
    return str(found.state)


def test_a_job_is_stored_as_it_was_submitted_and_seen_by_its_tenant_alone(engine: Engine) -> None:
    other = replace(JOB, tenant="other", id=new_id(), created_ns=20)
    do(engine, add_job, JOB, suite_name="Weather")
    do(engine, add_job, other)
    assert do(engine, stored_job, "default", JOB.id) == replace(JOB, runs=[])
    assert do(engine, stored_job, "default", other.id) is None
    assert [job.id for job in do(engine, stored_jobs, None)] == [other.id, JOB.id]
    assert [job.id for job in do(engine, stored_jobs, "other")] == [other.id]
    (event,) = do(engine, events_after, "default", JOB.id, 0)
    assert (event.number, event.name, event.fields["job_id"], event.fields["suite_name"]) == (
        1,
        "job_created",
        JOB.id,
        "Weather",
    )


def test_one_claim_wins_and_the_others_change_nothing(engine: Engine) -> None:
    do(engine, add_job, JOB)
    assert [do(engine, claim, JOB, name, 20) for name in ("first", "second")] == [True, False]
    assert not do(engine, note, JOB, "second", 30, done=5)
    assert do(engine, note, JOB, "first", 30, done=3)
    found = do(engine, stored_job, "default", JOB.id)
    assert (found.state, found.worker, found.begun_ns, found.seen_ns, found.done) == ("running", "first", 20, 30, 3)


def test_a_job_whose_worker_ended_goes_on_under_another_claim(engine: Engine) -> None:
    do(engine, add_job, JOB)
    do(engine, claim, JOB, "first", 20)
    assert do(engine, interrupt_running, 30) == 1
    assert state_of(engine) == "interrupted"
    assert not do(engine, note, JOB, "first", 40, done=9)
    assert do(engine, claim, JOB, "second", 50)
    assert do(engine, stored_job, "default", JOB.id).begun_ns == 20


def test_a_cancelled_job_is_taken_from_its_worker_and_can_be_queued_again(engine: Engine) -> None:
    do(engine, add_job, JOB)
    do(engine, claim, JOB, "first", 20)
    assert [do(engine, cancel_job, "default", JOB.id, 30) for _ in range(2)] == [True, False]
    assert not do(engine, note, JOB, "first", 40, state="done")
    assert state_of(engine) == "cancelled"
    assert not do(engine, claim, JOB, "second", 50)
    assert [do(engine, resume_job, "default", JOB.id, 60) for _ in range(2)] == [True, False]
    assert (state_of(engine), do(engine, stored_job, "default", JOB.id).ended_ns) == ("queued", None)
    names = [event.name for event in do(engine, events_after, "default", JOB.id, 0)]
    assert names == ["job_created", "job_cancelled", "job_created"]
    assert not do(engine, cancel_job, "other", JOB.id, 70)


def test_a_worker_that_is_not_heard_of_shows_as_interrupted_whatever_the_clock_does() -> None:
    running = replace(JOB, state="running", seen_ns=1000 * S)
    assert [running.state_at(at * S) for at in (1000, 1029, 1031, 990, 100)] == [
        "running",
        "running",
        "interrupted",
        "running",
        "interrupted",
    ]
    assert replace(running, state="done").state_at(9999 * S) == "done"


def test_events_are_numbered_within_a_job_and_read_from_any(engine: Engine) -> None:
    other = replace(JOB, id="ba9876543210")
    for job in (JOB, other):
        do(engine, add_job, job)
        do(engine, add_events, "default", job.id, [("tool_eval_progress", {"current": n}) for n in range(1200)], 20)
    found = do(engine, events_after, "default", JOB.id, 1199, 1000)
    assert [(event.number, event.fields["current"]) for event in found] == [(1200, 1198), (1201, 1199)]
    assert len(do(engine, events_after, "default", JOB.id, 0, 7)) == 7


def test_a_deleted_job_leaves_nothing(engine: Engine) -> None:
    do(engine, add_job, JOB)
    assert not do(engine, delete_job, "other", JOB.id)
    assert do(engine, delete_job, "default", JOB.id)
    with engine.connect() as connection:
        for table in (tables.jobs, tables.job_events):
            assert connection.execute(select(func.count()).select_from(table)).scalar_one() == 0


def test_events_go_a_week_after_the_end_of_their_job(engine: Engine) -> None:
    running = replace(JOB, id="ba9876543210")
    for job in (JOB, running):
        do(engine, add_job, job)
        do(engine, claim, job, "first", 20)
    do(engine, cancel_job, "default", JOB.id, 30)
    assert do(engine, delete_old_events, 30 + WEEK_NS) == 0
    assert do(engine, delete_old_events, 31 + WEEK_NS) == 2
    assert len(do(engine, events_after, "default", running.id, 0)) == 1
    assert state_of(engine) == "cancelled"
