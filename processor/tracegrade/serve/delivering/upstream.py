"""The judges, as delivery sees them."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tracegrade.deliver.sink import Sink
from tracegrade.serve.background import Work
from tracegrade.serve.delivering.results_source import LeftResults, ResultsSource
from tracegrade.serve.judging.hand_over import MemoryHandOver


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
