"""What fires, what fired, and who is not told."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pydantic import Field

from tracegrade.store.alerts import Silence, StoredAlert, recent_alerts, stored_silences
from tracegrade.web.api.operation import (
    Document,
    Operation,
    Page,
    Paged,
    Query,
    Time,
    cursor_of,
    page_of,
    read_cursor,
)
from tracegrade.web.sources import Sources


class AlertsQuery(Paged):
    """Which alerts."""

    firing: bool = Field(False, description="Only what fires now")
    since: Time = Field(0, description="Only what fires, or was resolved since")


class SilencesQuery(Query):
    """Which silences."""

    since: Time = Field(0, description="Only those that end after this time")


class Silences(Document):
    """The first to end first."""

    items: list[Silence]


def list_alerts(sources: Sources, query: AlertsQuery, path: Mapping[str, str]) -> dict[str, Any]:
    """A page of alerts, the latest start first; there are few enough to be read together."""
    with sources.store() as connection:
        found = recent_alerts(connection, query.since, firing=query.firing)
    placed = _placed(found)
    if (after := read_cursor(query.cursor)) is not None:
        placed = [(place, alert) for place, alert in placed if (-place[0], place[1]) > (-after[0], after[1])]
    shown, after_them = page_of(placed, query.limit, lambda item: cursor_of(*item[0]))
    return {"items": [alert.to_json() for _, alert in shown], "next": after_them}


def _placed(found: list[StoredAlert]) -> list[tuple[tuple[int, int], StoredAlert]]:
    """Each alert with its start, and how many before it started at that time: of these, no later one begins."""
    placed: list[tuple[tuple[int, int], StoredAlert]] = []
    for alert in found:
        same = placed and placed[-1][0][0] == alert.starts_ns
        placed.append(((alert.starts_ns, placed[-1][0][1] + 1 if same else 0), alert))
    return placed


def list_silences(sources: Sources, query: SilencesQuery, path: Mapping[str, str]) -> dict[str, Any]:
    """All silences that end after a time."""
    with sources.store() as connection:
        return {"items": [asdict(silence) for silence in stored_silences(connection, query.since)]}


OPERATIONS = (
    Operation(
        "GET", "/alerts", "listAlerts", "Alerts, the latest first", list_alerts, Page[StoredAlert], query=AlertsQuery
    ),
    Operation("GET", "/silences", "listSilences", "Silences", list_silences, Silences, query=SilencesQuery),
)
