"""When a trace is due to close, and why.

A trace closes on the first of: its end attribute; quiet for ``settle`` with a local root here and no parent missing;
quiet for ``idle_timeout``; ``max_age`` since its first span. All times are receive times from the journal.

Source: the pair of quiet times is agent-shaped: agents wait for people and slow tools, so a fixed time from the first
span (as tail sampling has it) closes them in the middle; Refinery and Tempo use quiet times for the same reason.
"""

from dataclasses import dataclass

from tracegrade.assemble.settings import TracesSettings

NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Deadlines:
    """The settings' times in ns."""

    settle_ns: int
    idle_ns: int
    max_age_ns: int
    reopen_ns: int

    @classmethod
    def of(cls, settings: TracesSettings) -> "Deadlines":
        """The times of `settings` as whole ns."""
        return cls(
            round(settings.settle * NS_PER_S),
            round(settings.idle_timeout * NS_PER_S),
            round(settings.max_age * NS_PER_S),
            round(settings.reopen_for * NS_PER_S),
        )

    def due_ns(self, first_ns: int, last_ns: int, *, structurally_complete: bool, ended: bool) -> int:
        """The time from which the trace is closed, if nothing more comes."""
        if ended:
            return last_ns
        quiet = last_ns + (self.settle_ns if structurally_complete else self.idle_ns)
        return min(quiet, first_ns + self.max_age_ns)

    def reason(self, first_ns: int, last_ns: int, *, structurally_complete: bool, ended: bool) -> str:
        """The close reason that belongs to `due_ns` of the same arguments."""
        if ended:
            return "end_attribute"
        quiet = last_ns + (self.settle_ns if structurally_complete else self.idle_ns)
        if quiet > first_ns + self.max_age_ns:
            return "max_age"
        return "settled" if structurally_complete else "idle"
