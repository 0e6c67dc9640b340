"""Alerts that fire or fired, and silences."""

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from tracegrade.store.alerts import Silence, StoredAlert, recent_alerts, stored_silences
from tracegrade.web.api.documents import Document, ExactJson, Page
from tracegrade.web.api.openapi import problems
from tracegrade.web.api.parameters import ApiSources, Paged, Parameters, Time, cursor_of, page_of, read_cursor

router = APIRouter(responses=problems(503))


class AlertsQuery(Paged):
    """Which alerts."""

    firing: bool = Field(False, description="Only what fires now")
    since: Time = Field(0, description="Only what fires, or was resolved since")


class SilencesQuery(Parameters):
    """Which silences."""

    since: Time = Field(0, description="Only those that end after this time")


class Silences(Document):
    """The first to end first."""

    items: list[Silence]


@router.get("/alerts", summary="Alerts, the latest first", response_model=Page[StoredAlert])
def list_alerts(sources: ApiSources, query: Annotated[AlertsQuery, Query()]) -> ExactJson:
    """Alerts that match all parameters, in pages; the one that started last comes first."""
    # They are few enough to be read together.
    with sources.store() as connection:
        found = recent_alerts(connection, query.since, firing=query.firing)
    placed = _placed(found)
    if (after := read_cursor(query.cursor)) is not None:
        placed = [(place, alert) for place, alert in placed if (-place[0], place[1]) > (-after[0], after[1])]
    shown, after_them = page_of(placed, query.limit, lambda item: cursor_of(*item[0]))
    return ExactJson({"items": [alert.to_json() for _, alert in shown], "next": after_them})


def _placed(found: list[StoredAlert]) -> list[tuple[tuple[int, int], StoredAlert]]:
    """Each alert with its start, and the number of alerts before it in the list with the same start."""
    placed: list[tuple[tuple[int, int], StoredAlert]] = []
    for alert in found:
        same = placed and placed[-1][0][0] == alert.starts_ns
        placed.append(((alert.starts_ns, placed[-1][0][1] + 1 if same else 0), alert))
    return placed


@router.get("/silences", summary="Silences", response_model=Silences)
def list_silences(sources: ApiSources, query: Annotated[SilencesQuery, Query()]) -> ExactJson:
    """Silences that end after a time, the first to end first."""
    with sources.store() as connection:
        return ExactJson({"items": [asdict(silence) for silence in stored_silences(connection, query.since)]})
