"""What is taken off a score for calls that were not needed."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from tracegrade.evaluate.compare.conditions import Groups
from tracegrade.evaluate.criteria.parameters import ParameterModel
from tracegrade.evaluate.criteria.tool_names import ToolName
from tracegrade.evaluate.json_values import Identities, json_equal
from tracegrade.evaluate.timeline import fewest_repeats
from tracegrade.evaluate.unknown import Arguments
from tracegrade.evaluate.wording import agreeing, listed
from tracegrade.evaluate.work import Work
from tracegrade.model.json_value import JsonValue
from tracegrade.model.stand_ins import hashed_apart, holds_mask
from tracegrade.model.tool_call import ToolCall
from tracegrade.model.tri import Unknown

_Named: TypeAlias = tuple[str, Arguments | Unknown]
"""The name of a call, and its arguments."""


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
    redundancy_penalty: Annotated[float, Field(ge=0, le=1, description="Deducted for each redundant call.")] = 0.0
    prerequisites: list[ToolName] = Field(
        default_factory=list, description="Tools that are not detours, in addition to the expected ones."
    )
    detour_penalty: Annotated[
        float, Field(ge=0, le=1, description="Deducted for each call, but the last, of a tool that is a detour.")
    ] = 0.0

    @property
    def reads_arguments(self) -> bool:
        """Whether arguments are compared."""
        return self.redundant == "same_call" and self.redundancy_penalty > 0

    def taken_off(
        self,
        calls: Sequence[ToolCall],
        given: Sequence[Arguments | Unknown],
        groups: Groups,
        expected: Sequence[str],
        work: Work,
    ) -> TakenOff:
        """What is taken off for `calls`, `given` these arguments and tied as `groups` say.

        Tools of the `expected` names are no detours.

        Raises:
            EvaluatorError: ``work_bound``.
        """
        factor = 1.0 if self.optimal_calls is None or not calls else min(1.0, self.optimal_calls / len(calls))
        named = [*zip((call.name for call in calls), given, strict=True)]
        redundant = [later[0] for earlier, later in pairwise(named) if self._is_redundant(earlier, later, work)]
        if redundant and len(groups) < len(calls):
            redundant = redundant[: fewest_repeats(self._identified(named, groups, work))]
        known = {name.lower() for name in (*self.prerequisites, *expected)}
        detours = [call.name for call in calls if call.name.lower() not in known] if self.detour_penalty else []
        if detours and any(calls[place].name.lower() not in known for place in groups[-1]):
            detours.pop()  # the last call is none
        details: dict[str, JsonValue] = {
            "efficiency": factor,
            "redundant_calls": len(redundant),
            "detours": len(detours),
        }
        reasons = []
        if factor < 1 and self.optimal_calls is not None:
            enough = agreeing(self.optimal_calls, "is", "are")
            reasons.append(f"{len(calls)} calls where {self.optimal_calls} {enough} enough")
        reasons += [f"called again: {listed(redundant)}"] if redundant and self.redundancy_penalty else []
        reasons += [f"detours: {listed(detours)}"] if detours else []
        text = f"Penalties: {'; '.join(reasons)}." if reasons else ""
        return TakenOff(
            factor, self.redundancy_penalty * len(redundant), self.detour_penalty * len(detours), details, text
        )

    def _identified(self, named: Sequence[_Named], groups: Groups, work: Work) -> list[list[Hashable]]:
        identities = Identities()
        same_name = self.redundant == "same_name"
        return [
            [
                (name, None if same_name or isinstance(args, Unknown) else identities.of(args, work))
                for name, args in (named[at] for at in group)
            ]
            for group in groups
        ]

    def _is_redundant(self, earlier: _Named, later: _Named, work: Work) -> bool:
        (name, args), (later_name, later_args) = earlier, later
        if name != later_name:
            return False
        if self.redundant == "same_name":
            return True
        for given in (args, later_args) if self.reads_arguments else ():
            if isinstance(given, Unknown):
                return work.takes(given._replace(bounded=False))
        if isinstance(args, Unknown) or isinstance(later_args, Unknown):
            return False
        if work.redacted:
            both: list[JsonValue] = [args, later_args]
            if holds_mask(both) or hashed_apart(both):  # masks that look alike say nothing
                work.note(work.unknown_value(both, bounded=False))
        return json_equal(args, later_args, work)
