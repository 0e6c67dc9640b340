"""Conditions on the calls of a run as a whole, and what is taken off for calls that were not needed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from tracegrade.evaluate.calls import listed
from tracegrade.evaluate.counts import Count
from tracegrade.evaluate.evaluator import ParameterModel
from tracegrade.evaluate.tool_names import NameComparison, NameTable, ToolName
from tracegrade.evaluate.values import json_equal
from tracegrade.evaluate.work import Work
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tool_call import ToolCall

# A name, or names called one directly after the other.
Sequences: TypeAlias = list[ToolName | Annotated[list[ToolName], Field(min_length=1)]]


class Conditions(ParameterModel):
    """What must hold of the calls as a whole."""

    counts: dict[str, Count] = Field(
        default_factory=dict, description='Per tool an operator (= == != > < >= <=) and a number: ["<=", 3].'
    )
    calls: Annotated[Count | None, Field(description="The number of all calls.")] = None
    failed_calls: Annotated[Count | None, Field(description="The number of calls that failed.")] = None
    steps: Annotated[Count | None, Field(description="The number of steps: calls made together are one.")] = None
    required: Sequences = Field(
        default_factory=list, description="Names, or adjacent sequences of names, that must occur."
    )
    allowed: Annotated[list[ToolName] | None, Field(description="The only names that may occur.")] = None
    forbidden: Sequences = Field(
        default_factory=list, description="Names, or adjacent sequences of names, that must not occur."
    )

    @property
    def has_conditions(self) -> bool:
        """Whether any is set."""
        alone = (self.calls, self.failed_calls, self.steps, self.allowed)
        return bool(self.counts or self.required or self.forbidden) or any(part is not None for part in alone)

    def broken(self, calls: Sequence[ToolCall], comparison: NameComparison) -> list[str]:
        """The conditions that do not hold, each in words that name tools."""
        return list(self._broken(calls, comparison)) if self.has_conditions else []

    def _broken(self, calls: Sequence[ToolCall], comparison: NameComparison) -> Iterator[str]:
        names = [call.name for call in calls]
        table = NameTable(self.counts, comparison)
        made = [0] * len(self.counts)
        for name in names:
            for index in table.met_by(name):
                made[index] += 1
        for (name, count), number in zip(self.counts.items(), made, strict=True):
            if not count.holds(number):
                yield f"{listed([name])} called {number} times, expected {count}"
        steps = sum(1 for i, call in enumerate(calls) if not _is_together(call, calls[i - 1] if i else None))
        failed = sum(call.failed for call in calls)
        numbers = (("calls", self.calls, len(calls)), ("failed calls", self.failed_calls, failed))
        for what, expected, number in (*numbers, ("steps", self.steps, steps)):
            if expected is not None and not expected.holds(number):
                yield f"{number} {what}, expected {expected}"
        for sequence in self.required:
            if not _occurs(sequence, names, comparison):
                yield f"required and not called: {_shown(sequence)}"
        for sequence in self.forbidden:
            if _occurs(sequence, names, comparison):
                yield f"forbidden and called: {_shown(sequence)}"
        if self.allowed is not None:
            may = NameTable([self.allowed or [""]], comparison)
            if others := [name for name in names if not may.met_by(name)]:
                yield f"called and not allowed: {listed(others)}"


def _is_together(call: ToolCall, before: ToolCall | None) -> bool:
    if before is None or call.batch is None:
        return False
    return (call.agent_span_id, call.batch) == (before.agent_span_id, before.batch)


def _occurs(sequence: str | Sequence[str], names: Sequence[str], comparison: NameComparison) -> bool:
    """Whether the names occur one directly after the other; what was reached grows by one name a call."""
    wanted = [sequence] if isinstance(sequence, str) else sequence
    table = NameTable(wanted, comparison)
    reached: set[int] = set()
    for name in names:
        reached = {index + 1 for index in table.met_by(name) if index == 0 or index in reached}
        if len(wanted) in reached:
            return True
    return False


def _shown(sequence: str | Sequence[str]) -> str:
    return listed([sequence]) if isinstance(sequence, str) else " then ".join(listed([name]) for name in sequence)


@dataclass(frozen=True, slots=True)
class TakenOff:
    """What calls that were not needed cost."""

    factor: float
    redundancy: float
    detours: float
    details: dict[str, JsonValue]
    explanation: str

    def apply(self, score: float) -> float:
        """The score after it, from 0 to 1."""
        return max(0.0, min(1.0, score * self.factor - self.redundancy - self.detours))


class Efficiency(ParameterModel):
    """What is taken off for calls that were not needed."""

    optimal_calls: Annotated[
        int | None, Field(ge=1, description="The number of calls that is enough: more lower the score in proportion.")
    ] = None
    redundant: Annotated[
        Literal["same_call", "same_name"],
        Field(description="A call is redundant when the one before has its name, and its arguments."),
    ] = "same_call"
    redundancy_penalty: Annotated[float, Field(ge=0, le=1, description="Taken off for each redundant call.")] = 0.0
    prerequisites: list[ToolName] = Field(
        default_factory=list, description="Tools that are no detour, beside those expected."
    )
    detour_penalty: Annotated[
        float, Field(ge=0, le=1, description="Taken off for each call, but the last, of a tool that is a detour.")
    ] = 0.0

    @property
    def reads_arguments(self) -> bool:
        """Whether arguments are compared."""
        return self.redundant == "same_call" and self.redundancy_penalty > 0

    def taken_off(self, calls: Sequence[ToolCall], expected: Sequence[str], work: Work) -> TakenOff:
        """What is taken off for `calls` when tools of the `expected` names are none.

        Raises:
            EvaluatorError: ``work_bound``.
        """
        factor = 1.0 if self.optimal_calls is None or not calls else min(1.0, self.optimal_calls / len(calls))
        redundant = [later.name for earlier, later in pairwise(calls) if self._is_redundant(earlier, later, work)]
        known = {name.lower() for name in (*self.prerequisites, *expected)}
        detours = [call.name for call in calls[:-1] if call.name.lower() not in known] if self.detour_penalty else []
        details: dict[str, JsonValue] = {
            "efficiency": factor,
            "redundant_calls": len(redundant),
            "detours": len(detours),
        }
        reasons = [f"{len(calls)} calls where {self.optimal_calls} are enough"] if factor < 1 else []
        reasons += [f"called again: {listed(redundant)}"] if redundant and self.redundancy_penalty else []
        reasons += [f"detours: {listed(detours)}"] if detours else []
        text = f"Taken off for {'; '.join(reasons)}." if reasons else ""
        return TakenOff(
            factor, self.redundancy_penalty * len(redundant), self.detour_penalty * len(detours), details, text
        )

    def _is_redundant(self, earlier: ToolCall, later: ToolCall, work: Work) -> bool:
        if earlier.name != later.name:
            return False
        return self.redundant == "same_name" or json_equal(earlier.arguments or {}, later.arguments or {}, work)
