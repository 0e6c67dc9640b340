"""The answers of operations: the JSON itself, and the models that describe it in the OpenAPI document."""

from collections.abc import Sequence
from typing import Annotated, Any, Generic, TypeAlias, TypeVar

from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from tracegrade.access.caller import Caller
from tracegrade.display import json_text
from tracegrade.model.evaluation import Evaluation
from tracegrade.model.tool_call import ToolCall, ToolError
from tracegrade.queries.paging import Page as Listed
from tracegrade.store.heads import TraceHead
from tracegrade.web.api.described import described_by
from tracegrade.web.masked import seen_by

Item = TypeVar("Item")


class ExactJson(JSONResponse):
    """A JSON answer, in which integers of any size are exact; the result of an operation is not checked again."""

    def render(self, content: Any) -> bytes:
        """The body."""
        return json_text(content).encode()


class Document(BaseModel):
    """An answer of the API; it has every documented field, and no other."""

    model_config = ConfigDict(extra="forbid")

    @classmethod
    def json_of(cls, record: object, **others: Any) -> dict[str, Any]:
        """The answer that shows `record`: its attributes of the names of the fields, but for those among `others`."""
        return {name: others[name] if name in others else getattr(record, name) for name in cls.model_fields}


# PostgreSQL takes NUL in no text, and looks nothing up by one that has it.
WITHOUT_NUL = r"^[^\x00]*$"
SentId: TypeAlias = Annotated[str, Field(max_length=1000, pattern=WITHOUT_NUL)]


class SentDocument(BaseModel):
    """What a caller sends: a field that it does not have is refused, and no type is taken for another."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Page(Document, Generic[Item]):
    """Some of many items, the newest first; `next` is null when there are no more."""

    items: list[Item]
    next: str | None = Field(description="The parameter `cursor` of the next page")


def page_json(caller: Caller, page: Listed[Any], items: Sequence[Any] | None = None) -> ExactJson:
    """The answer that is one page of a list, as `caller` may see it.

    Args:
        caller: who asks.
        page: of which list, and whether there is more.
        items: the records to show in place of those of the page.
    """
    shown = seen_by(caller, page.items if items is None else items)
    return ExactJson({"items": [item.to_json() for item in shown], "next": page.next})


class Problem(BaseModel):
    """What went wrong (RFC 9457); `type` never changes."""

    type: str
    title: str
    status: int
    detail: str


class SubjectDocument(Document):
    """What was judged: an agent run or tool call by its span, a trace or session by its id."""

    kind: str
    id: str


@described_by(Evaluation, subject=SubjectDocument)
class EvaluationDocument(Document):
    """One evaluation, as everywhere in JSON."""


@described_by(TraceHead)
class TraceDocument(Document):
    """One stored trace without its spans and results."""


@described_by(ToolError)
class ToolErrorDocument(Document):
    """A failed execution."""


@described_by(ToolCall, error=ToolErrorDocument | None)
class ToolCallDocument(Document):
    """One tool call; the statuses say how values were read."""


class PairEvaluationDocument(Document):
    """One evaluation in short.

    Of a fail, where values were to come from elsewhere: ``differences`` are those of the details that say what was
    looked up, ``earlier_turns`` sentences on earlier turns of the session that called what its own run did not.
    """

    evaluation: str
    case: str | None
    outcome: str
    score: float | None
    threshold: float
    explanation: str
    reason: str
    differences: list[dict[str, Any]] | None = None
    earlier_turns: list[str] | None = None


class PairDocument(Document):
    """What became of one rule on one subject, and why."""

    rule_id: str
    subject: SubjectDocument
    decision: str
    outcome: str | None
    reason: str
    evaluations: list[PairEvaluationDocument]
