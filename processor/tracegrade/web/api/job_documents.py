"""Jobs in the OpenAPI document, as they come and as they are answered."""

import time
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from tracegrade.history.runs.run_changes import LONGEST_KEY, LONGEST_VALUE, MOST_LABELS
from tracegrade.jobs.suite_request import LONGEST_PROMPT, MOST_MODELS, SuiteRequest, suite_request
from tracegrade.models.asking import ToolChoice
from tracegrade.store.jobs import Job, State
from tracegrade.web.api.documents import Document, Page, SentDocument, SentId

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
    return {
        "id": job.id,
        "tenant": job.tenant,
        "kind": job.kind,
        "status": word_of(job.state_at(time.time_ns())),
        "request": dict(job.request),
        "runs": [*job.runs],
        "current": job.done,
        "total": job.total,
        "message": job.message,
        "result_ref": job.result_ref,
        "created_ns": job.created_ns,
        "begun_ns": job.begun_ns,
        "ended_ns": job.ended_ns,
    }
