"""Metrics and conditions of one journal; each carries the journal's name."""

from typing import NamedTuple

from tracegrade.telemetry.conditions import Conditions
from tracegrade.telemetry.metrics import Telemetry


class JournalTelemetry(NamedTuple):
    """The telemetry of a process, for the journal called ``name``."""

    telemetry: Telemetry
    name: str

    @property
    def conditions(self) -> Conditions:
        """Those of the process."""
        return self.telemetry.conditions

    def add(self, counter: str, value: int = 1, **labels: str) -> None:
        """Add to ``tracegrade.journal.<counter>``."""
        self.telemetry.add(f"tracegrade.journal.{counter}", value, journal=self.name, **labels)

    def set(self, gauge: str, value: int, **labels: str) -> None:
        """Set ``tracegrade.journal.<gauge>``."""
        self.telemetry.set(f"tracegrade.journal.{gauge}", value, journal=self.name, **labels)
