"""Which alert goes to which receivers."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from tracegrade.alert.labels import Labels, matches
from tracegrade.yaml_file import FileModel

if TYPE_CHECKING:  # whoever reads settings does not wait for SQL
    from tracegrade.store.alerts import StoredAlert


class Route(FileModel):
    """Who is told of some alerts."""

    labels: Labels = Field(
        default={}, description="Of alerts whose labels match these globs, of a list any; all alerts when omitted"
    )
    receivers: list[str] = Field(description="Who is told of them, by name; nobody when empty")
    continue_: bool = Field(default=False, alias="continue", description="Later routes are looked at as well")


def routed(alert: "StoredAlert", routes: Sequence[Route], everyone: Collection[str]) -> set[str]:
    """The names of the receivers that `alert` goes to.

    Those of the first route that it matches, and while that one says ``continue`` of the next; everyone when it matches
    none, so that an alert that nobody thought of is told.
    """
    found: set[str] = set()
    matched = False
    for route in routes:
        if matches(alert, route.labels):
            matched = True
            found.update(route.receivers)
            if not route.continue_:
                break
    return found if matched else set(everyone)
