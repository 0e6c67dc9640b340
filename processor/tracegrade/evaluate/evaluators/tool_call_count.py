"""tool-call-count: was each tool called as often as expected?

The score is the share of listed tools whose count holds; with ``strict`` it is 1 when all hold, else 0, and then the
justification has only the first that does not. Tools that are not listed do not matter; a listed tool that was not
called counts 0, also in a trace without any calls. Nothing listed and nothing called is 1, nothing listed and something
called is 0.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Annotated

from pydantic import Field

from tracegrade.evaluate.call_facts import REMEMBERED, NamesMade, names
from tracegrade.evaluate.compare.differences import MAX_EXPLAINED, line
from tracegrade.evaluate.criteria.expected_count import Count, ExpectedCount
from tracegrade.evaluate.criteria.parameters import DefaultCriteria, NotedSettings, ParameterModel
from tracegrade.evaluate.evaluator import Evaluator
from tracegrade.evaluate.evidence import Evidence, Score
from tracegrade.evaluate.wording import listed, times, were
from tracegrade.model.json_value import JsonValue

_MAX_TOOLS = 3  # in a sentence
_KEY = "explained_tool_calls_count"


class ExpectedCounts:
    """How often each tool is expected to be called."""

    __slots__ = ("by_name",)

    def __init__(self, by_name: Mapping[str, ExpectedCount]) -> None:
        self.by_name = by_name


class Criteria(ParameterModel):
    """What is expected."""

    tool_calls_count: Annotated[
        dict[str, Count], Field(description='Per tool an operator (= == != > < >= <=) and a number: ["<=", 3].')
    ]

    @cached_property
    def expected(self) -> ExpectedCounts:
        """The counts, ready to compare."""
        return ExpectedCounts(self.tool_calls_count)


class Settings(NotedSettings):
    """How it is compared."""

    strict: Annotated[bool, Field(description="1 when every count holds, else 0.")] = False
    default_evaluation_criteria: DefaultCriteria[Criteria] = None


def _score(evidence: Evidence, criteria: Criteria, settings: Settings) -> Score:
    made = evidence.once(NamesMade)
    if made.key is None:
        return _compare(criteria.expected, made.names, settings.strict)
    return _compared(criteria.expected, made.key, settings.strict)


def _compare(counts: ExpectedCounts, made: Sequence[str], strict: bool) -> Score:
    expected = counts.by_name
    if not expected:
        return _score_nothing_expected(len(made))
    actual = Counter(made)
    failed = {name: count for name, count in expected.items() if not count.holds(actual[name])}
    shown = list(failed)[:1] if strict and failed else list(expected)[:MAX_EXPLAINED]
    lines: dict[str, JsonValue] = {
        name: line(str(actual[name]), str(expected[name]), name not in failed) for name in shown
    }
    held = len(expected) - len(failed)
    score = float(not failed) if strict else held / len(expected)
    return Score(score, {_KEY: lines}, _explain(expected, actual, failed))


_compared = lru_cache(REMEMBERED)(_compare)  # as the order of calls is, see `tool_call_order`


def _score_nothing_expected(calls: int) -> Score:
    text = f"No counts are expected, but {were(calls, 'call')} made." if calls else "No counts and no calls."
    return Score(float(not calls), {_KEY: {"_result": text}}, text)


def _explain(
    expected: Mapping[str, ExpectedCount], actual: Mapping[str, int], failed: Mapping[str, ExpectedCount]
) -> str:
    said = [
        f"{listed([name])} was called {times(actual[name])} (expected {wanted.words})"
        for name, wanted in (failed or expected).items()
    ]
    more = f" and {len(said) - _MAX_TOOLS} more" if len(said) > _MAX_TOOLS else ""
    text = f"{', '.join(said[:_MAX_TOOLS])}{more}."
    if not failed or len(expected) == 1:
        return text
    held = len(expected) - len(failed)
    return f"{held} of {were(len(expected), 'listed tool')} called as often as expected; {text}"


def _sentences(criteria: Criteria, settings: Settings) -> list[str]:
    return [f"{name} is called {count.words}" for name, count in criteria.tool_calls_count.items()]


def _with_further_calls(
    evidence: Evidence, criteria: Criteria, settings: Settings, score: float
) -> tuple[float, float]:
    counts = criteria.expected.by_name
    if not counts:
        return (score, score) if evidence.calls else (0.0, 1.0)
    made = Counter(evidence.once(names))
    later = {name: count.holds_from(made[name]) for name, count in counts.items()}
    least, most = (sum(test(held) for held in later.values()) / len(later) for test in (all, any))
    return (float(least == 1.0), float(most == 1.0)) if settings.strict else (least, most)


EVALUATOR = Evaluator(
    name="tool-call-count",
    summary="Was each tool called as often as expected?",
    Criteria=Criteria,
    Settings=Settings,
    score=_score,
    with_further_calls=_with_further_calls,
    sentences=_sentences,
)
