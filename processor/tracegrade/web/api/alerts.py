"""Alerts that cannot tell yet, and silences; what fires is in incidents."""

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from tracegrade.store.alerts import Silence, stored_silences
from tracegrade.store.waiting import WaitingAlert, stored_waiting
from tracegrade.web.api.documents import Document, ExactJson
from tracegrade.web.api.openapi import problems
from tracegrade.web.api.parameters import ApiSources, NoParameters, Parameters, Time, needs

router = APIRouter(responses=problems(503), dependencies=[needs("read")])


class SilencesQuery(Parameters):
    """Which silences."""

    since: Time = Field(0, description="Only those that end after this time")


class Silences(Document):
    """The first to end first."""

    items: list[Silence]


class Waiting(Document):
    """By rule, then by service and agent; at most 1000."""

    items: list[WaitingAlert]


@router.get("/alerts/waiting", summary="Alerts that cannot tell yet whether anything is wrong", response_model=Waiting)
def list_waiting(sources: ApiSources, query: NoParameters) -> ExactJson:
    """Alerts without a baseline yet, or with too few results, at the agents where that is so."""
    with sources.store() as connection:
        return ExactJson({"items": [asdict(one) for one in stored_waiting(connection)]})


@router.get("/silences", summary="Silences", response_model=Silences)
def list_silences(sources: ApiSources, query: Annotated[SilencesQuery, Query()]) -> ExactJson:
    """Silences that end after a time, the first to end first."""
    with sources.store() as connection:
        return ExactJson({"items": [asdict(silence) for silence in stored_silences(connection, query.since)]})
