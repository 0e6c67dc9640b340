"""Silences and maintenance windows: times in which no channel is notified of some alerts."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field

from tracegrade.alert.labels import Labels, matches
from tracegrade.document.file_model import FileModel

if TYPE_CHECKING:  # reading settings does not load SQL
    from tracegrade.store.alerts import Silence, StoredAlert

Day: TypeAlias = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]

_DAYS: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_NS = 1_000_000_000


def _clock(text: str) -> str:
    hours, _, minutes = text.partition(":")
    if len(text) != 5 or not (hours + minutes).isdigit() or int(hours) > 23 or int(minutes) > 59:
        raise ValueError(f"expected a time of day such as 22:00, found {text!r}")
    return text


class Maintenance(FileModel):
    """A weekly time in which no channel is notified. Alerts that still fire after it are notified then."""

    days: list[Day] = Field(default=list(_DAYS), min_length=1, description="The days on which it begins")
    start: Annotated[str, AfterValidator(_clock)] = Field(description="When it begins, UTC, such as 22:00")
    end: Annotated[str, AfterValidator(_clock)] = Field(description="When it ends, UTC; before start: the day after")
    labels: Labels = Field(
        default={},
        description="Only alerts whose labels match these globs; a list means any of them. Without labels: all alerts",
    )

    def covers(self, now_ns: int) -> bool:
        """Whether `now_ns` (since 1970 UTC) is within it."""
        now = datetime.fromtimestamp(now_ns // _NS, UTC)
        clock = now.strftime("%H:%M")
        today, yesterday = _DAYS[now.weekday()], _DAYS[(now - timedelta(days=1)).weekday()]
        if self.start < self.end:
            return today in self.days and self.start <= clock < self.end
        return (today in self.days and clock >= self.start) or (yesterday in self.days and clock < self.end)


def is_muted(alert: "StoredAlert", silences: "Iterable[Silence]", windows: Iterable[Maintenance], now_ns: int) -> bool:
    """Whether a silence or a maintenance window covers `alert` at `now_ns`."""
    return any(
        silence.starts_ns <= now_ns < silence.ends_ns and matches(alert, silence.labels) for silence in silences
    ) or any(window.covers(now_ns) and matches(alert, window.labels) for window in windows)
