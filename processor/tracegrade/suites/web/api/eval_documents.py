"""Evals in the OpenAPI document, as they come and as they are answered."""

from typing import Annotated, Any, TypeAlias

from pydantic import ConfigDict, Field

from tracegrade.store.runs import State
from tracegrade.suites.jobs.suite_request import MOST_MODELS
from tracegrade.suites.models.settings import SEPARATOR
from tracegrade.suites.web.api.jobs import SentAsking, Word
from tracegrade.web.api.documents import Document, SentDocument, SentId

_Key: TypeAlias = Annotated[SentId, Field(min_length=1)]
_Models: TypeAlias = Annotated[list[_Key], Field(max_length=MOST_MODELS)]


class SentTarget(SentDocument):
    """One model of one provider."""

    provider_key: _Key
    model_id: _Key

    @property
    def key(self) -> str:
        """``provider::model``."""
        return f"{self.provider_key}{SEPARATOR}{self.model_id}"


class SentModels(SentDocument):
    """Which models; `models`, `targets`, or both."""

    models: _Models = Field(
        default_factory=list, description="By `provider_key::model_id`, or by an id that is of one provider alone"
    )
    targets: list[SentTarget] = Field(default_factory=list, max_length=MOST_MODELS)

    @property
    def keys(self) -> list[str]:
        """All of them."""
        return [*self.models, *(target.key for target in self.targets)]


class SentEval(SentAsking, SentModels):
    """A run of a stored suite."""

    suite_id: _Key
    experiment_id: _Key | None = Field(
        None, description="The experiment to link it to, by its id or name; the suite's own if left out"
    )


class SentBest(SentModels):
    """What is not to be as in the best configuration."""


class SentCancel(SentDocument):
    """The job to cancel."""

    job_id: _Key


class SubmittedJob(Document):
    """The job, which may have to wait for others."""

    job_id: str
    status: Word


class SubmittedEval(SubmittedJob):
    """The job of an eval, and what the eval will be measured against."""

    experiment_id: str
    baseline_eval_id: str | None = Field(description="The baseline of the experiment so far; null before the first")


class BestJob(SubmittedEval):
    """The job that runs the best configuration."""

    config_used: dict[str, Any]


class EvalRunDocument(Document):
    """The run of one model."""

    run: str
    model: str | None
    state: State
    score: float | None
    traces: int


class EvalDocument(Document):
    """One eval: what one request to run a suite stored."""

    id: str
    eval_id: str = Field(description="The same as `id`: that of its job, or the name of a run that no job made")
    job_id: str | None
    status: Word
    error: str | None = Field(description="What ended it, if it failed or a run of it did")
    reported: bool = Field(description="Whether it is the best result of a tune, which another tool reported: no runs")
    suite_id: str | None = Field(description="null where a file was run")
    suite_name: str
    experiment_id: str | None = Field(description="null where its experiment was deleted, and it has no runs")
    models: list[str]
    configuration: dict[str, Any]
    avg_score: float | None = Field(description="The mean of the scores of its complete runs")
    delta: float | None = Field(description="`avg_score` less that of the experiment's baseline")
    delta_note: str | None = Field(description="Why there is no delta where the baseline is of another suite")
    baseline_eval_id: str | None = Field(description="The eval that it is measured against")
    baseline_score: float | None
    is_baseline: bool
    timestamp: str = Field(description="When it was begun; RFC 3339")
    begun_ns: int
    runs: list[EvalRunDocument]


class Evals(Document):
    """The one begun last first."""

    runs: list[EvalDocument]
    next: str | None = Field(description="The parameter `cursor` of the next page")


class EvalSummary(Document):
    """The averages of one model, as of `suite run --format json`; null where there is nothing."""

    model_config = ConfigDict(extra="allow")

    run: str
    model: str
    results: int
    overall: float | None
    tool_selection: float | None
    param_accuracy: float | None
    flaky: list[str] = Field(description="Cases that both passed and failed")


class EvalResult(Document):
    """One run of one case with one model. What a trace says is null for callers who may not see values."""

    run: str
    model: str
    case_id: str
    repetition: int
    outcome: str
    tool_selection_score: float | None
    param_accuracy: float | None
    overall_score: float | None
    multi_turn: dict[str, float | None] | None
    latency_ms: int
    input_tokens: int | None
    output_tokens: int | None
    cost: float | None
    trace_id: str | None
    prompt: str | None
    expected_tool: Any
    expected_params: Any
    actual_tool: str | None = Field(description="Of the call that is scored: the first, of several turns the last")
    actual_params: Any
    calls: list[dict[str, Any]] | None
    explanation: str | None
    notes: list[str] | None


class WholeEval(EvalDocument):
    """One eval with the averages of each model, and its results."""

    summary: list[EvalSummary]
    results: list[EvalResult] = Field(description="By model, then by case; without those of runs that hold too many")
    hints: dict[str, list[str]] = Field(description="By model, what a common mistake looks like that shows here")


class DeletedEval(Document):
    """What was deleted."""

    deleted: int = Field(description="How many evals")
    traces_deleted: int = Field(description="How many stored traces of its runs")
