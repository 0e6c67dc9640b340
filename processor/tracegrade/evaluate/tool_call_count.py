"""tool-call-count: was each tool called as often as expected?

The score is the share of listed tools whose count holds; with ``strict`` it is 1 when all hold, else 0, and then the
justification has only the first that does not. Tools that are not listed do not matter; a listed tool that was not
called counts 0, also in a trace without any calls. Nothing listed and nothing called is 1, nothing listed and something
called is 0.
"""

from collections.abc import Collection
from typing import Annotated

from pydantic import Field

from tracegrade.evaluate.call_by_call import MAX_EXPLAINED, line
from tracegrade.evaluate.calls import all_of, counted, listed, positions_by_name
from tracegrade.evaluate.counts import Count
from tracegrade.evaluate.evaluator import Evaluator, Evidence, NotedSettings, ParameterModel, Score
from tracegrade.model.json_value import JsonValue

_KEY = "explained_tool_calls_count"


class Criteria(ParameterModel):
    """What is expected."""

    tool_calls_count: Annotated[
        dict[str, Count], Field(description='Per tool an operator (= == != > < >= <=) and a number: ["<=", 3].')
    ]


class Settings(NotedSettings):
    """How it is compared."""

    name: str = "ToolCallCountEvaluator"
    strict: Annotated[bool, Field(description="1 when every count holds, else 0.")] = False
    default_evaluation_criteria: Criteria | None = None


def _score(evidence: Evidence, criteria: Criteria, settings: Settings) -> Score:
    expected = criteria.tool_calls_count
    if not expected:
        return _score_nothing_expected(len(evidence.calls))
    positions = evidence.once(positions_by_name)
    actual = {name: len(positions.get(name, ())) for name in expected}
    failed = {name: count for name, count in expected.items() if not count.holds(actual[name])}
    shown = list(failed)[:1] if settings.strict and failed else list(expected)[:MAX_EXPLAINED]
    lines: dict[str, JsonValue] = {
        name: line(str(actual[name]), str(expected[name]), name not in failed) for name in shown
    }
    held = len(expected) - len(failed)
    score = float(not failed) if settings.strict else held / len(expected)
    return Score(score, {_KEY: lines}, _explain(len(expected), failed))


def _score_nothing_expected(calls: int) -> Score:
    text = f"No counts were expected, but {counted(calls, 'call')} made." if calls else "No counts and no calls."
    return Score(float(not calls), {_KEY: {"_result": text}}, text)


def _explain(expected: int, failed: Collection[str]) -> str:
    if not failed:
        return f"{all_of(expected, 'listed tool')} called as often as expected."
    tools = counted(expected, "listed tool")
    return f"{expected - len(failed)} of {tools} called as often as expected; not: {listed(failed)}."


EVALUATOR = Evaluator(
    name="tool-call-count",
    summary="Was each tool called as often as expected?",
    Criteria=Criteria,
    Settings=Settings,
    score=_score,
)
