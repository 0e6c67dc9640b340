"""tool-call-count: was each tool called as often as expected?

The score is the share of listed tools whose count holds; with ``strict`` it is 1 when all hold, else 0, and then the
justification has only the first that does not. Tools that are not listed do not matter; a listed tool that was not
called counts 0, also in a trace without any calls. Nothing listed and nothing called is 1, nothing listed and something
called is 0.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from pydantic import Field, PlainSerializer, PlainValidator, WithJsonSchema

from tracegrade.evaluate.call_by_call import MAX_EXPLAINED, line
from tracegrade.evaluate.calls import all_of, counted, listed, positions_by_name
from tracegrade.evaluate.evaluator import Evaluator, Evidence, ParameterModel, Score
from tracegrade.model.json_value import JsonValue
from tracegrade.yaml_file import did_you_mean

_KEY = "explained_tool_calls_count"
_OPERATORS: dict[str, Callable[[int, int], bool]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}


@dataclass(frozen=True, slots=True)
class ExpectedCount:
    """A comparison with a number of calls."""

    operator: str
    count: int

    def holds(self, actual: int) -> bool:
        """Whether `actual` calls are as expected."""
        return _OPERATORS[self.operator](actual, self.count)

    def __str__(self) -> str:
        return f"{self.operator} {self.count}"


def _validate_count(value: Any) -> ExpectedCount:
    if isinstance(value, ExpectedCount):
        return value
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ValueError('expected an operator and a number of calls, such as ["<=", 3]')
    sign, count = value
    if not isinstance(sign, str) or sign not in _OPERATORS:
        raise ValueError(f"no operator {sign!r}{did_you_mean(str(sign), _OPERATORS)}")
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise ValueError(f"expected a number of calls from 0, found {count!r}")
    return ExpectedCount(sign, count)


_COUNT_SCHEMA = {
    "type": "array",
    "prefixItems": [{"enum": list(_OPERATORS)}, {"type": "integer", "minimum": 0}],
    "minItems": 2,
    "maxItems": 2,
}
Count: TypeAlias = Annotated[
    ExpectedCount,
    PlainValidator(_validate_count),
    PlainSerializer(lambda count: [count.operator, count.count]),
    WithJsonSchema(_COUNT_SCHEMA),
]


class Criteria(ParameterModel):
    """What is expected."""

    tool_calls_count: Annotated[
        dict[str, Count], Field(description='Per tool an operator (= == != > < >= <=) and a number: ["<=", 3].')
    ]


class Settings(ParameterModel):
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
    failed = [name for name, count in expected.items() if not count.holds(actual[name])]
    shown = failed[:1] if settings.strict and failed else list(expected)[:MAX_EXPLAINED]
    lines: dict[str, JsonValue] = {
        name: line(str(actual[name]), str(expected[name]), expected[name].holds(actual[name])) for name in shown
    }
    held = len(expected) - len(failed)
    score = float(not failed) if settings.strict else held / len(expected)
    return Score(score, {_KEY: lines}, _explain(len(expected), failed))


def _score_nothing_expected(calls: int) -> Score:
    text = f"No counts were expected, but {counted(calls, 'call')} made." if calls else "No counts and no calls."
    return Score(float(not calls), {_KEY: {"_result": text}}, text)


def _explain(expected: int, failed: list[str]) -> str:
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
