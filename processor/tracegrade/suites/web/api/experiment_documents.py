"""Experiments, their evals and entries in the OpenAPI document, as they come and as they are answered."""

from typing import Annotated, Any

from pydantic import AfterValidator, AliasChoices, Field

from tracegrade.store.runs import Kind, ReportedKind
from tracegrade.suites.imported import SuiteError
from tracegrade.suites.runs.experiments import LONGEST_DESCRIPTION
from tracegrade.suites.stored import storable
from tracegrade.web.api.documents import WITHOUT_NUL, Document, SentDocument, SentId

_NAME = "Letters, digits, `_`, `.`, `/`, `+`, `-`, and single spaces between them"


def _open_object(value: dict[str, Any]) -> dict[str, Any]:
    try:
        storable({"configuration": value})
    except SuiteError as error:
        raise ValueError(str(error).removeprefix("configuration: ")) from None
    return value


class SentExperiment(SentDocument):
    """An experiment to make."""

    name: str = Field(description=_NAME, min_length=1, max_length=100, pattern=WITHOUT_NUL)
    suite_id: SentId | None = Field(None, description="The stored suite that it is about")
    description: str = Field("", max_length=LONGEST_DESCRIPTION)
    baseline_eval_id: SentId | None = Field(None, description="An eval to pin as its baseline")


class SentChange(SentDocument):
    """What is to be changed of an experiment; what is left out stays."""

    name: str | None = Field(None, description=_NAME, min_length=1, max_length=100, pattern=WITHOUT_NUL)
    description: str | None = Field(None, max_length=LONGEST_DESCRIPTION)


class SentBaseline(SentDocument):
    """The eval to pin."""

    eval_id: SentId | None = Field(
        description="The eval, or null for the first complete one; `eval_run_id` and `baseline_eval_id` are the same",
        validation_alias=AliasChoices("eval_id", "eval_run_id", "baseline_eval_id"),
    )


class SentEntry(SentDocument):
    """What another tool found."""

    type: ReportedKind = Field(description="What it did")
    score: float | None = Field(None, description="Its best, if it has one", ge=0, le=1)
    configuration: Annotated[dict[str, Any], AfterValidator(_open_object)] = Field(
        default_factory=dict,
        description="What gave that score, such as `temperature` or `system_prompt`; `config` is the same",
        validation_alias=AliasChoices("configuration", "config"),
    )


class ToolExperiment(Document):
    """One experiment. What is best counts evals and tunes."""

    id: str = Field(description="12 hex digits, which stay when it is renamed")
    experiment_id: str = Field(description="The same as `id`")
    tenant: str
    name: str
    description: str
    suite_id: str | None = Field(description="The stored suite that it is about")
    suite_name: str | None
    created_ns: int
    baseline_eval_id: str | None = Field(description="The eval that the others are measured against")
    baseline_score: float | None
    pinned: bool = Field(description="Whether the baseline is pinned; else it is the first complete eval with a score")
    baseline_note: str | None = Field(description="What became of the baseline that was pinned, if it was deleted")
    best_score: float | None
    best_source: Kind | None = Field(description="What the best is")
    best_source_id: str | None
    best_config: dict[str, Any] | None = Field(description="What gave the best score")
    evals: list[str] = Field(description="In the order in which they were begun")


class ToolExperiments(Document):
    """In the order in which they were made."""

    experiments: list[ToolExperiment]
    next: str | None = Field(description="The parameter `cursor` of the next page")


class PinnedBaseline(Document):
    """The baseline from now on."""

    experiment_id: str
    baseline_eval_id: str | None
    baseline_score: float | None


class BaselineDocument(Document):
    """The eval that the others are measured against."""

    eval_id: str
    score: float | None


class BestDocument(Document):
    """The best eval or tune."""

    score: float | None
    source: Kind
    source_id: str
    config: dict[str, Any]


class TimelineEntry(Document):
    """An eval, or what another tool reported."""

    type: Kind
    id: str
    timestamp: str = Field(description="When it was begun or reported; RFC 3339")
    at_ns: int
    score: float | None = Field(description="Of an eval, the mean of the scores of its complete runs")
    delta: float | None = Field(description="The score less that of the baseline; null for a judge")
    delta_note: str | None = Field(description="Why there is no delta where the baseline is of another suite")
    is_baseline: bool
    is_best: bool = Field(description="Whether it was better than every eval and tune before it")
    config_summary: str = Field(description="The configuration in one line")
    configuration: dict[str, Any]
    promoted_from: str | None = Field(description="The tune whose best result it is")
    runs: list[str] = Field(description="Of an eval, its runs, one for each model")


class ToolTimeline(Document):
    """In the order of time."""

    experiment_id: str
    experiment_name: str
    baseline: BaselineDocument | None
    best: BestDocument | None
    entries: list[TimelineEntry]


class NewEntries(Document):
    """What was added: the entry, and what was promoted from it."""

    entries: list[TimelineEntry]


class DeletedExperiment(Document):
    """What was deleted."""

    deleted: int = Field(description="How many experiments")
    traces_deleted: int = Field(description="How many stored traces and sessions of its runs")
    runs_deleted: int
    runs_kept: int
    evals_kept: int = Field(description="How many evals are in the own experiments of their suites now")
