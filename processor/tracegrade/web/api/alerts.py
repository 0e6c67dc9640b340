"""Incidents, which are alerts that fired together; alerts that cannot tell yet; silences; and error budgets."""

import time
from dataclasses import asdict
from typing import Annotated

from fastapi import Query
from pydantic import Field

from tracegrade.access.caller import Caller
from tracegrade.alert.accepting import accept
from tracegrade.alert.notify.silences import with_silence
from tracegrade.alert.slo import firing_places
from tracegrade.alert.stored_slos import stored_slos, with_objectives
from tracegrade.model.errors import NotPossible
from tracegrade.queries.incidents import incidents_page
from tracegrade.queries.parameters import IncidentsQuery
from tracegrade.store.alerts import (
    AlertState,
    Silence,
    StoredAlert,
    WaitingAlert,
    open_alerts,
    stored_silences,
    stored_waiting,
)
from tracegrade.store.incidents import Incident, Notification, stored_incident
from tracegrade.web.api.documents import Document, ExactJson, Page
from tracegrade.web.api.operations import Operations
from tracegrade.web.api.parameters import (
    IN_DIGITS,
    ApiCaller,
    ApiSources,
    Name,
    NoParameters,
    Null,
    Parameters,
    PartOf,
    PathName,
    Time,
    asked_in_pages,
)
from tracegrade.web.masked import seen_by
from tracegrade.web.problem import Refusal, not_found
from tracegrade.web.sources import Sources

router = Operations(503)


class IncidentDocument(Document):
    """Alerts that fired together, since one thing went wrong. Of all of them, people are notified once."""

    id: str
    state: AlertState = Field(description="firing while any of its alerts fires")
    level: str = Field(description="The highest of its alerts")
    starts_ns: int = Field(description="When its first alert began to fire")
    ends_ns: int | None = Field(description="When its last alert was resolved; null while one fires")
    accepted_ns: int | None = Field(description="When its level was accepted as the normal one; null: it was not")
    members: list[StoredAlert] = Field(description="The first tells what broke; the others in the order they began")
    notified: dict[str, Notification] = Field(description="The last notification, by the name of the channel")
    silenced_until_ns: int | None = Field(description="Until when nobody is notified; null: not silenced")


@router.operation("GET /incidents", "Incidents, the latest first", Page[IncidentDocument])
def list_incidents(
    sources: ApiSources, caller: ApiCaller, part: Annotated[PartOf[IncidentsQuery], asked_in_pages(IncidentsQuery)]
) -> ExactJson:
    """Incidents that match all parameters, in pages; the one that began last comes first."""
    now_ns = time.time_ns()
    with sources.store() as connection:
        found = incidents_page(connection, part.query, part.limit, part.cursor)
        silences = stored_silences(connection, now_ns)
    items = [with_silence(seen_by(caller, incident), silences, now_ns) for incident in found.items]
    return ExactJson({"items": items, "next": found.next})


@router.operation("GET /incidents/{incident_id}", "One incident", IncidentDocument, 404)
def show_incident(sources: ApiSources, caller: ApiCaller, incident_id: PathName, query: NoParameters) -> ExactJson:
    """One incident: its alerts, what broke, and who was notified."""
    return ExactJson(_shown(sources, caller, incident_id))


@router.operation(
    "POST /incidents/{incident_id}/accept",
    "Take the level of an incident as the normal one",
    IncidentDocument,
    404,
    409,
    right="admin",
    status=202,
)
def accept_incident(sources: ApiSources, caller: ApiCaller, incident_id: PathName, query: NoParameters) -> ExactJson:
    """Its alerts that are measured against earlier results end with the next check, within seconds.

    They fire again when it falls below the accepted level. Those with a bound that stands in the rule go on.
    """
    try:
        accept(sources.config.store_url, _stored(sources, incident_id), time.time_ns())
    except NotPossible as error:
        raise Refusal(409, "not-possible", "Nothing to accept", str(error)) from None
    return ExactJson(_shown(sources, caller, incident_id), 202)


def _stored(sources: Sources, incident_id: str) -> Incident:
    with sources.store() as connection:
        found = stored_incident(connection, incident_id)
    if found is None:
        raise not_found(f"incident {incident_id[:200]!r}")
    return found


def _shown(sources: Sources, caller: Caller, incident_id: str) -> dict[str, object]:
    now_ns, found = time.time_ns(), _stored(sources, incident_id)
    with sources.store() as connection:
        return with_silence(seen_by(caller, found), stored_silences(connection, now_ns), now_ns)


class SilencesQuery(Parameters):
    """Which silences."""

    since: Time = Field(0, description="Only those that end after this time")


class Silences(Document):
    """The first to end first."""

    items: list[Silence]


class Waiting(Document):
    """By rule, then by service and agent; at most 1000."""

    items: list[WaitingAlert]


@router.operation("GET /alerts/waiting", "Alerts that cannot tell yet whether anything is wrong", Waiting)
def list_waiting(sources: ApiSources, query: NoParameters) -> ExactJson:
    """Alerts without a baseline yet, or with too few results, at the agents where that is so."""
    with sources.store() as connection:
        return ExactJson({"items": [asdict(one) for one in stored_waiting(connection)]})


@router.operation("GET /silences", "Silences", Silences)
def list_silences(sources: ApiSources, query: Annotated[SilencesQuery, Query()]) -> ExactJson:
    """Silences that end after a time, the first to end first."""
    with sources.store() as connection:
        return ExactJson({"items": [asdict(silence) for silence in stored_silences(connection, query.since)]})


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
    judged: int = Field(description="Number of results counted")


class BurnPairDocument(Document):
    """Two times that end now; the alert fires while both rates are at least the limit."""

    part: float = Field(description="Share of the budget consumed when the alert fires, over the longer time")
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


@router.operation("GET /slos", "Error budgets", Slos)
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
