"""``/silences/new``: the form of a silence, and what it would match now; silences are made and ended by forms."""

import time

from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tracegrade.alert.notify.labels import LABELS
from tracegrade.alert.noting import LONGEST_TEXT
from tracegrade.alert.silencing import checked_labels, end_silence, labels_of, matched, silence, silence_s
from tracegrade.alert.wording import headline
from tracegrade.store.incidents import Incident, stored_incident
from tracegrade.web.author import author_of
from tracegrade.web.forms import form_of
from tracegrade.web.render import page
from tracegrade.web.rights import token_of
from tracegrade.web.sources import sources_of

DURATIONS = {"1h": "1 hour", "2h": "2 hours", "8h": "8 hours", "1d": "1 day", "3d": "3 days", "7d": "7 days"}
_USUAL = "2h"


def show_new(request: Request) -> Response:
    """The form: with the labels of the address, else with those of an incident, if it names one."""
    sources, asked = sources_of(request), request.query_params
    with sources.store() as connection:
        incident = _incident(connection, asked.get("incident", ""))
        labels = {name: asked[name] for name in LABELS if asked.get(name)}
        if not labels and incident is not None:
            labels = labels_of(incident)
        found = None if not labels else matched(connection, checked_labels(labels, sources.tenant), incident)
    return page(
        request,
        "silence.html",
        title="Silence",
        incident=incident,
        headline="" if incident is None else headline(incident),
        labels=labels,
        names=[name for name in LABELS if name != "tenant" or sources.tenant is None],
        found=found,
        durations=DURATIONS,
        chosen=asked.get("duration", _USUAL),
        comment=asked.get("comment", ""),
        longest=LONGEST_TEXT,
        may_silence=token_of(request).may("admin"),
    )


async def create(request: Request) -> Response:
    """Make the silence of the form, and show its incident, or all alerts."""
    given = await form_of(request)
    return await run_in_threadpool(_create, request, given)


def _create(request: Request, given: dict[str, str]) -> Response:
    sources, author = sources_of(request), author_of(request)
    labels = checked_labels(
        {name: given[name].strip() for name in LABELS if given.get(name, "").strip()}, author.tenant
    )
    with sources.store() as connection:
        incident = _incident(connection, given.get("incident", ""))
    lasting_s = silence_s(given.get("duration", _USUAL))
    silence(sources.config.store_url, labels, lasting_s, given.get("comment", ""), author, time.time_ns(), incident)
    return _back(incident)


async def end(request: Request) -> Response:
    """End a silence, and show the incident that the form names, or all alerts."""
    given = await form_of(request)
    return await run_in_threadpool(_end, request, given)


def _end(request: Request, given: dict[str, str]) -> Response:
    sources = sources_of(request)
    end_silence(sources.config.store_url, request.path_params["silence_id"], author_of(request), time.time_ns())
    with sources.store() as connection:
        return _back(_incident(connection, given.get("incident", "")))


def _incident(connection: Connection, incident_id: str) -> Incident | None:
    """The incident of this id; None for "".

    Raises:
        HTTPException: 404, there is none.
    """
    if incident_id and (found := stored_incident(connection, incident_id)) is not None:
        return found
    if incident_id:
        raise HTTPException(404, f"There is no incident {incident_id[:200]!r}, or none any more.")
    return None


def _back(incident: Incident | None) -> Response:
    return RedirectResponse("/alerts#silences" if incident is None else f"/incidents/{incident.id}", 303)
