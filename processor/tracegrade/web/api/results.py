"""Evaluations, and how often rules pass."""

from dataclasses import replace
from time import time_ns
from typing import Annotated

from pydantic import Field

from tracegrade.model.json_value import JsonValue
from tracegrade.queries.lists import results_page
from tracegrade.queries.parameters import RecentRatesQuery, ResultsQuery, TrendsQuery
from tracegrade.queries.times import MAX_NS
from tracegrade.store.results import full_evaluations
from tracegrade.store.schema import MINUTE_NS
from tracegrade.store.tallies import DIMENSIONS, RATED, RATED_BY, tallies
from tracegrade.web.api.documents import Document, EvaluationDocument, ExactJson, Page, page_json
from tracegrade.web.api.operations import Operations
from tracegrade.web.api.parameters import ApiCaller, ApiSources, PartOf, asked, asked_in_pages

router = Operations(503)

_MOST_STEPS = 2000
_STEP_MINUTES = {"1m": 1, "1h": 60, "1d": 1440}
_DAY_NS = 24 * 3600 * 10**9


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


@router.operation("GET /results", "Evaluations, the newest first", Page[EvaluationDocument], 404)
def list_results(
    sources: ApiSources, caller: ApiCaller, part: Annotated[PartOf[ResultsQuery], asked_in_pages(ResultsQuery)]
) -> ExactJson:
    """Evaluations that all the parameters choose, in pages."""
    with sources.store() as connection:
        found = results_page(connection, part.query.filter(with_backfilled=True), part.limit, part.cursor)
        return page_json(caller, found, full_evaluations(connection, found.items))


@router.operation("GET /rates", "How often rules and their evaluations pass", Rates)
def list_rates(sources: ApiSources, query: Annotated[RecentRatesQuery, asked(RecentRatesQuery)]) -> ExactJson:
    """Pass rates of rules and of their evaluations, as `tracegrade results stats` shows them."""
    since_ns, until_ns = _window(query)
    chosen = replace(query, since=since_ns, until=until_ns).filter(with_backfilled=True)
    with sources.store() as connection:
        found = tallies(connection, chosen, RATED_BY, of="both", summed=RATED)
    return ExactJson(
        {
            "items": [
                {**dict(zip(RATED_BY, key, strict=True)), **tally.sums(), "score_sum": tally.score_sum}
                for key, tally in sorted(found.items())
            ]
        }
    )


@router.operation("GET /trends", "Outcomes of rules over time", Trends)
def list_trends(sources: ApiSources, query: Annotated[TrendsQuery, asked(TrendsQuery)]) -> ExactJson:
    """Outcomes of rules in steps of time, one line for each rule, service, agent or release."""
    since_ns, until_ns = _window(query)
    step_minutes = _STEP_MINUTES[query.step]
    step_ns = step_minutes * MINUTE_NS
    since_ns = max(since_ns - since_ns % step_ns, until_ns - _MOST_STEPS * step_ns, 0)
    counting = [rule.id for rule in sources.rule_set().rules if rule.incomplete == "count"]
    with sources.store() as connection:
        found = tallies(
            connection,
            replace(query, since=since_ns, until=until_ns).filter(with_backfilled=True),
            (DIMENSIONS[query.by],),
            step_minutes=step_minutes,
            incomplete=counting,
        )
    lines: dict[str, list[JsonValue]] = {}
    for (name, number), tally in sorted(found.items()):
        lines.setdefault(name, []).append({"start_ns": number * step_ns, **tally.sums()})
    items = [{"name": name, "steps": steps} for name, steps in lines.items()]
    return ExactJson({"since_ns": since_ns, "until_ns": until_ns, "step_ns": step_ns, "items": items})


def _window(query: RecentRatesQuery) -> tuple[int, int]:
    until_ns = time_ns() if query.until is None else query.until
    since_ns = max(0, until_ns - _DAY_NS) if query.since is None else query.since
    # Far from now there is nothing: databases count minutes in 32 bits.
    return min(since_ns, MAX_NS), max(min(until_ns, MAX_NS), since_ns + 1)
