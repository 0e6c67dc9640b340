"""Evaluations, and how often rules pass."""

from time import time_ns
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import Field

from tracegrade.history.runs.experiments import check_stored
from tracegrade.model.evaluation import Outcome
from tracegrade.model.json_value import JsonValue
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.results import full_evaluations, results
from tracegrade.store.schema import LIVE, MINUTE_NS
from tracegrade.store.tallies import DIMENSIONS, RATED_BY, tallies
from tracegrade.web.api.documents import Document, EvaluationDocument, ExactJson, Page
from tracegrade.web.api.openapi import problems
from tracegrade.web.api.parameters import (
    ApiCaller,
    ApiSources,
    Name,
    Null,
    Paged,
    Parameters,
    RunName,
    Time,
    TraceId,
    cursor_of,
    needs,
    page_of,
    read_cursor,
)
from tracegrade.web.masked import seen_by
from tracegrade.web.times import MAX_NS

router = APIRouter(responses=problems(503), dependencies=[needs("read")])

_MOST_STEPS = 2000
_STEP_MINUTES = {"1m": 1, "1h": 60, "1d": 1440}
_DAY_NS = 24 * 3600 * 10**9


class ResultsQuery(Paged):
    """Which evaluations."""

    rule: Name | Null = Field(None, description="Only of this rule")
    outcome: Outcome | Null = Field(None, description="Only with this outcome")
    service: Name | Null = Field(None, description="Only of this service")
    agent: Name | Null = Field(None, description="Only of this agent")
    release: Name | Null = Field(None, description="Only of this release")
    run: RunName = LIVE
    trace_id: TraceId | Null = Field(None, description="Only of this trace")
    session: Name | Null = Field(None, description="Only of this session and of its traces")
    since: Time | Null = Field(None, description="Only of traces first received at this time or later")
    until: Time | Null = Field(None, description="Only of traces first received before this time")


class RatesQuery(Parameters):
    """Whose outcomes are added up."""

    rule: Name | Null = Field(None, description="Only of this rule")
    service: Name | Null = Field(None, description="Only of this service")
    agent: Name | Null = Field(None, description="Only of this agent")
    release: Name | Null = Field(None, description="Only of this release")
    since: Time | Null = Field(None, description="Only of traces received since, by the minute; a day ago if omitted")
    until: Time | Null = Field(None, description="Only of traces received before, by the minute; now if omitted")


class TrendsQuery(RatesQuery):
    """Over which time, in which steps."""

    by: Literal["rule", "service", "agent", "release"] = Field("rule", description="What each line is of")
    step: Literal["1m", "1h", "1d"] = Field("1h", description="The length of a step")


class TallyDocument(Document):
    """Counts of outcomes, as `Tally.sums`."""

    passed: int
    failed: int
    not_evaluable: int
    errors: int
    incomplete: int = Field(description="Results of incomplete traces, which are left out")
    passes: float = Field(description="Estimate for all subjects where only a sample is judged")
    fails: float
    backfilled: int = Field(description="Results that `rules backtest --store` made afterwards")
    pass_rate: float | None


class RateDocument(TallyDocument):
    """Outcomes of one rule, or of one of its evaluations, at one service; no `pass_rate` when nothing was judged."""

    tenant: str
    rule_id: str
    evaluation: str = Field(description='"" for the rule as a whole')
    service: str
    score_sum: float


class Rates(Document):
    """Outcomes by tenant, rule, evaluation and service."""

    items: list[RateDocument]


class StepDocument(TallyDocument):
    """Outcomes of whole rules in one step; steps without any are left out."""

    start_ns: int


class LineDocument(Document):
    """The steps of one rule, service, agent or release."""

    name: str
    steps: list[StepDocument]


class Trends(Document):
    """Lines over time. `since_ns` is later than asked for where there would be more than 2000 steps."""

    since_ns: int
    until_ns: int
    step_ns: int
    items: list[LineDocument]


@router.get(
    "/results",
    summary="Evaluations, the newest first",
    response_model=Page[EvaluationDocument],
    responses=problems(404),
)
def list_results(sources: ApiSources, caller: ApiCaller, query: Annotated[ResultsQuery, Query()]) -> ExactJson:
    """Evaluations that all the parameters choose, in pages."""
    trace_id = None if query.trace_id is None else bytes.fromhex(query.trace_id)
    chosen = query.model_dump(include={"rule", "outcome", "service", "agent", "release", "session", "run"})
    result_filter = ResultFilter(
        trace_id=trace_id, since_ns=query.since, until_ns=query.until, with_backfilled=True, **chosen
    )
    with sources.store() as connection:
        check_stored(connection, query.run)
        found = results(connection, result_filter, query.limit + 1, before=read_cursor(query.cursor))
        shown, after = page_of(found, query.limit, lambda result: cursor_of(result.number, result.place))
        items = [evaluation.to_json() for evaluation in seen_by(caller, full_evaluations(connection, shown))]
    return ExactJson({"items": items, "next": after})


@router.get("/rates", summary="How often rules and their evaluations pass", response_model=Rates)
def list_rates(sources: ApiSources, query: Annotated[RatesQuery, Query()]) -> ExactJson:
    """Pass rates of rules and of their evaluations, as `tracegrade results stats` shows them."""
    since_ns, until_ns = _window(query)
    chosen = query.model_dump(include={"rule", "service", "agent", "release"})
    result_filter = ResultFilter(since_ns=since_ns, until_ns=until_ns, with_backfilled=True, **chosen)
    with sources.store() as connection:
        found = tallies(connection, result_filter, RATED_BY, of="both", scores=True)
    return ExactJson(
        {
            "items": [
                {**dict(zip(RATED_BY, key, strict=True)), **tally.sums(), "score_sum": tally.score_sum}
                for key, tally in sorted(found.items())
            ]
        }
    )


@router.get("/trends", summary="Outcomes of rules over time", response_model=Trends)
def list_trends(sources: ApiSources, query: Annotated[TrendsQuery, Query()]) -> ExactJson:
    """Outcomes of rules in steps of time, one line for each rule, service, agent or release."""
    since_ns, until_ns = _window(query)
    step_minutes = _STEP_MINUTES[query.step]
    step_ns = step_minutes * MINUTE_NS
    since_ns = max(since_ns - since_ns % step_ns, until_ns - _MOST_STEPS * step_ns, 0)
    chosen = query.model_dump(include={"rule", "service", "agent", "release"})
    counting = [rule.id for rule in sources.rule_set().rules if rule.incomplete == "count"]
    with sources.store() as connection:
        found = tallies(
            connection,
            ResultFilter(since_ns=since_ns, until_ns=until_ns, with_backfilled=True, **chosen),
            (DIMENSIONS[query.by],),
            step_minutes=step_minutes,
            incomplete=counting,
        )
    lines: dict[str, list[JsonValue]] = {}
    for (name, number), tally in sorted(found.items()):
        lines.setdefault(name, []).append({"start_ns": number * step_ns, **tally.sums()})
    items = [{"name": name, "steps": steps} for name, steps in lines.items()]
    return ExactJson({"since_ns": since_ns, "until_ns": until_ns, "step_ns": step_ns, "items": items})


def _window(query: RatesQuery) -> tuple[int, int]:
    until_ns = time_ns() if query.until is None else query.until
    since_ns = max(0, until_ns - _DAY_NS) if query.since is None else query.since
    # Far from now there is nothing: databases count minutes in 32 bits.
    return min(since_ns, MAX_NS), max(min(until_ns, MAX_NS), since_ns + 1)
