"""Findings that are kept from one check to the next: between checks, results come at few series."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace

from tracegrade.alert.detect.burn import Budget
from tracegrade.alert.detect.finding import Finding


@dataclass(frozen=True, slots=True)
class Found:
    """What was found at one series.

    ``finding``: None when nothing can be said; then ``lacks_baseline`` says whether there is nothing to compare its
    results with. ``budget``: of an objective. ``shown_until``: it stays the same until the window of what is shown
    begins in this minute or later.
    """

    finding: Finding | None
    lacks_baseline: bool
    budget: Budget | None
    shown_until: float


@dataclass(frozen=True, slots=True)
class _CachedFinding:
    made_of: tuple[object, ...]
    shown_from: int
    found: Found


class FindingsCache:
    """What the check before has found, each with what it was made of: it holds as long as that is the same.

    What a check does not ask for is given up with the next one.
    """

    def __init__(self) -> None:
        """Without findings."""
        self._hour: int | None = None
        self._before: dict[Hashable, _CachedFinding] = {}
        self._now: dict[Hashable, _CachedFinding] = {}

    def __len__(self) -> int:
        """How many findings are kept."""
        return len(self._now)

    def begin_check(self, hour: int) -> None:
        """Begin a check in this hour: what is found from now on is for the next one.

        What was found in another hour is given up before anything is read: it was made of other hours.
        """
        self._before, self._now = self._now if hour == self._hour else {}, {}
        self._hour = hour

    def found(self, where: Hashable, made_of: tuple[object, ...], shown_from: int, make: Callable[[], Found]) -> Found:
        """What `make` finds, or found before.

        Args:
            where: the alert and its series.
            made_of: all that a finding is made of, but for `shown_from`.
            shown_from: the minute with which the window of what is shown begins.
            make: finds it.
        """
        kept = self._before.get(where)
        if kept is not None and kept.shown_from <= shown_from < kept.found.shown_until and kept.made_of == made_of:
            # Of two that are equal, only the one that was just read is kept.
            kept = replace(kept, made_of=made_of)
        else:
            kept = _CachedFinding(made_of, shown_from, make())
        self._now[where] = kept
        return kept.found
