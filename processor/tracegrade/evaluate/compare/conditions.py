"""Conditions on the calls of a run as a whole, and what is taken off for calls that were not needed."""

from collections.abc import Iterator, Sequence
from typing import Annotated, TypeAlias

from pydantic import Field

from tracegrade.display import count
from tracegrade.evaluate.criteria.expected_count import Count
from tracegrade.evaluate.criteria.parameters import ParameterModel
from tracegrade.evaluate.criteria.tool_names import NameComparison, NameTable, ToolName
from tracegrade.evaluate.pairing.in_order import Fits, Matching
from tracegrade.evaluate.wording import listed, times
from tracegrade.evaluate.work import Work
from tracegrade.model.tool_call import ToolCall

# The places of calls, grouped where their order is unknown.
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

    def after_further(self, calls: Sequence[ToolCall], comparison: NameComparison) -> set[bool]:
        """Whether they hold if further calls, of any names, were made between these or none: what the answer may be."""
        names = [call.name for call in calls]
        made = self._counted(names, comparison)
        each = [count.holds_from(number) for count, number in zip(self.counts.values(), made, strict=True)]
        for expected, number in (
            (self.calls, len(calls)),
            (self.failed_calls, _failed(calls)),
            (self.steps, _steps(calls)),
        ):
            each += [] if expected is None else [expected.holds_from(number)]
        for sequence in self.required:
            stays = _is_one_name(sequence) and _occurs(sequence, names, comparison)
            each.append({True} if stays else {True, False})
        for sequence in self.forbidden:
            stays = _is_one_name(sequence) and _occurs(sequence, names, comparison)
            each.append({False} if stays else {True, False})
        if self.allowed is not None:
            each.append({False} if self._not_allowed(names, comparison) else {True, False})
        return {all(True in answers for answers in each), all(False not in answers for answers in each)}

    def kept(self, calls: Sequence[ToolCall]) -> list[str]:
        """What was found of the conditions that are set, in words, where all hold."""
        said = [f"called as often as expected: {listed(self.counts)}"] if self.counts else []
        said += [f"{count(len(calls), 'call')} (expected {self.calls})"] if self.calls is not None else []
        if self.failed_calls is not None:
            said.append(f"{count(_failed(calls), 'failed call')} (expected {self.failed_calls})")
        said += [f"required and called: {_sequence_text(sequence)}" for sequence in self.required]
        said += [f"not called: {_sequence_text(sequence)}" for sequence in self.forbidden]
        return said + (["only allowed tools were called"] if self.allowed is not None else [])

    def _broken(self, calls: Sequence[ToolCall], groups: Groups, comparison: NameComparison) -> Iterator[str]:
        names = [call.name for call in calls]
        made = self._counted(names, comparison)
        for (name, wanted), number in zip(self.counts.items(), made, strict=True):
            if not wanted.holds(number):
                yield f"{listed([name])} was called {times(number)} (expected {wanted.words})"
        if self.calls is not None and not self.calls.holds(len(calls)):
            yield f"{count(len(calls), 'call')} (expected {self.calls})"
        if self.failed_calls is not None and not self.failed_calls.holds(failed := _failed(calls)):
            yield f"{count(failed, 'failed call')} (expected {self.failed_calls})"
        if self.steps is not None and not _may_hold(self.steps, steps := _steps(calls), calls, groups):
            yield f"{count(steps, 'step')} (expected {self.steps})"
        for sequence in self.required:
            if not _occurs(sequence, names, comparison) and not _may_occur(sequence, names, groups, comparison):
                yield f"required but not called: {_sequence_text(sequence)}"
        for sequence in self.forbidden:
            if _occurs(sequence, _as_ordered(sequence, names, groups), comparison):
                yield f"forbidden but called: {_sequence_text(sequence)}"
        if others := self._not_allowed(names, comparison):
            yield f"not allowed but called: {listed(others)}"

    def _counted(self, names: Sequence[str], comparison: NameComparison) -> list[int]:
        """How many calls each of `counts` counts."""
        if not self.counts:
            return []
        table = NameTable(self.counts, comparison)
        made = [0] * len(self.counts)
        for name in names:
            for index in table.met_by(name):
                made[index] += 1
        return made

    def _not_allowed(self, names: Sequence[str], comparison: NameComparison) -> list[str]:
        if self.allowed is None:
            return []
        may = NameTable([self.allowed or [""]], comparison)
        return [name for name in names if not may.met_by(name)]


def _may_hold(expected: Count, steps: int, calls: Sequence[ToolCall], groups: Groups) -> bool:
    """Whether there may have been as many steps: tied calls without a message are one step or several."""
    if expected.holds(steps):
        return True
    apart = sum(len(group) - 1 for group in groups if all(calls[place].turn is None for place in group))
    return any(expected.holds(number) for number in range(steps + 1, steps + apart + 1))


def _failed(calls: Sequence[ToolCall]) -> int:
    return sum([call.failed for call in calls])


def _steps(calls: Sequence[ToolCall]) -> int:
    return sum(1 for i, call in enumerate(calls) if not _is_together(call, calls[i - 1] if i else None))


def _is_one_name(sequence: str | Sequence[str]) -> bool:
    return isinstance(sequence, str) or len(sequence) == 1


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


def _sequence_text(sequence: str | Sequence[str]) -> str:
    return listed([sequence]) if isinstance(sequence, str) else " then ".join(listed([name]) for name in sequence)
