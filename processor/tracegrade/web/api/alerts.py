"""Incidents, which are alerts that fired together; alerts that cannot tell yet; silences; and error budgets."""

import time
from dataclasses import asdict
from typing import Annotated

from fastapi import Query
from pydantic import Field

from tracegrade.access.caller import Caller
from tracegrade.alert.accepting import accept
from tracegrade.alert.notify.silences import with_silence
from tracegrade.alert.noting import LONGEST_TEXT, acknowledge, comment, own
from tracegrade.alert.silencing import checked_labels, end_silence, matched, silence, silence_s
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
from tracegrade.store.incidents import Incident, Note, Notification, stored_incident
from tracegrade.web.api.documents import WITHOUT_NUL, Document, ExactJson, Page, SentDocument, SentId
from tracegrade.web.api.operations import Operations
from tracegrade.web.api.parameters import (
    IN_DIGITS,
    ApiAuthor,
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
    notified: dict[str, Notification] = Field(
        description="The last notification and all attempts, by the name of the channel"
    )
    acknowledged: Note | None = Field(
        description="Who stopped its repeated notifications; null: nobody, or its level rose since"
    )
    owner: str | None = Field(description="Who made themselves its owner last")
    notes: list[Note] = Field(description="What people did about it, the oldest first")
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
def accept_incident(
    sources: ApiSources, caller: ApiCaller, author: ApiAuthor, incident_id: PathName, query: NoParameters
) -> ExactJson:
    """Its alerts that are measured against earlier results end with the next check, within seconds.

    They fire again when it falls below the accepted level. Those with a bound that stands in the rule go on.
    """
    try:
        accept(sources.config.store_url, _stored(sources, incident_id), author, time.time_ns())
    except NotPossible as error:
        raise Refusal(409, "not-possible", "Nothing to accept", str(error)) from None
    return ExactJson(_shown(sources, caller, incident_id), 202)


@router.operation(
    "POST /incidents/{incident_id}/acknowledge",
    "Stop repeated notifications of an incident",
    IncidentDocument,
    404,
    409,
    right="review",
)
def acknowledge_incident(
    sources: ApiSources, caller: ApiCaller, author: ApiAuthor, incident_id: PathName, query: NoParameters
) -> ExactJson:
    """Channels are notified again if its level rises, and when it is over; Alertmanager is still sent it meanwhile."""
    acknowledge(sources.config.store_url, _stored(sources, incident_id).id, author, time.time_ns())
    return ExactJson(_shown(sources, caller, incident_id))


@router.operation(
    "POST /incidents/{incident_id}/own", "Become the owner of an incident", IncidentDocument, 404, 409, right="review"
)
def own_incident(
    sources: ApiSources, caller: ApiCaller, author: ApiAuthor, incident_id: PathName, query: NoParameters
) -> ExactJson:
    """The caller becomes the owner, in place of whoever is."""
    own(sources.config.store_url, _stored(sources, incident_id).id, author, time.time_ns())
    return ExactJson(_shown(sources, caller, incident_id))


class CommentDocument(SentDocument):
    """A comment."""

    text: str = Field(
        min_length=1, max_length=LONGEST_TEXT, pattern=WITHOUT_NUL, description="Redacted before it is stored"
    )


@router.operation(
    "POST /incidents/{incident_id}/comments",
    "Comment on an incident",
    IncidentDocument,
    404,
    409,
    right="review",
    status=201,
)
def comment_on_incident(
    sources: ApiSources,
    caller: ApiCaller,
    author: ApiAuthor,
    incident_id: PathName,
    body: CommentDocument,
    query: NoParameters,
) -> ExactJson:
    """The comment is kept as text, and deleted with the incident."""
    comment(sources.config.store_url, _stored(sources, incident_id).id, author, body.text, time.time_ns())
    return ExactJson(_shown(sources, caller, incident_id), 201)


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
def list_silences(sources: ApiSources, caller: ApiCaller, query: Annotated[SilencesQuery, Query()]) -> ExactJson:
    """Silences that end after a time, the first to end first."""
    with sources.store() as connection:
        found = seen_by(caller, stored_silences(connection, query.since))
    return ExactJson({"items": [asdict(silence) for silence in found]})


class SentSilence(SentDocument):
    """A silence."""

    labels: dict[str, str] = Field(description="Label to glob, such as rule, service, agent; all must match")
    duration: str = Field("2h", max_length=20, description="For how long, such as 2h; at most 366d")
    comment: str = Field(
        "", max_length=LONGEST_TEXT, pattern=WITHOUT_NUL, description="Why; redacted before it is stored"
    )
    incident: SentId | None = Field(None, description="The incident that it is made from, where it is noted")
    dry_run: bool = Field(False, description="Only say what it would match")


class MatchedDocument(Document):
    """What labels match now, of the alerts that fire."""

    firing: int
    others: int | None = Field(description="Of these, how many are of other incidents; null without an incident")
    missed: int | None = Field(description="How many alerts of the incident fire and do not match")
    warning: str = Field(description="Why nothing matches, where that is known")
    text: str = Field(description="The same in words")


class MadeSilence(Document):
    """A silence that was made, null after a dry run; and what it matches."""

    silence: Silence | None
    matched: MatchedDocument


@router.operation(
    "POST /silences",
    "Send no notifications of some alerts for some time",
    MadeSilence,
    404,
    409,
    right="admin",
    status=201,
    answers={200: {"model": MadeSilence, "description": "What it would match, after a dry run"}},
)
def make_silence(sources: ApiSources, author: ApiAuthor, body: SentSilence, query: NoParameters) -> ExactJson:
    """An alert that still fires when the silence ends is notified then. A tenant's token silences its alerts alone."""
    labels, duration_s = checked_labels(body.labels, author.tenant), silence_s(body.duration)
    incident = None if body.incident is None else _stored(sources, body.incident)
    made = None
    if not body.dry_run:
        store_url = sources.config.store_url
        made = silence(store_url, labels, duration_s, body.comment, author, time.time_ns(), incident)
    with sources.store() as connection:
        found = matched(connection, labels, incident)
    shown = None if made is None else asdict(made)
    return ExactJson({"silence": shown, "matched": {**asdict(found), "text": found.text}}, 200 if body.dry_run else 201)


@router.operation("DELETE /silences/{silence_id}", "End a silence", Silence, 404, right="admin")
def delete_silence(sources: ApiSources, author: ApiAuthor, silence_id: PathName, query: NoParameters) -> ExactJson:
    """Ends a silence that is in force; what still fires is notified then."""
    return ExactJson(asdict(end_silence(sources.config.store_url, silence_id, author, time.time_ns())))


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
