"""Jobs: what is done in the background, such as runs of suites, and what happens in them."""

import time
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Any, Literal, TypeAlias

from fastapi import Body, Header, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from tracegrade.display import json_text
from tracegrade.history.runs.run_changes import LONGEST_KEY, LONGEST_VALUE, MOST_LABELS
from tracegrade.model.errors import NotFound
from tracegrade.suites.jobs.submit import cancel, delete_with_runs, resume, submit
from tracegrade.suites.jobs.suite_request import LONGEST_PROMPT, MOST_MODELS, SuiteRequest, suite_request
from tracegrade.suites.models.asking import ToolChoice
from tracegrade.suites.store.jobs import STATES, UNFINISHED, Job, State, last_event, stored_job, stored_jobs
from tracegrade.suites.web.job_events import JobEvents, Watched
from tracegrade.web.api.documents import Document, ExactJson, Page, SentDocument, SentId
from tracegrade.web.api.operations import Operations
from tracegrade.web.api.parameters import (
    IN_DIGITS,
    ApiCall,
    Null,
    OfForced,
    OfTenant,
    PathName,
    Stretch,
    TenantQuery,
    in_tenant,
)
from tracegrade.web.masked import seen_by
from tracegrade.web.rights import is_still_let_in
from tracegrade.web.sources import Sources
from tracegrade.web.streams import Stream, Streams

MOST_PARALLEL = 1000

Word: TypeAlias = Literal["submitted", "running", "done", "failed", "cancelled", "interrupted"]
"""The states of jobs as callers know them."""

_Key: TypeAlias = Annotated[SentId, Field(min_length=1)]
_LabelKey: TypeAlias = Annotated[str, Field(min_length=1, max_length=LONGEST_KEY)]
_LabelValue: TypeAlias = Annotated[str, Field(max_length=LONGEST_VALUE)]
_Prompt: TypeAlias = Annotated[str, Field(max_length=LONGEST_PROMPT)]


class SentAsking(SentDocument):
    """How models are asked."""

    temperature: float = Field(0.0, ge=0, le=2)
    tool_choice: ToolChoice = Field("required", description="A model that refuses `required` is asked with `auto`")
    system_prompt: _Prompt | dict[_Key, _Prompt] | None = Field(
        None, description="In place of the suite's: for all models, or for each by `provider_key::model_id`"
    )
    repeat: int = Field(1, description="How often each case is run", ge=1, le=1000)
    labels: dict[_LabelKey, _LabelValue] = Field(
        default_factory=dict, description="Of each run, beside `model`", max_length=MOST_LABELS
    )
    max_parallel: int | None = Field(
        None, description="Most requests under way, of all models together", ge=1, le=MOST_PARALLEL
    )


class SentJob(SentAsking):
    """A run of a stored suite."""

    suite: _Key = Field(description="Its id")
    models: list[_Key] = Field(
        description="By `provider::model`, or by an id that is of one provider alone",
        min_length=1,
        max_length=MOST_MODELS,
    )
    experiment: SentId | None = Field(
        None, description="Its name; the suite's own experiment if left out", max_length=100
    )

    def request(self) -> SuiteRequest:
        """What is asked of a job."""
        return suite_request(self.model_dump())


class JobDocument(Document):
    """One job."""

    id: str
    tenant: str
    kind: str
    status: Word = Field(description="One that is interrupted goes on as soon as there is a worker")
    request: dict[str, Any] = Field(description="What is to be done")
    runs: list[str] = Field(description="The runs that it writes, one for each model")
    current: int = Field(description="How many results are stored")
    total: int = Field(description="Of how many; 0 until it runs")
    message: str = Field(description="What ended it, if anything")
    result_ref: str | None = Field(description="The eval, once something of it is stored")
    created_ns: int
    begun_ns: int | None
    ended_ns: int | None


class Jobs(Page[JobDocument]):
    """The newest first."""


class DeletedJob(Document):
    """What was deleted."""

    deleted: int = Field(description="How many jobs")
    traces_deleted: int = Field(description="How many stored traces of its runs")


def word_of(state: State) -> Word:
    """A state as callers know it."""
    return "submitted" if state == "queued" else state


def job_document(job: Job) -> dict[str, Any]:
    """A job as the API shows it."""
    return JobDocument.json_of(job, status=word_of(job.state_at(time.time_ns())), current=job.done)


KEEP_ALIVE_S = 15.0
RETRY_MS = 1000
STREAM = "text/event-stream"

router = Operations(503)


class JobsQuery(Stretch):
    """Which jobs."""

    state: Word | Null = Field(None, description="Only in this state")


class EventsQuery(TenantQuery):
    """From where."""

    after: Annotated[int, Field(ge=0, lt=10**15), IN_DIGITS] | Null = Field(
        None, description="Only what happened after the event of this number"
    )


EventNumber: TypeAlias = Annotated[str, Field(pattern="^[0-9]{1,15}$")]


@router.operation("GET /jobs", "Jobs", Jobs)
def list_jobs(call: Annotated[ApiCall[JobsQuery], in_tenant(JobsQuery)]) -> ExactJson:
    """Jobs with how far they are."""
    states = [state for state in STATES if call.query.state in (None, word_of(state))]
    with call.sources.store() as connection:
        until_ns, offset = call.query.place
        found = stored_jobs(
            connection, call.tenant, states, limit=call.query.limit + 1, until_ns=until_ns, offset=offset
        )
    shown = [job_document(seen_by(call.caller, job)) for job in found[: call.query.limit]]
    return ExactJson({"items": shown, "next": call.query.next_after([job.created_ns for job in found])})


@router.operation("POST /jobs", "Run a suite with models", JobDocument, 404, 409, right="run", status=202)
def submit_job(call: OfTenant, sent: Annotated[SentJob, Body()]) -> ExactJson:
    """Queues the run of a stored suite. It begins when the limits of `suites.jobs` let it."""
    job = submit(call.sources.config, call.tenant, call.caller.owner, sent.request())
    return ExactJson(job_document(job), 202)


@router.operation("GET /jobs/{job_id}", "One job", JobDocument, 404)
def show_job(call: OfTenant, job_id: PathName) -> ExactJson:
    """One job, and how far it is."""
    return ExactJson(job_document(seen_by(call.caller, _known(call, job_id)[0])))


@router.operation("POST /jobs/{job_id}/cancel", "Cancel a job", JobDocument, 404, right="run")
def cancel_job(call: OfTenant, job_id: PathName) -> ExactJson:
    """Cancels a job that waits or runs; one that has ended stays as it is. What it has stored stays, too."""
    return ExactJson(job_document(seen_by(call.caller, cancel(call.sources.config, call.tenant, job_id))))


@router.operation("POST /jobs/{job_id}/resume", "Let a job go on", JobDocument, 404, 409, right="run")
def resume_job(call: OfTenant, job_id: PathName) -> ExactJson:
    """Queues a job again that failed or was cancelled: what it has stored is not done again."""
    return ExactJson(job_document(seen_by(call.caller, resume(call.sources.config, call.tenant, job_id))))


@router.operation("DELETE /jobs/{job_id}", "Delete a job with its runs", DeletedJob, 404, 409, right="admin")
def delete_job(call: OfForced, job_id: PathName) -> ExactJson:
    """Deletes a job that has ended, with its runs and their traces."""
    traces = delete_with_runs(call.store_url, call.tenant, job_id, force=call.query.force)
    return ExactJson({"deleted": 1, "traces_deleted": traces})


@router.operation(
    "GET /jobs/{job_id}/events",
    "What happens in a job",
    None,
    404,
    429,
    503,
    answers={
        200: {"description": "Events as they happen", "content": {STREAM: {"schema": {"type": "string"}}}},
        204: {"description": "The job has ended, and there is nothing more"},
    },
    response_class=StreamingResponse,
)
async def watch_job(
    request: Request,
    call: Annotated[ApiCall[EventsQuery], in_tenant(EventsQuery)],
    job_id: PathName,
    last_event_id: Annotated[EventNumber | Null, Header(description="As `after`: browsers send it")] = None,
) -> Response:
    """Server-sent events: what has happened, and what happens until the job has ended."""
    events: JobEvents = request.app.state.job_events
    after = call.query.after if last_event_id is None else int(last_event_id)
    watched = Watched(call.tenant, job_id, call.caller.may("read-values"))
    job, newest = await run_in_threadpool(_known, call, job_id)
    if job.state not in UNFINISHED and (after or 0) >= newest:
        return Response(status_code=204)  # a browser does not ask again then
    seen = events.begin(watched, after)
    goes_on = partial(_goes_on, request, call.sources)
    headers = {"X-Accel-Buffering": "no"}  # a proxy would keep events back
    streams: Streams = request.app.state.streams
    told = events.told(watched, seen, goes_on)
    return Stream(request, streams, _lines(told), media_type=STREAM, headers=headers)


async def _lines(told: AsyncIterator[list[dict[str, Any]]]) -> AsyncIterator[str]:
    """Server-sent events, and a comment where nothing happens for long: proxies close what is silent."""
    said_s = time.monotonic()
    yield f"retry: {RETRY_MS}\n\n"
    async for found in told:
        for event in found:
            yield f"id: {event['number']}\nevent: {event['type']}\ndata: {json_text(event)}\n\n"
        if found or time.monotonic() - said_s > KEEP_ALIVE_S:
            said_s = time.monotonic()
            if not found:
                yield ": still here\n\n"


def _goes_on(request: Request, sources: Sources) -> bool:
    return not sources.is_stopping() and is_still_let_in(request)


def _known(call: ApiCall[Any], id_: str) -> tuple[Job, int]:
    """The job, and the number of its last event; raises `NotFound`."""
    with call.sources.store() as connection:
        job = stored_job(connection, call.tenant, id_)
        if job is None:
            raise NotFound(f"there is no job {id_[:200]!r}")
        return job, last_event(connection, call.tenant, id_)
