"""Silences that people make and end, and what one matches now: for the page, the API and the command line."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from glob import escape
from secrets import token_hex

from sqlalchemy import Connection

from tracegrade.alert.notify.labels import LABELS, check_labels, matches
from tracegrade.alert.noting import Author, note, typed
from tracegrade.codec.json_text import storable
from tracegrade.display import count, time_text
from tracegrade.document.duration import duration_s
from tracegrade.document.problem import did_you_mean
from tracegrade.model.errors import NotFound, NotPossible, WrongValue
from tracegrade.model.tenant import DEFAULT_TENANT
from tracegrade.store.alerts import Silence, open_alerts, save_silence, silences_in_force, stored_silences
from tracegrade.store.incidents import Incident, stored_incident
from tracegrade.store.open import changing_store
from tracegrade.store.tallies import DIMENSIONS, names_of

MOST_SILENCES = 1000
"""Silences in force."""
LONGEST_GLOB = 1000

_LONGEST_S = 366 * 86_400.0
_NS = 1_000_000_000
_MOST_NAMES = 100_000
_FROM_INCIDENT = ("rule", "service", "agent", "release", "tenant")


@dataclass(frozen=True, slots=True)
class Matched:
    """What labels match now: alerts that fire.

    ``others``: how many of these are of other incidents than the one that the silence is made from; ``missed``: how
    many alerts of that one fire and do not match; both None where it is made from none. ``warning``: why it matches
    nothing, where that is known.
    """

    firing: int
    others: int | None = None
    missed: int | None = None
    warning: str = ""

    @property
    def text(self) -> str:
        """In a sentence or two."""
        if self.warning:
            return f"Warning: {self.warning}"
        if not self.firing:
            return "No alert that fires now matches; alerts that begin until then are silenced."
        if self.others is None or self.missed is None:
            return f"Matches {count(self.firing, 'alert')} of those that fire now."
        said = f"Matches {self.firing - self.others} firing of this incident, {count(self.others, 'other')}."
        if self.missed:
            said += (
                f" It misses {count(self.missed, 'alert')} of this incident, so that people are still notified of it."
            )
        return said


def labels_of(incident: Incident) -> dict[str, str]:
    """The labels that all alerts of `incident` that fire have in common, as globs: what a silence of it begins with."""
    firing = [alert.labels for alert in incident.members if alert.state == "firing"] or [incident.lead.labels]
    common = {name: firing[0][name] for name in _FROM_INCIDENT if len({labels[name] for labels in firing}) == 1}
    return {name: escape(value) for name, value in common.items() if value}


def checked_labels(labels: Mapping[str, str], tenant: str | None) -> dict[str, str]:
    """`labels` of a silence, with that of the tenant who makes it; None: an operator of all.

    Raises:
        WrongValue: there are none, one that no alert has, one that is too long, or another tenant.
    """
    given = dict(labels)
    if not given:
        raise WrongValue(f"labels: expected at least one of {', '.join(LABELS)}, found none")
    try:
        check_labels(given)
    except ValueError as error:
        raise WrongValue(f"labels: {error}") from None
    if unfit := [name for name, glob in given.items() if storable(glob) != glob]:
        raise WrongValue(f"labels: {unfit[0]}: expected text without NUL, found {given[unfit[0]]!r}")
    if long := [name for name, glob in given.items() if len(glob) > LONGEST_GLOB]:
        raise WrongValue(
            f"labels: {long[0]}: expected at most {LONGEST_GLOB:,} characters, found {len(given[long[0]]):,}"
        )
    if tenant is not None and given.setdefault("tenant", tenant) != tenant:
        raise WrongValue(f"labels: expected the tenant {tenant!r}, or none, found {given['tenant']!r}")
    return given


def silence_s(written: str) -> float:
    """How long a silence is to last, in seconds, from text such as ``2h``.

    Raises:
        WrongValue: it is no duration, or out of bounds.
    """
    try:
        seconds = duration_s(written)
    except ValueError as error:
        raise WrongValue(f"duration: {error}") from None
    if not 0 < seconds <= _LONGEST_S:
        raise WrongValue(f"duration: expected more than 0 and at most 366d, found {written!r}")
    return seconds


def matched(connection: Connection, labels: Mapping[str, str], incident: Incident | None = None) -> Matched:
    """What `labels` match now, as far as `connection` shows alerts; `incident`: the one the silence is made from."""
    firing = [alert for alert in open_alerts(connection) if matches(alert, labels)]
    if incident is None:
        return Matched(len(firing), warning="" if firing else _why_nothing(connection, labels))
    others = sum(alert.incident != incident.id for alert in firing)
    missed = sum(alert.state == "firing" and not matches(alert, labels) for alert in incident.members)
    return Matched(len(firing), others, missed, "" if firing else _why_nothing(connection, labels))


def _why_nothing(connection: Connection, labels: Mapping[str, str]) -> str:
    """Which label no result has; "" when each is that of some."""
    for label, dimension in {**DIMENSIONS, "tenant": "tenant"}.items():
        known = names_of(connection, dimension, limit=_MOST_NAMES)
        glob = labels.get(label, "*")
        if known and glob and not any(fnmatchcase(name, glob) for name in known):
            said = f"it matches nothing: no stored result has the {label} {glob!r}{did_you_mean(glob, known)}"
            return said if said.endswith("?") else f"{said}."
    return ""


def silence(
    store_url: str,
    labels: Mapping[str, str],
    lasting_s: float,
    comment: str,
    author: Author,
    now_ns: int,
    incident: Incident | None = None,
) -> Silence:
    """Send no notifications of alerts that `labels` match, from now on; of `incident`, note it there, too.

    Args:
        store_url: the store.
        labels: as `checked_labels` gives them.
        lasting_s: for how long, as `silence_s` gives it.
        comment: why; it is redacted.
        author: who does.
        now_ns: ns since 1970 UTC.
        incident: the one that it is made from.

    Raises:
        WrongValue: the comment is too long, or a label holds what detectors of redaction find.
        NotPossible: too many silences are in force.
        StoreError: the store cannot be opened.
    """
    tenant = labels.get("tenant", DEFAULT_TENANT)
    kept = author.redacted(typed(comment, "comment"), tenant)
    if taken := [name for name, glob in labels.items() if author.redacted_name(glob, tenant) != glob]:
        raise WrongValue(f"labels: {taken[0]}: expected a name as it is stored, found what redaction takes out")
    made = Silence(token_hex(4), dict(labels), now_ns, now_ns + round(lasting_s * _NS), kept, author.name)
    with changing_store(store_url) as connection:
        if silences_in_force(connection, now_ns) >= MOST_SILENCES:
            raise NotPossible(f"{MOST_SILENCES:,} silences are in force, and no more can be: end some")
        save_silence(connection, made)
        stored = None if incident is None else stored_incident(connection, incident.id)
        if stored is not None:
            named = " ".join(f"{name}={glob}" for name, glob in made.labels.items())
            note(connection, stored, author, "silenced", now_ns, f"{named} until {time_text(made.ends_ns)} UTC")
    return made


def end_silence(store_url: str, silence_id: str, author: Author, now_ns: int) -> Silence:
    """End a silence that is in force, if `author` sees it.

    Raises:
        NotFound: no such silence is in force.
        StoreError: the store cannot be opened.
    """
    with changing_store(store_url) as connection:
        known = {item.id: item for item in stored_silences(connection, now_ns)}
        found = known.get(silence_id)
        if found is None or author.tenant not in (None, found.labels.get("tenant")):
            raise NotFound(f"there is no silence {silence_id[:200]!r}, or none any more")
        ended = replace(found, ends_ns=now_ns)
        save_silence(connection, ended)
    return ended
