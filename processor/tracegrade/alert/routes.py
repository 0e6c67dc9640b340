"""Routes: which alert goes to which channels."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from tracegrade.alert.labels import Labels, matches
from tracegrade.document.file_model import FileModel

if TYPE_CHECKING:  # reading settings does not load SQL
    from tracegrade.store.alerts import StoredAlert


class Route(FileModel):
    """One route: the channels that are notified of some alerts."""

    labels: Labels = Field(
        default={},
        description="Only alerts whose labels match these globs; a list means any of them. Without labels: all alerts",
    )
    channels: list[str] = Field(description="The channels that are notified of them, by name; none when empty")
    continue_: bool = Field(default=False, alias="continue", description="Look at later routes as well")


def routed(alert: "StoredAlert", routes: Sequence[Route], channels: Collection[str]) -> set[str]:
    """The names of the channels that `alert` goes to.

    Those of the first route that it matches; when that route says ``continue``, also those of the next one that it
    matches. All channels when it matches no route, so that no alert is lost because a route is missing.
    """
    found: set[str] = set()
    matched = False
    for route in routes:
        if matches(alert, route.labels):
            matched = True
            found.update(route.channels)
            if not route.continue_:
                break
    return found if matched else set(channels)
