"""Conditions on the calls of a run as a whole, and what is taken off for calls that were not needed."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from tracegrade.evaluate.calls import listed
from tracegrade.evaluate.counts import Count
from tracegrade.evaluate.evaluator import ParameterModel
from tracegrade.evaluate.order import fewest_repeats
from tracegrade.evaluate.subsequence import Fits, Matching
from tracegrade.evaluate.tool_names import NameComparison, NameTable, ToolName
from tracegrade.evaluate.values import Identities, json_equal
from tracegrade.evaluate.work import Work
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tool_call import ToolCall

# The places of calls, grouped where nothing tells their order.
Groups: TypeAlias = Sequence[Sequence[int]]
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

    def broken(self, calls: Sequence[ToolCall], groups: Groups, comparison: NameComparison) -> list[str]:
        """The conditions that do not hold, each in words that name tools; `groups` are the places of tied calls."""
        return list(self._broken(calls, groups, comparison)) if self.has_conditions else []

    def _broken(self, calls: Sequence[ToolCall], groups: Groups, comparison: NameComparison) -> Iterator[str]:
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
                if what == "steps" and _may_be(expected, steps, calls, groups):
                    continue
                yield f"{number} {what}, expected {expected}"
        for sequence in self.required:
            if not _occurs(sequence, names, comparison) and not _may_occur(sequence, names, groups, comparison):
                yield f"required and not called: {_shown(sequence)}"
        for sequence in self.forbidden:
            if _occurs(sequence, _as_ordered(sequence, names, groups), comparison):
                yield f"forbidden and called: {_shown(sequence)}"
        if self.allowed is not None:
            may = NameTable([self.allowed or [""]], comparison)
            if others := [name for name in names if not may.met_by(name)]:
                yield f"called and not allowed: {listed(others)}"


def _may_be(expected: Count, steps: int, calls: Sequence[ToolCall], groups: Groups) -> bool:
    """Whether there may have been as many steps: tied calls without a message are one step or several."""
    apart = sum(len(group) - 1 for group in groups if all(calls[place].turn is None for place in group))
    return any(expected.holds(number) for number in range(steps + 1, steps + apart + 1))


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


def _may_occur(sequence: str | Sequence[str], names: Sequence[str], groups: Groups, comparison: NameComparison) -> bool:
    """As `_occurs`, in the best order of tied names: some end what comes before, others begin what follows."""
    if isinstance(sequence, str) or len(groups) == len(names):
        return False
    table = NameTable(sequence, comparison)
    work = Work()
    reached = {0}
    for group in groups:
        fits: list[Fits] = [dict.fromkeys(table.met_by(names[place]), 1.0) for place in group]
        after = {0}
        for begin in reached:
            matching = Matching(fits, work)
            end = begin
            while end < len(sequence) and matching.add(end):
                end += 1
                if begin == 0 or end - begin == len(group):
                    after.add(end)
            if end == len(sequence):
                return True
        reached = after
    return False


def _as_ordered(sequence: str | Sequence[str], names: Sequence[str], groups: Groups) -> Sequence[str]:
    """The names, with a gap in place of tied ones, which need not be adjacent to anything in particular."""
    if isinstance(sequence, str) or len(sequence) == 1 or len(groups) == len(names):
        return names
    ordered: list[str] = []
    for group in groups:
        some = [names[place] for place in group]
        ordered += some if len(set(some)) == 1 else [""]
    return ordered


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

    def taken_off(self, calls: Sequence[ToolCall], groups: Groups, expected: Sequence[str], work: Work) -> TakenOff:
        """What is taken off for `calls`, tied as `groups` say, when tools of the `expected` names are none.

        Raises:
            EvaluatorError: ``work_bound``.
        """
        factor = 1.0 if self.optimal_calls is None or not calls else min(1.0, self.optimal_calls / len(calls))
        redundant = [later.name for earlier, later in pairwise(calls) if self._is_redundant(earlier, later, work)]
        if redundant and len(groups) < len(calls):
            redundant = redundant[: fewest_repeats(self._identified(calls, groups, work))]
        known = {name.lower() for name in (*self.prerequisites, *expected)}
        detours = [call.name for call in calls if call.name.lower() not in known] if self.detour_penalty else []
        if detours and any(calls[place].name.lower() not in known for place in groups[-1]):
            detours.pop()  # the last call is none
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

    def _identified(self, calls: Sequence[ToolCall], groups: Groups, work: Work) -> list[list[Hashable]]:
        identities = Identities()
        same_name = self.redundant == "same_name"
        return [
            [(calls[at].name, None if same_name else identities.of(calls[at].arguments or {}, work)) for at in group]
            for group in groups
        ]

    def _is_redundant(self, earlier: ToolCall, later: ToolCall, work: Work) -> bool:
        if earlier.name != later.name:
            return False
        return self.redundant == "same_name" or json_equal(earlier.arguments or {}, later.arguments or {}, work)
