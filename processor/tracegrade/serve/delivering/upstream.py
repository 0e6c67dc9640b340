"""The judges and their results journals, as delivery sees them."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import Protocol, Self

from tracegrade.deliver.recent import RecentResults
from tracegrade.deliver.sink import Sink
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.retention import Consumer
from tracegrade.journal.settings import JournalSettings
from tracegrade.model.signal import Signal
from tracegrade.pipeline.data_folder import DataFolder
from tracegrade.serve.background import Work
from tracegrade.serve.judging.hand_over import MemoryHandOver
from tracegrade.serve.opening import open_journal_of
from tracegrade.telemetry.metrics import Telemetry

Trim = Callable[[Mapping[str, Consumer]], Mapping[str, Counter[Signal]]]


def ignore_stored(position: int) -> None:
    """Nobody asks up to where the store, or every sink, holds the results of this journal."""


@dataclass(frozen=True, slots=True)
class ResultsSource:
    """A results journal from which every sink takes, each with its own position.

    ``name`` is its label in metrics, ``folder`` where it is. ``position`` gives the position file of a sink. ``recent``
    has the batches that were written by this process. ``stored`` is called with each position up to which the store
    holds everything, ``confirmed`` with each up to which every sink does that must lose nothing. ``trim`` applies
    retention, where this process is the writer. ``is_written_elsewhere`` says that another process adds to it.
    """

    name: str
    folder: Path
    position: Callable[[str], Path]
    recent: RecentResults
    stored: Callable[[int], None] = ignore_stored
    trim: Trim | None = None
    is_written_elsewhere: bool = False
    confirmed: Callable[[int], None] = ignore_stored


class LeftResults:
    """A results journal that an earlier set of judges left, and to which nobody adds any more."""

    def __init__(self, folder: DataFolder, journal: LocalJournal, name: str) -> None:
        """Use `open`."""
        self.journal = journal
        self.is_removed = False
        path, position = folder.path / name, partial(folder.position_in, name)
        self.source = ResultsSource(name, path, position, RecentResults(journal.end), trim=journal.trim)

    @classmethod
    def open(cls, folder: DataFolder, settings: JournalSettings, telemetry: Telemetry, name: str) -> Self:
        """Become its writer: then no judge of that set runs any more, as the one of a killed receiver does for a while.

        Raises:
            JournalLocked: one still runs.
        """
        return cls(folder, open_journal_of(folder, name, settings, telemetry), name)

    def remove(self) -> None:
        """Every sink has taken all of it. Their positions stay: a later one of its name must not begin before them."""
        self.is_removed = True
        self.journal.close()
        rmtree(self.source.folder)
        for gauge in ("size", "end", "position"):
            self.journal.telemetry.forget_gauge(f"tracegrade.journal.{gauge}", journal=self.source.name)

    def close(self) -> None:
        """Close it, if it was not removed."""
        self.journal.close()


class Upstream(Protocol):
    """One judge in this process, or several in processes of their own."""

    @property
    def sources(self) -> Sequence[ResultsSource]:
        """The results journals of the judges."""
        ...

    @property
    def left(self) -> Sequence[LeftResults]:
        """The results journals that earlier sets of judges left; each is removed once every sink has taken it."""
        ...

    def stored_to_ns(self) -> int:
        """The time, ns since 1970 UTC, up to which the store holds every result of what came; 0 if unknown."""
        ...

    def left_stored(self) -> None:
        """The store holds everything of ``left``."""
        ...

    def failed(self, error: BaseException) -> None:
        """Delivery ended with `error`."""
        ...

    def store_sink(self, sink: Sink) -> Sink:
        """The sink to use in place of `sink`, the store's."""
        ...

    def works(self, halt: asyncio.Event) -> Sequence[Work]:
        """What else to run in delivery's event loop until `halt` is set."""
        ...


@dataclass(frozen=True, slots=True)
class OneJudge:
    """The judge that runs in this process."""

    sources: Sequence[ResultsSource]
    left: Sequence[LeftResults]
    hand_over: MemoryHandOver

    def stored_to_ns(self) -> int:
        """As in `Upstream`."""
        return self.hand_over.stored_to_ns()

    def left_stored(self) -> None:
        """As in `Upstream`."""
        self.hand_over.left_stored()

    def failed(self, error: BaseException) -> None:
        """As in `Upstream`: judging ends too."""
        self.hand_over.failed(error)

    def store_sink(self, sink: Sink) -> Sink:
        """As in `Upstream`: it is used as it is."""
        return sink

    def works(self, halt: asyncio.Event) -> Sequence[Work]:
        """As in `Upstream`: nothing else."""
        return ()
