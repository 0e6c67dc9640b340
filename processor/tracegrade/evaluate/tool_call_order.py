"""tool-call-order: were the expected tools called in the expected order?

Names only, compared exactly. The score is the length of the longest common subsequence over the number of calls
expected, so further calls are free; with ``strict`` it is 1 when the two sequences are equal, else 0. An expected name
that is repeated must be called as often. Expecting nothing is a mistake in the criteria.

Calls that were made together have no order: they count in the best one, unless ``concurrency: sequential``. Calls
were made together when they are adjacent and share a batch of one agent run.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field

from tracegrade.evaluate.calls import (
    MAX_LISTED,
    all_of,
    any_together,
    batches,
    counted,
    detailed,
    detailed_names,
    listed,
    names,
)
from tracegrade.evaluate.evaluator import Evaluator, Evidence, NotedSettings, ParameterModel, Score
from tracegrade.evaluate.subsequence import (
    ExpectedOrder,
    Groups,
    contains_in_order,
    is_arrangement,
    longest_common_subsequence,
    longest_of_single_calls,
)
from tracegrade.evaluate.work import Work
from tracegrade.model.json_value import JsonValue


class Criteria(ParameterModel):
    """What is expected."""

    tool_calls_order: Annotated[list[str], Field(min_length=1, description="The names, in the order expected.")]

    @cached_property
    def expected(self) -> ExpectedOrder:
        """The names, ready to compare."""
        return ExpectedOrder(self.tool_calls_order)

    @cached_property
    def shown(self) -> list[JsonValue]:
        """The names for the details."""
        return detailed(self.tool_calls_order)

    @cached_property
    def all_in_order(self) -> str:
        """What there is to say when all were called in their order."""
        return f"{all_of(len(self.tool_calls_order), 'expected call')} made in the expected order."


class Settings(NotedSettings):
    """How it is compared."""

    name: str = "ToolCallOrderEvaluator"
    strict: Annotated[bool, Field(description="Exactly these calls: 1 or 0, no further calls allowed.")] = False
    concurrency: Annotated[
        Literal["batches", "sequential"],
        Field(description="Calls made together take their best order, or the order of their starts."),
    ] = "batches"
    default_evaluation_criteria: Criteria | None = None


def _score(evidence: Evidence, criteria: Criteria, settings: Settings) -> Score:
    expected = criteria.expected.names
    actual = evidence.once(names)
    together = settings.concurrency == "batches" and evidence.once(any_together)
    if not settings.strict and not together and contains_in_order(actual, expected):
        details = _details(evidence, criteria, criteria.shown, len(expected))
        return Score(1.0, details, criteria.all_in_order)
    groups = evidence.once(_batches) if together else ()
    if settings.strict:
        alike = is_arrangement(expected, groups) if together else actual == expected
        matched = list(range(len(expected))) if alike else []
    elif together:
        matched = longest_common_subsequence(criteria.expected, groups, Work())
    else:
        matched = longest_of_single_calls(criteria.expected, actual, Work())
    details = _details(evidence, criteria, detailed([expected[position] for position in matched]), len(matched))
    if together:
        several = [group for group in groups if len(group) > 1]
        details["called_together"] = [detailed(group) for group in several[:MAX_LISTED]]
    explain = _explain_strict if settings.strict else _explain
    return Score(len(matched) / len(expected), details, explain(criteria, actual, matched))


def _details(evidence: Evidence, criteria: Criteria, lcs: list[JsonValue], length: int) -> dict[str, JsonValue]:
    return {
        "actual_tool_calls_order": evidence.once(detailed_names),
        "expected_tool_calls_order": criteria.shown,
        "lcs": lcs,
        "lcs_length": length,
    }


def _batches(evidence: Evidence) -> Groups:
    """The names, grouped where several calls were made together."""
    made = evidence.once(names)
    return [[made[position] for position in group] for group in evidence.once(batches)]


def _explain(criteria: Criteria, actual: Sequence[str], matched: Sequence[int]) -> str:
    expected = criteria.tool_calls_order
    if len(matched) == len(expected):
        return criteria.all_in_order
    held, called = set(matched), set(actual)
    absent = [name for position, name in enumerate(expected) if position not in held]
    missing = [name for name in absent if name not in called]
    misplaced = [name for name in absent if name in called]
    reasons = [f"not called: {listed(missing)}"] if missing else []
    reasons += [f"out of order or not called often enough: {listed(misplaced)}"] if misplaced else []
    return f"{len(matched)} of {counted(len(expected), 'expected call')} in the expected order; {'; '.join(reasons)}."


def _explain_strict(criteria: Criteria, actual: Sequence[str], matched: Sequence[int]) -> str:
    expected = criteria.tool_calls_order
    if matched:
        return f"{all_of(len(expected), 'expected call')} made in exactly the expected order, and no other."
    pairs = zip(expected, actual, strict=False)
    at = next((i for i, (wanted, found) in enumerate(pairs) if wanted != found), min(len(expected), len(actual)))
    found = f"{listed([actual[at]])} was called" if at < len(actual) else "nothing more was called"
    wanted = f"{listed([expected[at]])} was expected" if at < len(expected) else "nothing more was expected"
    return f"Not exactly the expected order: as call {at + 1}, {found} where {wanted}."


EVALUATOR = Evaluator(
    name="tool-call-order",
    summary="Were the expected tools called in the expected order?",
    Criteria=Criteria,
    Settings=Settings,
    score=_score,
)
