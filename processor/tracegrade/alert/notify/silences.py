"""Silences: times in which no channel is notified of some alerts."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tracegrade.alert.notify.labels import matches

if TYPE_CHECKING:  # reading settings does not load SQL
    from tracegrade.store.alerts import Silence
    from tracegrade.store.incidents import Incident


def silence_of(incident: "Incident", silences: "Iterable[Silence]", now_ns: int) -> "Silence | None":
    """The silence that ends first of those that cover every alert of `incident` that fires; None when some is heard.

    Of an incident that is over, every alert of it.
    """
    members = [alert for alert in incident.members if alert.state == incident.state]
    covering = []
    for alert in members:
        found = [each for each in silences if each.starts_ns <= now_ns < each.ends_ns and matches(alert, each.labels)]
        if not found:
            return None
        covering.append(max(found, key=lambda silence: silence.ends_ns))
    return min(covering, key=lambda silence: silence.ends_ns, default=None)


def with_silence(incident: "Incident", silences: "Iterable[Silence]", now_ns: int) -> dict[str, Any]:
    """The documented JSON object of an incident, with ``silenced_until_ns``: None when it is not silenced."""
    silence = silence_of(incident, silences, now_ns)
    return {**incident.to_json(), "silenced_until_ns": None if silence is None else silence.ends_ns}
