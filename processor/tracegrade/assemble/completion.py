"""When a trace is due to close, and why.

A trace closes when the first of these happens: its end attribute came; it was quiet for ``settle``, with a local root
and no parent missing; it was quiet for ``idle_timeout``; its first span is ``max_age`` old. All times are receive times
from the journal.

Source: the two quiet times suit agents: they wait for people and slow tools, so a fixed time from the first span (as
in tail sampling) would close their traces in the middle. Refinery and Tempo use quiet times for the same reason.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from tracegrade.assemble.bounds import OVERRIDDEN, WholeFiles
from tracegrade.extract.extract import agent_named_by
from tracegrade.model.span import Span
from tracegrade.model.trace import CloseReason

if TYPE_CHECKING:  # importing them takes as long as showing a file
    from tracegrade.assemble.settings import TracesOverride, TracesSettings

Bounds: TypeAlias = "TracesSettings | WholeFiles"

NS_PER_S = 1_000_000_000
NONE_OVERRIDDEN: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Deadlines:
    """The settings' times in ns, and the attribute that ends a trace."""

    settle_ns: int
    idle_ns: int
    max_age_ns: int
    reopen_ns: int
    end_attribute: str | None

    @classmethod
    def of(cls, bounds: Bounds, overridden: Mapping[str, Any] = NONE_OVERRIDDEN) -> "Deadlines":
        """The times of `bounds` as whole ns; `overridden` holds those that are to be used instead, by name."""
        settle, idle, max_age, end = (overridden.get(name, getattr(bounds, name)) for name in OVERRIDDEN)
        settle_ns, idle_ns, max_age_ns, reopen_ns = (
            round(time * NS_PER_S) for time in (settle, idle, max_age, bounds.reopen_for)
        )
        return cls(settle_ns, idle_ns, max_age_ns, reopen_ns, end)

    def due_ns(self, first_ns: int, last_ns: int, *, structurally_complete: bool, ended: bool) -> int:
        """The time at which the trace is to be closed if nothing more comes."""
        if ended:
            return last_ns
        quiet = last_ns + (self.settle_ns if structurally_complete else self.idle_ns)
        return min(quiet, first_ns + self.max_age_ns)

    def reason(self, first_ns: int, last_ns: int, *, structurally_complete: bool, ended: bool) -> CloseReason:
        """The close reason for the `due_ns` of the same arguments."""
        if ended:
            return "end_attribute"
        quiet = last_ns + (self.settle_ns if structurally_complete else self.idle_ns)
        if quiet > first_ns + self.max_age_ns:
            return "max_age"
        return "settled" if structurally_complete else "idle"


class Overrides:
    """Which of ``traces.overrides`` apply to a trace, and the deadlines that follow.

    An override applies once a span fits it, whatever comes before or after: so it depends on the trace's set of spans,
    not on their order. Overrides are bits of an int; the first one is the lowest bit.
    """

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._overrides = bounds.overrides
        self._reads_agents = any(override.agent is not None for override in bounds.overrides)
        self._deadlines = {0: Deadlines.of(bounds)}

    def __bool__(self) -> bool:
        return bool(self._overrides)

    def applying(self, spans: Iterable[Span]) -> int:
        """The overrides that fit one of `spans`."""
        found = 0
        for service, agent in {self._facts(span) for span in spans}:
            for place, override in enumerate(self._overrides):
                if _fits(override, service, agent):
                    found |= 1 << place
        return found

    def _facts(self, span: Span) -> tuple[str, str]:
        return span.resource.service, agent_named_by(span) if self._reads_agents else ""

    def deadlines(self, applying: int) -> Deadlines:
        """The deadlines when these overrides apply."""
        found = self._deadlines.get(applying)
        if found is None:
            values: dict[str, float | str] = {}
            for place, override in enumerate(self._overrides):
                if applying >> place & 1:
                    for name in OVERRIDDEN:
                        if (value := getattr(override, name)) is not None:
                            values.setdefault(name, value)
            found = self._deadlines[applying] = Deadlines.of(self._bounds, values)
        return found


def _fits(override: "TracesOverride", service: str, agent: str) -> bool:
    return (override.service is None or override.service.match(service)) and (
        override.agent is None or override.agent.match(agent)
    )
