"""The agents where most fails are, by service and release."""

from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from tracegrade.model.tally import Tally
from tracegrade.web.charts.trends import share_bar

_MOST = 12


@dataclass(frozen=True, slots=True)
class Place:
    """Outcomes of one agent of one release of a service."""

    service: str
    agent: str
    release: str
    tally: Tally
    bar: Markup


def places(found: Mapping[tuple[str, ...], Tally]) -> list[Place]:
    """Those with the most fails, the most first, from the tallies by service, agent and release."""
    most = sorted(found.items(), key=lambda item: (-item[1].failed, -item[1].results))[:_MOST]
    return [Place(service, agent, release, tally, share_bar(tally)) for (service, agent, release), tally in most]
