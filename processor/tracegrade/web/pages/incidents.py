"""``/incidents/{id}``: one incident, and the form that accepts its level as the normal one."""

import time
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

from markupsafe import Markup
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tracegrade.alert.accepting import Acceptance, accept, acceptance
from tracegrade.alert.notify.message import bad_results
from tracegrade.alert.noting import LONGEST_TEXT, acknowledge, comment, own
from tracegrade.alert.wording import summary
from tracegrade.model.errors import NotPossible
from tracegrade.store.alerts import StoredAlert, stored_silences
from tracegrade.store.incidents import Incident, stored_incident
from tracegrade.store.schema import MINUTE_NS
from tracegrade.web.author import author_of
from tracegrade.web.charts.curves import curve, moment_text, small_curve
from tracegrade.web.forms import form_of
from tracegrade.web.incidents import (
    badge_of,
    evidence,
    figures,
    levels,
    marks,
    outcome_of,
    said,
    shown_incidents,
    shown_value,
    slice_name,
    slice_values,
    watched_text,
)
from tracegrade.web.masked import seen_by
from tracegrade.web.part import web_parts
from tracegrade.web.render import page
from tracegrade.web.rights import token_of
from tracegrade.web.sources import sources_of
from tracegrade.web.view import iso_text
from tracegrade.web.watched_values import WatchedValues, values_near, watched_values

# Each curve is a read of its own; the others are told in words.
_MOST_CURVES = 10
_MOST_MEMBERS = 20

_DID = {
    "acknowledged": "acknowledged it",
    "owned": "became its owner",
    "commented": "said",
    "accepted": "accepted its level as normal",
    "silenced": "silenced",
}


@dataclass(frozen=True, slots=True)
class ShownMember:
    """One alert of an incident; ``curve`` is empty where there are many alerts, or nothing to show."""

    alert: StoredAlert
    summary: str
    badge: tuple[str, str]
    curve: Markup


def show(request: Request) -> Response:
    """One incident: what is watched over time, what broke, where, its alerts, and who was notified."""
    sources, now_ns = sources_of(request), time.time_ns()
    rule_set = sources.rule_set()
    counting = {rule.id for rule in rule_set.rules if rule.incomplete == "count"}
    caller = token_of(request)
    with sources.store() as connection:
        incident = seen_by(caller, _stored(connection, request))
        silences = seen_by(caller, stored_silences(connection, now_ns))
        lead = incident.clearest
        found = watched_values(connection, lead, lead.rule_id in counting, now_ns)
        near = values_near(connection, lead, lead.rule_id in counting, found) or found
        members = _members(connection, incident, found, counting, now_ns)
    (shown,) = shown_incidents([incident], silences, now_ns)
    rule = rule_set.rule(lead.rule_id)
    heads = "sessions" if rule is not None and rule.scope == "session" else "traces"
    return page(
        request,
        "incident.html",
        title=f"Incident {incident.id}",
        shown=shown,
        lead=lead,
        figures=figures(lead),
        evidence=evidence(lead),
        curve=_curve(lead, near),
        near=near,
        wide=Markup("") if near is found else _curve(lead, found),
        found=found,
        watched=watched_text(lead, found),
        usual=None if found.usual is None else [shown_value(lead, value, found.is_count) for value in found.usual],
        values=[(value, shown_value(lead, value.value, found.is_count)) for value in near.values],
        as_of=f"as of {moment_text(lead.facts.causes_as_of_ns or lead.starts_ns)}",
        causes_since_ns=lead.facts.causes_since_ns or found.began_ns,
        bad=bad_results(lead),
        slice_name=slice_name(lead),
        slices=[(item, *slice_values(lead, item)) for item in lead.facts.slices],
        outcome=outcome_of(lead),
        results=_results(lead, found, heads) if rule is not None and lead.kind != "silent" else "",
        traces=[trace_id for trace_id in lead.facts.worst if len(trace_id) == 32],
        references=[(text, _is_web_address(text)) for text in lead.facts.references],
        members=members[:_MOST_MEMBERS],
        more_members=members[_MOST_MEMBERS:],
        acceptance=_acceptance(incident),
        may_accept=caller.may("admin"),
        may_silence=caller.may("admin"),
        may_review=caller.may("review"),
        may_download=caller.may("read-values") and rule is not None,
        takes_traces=[taking for part in web_parts() for taking in part.takes_traces],
        did=_DID,
        runbook=sources.config.alerts.links.runbook(lead.rule_id),
        author=author_of(request).name,
        longest=LONGEST_TEXT,
        is_rule_known=rule is not None,
        judged_heads=heads,
    )


def accept_level(request: Request) -> Response:
    """Accept the level of an incident, and show it again."""
    sources, incident = sources_of(request), _found(request)
    try:
        accept(sources.config.store_url, incident, author_of(request), time.time_ns())
    except NotPossible as error:
        raise HTTPException(409, f"Not accepted: {error}.") from None
    return _back(incident)


def acknowledge_it(request: Request) -> Response:
    """Acknowledge an incident, and show it again."""
    incident = _found(request)
    acknowledge(sources_of(request).config.store_url, incident.id, author_of(request), time.time_ns())
    return _back(incident)


def own_it(request: Request) -> Response:
    """Make the caller the owner of an incident, and show it again."""
    incident = _found(request)
    own(sources_of(request).config.store_url, incident.id, author_of(request), time.time_ns())
    return _back(incident)


async def comment_on_it(request: Request) -> Response:
    """Add the comment of the form to an incident, and show it again."""
    given = await form_of(request)
    return await run_in_threadpool(_comment, request, given.get("text", ""))


def _comment(request: Request, text: str) -> Response:
    incident = _found(request)
    comment(sources_of(request).config.store_url, incident.id, author_of(request), text, time.time_ns())
    return _back(incident)


def _back(incident: Incident) -> Response:
    return RedirectResponse(f"/incidents/{incident.id}", 303)


def _found(request: Request) -> Incident:
    with sources_of(request).store() as connection:
        return _stored(connection, request)


def _stored(connection: Connection, request: Request) -> Incident:
    id_ = request.path_params["incident_id"]
    if (found := stored_incident(connection, id_)) is None:
        raise HTTPException(404, f"There is no incident {id_[:200]!r}, or none any more.")
    return found


def _results(alert: StoredAlert, found: WatchedValues, heads: str) -> str:
    """The address of the list of results that the alert is about."""
    query = {
        "rule": alert.rule_id,
        "outcome": outcome_of(alert),
        "service": alert.service,
        "agent": alert.agent,
        "release": alert.release or "",
        "since": iso_text(found.began_ns),
    }
    if alert.ends_ns is not None:
        query["until"] = iso_text(max(alert.ends_ns, found.began_ns + MINUTE_NS))
    return f"/{heads}?{urlencode({name: value for name, value in query.items() if value})}"


def _curve(alert: StoredAlert, found: WatchedValues) -> Markup:
    if not found.values:
        return Markup("")
    return curve(
        found,
        levels(alert, found),
        marks(alert, found),
        said(alert, found),
        lambda value: shown_value(alert, value, found.is_count),
    )


def _members(
    connection: Connection, incident: Incident, of_lead: WatchedValues, counting: Collection[str], now_ns: int
) -> list[ShownMember]:
    """The alerts of `incident`, those that fire first; the curve of the lead alone is shown once, and large."""
    ordered = sorted(incident.members, key=lambda alert: alert.state != "firing")
    members = []
    for place, alert in enumerate(ordered):
        drawn = Markup("")
        if len(ordered) > 1 and place < _MOST_CURVES:
            is_lead = alert.key == incident.clearest.key
            found = of_lead if is_lead else watched_values(connection, alert, alert.rule_id in counting, now_ns)
            if found.values:
                drawn = small_curve(found, levels(alert, found), said(alert, found))
        members.append(ShownMember(alert, summary(alert), badge_of(alert), drawn))
    return members


def _acceptance(incident: Incident) -> Acceptance | None:
    """What accepting would do; None when there is nothing to accept."""
    try:
        return acceptance(incident)
    except NotPossible:
        return None


def _is_web_address(text: str) -> bool:
    """Whether a reference may become a link: no other scheme does, such as one that runs a script."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc)
