"""Routes: which alert goes to which channels."""

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field, model_validator

from tracegrade.alert.notify.labels import Globs, check_labels, matches
from tracegrade.document.file_model import FileModel
from tracegrade.rule.mistakes import refuse_what_went

if TYPE_CHECKING:  # reading settings does not load SQL
    from tracegrade.store.alerts import StoredAlert

_WENT = {
    "continue": (
        "is no longer a setting: name all channels in one route, 'channels: [...]'; or send to Alertmanager, which has "
        "routes of this kind"
    )
}


def _known(labels: dict[str, Globs]) -> dict[str, Globs]:
    check_labels(labels)
    return labels


class Route(FileModel):
    """One route: the channels that are notified of some alerts."""

    labels: Annotated[dict[str, Globs], AfterValidator(_known)] = Field(
        default={},
        description="Only alerts whose labels match these globs; a list means any of them. Without labels: all alerts",
    )
    channels: list[str] = Field(description="The channels that are notified of them, by name; none when empty")

    @model_validator(mode="before")
    @classmethod
    def _without_what_went(cls, value: object) -> object:
        return refuse_what_went(value, _WENT)


def routed(alerts: "Iterable[StoredAlert]", routes: Sequence[Route], channels: Collection[str]) -> set[str]:
    """The names of the channels that an incident with these members goes to: those of each member.

    An alert goes to those of the first route that it matches; to all when it matches none, so that no alert is lost
    because a route is missing.
    """
    found: set[str] = set()
    for alert in alerts:
        found.update(next((route.channels for route in routes if matches(alert, route.labels)), channels))
    return found
