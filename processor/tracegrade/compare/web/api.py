"""Two sides of what is stored, and what a changed rule would have said of it: as the commands say it."""

from typing import Annotated, Any

from fastapi import Query, Request
from pydantic import Field

from tracegrade.compare.query import SidesQuery
from tracegrade.compare.verdict import Family, Verdict
from tracegrade.compare.web.backtesting import BACKTESTING
from tracegrade.compare.web.comparing import COMPARING, Asked
from tracegrade.queries.parameters import JudgedTracesQuery
from tracegrade.rule.gate import MARGIN
from tracegrade.web.api.documents import Document, ExactJson, SentDocument
from tracegrade.web.api.operations import Operations
from tracegrade.web.api.parameters import (
    IN_DECIMALS,
    ApiSources,
    Name,
    NoParameters,
    Parameters,
    query_of,
    with_parameters_of,
)
from tracegrade.web.rights import token_of

router = Operations(503)

_SIDE = (
    "release:NAME, agent:NAME, model:NAME, live, or the name of a stored run, each with @FROM..TO after it if needed"
)


@with_parameters_of(SidesQuery)
class CompareQuery(Parameters):
    """Which sides, and how."""

    a: Name = Field(description=f"What is compared with: {_SIDE}")
    b: Name = Field(description=f"What is compared: {_SIDE}")
    full: bool = Field(
        False,
        description="Read the results themselves: pairs, clusters, measures, behaviour. Takes seconds; one at a time",
    )
    behaviour: bool = Field(True, description="With full: also what is called differently")
    margin: Annotated[float, IN_DECIMALS] = Field(
        MARGIN, ge=0, le=1, description="A pass rate may fall by this much before it matters"
    )
    allow_within_margin: bool = Field(False, description="What is worse only within the margin is not worse")


class ComparedNumbers(Document):
    """Both sides of a rule or evaluation, and how they differ: see the guide on comparing."""

    a: dict[str, Any]
    b: dict[str, Any]
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    method: str | None
    reason: str
    clustered_by: str | None
    pairs: dict[str, Any] | None


class ComparedRuleDocument(ComparedNumbers):
    """One rule with its verdict."""

    rule_id: str
    rule_hash: str
    level: str
    verdict: Verdict
    family: Family
    rules_in_family: int
    adjusted_p: float
    verdict_alone: Verdict
    results_needed: float | None = None
    results_needed_for: Verdict | None = None
    evaluations: dict[str, ComparedNumbers]


class ComparisonDocument(Document):
    """As `tracegrade compare --format json` prints it; `measures` and `behaviour` are null unless asked for in full."""

    a: str
    b: str
    exit_code: int
    margin: float
    allow_within_margin: bool
    rules: list[ComparedRuleDocument]
    left_out: dict[str, str]
    measures: dict[str, Any] | None
    behaviour: dict[str, Any] | None
    notes: list[str]


@router.operation("GET /compare", "Is one side worse than another?", ComparisonDocument, 409)
def compare_sides(
    request: Request,
    sources: ApiSources,
    query: Annotated[CompareQuery, Query()],
) -> ExactJson:
    """Rule by rule: both pass rates, their difference with its interval, and a verdict.

    Unless `full` is given, from counts: fast, and every result is taken as independent of the others.
    """
    filters = query_of(SidesQuery, query).filter()
    asked = Asked(query.a, query.b, filters, query.margin, query.allow_within_margin, query.full, query.behaviour)
    return ExactJson(COMPARING.compare(sources, asked, token_of(request)).to_json())


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


@router.operation("POST /backtests", "What would a changed rule have said?", BacktestDocument, 409, right="run")
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
