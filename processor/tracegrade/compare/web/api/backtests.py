"""What a changed rule would have said of stored traces, as `tracegrade rules backtest` says it."""

from typing import Any

from fastapi import APIRouter, Request
from pydantic import Field

from tracegrade.compare.web.backtesting import BACKTESTING
from tracegrade.queries.parameters import JudgedTracesQuery
from tracegrade.web.api.documents import Document, ExactJson, SentDocument
from tracegrade.web.api.openapi import problems
from tracegrade.web.api.parameters import ApiSources, NoParameters, needs, query_of, with_parameters_of
from tracegrade.web.rights import token_of

router = APIRouter(responses=problems(503), dependencies=[needs("read")])


@with_parameters_of(JudgedTracesQuery, sent=True)
class BacktestRequest(SentDocument):
    """Which rule, and which traces it is to judge: those of the last 30 days where `since` is left out."""

    rule: str = Field(min_length=1, max_length=200_000, description="The text of its file, YAML; names no file of code")


class BacktestedSessions(Document):
    """Stored sessions, of rules that judge these; as of traces."""

    judged: int
    from_journal: int
    not_kept: int
    damaged: list[str]


class BacktestDocument(Document):
    """As `tracegrade rules backtest --format json` prints it."""

    against: str
    since_ns: int
    until_ns: int
    traces: int = Field(description="How many were judged")
    from_journal: int = Field(description="How many of them were read from the journal")
    not_kept: int = Field(description="How many were left out: what the rule reads was not kept of them")
    damaged: list[str] = Field(description="Which were left out, since they are damaged in the store, and why")
    sessions: BacktestedSessions
    rules: list[dict[str, Any]] = Field(
        description="The rule, as the guide on backtests says; none when it was left alone"
    )
    left_alone: dict[str, str] = Field(description="Why the rule was not judged by, by its id")
    gone: list[str]
    notes: list[str]
    stored: None = Field(description="Always null here: nothing is stored")


@router.post(
    "/backtests",
    summary="What would a changed rule have said?",
    response_model=BacktestDocument,
    responses=problems(409),
    dependencies=[needs("run")],
)
def backtest_rule(
    request: Request,
    sources: ApiSources,
    none: NoParameters,
    asked: BacktestRequest,
) -> ExactJson:
    """Judges stored traces by the rule, against what was judged live: what newly fails or passes, and the pass rates.

    Nothing is stored, sent or alerted. Takes seconds, at most two minutes; one at a time.
    """
    query = query_of(JudgedTracesQuery, asked)
    return ExactJson(BACKTESTING.backtest(sources, asked.rule, query, token_of(request)).document)
