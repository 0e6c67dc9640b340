"""One results journal as delivery sees it: where it is, where the positions of its sinks are, and who trims it."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tracegrade.deliver.recent import RecentResults
from tracegrade.journal.retention import Consumer
from tracegrade.model.signal import Signal

Trim = Callable[[Mapping[str, Consumer]], Mapping[str, Counter[Signal]]]


def ignore_stored(position: int) -> None:
    """Nobody asks up to where the store holds the results of this journal."""


@dataclass(frozen=True, slots=True)
class ResultsSource:
    """A results journal from which every sink takes, each with its own position.

    ``name`` is its label in metrics, ``folder`` where it is. ``position`` gives the position file of a sink. ``recent``
    has the batches that were written by this process. ``stored`` is called with each position up to which the store
    holds everything. ``trim`` applies retention, where this process is the writer.
    """

    name: str
    folder: Path
    position: Callable[[str], Path]
    recent: RecentResults
    stored: Callable[[int], None] = ignore_stored
    trim: Trim | None = None
