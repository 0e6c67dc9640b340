"""tool-call-order: were the expected tools called in the expected order?

Names only, compared exactly. The score is the length of the longest common subsequence over the number of calls
expected, so further calls are free; with ``strict`` it is 1 when the two sequences are equal, else 0. An expected name
that is repeated must be called as often. Expecting nothing is a mistake in the criteria.

Calls that were made together have no order: they count in the best one, unless ``concurrency: sequential``. Calls
were made together when they are adjacent and share a batch of one agent run. Those whose order nothing tells
(`call_order` says which) always count in the best one.
"""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Annotated, TypeAlias

from pydantic import Field

from tracegrade.evaluate.call_facts import REMEMBERED, NamesMade
from tracegrade.evaluate.compare.expected_calls import ExpectedCall, ExpectedCalls
from tracegrade.evaluate.criteria.parameters import Concurrency, DefaultCriteria, NotedSettings, ParameterModel
from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.evaluator import Evaluator, ScoreRange
from tracegrade.evaluate.evidence import Evidence, Score
from tracegrade.evaluate.pairing.in_order import (
    ExpectedOrder,
    all_in_order,
    arrangement,
    longest_common_subsequence,
    longest_of_single_calls,
)
from tracegrade.evaluate.timeline import Timeline
from tracegrade.evaluate.wording import MAX_LISTED, all_of, detailed, listed, were
from tracegrade.evaluate.work import Work
from tracegrade.model.evaluation import Pairing
from tracegrade.model.json_value import JsonValue

Groups: TypeAlias = tuple[tuple[int, ...], ...]


class Expected:
    """The names expected, ready to compare, and what is said of them."""

    __slots__ = ("all_in_order", "order", "shown")

    def __init__(self, names: Sequence[str]) -> None:
        self.order = ExpectedOrder(names)
        self.shown = detailed(names)
        self.all_in_order = f"{all_of(len(names), 'expected call')} made in the expected order."


class Criteria(ParameterModel):
    """What is expected."""

    tool_calls_order: Annotated[list[str], Field(min_length=1, description="The names, in the order expected.")]

    @cached_property
    def expected(self) -> Expected:
        """The names, compiled."""
        return Expected(self.tool_calls_order)


class Settings(NotedSettings):
    """How it is compared."""

    strict: Annotated[bool, Field(description="Exactly these calls: 1 or 0, no further calls allowed.")] = False
    concurrency: Concurrency = "batches"
    default_evaluation_criteria: DefaultCriteria[Criteria] = None


def _score(evidence: Evidence, criteria: Criteria, settings: Settings) -> Score:
    made = evidence.once(NamesMade)
    groups: Groups = ()
    if not evidence.once(Timeline).is_total(settings.concurrency):
        groups = evidence.once(_batched if settings.concurrency == "batches" else _tied)
    if made.key is None:
        return _compare(criteria.expected, made.names, groups, settings.strict)
    return _compared(criteria.expected, made.key, groups, settings.strict)


def _batched(evidence: Evidence) -> Groups:
    """The calls, grouped where several were made together."""
    return tuple(map(tuple, evidence.once(Timeline).groups("batches")))


def _tied(evidence: Evidence) -> Groups:
    """The calls, grouped where the order is unknown."""
    return tuple(map(tuple, evidence.once(Timeline).groups("sequential")))


def _compare(wanted: Expected, made: Sequence[str], groups: Groups, strict: bool) -> Score:
    expected = wanted.order.names
    pairing: Pairing | None
    if strict:
        exact = _exactly(expected, made, groups)
        pairing = _common(wanted.order, made, groups) if exact is None else Pairing(exact)
        matched = [*range(len(expected))] if exact is not None else []
    else:
        pairing = _longest(wanted.order, made, groups)
        matched = [index for index, position in enumerate(pairing.positions) if position is not None]
    details: dict[str, JsonValue] = {
        "actual_tool_calls_order": detailed(made),
        "expected_tool_calls_order": wanted.shown,
        "lcs": detailed([expected[position] for position in matched]),
        "lcs_length": len(matched),
    }
    if groups:
        several = [[made[position] for position in group] for group in groups if len(group) > 1]
        details["called_together"] = [detailed(group) for group in several[:MAX_LISTED]]
    explain = _explain_strict if strict else _explain
    return Score(len(matched) / len(expected), details, explain(wanted, made, matched), pairing=pairing)


def _exactly(expected: Sequence[str], made: Sequence[str], groups: Groups) -> list[int] | None:
    if groups:
        return arrangement(expected, made, groups)
    return [*range(len(expected))] if list(made) == expected else None


def _longest(order: ExpectedOrder, made: Sequence[str], groups: Groups) -> Pairing:
    if groups:
        return Pairing.of(len(order.names), longest_common_subsequence(order, made, groups, Work()))
    if (positions := all_in_order(order.names, made)) is not None:
        return Pairing(positions)
    return Pairing.of(len(order.names), longest_of_single_calls(order, made, Work()))


def _common(order: ExpectedOrder, made: Sequence[str], groups: Groups) -> Pairing | None:
    """What the two sequences have in common, which a reader compares; None where it takes too much work to see."""
    try:
        return _longest(order, made, groups)
    except EvaluatorError:
        return None


# Nothing else decides, and agents repeat themselves: finding the longest common subsequence, and what to say of it,
# takes ten times as long as looking it up.
_compared = lru_cache(REMEMBERED)(_compare)


def _explain(wanted: Expected, actual: Sequence[str], matched: Sequence[int]) -> str:
    expected = wanted.order.names
    if len(matched) == len(expected):
        return wanted.all_in_order
    held, called = set(matched), set(actual)
    absent = [name for position, name in enumerate(expected) if position not in held]
    missing = [name for name in absent if name not in called]
    misplaced = [name for name in absent if name in called]
    reasons = [f"missing: {listed(missing)}"] if missing else []
    reasons += [f"out of order, or missing: {listed(misplaced)}"] if misplaced else []
    made = f"{len(matched)} of {were(len(expected), 'expected call')} made in the expected order"
    return "; ".join([made, *reasons]) + "."


def _explain_strict(wanted: Expected, actual: Sequence[str], matched: Sequence[int]) -> str:
    expected = wanted.order.names
    if matched:
        return f"{all_of(len(expected), 'expected call')} made in exactly the expected order, and no other."
    pairs = zip(expected, actual, strict=False)
    at = next((i for i, (name, made) in enumerate(pairs) if name != made), min(len(expected), len(actual)))
    due = listed([expected[at]]) if at < len(expected) else "no further call"
    if at == len(actual):
        return f"{due} was expected as call {at + 1}, and no {'further ' if actual else ''}call was made."
    return f"Call {at + 1} was {listed([actual[at]])}, where {due} was expected."


def _expected_calls(criteria: Criteria, settings: Settings) -> ExpectedCalls:
    calls = [ExpectedCall([name]) for name in criteria.tool_calls_order]
    return ExpectedCalls(calls)


def _sentences(criteria: Criteria, settings: Settings) -> list[str]:
    order = ", then ".join(criteria.tool_calls_order)
    if settings.strict:
        return [f"just these are called, in this order: {order}"]
    return [f"in this order, with or without others between, are called: {order}"]


def _with_further_calls(evidence: Evidence, criteria: Criteria, settings: Settings, score: float) -> ScoreRange:
    """Calls in between take nothing from a common order; none may stand between exactly these."""
    return (score if not settings.strict and criteria.expected.order.names else 0.0), 1.0


EVALUATOR = Evaluator(
    name="tool-call-order",
    summary="Were the expected tools called in the expected order?",
    Criteria=Criteria,
    Settings=Settings,
    score=_score,
    with_further_calls=_with_further_calls,
    sentences=_sentences,
    settings_said=frozenset({"strict"}),
    expected_calls=_expected_calls,
)
