"""Incidents: alerts that fired together; and accepting their level as the normal one."""

import time
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from tracegrade.access.caller import Caller
from tracegrade.alert.accepting import accept
from tracegrade.alert.notify.silences import with_silence
from tracegrade.model.errors import NotPossible
from tracegrade.store.alerts import AlertState, StoredAlert, stored_silences
from tracegrade.store.incidents import Incident, Notification, recent_incidents, stored_incident
from tracegrade.web.api.documents import Document, ExactJson, Page
from tracegrade.web.api.openapi import problems
from tracegrade.web.api.parameters import (
    ApiCaller,
    ApiSources,
    NoParameters,
    Paged,
    PathName,
    Time,
    cursor_of,
    needs,
    page_of,
    read_cursor,
)
from tracegrade.web.masked import seen_by
from tracegrade.web.problem import Refusal, not_found
from tracegrade.web.sources import Sources

router = APIRouter(responses=problems(503), dependencies=[needs("read")])

# More than ever begin at one time; a cursor that somebody made up may say anything.
_MOST_TOGETHER = 10_000


class IncidentsQuery(Paged):
    """Which incidents."""

    firing: bool = Field(False, description="Only what fires now")
    since: Time = Field(0, description="Only what fires, or was resolved since")


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


@router.get("/incidents", summary="Incidents, the latest first", response_model=Page[IncidentDocument])
def list_incidents(sources: ApiSources, caller: ApiCaller, query: Annotated[IncidentsQuery, Query()]) -> ExactJson:
    """Incidents that match all parameters, in pages; the one that began last comes first."""
    after = read_cursor(query.cursor)
    begun_by_ns, seen = (None, 0) if after is None else (after[0], min(after[1] + 1, _MOST_TOGETHER))
    now_ns = time.time_ns()
    with sources.store() as connection:
        # Those that began together are told apart by their place among them, so all of those before are read again.
        found = recent_incidents(
            connection, query.since, seen + query.limit + 1, firing=query.firing, begun_by_ns=begun_by_ns
        )
        silences = stored_silences(connection, now_ns)
    placed = _placed(found)
    if after is not None:
        placed = [(place, incident) for place, incident in placed if (-place[0], place[1]) > (-after[0], after[1])]
    shown, after_them = page_of(placed, query.limit, lambda item: cursor_of(*item[0]))
    return ExactJson(
        {"items": [with_silence(seen_by(caller, item), silences, now_ns) for _, item in shown], "next": after_them}
    )


@router.get(
    "/incidents/{incident_id}", summary="One incident", response_model=IncidentDocument, responses=problems(404)
)
def show_incident(sources: ApiSources, caller: ApiCaller, incident_id: PathName, query: NoParameters) -> ExactJson:
    """One incident: its alerts, what broke, and who was notified."""
    return ExactJson(_shown(sources, caller, incident_id))


@router.post(
    "/incidents/{incident_id}/accept",
    summary="Take the level of an incident as the normal one",
    response_model=IncidentDocument,
    status_code=202,
    responses=problems(404, 409),
    dependencies=[needs("admin")],
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


def _placed(found: Sequence[Incident]) -> list[tuple[tuple[int, int], Incident]]:
    """Each incident with its start, and the number of incidents before it in the list with the same start."""
    placed: list[tuple[tuple[int, int], Incident]] = []
    for incident in found:
        same = placed and placed[-1][0][0] == incident.starts_ns
        placed.append(((incident.starts_ns, placed[-1][0][1] + 1 if same else 0), incident))
    return placed
