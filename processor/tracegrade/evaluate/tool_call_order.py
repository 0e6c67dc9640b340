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

from tracegrade.evaluate.calls import MAX_LISTED, all_of, batches, counted, detailed, listed, names
from tracegrade.evaluate.evaluator import Evaluator, Evidence, NotedSettings, ParameterModel, Score
from tracegrade.evaluate.subsequence import (
    ExpectedOrder,
    Groups,
    contains_in_order,
    is_arrangement,
    longest_common_subsequence,
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
    order = criteria.expected
    expected = order.names
    groups = evidence.once(_one_by_one if settings.concurrency == "sequential" else _batches)
    actual = evidence.once(names)
    together = len(groups) < len(actual)
    if settings.strict:
        matched = list(range(len(expected))) if is_arrangement(expected, groups) else []
    elif not together and contains_in_order(actual, expected):
        matched = list(range(len(expected)))
    else:
        matched = longest_common_subsequence(order, groups, Work())
    details: dict[str, JsonValue] = {
        "actual_tool_calls_order": detailed(actual),
        "expected_tool_calls_order": detailed(expected),
        "lcs": detailed([expected[position] for position in matched]),
        "lcs_length": len(matched),
    }
    if together:
        several = [group for group in groups if len(group) > 1]
        details["called_together"] = [detailed(group) for group in several[:MAX_LISTED]]
    explain = _explain_strict if settings.strict else _explain
    return Score(len(matched) / len(expected), details, explain(expected, actual, matched))


def _one_by_one(evidence: Evidence) -> Groups:
    """The names, each on its own."""
    return [[name] for name in evidence.once(names)]


def _batches(evidence: Evidence) -> Groups:
    """The names, grouped where several calls were made together."""
    made = evidence.once(names)
    return [[made[position] for position in group] for group in evidence.once(batches)]


def _explain(expected: Sequence[str], actual: Sequence[str], matched: Sequence[int]) -> str:
    if len(matched) == len(expected):
        return f"{all_of(len(expected), 'expected call')} made in the expected order."
    held, called = set(matched), set(actual)
    absent = [name for position, name in enumerate(expected) if position not in held]
    missing = [name for name in absent if name not in called]
    misplaced = [name for name in absent if name in called]
    reasons = [f"not called: {listed(missing)}"] if missing else []
    reasons += [f"out of order or not called often enough: {listed(misplaced)}"] if misplaced else []
    return f"{len(matched)} of {counted(len(expected), 'expected call')} in the expected order; {'; '.join(reasons)}."


def _explain_strict(expected: Sequence[str], actual: Sequence[str], matched: Sequence[int]) -> str:
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
