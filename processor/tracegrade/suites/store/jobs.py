"""Jobs and what happens in them, by tenant and id.

A job is *queued* until a worker claims it, *running* then, and at the end *done*, *failed* or *cancelled*; it is
*interrupted* where its worker ended before, and goes on when there is one again. A job that failed or was cancelled can
be queued again. Each claim has a name of its own, and only who has the last one changes a job that is running: a worker
that hung, and finds that its job was cancelled or is another's by now, writes nothing.

Rows and events hold neither trace ids nor anything of a trace's content. Every function that changes something is
called in a transaction that began with `one_at_a_time`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, TypeAlias, get_args

from sqlalchemy import Connection, delete, func, insert, select, update

from tracegrade.model.json_value import JsonValue
from tracegrade.store.documents import record, records
from tracegrade.store.named import id_named
from tracegrade.store.runs import LOST_AFTER_S
from tracegrade.suites.store.tables import job_events, jobs

State: TypeAlias = Literal["queued", "running", "done", "failed", "cancelled", "interrupted"]
STATES: tuple[State, ...] = get_args(State)
WAITING: tuple[State, ...] = ("interrupted", "queued")
"""A worker claims these."""
UNFINISHED: tuple[State, ...] = ("running", *WAITING)
"""Those that can be cancelled."""
SUITE_RUN = "suite_run"

_EVENTS_KEPT_NS = 7 * 24 * 3600 * 10**9
_TOGETHER = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job; each field is the column of ``jobs`` that has its name. Times are ns since 1970 UTC."""

    tenant: str
    id: str
    kind: str = SUITE_RUN
    owner: str = ""
    state: State = "queued"
    request: Mapping[str, Any]
    runs: Sequence[str] = ()
    done: int = 0
    total: int = 0
    message: str = ""
    worker: str = ""
    seen_ns: int = 0
    created_ns: int
    begun_ns: int | None = None
    ended_ns: int | None = None

    def state_at(self, now_ns: int) -> State:
        """Its state for people: one that runs, and whose worker was not heard of for long, is interrupted."""
        # A worker that lives writes its time again soon after the clock was set back.
        is_lost = self.state == "running" and abs(now_ns - self.seen_ns) > LOST_AFTER_S * 1e9
        return "interrupted" if is_lost else self.state

    @property
    def result_ref(self) -> str | None:
        """The id of its eval, which is its own, once it has runs; None before."""
        return self.id if self.runs else None


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in a job: the ``number``-th, from 1."""

    tenant: str
    job: str
    number: int
    at_ns: int
    name: str
    fields: Mapping[str, JsonValue]


_KNOWN = [jobs.c[field.name] for field in fields(Job)]
_EVENT = [job_events.c[field.name] for field in fields(Event)]


def add_job(connection: Connection, job: Job, **told: JsonValue) -> None:
    """Store a new job, with the event `job_created`; its fields are its id and kind, and what else is `told`."""
    connection.execute(insert(jobs).values(**{**asdict(job), "runs": list(job.runs), "request": dict(job.request)}))
    add_events(
        connection,
        job.tenant,
        job.id,
        [("job_created", {"job_type": job.kind, "status": "submitted", **told})],
        job.created_ns,
    )


def stored_job(connection: Connection, tenant: str, id_: str) -> Job | None:
    """The job with this id; None when there is none."""
    return record(connection, Job, select(*_KNOWN).where(*_is_job(tenant, id_)))


def job_named(connection: Connection, tenant: str, written: str) -> str:
    """The id of the job that has it, or whose id alone begins so; `written` where none does. Raises `NotFound`."""
    return id_named(connection, jobs.c.id, written, "job", jobs.c.tenant == tenant) or written


def stored_jobs(
    connection: Connection,
    tenant: str | None,
    states: Iterable[State] = STATES,
    *,
    limit: int | None = None,
    until_ns: int | None = None,
    offset: int = 0,
) -> list[Job]:
    """Jobs in one of these states, submitted by `until_ns`, the newest first; those of all tenants for None."""
    query = select(*_KNOWN).where(jobs.c.state.in_(list(states)))
    if until_ns is not None:
        query = query.where(jobs.c.created_ns <= until_ns)
    if tenant is not None:
        query = query.where(jobs.c.tenant == tenant)
    query = query.order_by(jobs.c.created_ns.desc(), jobs.c.id).limit(limit).offset(offset)
    return records(connection, Job, query)


def claim(connection: Connection, job: Job, claim_name: str, now_ns: int) -> bool:
    """Let `claim_name` have a job that waits; False where it no longer waits."""
    waits = (*_is_job(job.tenant, job.id), jobs.c.state.in_(WAITING))
    values = {
        "state": "running",
        "worker": claim_name,
        "seen_ns": now_ns,
        "begun_ns": func.coalesce(jobs.c.begun_ns, now_ns),
        "ended_ns": None,
        "message": "",
    }
    return bool(connection.execute(update(jobs).where(*waits).values(**values)).rowcount)


def note(connection: Connection, job: Job, claim_name: str, now_ns: int, **changed: Any) -> bool:
    """Change columns of the job that `claim_name` runs, and note that its worker lives; False where another has it."""
    own = (*_is_job(job.tenant, job.id), jobs.c.state == "running", jobs.c.worker == claim_name)
    return bool(connection.execute(update(jobs).where(*own).values(seen_ns=now_ns, **changed)).rowcount)


def interrupt_running(connection: Connection, now_ns: int) -> int:
    """Note that no job runs: called by the only worker of a store when it starts. Returns how many ran."""
    values = {"state": "interrupted", "worker": "", "seen_ns": now_ns, "message": "its worker ended"}
    return connection.execute(update(jobs).where(jobs.c.state == "running").values(**values)).rowcount


def cancel_job(connection: Connection, tenant: str, id_: str, now_ns: int) -> bool:
    """Cancel a job that is not finished: its worker, if it has one, notices. False where there is none to cancel."""
    unfinished = (*_is_job(tenant, id_), jobs.c.state.in_(UNFINISHED))
    values = {"state": "cancelled", "worker": "", "message": "", "ended_ns": now_ns}
    if not connection.execute(update(jobs).where(*unfinished).values(**values)).rowcount:
        return False
    add_events(connection, tenant, id_, [("job_cancelled", {})], now_ns)
    return True


def resume_job(connection: Connection, tenant: str, id_: str, now_ns: int) -> bool:
    """Queue a job again that failed or was cancelled; False where there is none."""
    ended = (*_is_job(tenant, id_), jobs.c.state.in_(("failed", "cancelled")))
    values = {"state": "queued", "worker": "", "message": "", "ended_ns": None}
    if not connection.execute(update(jobs).where(*ended).values(**values)).rowcount:
        return False
    add_events(connection, tenant, id_, [("job_created", {"status": "submitted", "resumed": True})], now_ns)
    return True


def move_jobs(connection: Connection, tenant: str, experiment: str, other: str, suite: str | None = None) -> None:
    """Let the jobs that write one experiment write another; those that run `suite` alone, if it is given."""
    for job in stored_jobs(connection, tenant):
        if job.request.get("experiment") == experiment and suite in (None, job.request.get("suite")):
            request = {**job.request, "experiment": other}
            connection.execute(update(jobs).where(*_is_job(tenant, job.id)).values(request=request))


def delete_job(connection: Connection, tenant: str, id_: str) -> bool:
    """Delete a job with its events; what it has stored stays. False when there is none."""
    connection.execute(delete(job_events).where(*_of_job(tenant, id_)))
    return bool(connection.execute(delete(jobs).where(*_is_job(tenant, id_))).rowcount)


def add_events(
    connection: Connection,
    tenant: str,
    id_: str,
    events: Sequence[tuple[str, Mapping[str, JsonValue]]],
    now_ns: int,
) -> None:
    """Note that these, each a name and its fields, happened in a job, in this order."""
    first = last_event(connection, tenant, id_) + 1
    rows = [
        {
            "tenant": tenant,
            "job": id_,
            "number": number,
            "at_ns": now_ns,
            "name": name,
            "fields": {"job_id": id_, **told},
        }
        for number, (name, told) in enumerate(events, first)
    ]
    for begin in range(0, len(rows), _TOGETHER):
        connection.execute(insert(job_events), rows[begin : begin + _TOGETHER])


def last_event(connection: Connection, tenant: str, id_: str) -> int:
    """The number of the last event of a job; 0 before the first."""
    query = select(func.coalesce(func.max(job_events.c.number), 0)).where(*_of_job(tenant, id_))
    return int(connection.execute(query).scalar_one())


def events_after(connection: Connection, tenant: str, id_: str, number: int, limit: int = 1000) -> list[Event]:
    """Events of a job after the `number`-th, in order; at most `limit`."""
    query = select(*_EVENT).where(*_of_job(tenant, id_), job_events.c.number > number)
    return records(connection, Event, query.order_by(job_events.c.number).limit(limit))


def newest_events(connection: Connection, tenant: str | None, since_ns: int) -> dict[tuple[str, str], int]:
    """The number of the last event of each job that is not finished, or ended after a time; by tenant and id.

    Args:
        connection: to the store.
        tenant: only its jobs; None: all.
        since_ns: ns since 1970 UTC.
    """
    last = select(func.coalesce(func.max(job_events.c.number), 0))
    same = (job_events.c.tenant == jobs.c.tenant, job_events.c.job == jobs.c.id)
    query = select(jobs.c.tenant, jobs.c.id, last.where(*same).scalar_subquery())
    query = query.where(jobs.c.state.in_(UNFINISHED) | (jobs.c.ended_ns > since_ns))
    if tenant is not None:
        query = query.where(jobs.c.tenant == tenant)
    return {(owner, id_): number for owner, id_, number in connection.execute(query)}


def delete_old_events(connection: Connection, now_ns: int) -> int:
    """Delete the events of jobs that ended a week ago. Returns how many."""
    old = select(jobs.c.tenant, jobs.c.id).where(jobs.c.ended_ns < now_ns - _EVENTS_KEPT_NS)
    deleted = 0
    for tenant, id_ in connection.execute(old.where(_has_events())).all():
        deleted += connection.execute(delete(job_events).where(*_of_job(tenant, id_))).rowcount
    return deleted


def _has_events() -> Any:
    same = (job_events.c.tenant == jobs.c.tenant, job_events.c.job == jobs.c.id)
    return select(job_events.c.number).where(*same).exists()


def _is_job(tenant: str, id_: str) -> tuple[Any, Any]:
    return jobs.c.tenant == tenant, jobs.c.id == id_


def _of_job(tenant: str, id_: str) -> tuple[Any, Any]:
    return job_events.c.tenant == tenant, job_events.c.job == id_
