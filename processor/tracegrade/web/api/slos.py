"""What is left of the error budgets of objectives."""

import time
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from tracegrade.alert.slo import firing_places
from tracegrade.alert.stored_slos import stored_slos, with_objectives
from tracegrade.store.alerts import open_alerts
from tracegrade.web.api.documents import Document, ExactJson
from tracegrade.web.api.openapi import problems
from tracegrade.web.api.parameters import IN_DIGITS, ApiSources, Name, Null, Parameters, needs

router = APIRouter(responses=problems(503), dependencies=[needs("read")])


class SlosQuery(Parameters):
    """Which error budgets."""

    rule: Name | Null = Field(None, description="Only of this rule")
    service: Name | Null = Field(None, description="Only of this service")
    agent: Name | Null = Field(None, description="Only of this agent")
    tenant: Name | Null = Field(None, description="Only of this tenant")
    limit: Annotated[int, IN_DIGITS] = Field(100, ge=1, le=1000, description="At most this many items")


class BurnRateDocument(Document):
    """How many times as fast as its objective allows a budget was spent in the last seconds."""

    over_s: float
    rate: float | None = Field(description="null when nothing was judged")
    judged: int = Field(description="How many results that is of")


class BurnPairDocument(Document):
    """Two times that end now; the alert fires while both rates are at least the limit."""

    part: float = Field(description="The part of the budget that is spent at the limit, within the longer time")
    limit: float
    long: BurnRateDocument
    short: BurnRateDocument


class SloDocument(Document):
    """The error budget of one objective at one agent of one service, over all its releases."""

    tenant: str
    rule: str
    of: str = Field(description="pass_rate of the rule, or the name of one evaluation")
    objective: float = Field(description="The share of results that is to pass")
    window_s: float
    service: str
    agent: str
    level: str
    firing: bool = Field(description="Whether an alert on it fires")
    judged: int = Field(description="How many results were judged within the window")
    budget_left: float | None = Field(description="A part of the budget; below 0 when more was spent")
    spent_in_s: float | None = Field(description="null while it lasts at the present rate, or nobody can tell")
    pairs: list[BurnPairDocument] = Field(description="The fastest first")


class Slos(Document):
    """Those of which least is left first; ``more`` says how many others there are."""

    items: list[SloDocument]
    more: int


@router.get("/slos", summary="Error budgets", response_model=Slos)
def list_slos(sources: ApiSources, query: Annotated[SlosQuery, Query()]) -> ExactJson:
    """The error budgets of the objectives in force, those of which least is left first."""
    rules = [rule for rule in with_objectives(sources.rule_set()) if query.rule in (None, rule.id)]
    with sources.store() as connection:
        found = stored_slos(connection, rules, time.time_ns())
        firing = firing_places(open_alerts(connection))
    items = [status.to_json(firing) for status in found]
    wanted = {"service": query.service, "agent": query.agent, "tenant": query.tenant}
    chosen = [item for item in items if all(value is None or item[name] == value for name, value in wanted.items())]
    return ExactJson({"items": chosen[: query.limit], "more": max(0, len(chosen) - query.limit)})
